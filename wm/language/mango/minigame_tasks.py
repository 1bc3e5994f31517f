"""Inspect's task `wm/mango_minigames`.

    inspect eval wm/mango_minigames --model wm/solver -T map=true \\
      -T folder=camera-ready-70.tar.gz

Source: Ding et al. 2024, section 3.4 and table 10.
"""

from __future__ import annotations

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import (
  Score,
  Scorer,
  Target,
  grouped,
  mean,
  scorer,
)
from inspect_ai.solver import TaskState, generate

from wm import core
from wm.language import arguments
from wm.language.mango import counting, minigames, prefix, tasks
from wm.language.metrics import stderr
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import minigames as games
from wm.worlds.text_game import readers

VERSION = 1
ANSWER_TOKENS = 64


@task
@arguments.in_one_line
def mango_minigames(
  folder: str = '',
  game: str | int | list[str | int] = '',
  map: bool = False,
  places: str = 'moves',
  budget: int = prefix.BUDGET,
  walkthroughs: str = '',
  tokenizer: str = 'model',
  answer: int = ANSWER_TOKENS,
  last: int = mazes.LAST,
) -> Task:
  """Which action takes the walkthrough on, where it has been before?

  Args:
    folder: of games, or a packed archive of it.
    game: one or several; '' is all.
    map: whether the known ways from there are listed.
    places: where the walk is taken to be: 'moves', 'lines' or 'trail'.
    budget: tokens of prompt and answer; longer histories are left out. 0 is no
      limit.
    walkthroughs: another folder, which walkthroughs are taken from.
    tokenizer: 'model' or 'estimate', see mango_destination.
    answer: tokens of the answer.
    last: the last step that may be asked.
  """
  source = tasks.Source(
    folder, tasks.text(game), walkthroughs, budget, answer, last
  )
  counter = counting.counter(tokenizer)
  samples: list[Sample] = []
  for name in source.games():
    maze = readers.read(folder, name, walkthroughs)
    samples += sampled(maze, source, map, places, counter)
  if not samples:
    raise core.InputError(
      f'a budget of {budget:,} tokens and steps up to {last} hold no step that '
      'goes where the walkthrough has been; give more'
    )
  return Task(
    dataset=MemoryDataset(samples, name='mango_minigames'),
    solver=generate(),
    scorer=minigame_scorer(),
    config=GenerateConfig(temperature=0.0, max_tokens=answer or None),
    version=VERSION,
  )


def sampled(
  maze: mazes.Maze,
  source: tasks.Source,
  with_map: bool,
  places: str,
  counter: prefix.Counter = prefix.estimate,
) -> list[Sample]:
  """Samples of one game whose prompts fit the budget."""
  found = []
  for one in games.minigames(maze, source.last, places):
    text = minigames.prompt(maze, one, with_map)
    if source.budget and counter(text) + source.answer > source.budget:
      break  # Later ones are longer still.
    found.append(
      Sample(
        id=f'{maze.game}/minigame/{one.step}',
        input=text,
        target=one.action,
        metadata={
          'task': 'mango_minigames',
          'game': maze.game,
          'step': one.step,
          'here': one.here,
          'there': one.there,
          'allowed': list(maze.actions),
          'ways': len(one.ways),
          'map': with_map,
        },
      )
    )
  return found


@scorer(
  metrics={
    '*': [mean(), stderr(cluster='game')],
    'success': [grouped(mean(), 'game', all=False)],
  }
)
def minigame_scorer() -> Scorer:
  """Right or wrong; standard errors are clustered by game."""

  async def score(state: TaskState, target: Target) -> Score:
    """Of one answer."""
    found = minigames.judge(
      state.output.completion, target.text, state.metadata['allowed']
    )
    return Score(
      value={
        'success': found.success,
        'well_formed': float(not found.failure),
      },
      answer=found.action,
      reason='invalid_response_format' if found.failure else None,
      explanation=minigames.FAILURES.get(found.failure, found.failure),
      metadata=found._asdict(),
    )

  return score
