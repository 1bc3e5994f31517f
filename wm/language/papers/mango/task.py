"""Inspect's tasks `wm/mango_destination`, `mango_route` and `mango_minigames`.

    inspect eval wm/mango_route --model wm/solver -T game=zork1 \\
      -T folder=camera-ready-70.tar.gz

Source: Ding et al. 2024; defaults are the paper's.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import Score, Scorer, Target, grouped, mean, scorer
from inspect_ai.solver import TaskState, generate

from wm import core
from wm.core import basics, fields
from wm.core.fields import field
from wm.language import providers
from wm.language.answers import replies
from wm.language.inspect_tasks import listed, stderr, with_options
from wm.language.papers import published
from wm.language.papers.mango import maze_questions, questions
from wm.language.papers.mango import score as scoring
from wm.language.papers.mango.questions import DESTINATION, ROUTE
from wm.language.papers.mango.score import JudgeGraph, MazeQuestion
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import readers


@scorer(
  metrics={
    '*': [mean(), stderr(cluster='game')],
    'success*': [grouped(mean(), 'difficulty', all=False)],
  }
)
def mango_scorer(folder: str) -> Scorer:
  """Scores of scoring.Score; standard errors are clustered by game.

  `success` counts ill-formed answers as 0; `success_formed` leaves them out, as
  the paper does.

  folder: of games, or a packed archive of it.
  """

  async def score(state: TaskState, target: Target) -> Score:
    """Scores one answer."""
    del target
    asked = questions.asked_of(state.metadata)
    game = _graph(folder, asked.game)
    answer = scoring.parse(state.output.completion, actions=game.actions)
    stop = state.output.stop_reason
    answer = answer._replace(failure=replies.cause(answer.failure, stop))
    judged = scoring.judge(game, asked, answer)
    return score_of(judged, score_values(judged), short_answer(asked, answer))

  return score


@functools.lru_cache(maxsize=64)
def _graph(folder: str, game: str) -> JudgeGraph:
  """The graph that judges answers about a game."""
  return questions.judge_graph(readers.read(folder, game))


def score_of(
  judged: scoring.Score, values: dict[str, float], answer: str
) -> Score:
  """The score of an answer, of which Inspect shows why it is ill-formed."""
  return Score(
    value=values,
    answer=answer,
    reason='invalid_response_format' if judged.failure else None,
    explanation=scoring.FAILURES.get(judged.failure),
    metadata=judged._asdict(),
  )


def score_values(score: scoring.Score) -> dict[str, float]:
  """Values for Inspect's means, which leave NaN out."""
  formed = not score.failure
  moves = score.moves or math.nan
  names = 'success', 'exact', 'reasoning', 'chance'
  return {
    **{name: getattr(score, name) for name in names},
    'success_formed': score.success if formed else math.nan,
    'well_formed': float(formed),
    'repaired': score.repaired / moves,
    'unknown_places': score.places / (2 * moves),
    'unknown_moves': score.edges / moves,
  }


def short_answer(asked: MazeQuestion, answer: scoring.MovesAnswer) -> str:
  """An answer in short: the last place, or the actions; else its failure."""
  if answer.failure:
    return answer.failure
  if asked.kind == DESTINATION:
    return answer.moves[-1].after
  return ', '.join(move.action for move in answer.moves)


VERSION = 2  # 1 had the authors' words.


@fields.documented
@dataclasses.dataclass(frozen=True)
class GameOptions:
  """Games, and how much of their walkthroughs is shown."""

  folder: str = field('', 'of games, or a packed archive of it')
  game: str = field('', "one or several, joined by commas; '' is all")
  budget: int = field(
    questions.BUDGET, 'tokens of prompt and answer; 0 is no limit', least=0
  )
  answer: int = field(
    questions.ANSWER_TOKENS,
    'tokens of the budget that are left for the answer',
    least=0,
  )
  most: int = field(
    questions.MOST_TOKENS,
    'tokens that a model may write, thoughts included; 0 is no limit',
    least=0,
  )
  last: int = field(
    mazes.LAST, 'no later step of the walkthrough is shown', least=0
  )
  tokenizer: str = field(
    'model',
    "'model' counts as the model does, where Inspect knows how; 'estimate' "
    'asks nobody',
    choices=('model', 'estimate'),
  )
  prompts: str = field('', published.HELP)

  def __post_init__(self) -> None:
    if not self.folder:
      raise core.InputError(
        'no folder of games was given; expected -T folder=, a folder of MANGO '
        "or one of its archives, such as 'camera-ready-70.tar.gz'"
      )
    fields.check(self)


@fields.documented
@dataclasses.dataclass(frozen=True)
class QuestionOptions(GameOptions):
  """What is asked about games."""

  setting: str = field(
    'full',
    "'full': observations as the game gives them; 'simple': of each the name "
    'of the place alone (-S)',
    choices=('full', 'simple'),
  )
  num: int = field(0, 'questions drawn from each game; 0 is all', least=0)
  seed: int = field(0, 'of the draw')


@task
@with_options
def mango_destination(options: QuestionOptions) -> Task:
  """Destination finding: where is one after a list of actions?"""
  return _task(DESTINATION, options, game_samples, mango_scorer(options.folder))


@task
@with_options
def mango_route(options: QuestionOptions) -> Task:
  """Route finding: a path from one place to another."""
  return _task(ROUTE, options, game_samples, mango_scorer(options.folder))


def _task(
  kind: str,
  options: GameOptions,
  samples_of: Callable[..., list[Sample]],
  scored_by: Scorer,
) -> Task:
  """A task about all games of the options."""
  counter = questions.counter(options.tokenizer)
  samples: list[Sample] = []
  for game in listed(options.game) or readers.games(options.folder):
    maze = readers.read(options.folder, game)
    samples += samples_of(kind, options, maze, counter)
  if not samples:
    raise core.InputError(
      f'a budget of {options.budget:,} tokens and steps up to {options.last} '
      f'hold no question of mango_{kind}; give more'
    )
  return Task(
    dataset=MemoryDataset(samples, name=f'mango_{kind}'),
    solver=generate(),
    scorer=scored_by,
    config=GenerateConfig(temperature=0.0, max_tokens=options.most or None),
    version=VERSION,
  )


def game_samples(
  kind: str,
  options: QuestionOptions,
  maze: mazes.Maze,
  counter: questions.Counter,
) -> list[Sample]:
  """Samples of one game: all that the shown steps answer, or some of them.

  Raises:
    InputError: no step fits into the budget.
  """
  prompt = functools.partial(
    questions.prompt,
    names=(maze.actions, maze.places),
    generation=maze.generation,
    folder=options.prompts,
  )
  steps = questions.shown_steps(maze, options.setting)
  step = min(options.last, steps[-1].number)
  asked = questions.questions(maze, kind, step)
  if options.budget and asked:
    rest = counter(max((prompt('', each) for each in asked), key=len))
    left = options.budget - options.answer - rest
    if left <= 0:
      raise core.InputError(
        f'a budget of {options.budget:,} tokens leaves none for the '
        f'walkthrough: lists and question take {rest:,}, the answer '
        f'{options.answer:,}'
      )
    step = questions.cut(steps, counter, left, step)
    asked = questions.questions(maze, kind, step)
  if options.num < len(asked) and options.num:
    draws = basics.hash64(options.seed, np.arange(len(asked)))
    asked = [asked[k] for k in sorted(np.argsort(draws)[: options.num])]
  shown = questions.render(steps[: step + 1])
  return [
    Sample(
      id=f'{question.game}/{kind}/{question.key}',
      input=prompt(shown, question),
      target=question.target,
      metadata={
        'task': 'mango',
        **question._asdict(),
        'actions': list(question.actions),
        'difficulty': 'easy' if question.easy else 'hard',
        'step': step,
        'generation': maze.generation,
        'setting': options.setting,
        'folder': options.folder,
      },
    )
    for question in asked
  ]


def known_answer(request: providers.Request) -> str:
  """Moves on the map that the shown steps allow; see providers.answer.

  'stale_map' knows the first half of the steps; guesses name random places,
  or in a minigame any allowed action.
  """
  metadata = request.metadata
  if metadata['task'] == 'mango_minigames':
    allowed = metadata['allowed']
    action = request.choice(allowed) if request.guesses else request.target
    return f'Answer: {action}'
  asked = questions.asked_of(metadata)
  half = request.answerer == 'stale_map'
  step = (metadata['step'] + 1) // 2 - 1 if half else metadata['step']
  moves = _shown(metadata['folder'], asked.game, step)
  if request.guesses:
    path = [
      scoring.MazeMove(asked.start, action, request.choice([*moves]))
      for action in asked.actions or ('north',)
    ]
  else:
    path = scoring.walk(moves, *asked[:3])
  keys = questions.keys_of(metadata['generation'])
  return repr([dict(zip(keys, move, strict=True)) for move in path])


@functools.lru_cache(maxsize=4)
def _shown(folder: str, game: str, step: int) -> scoring.Moves:
  """What the steps of a game up to one show."""
  return scoring.visible_moves(readers.read(folder, game), step)


@fields.documented
@dataclasses.dataclass(frozen=True)
class MinigameOptions(GameOptions):
  """Minigames: longer histories than the budget are left out."""

  answer: int = field(
    64, 'tokens of the budget that are left for the answer', least=0
  )
  map: bool = field(False, 'whether the known ways from there are listed')


@task
@with_options
def mango_minigames(options: MinigameOptions) -> Task:
  """Which action takes the walkthrough on, where it has been before?"""
  return _task('minigames', options, minigame_samples, minigame_scorer())


def minigame_samples(
  kind: str,
  options: MinigameOptions,
  maze: mazes.Maze,
  counter: questions.Counter,
) -> list[Sample]:
  """Samples of one game whose prompts fit the budget."""
  samples = []
  for minigame in maze_questions.minigames(maze, options.last):
    text = questions.minigame_prompt(
      maze, minigame, options.map, options.prompts
    )
    if options.budget and counter(text) + options.answer > options.budget:
      break  # Later ones are longer still.
    samples.append(
      Sample(
        id=f'{maze.game}/minigame/{minigame.step}',
        input=text,
        target=minigame.action,
        metadata={
          'task': f'mango_{kind}',
          'game': maze.game,
          'step': minigame.step,
          'here': minigame.place,
          'there': minigame.next_place,
          'allowed': list(maze.actions),
          'ways': len(minigame.ways),
          'map': options.map,
        },
      )
    )
  return samples


@scorer(
  metrics={
    '*': [mean(), stderr(cluster='game')],
    'success': [grouped(mean(), 'game', all=False)],
  }
)
def minigame_scorer() -> Scorer:
  """Right or wrong; standard errors are clustered by game."""

  async def score(state: TaskState, target: Target) -> Score:
    """Scores one answer."""
    judged, action = questions.judge_minigame(
      state.output.completion, target.text, state.metadata['allowed']
    )
    failure = replies.cause(judged.failure, state.output.stop_reason)
    judged = judged._replace(failure=failure)
    values = {
      'success': judged.success,
      'well_formed': float(not judged.failure),
    }
    return score_of(judged, values, action)

  return score
