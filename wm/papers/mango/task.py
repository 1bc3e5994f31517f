"""Inspect's tasks `wm/mango_destination`, `mango_route` and `mango_minigames`.

    inspect eval wm/mango_route --model wm/solver -T game=zork1 \\
      -T folder=camera-ready-70.tar.gz

Source: Ding et al. 2024; defaults are the paper's.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Sequence
from typing import Any, TypedDict

import numpy as np
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
from inspect_ai.solver import Solver, TaskState, generate, use_tools
from inspect_ai.tool import Tool, ToolFunction, tool

from wm import core
from wm.core import basics
from wm.language import arguments, providers
from wm.language.metrics import stderr
from wm.papers.mango import facts, questions
from wm.papers.mango import score as scoring
from wm.papers.mango.questions import DESTINATION, ROUTE
from wm.papers.mango.score import JudgeGraph, JudgeRules
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import questions as game_questions
from wm.worlds.text_game import readers


class _TrajectoryStep(TypedDict):
  location_before: str
  action: str
  location_after: str


@tool
def trajectory() -> Tool:
  """The function that the setting 'function' asks to be called."""

  async def execute(moves: list[_TrajectoryStep]) -> str:
    """Gives a trajectory.

    Args:
      moves: where each move begins, its action, and where it ends.
    """
    return f'{len(moves)} moves'

  return execute


def reply_text(state: TaskState, begun: str = '') -> str:
  """A model's answer: the argument of its call, else its text."""
  calls = state.output.message.tool_calls if state.output.choices else None
  if calls:
    return json.dumps(calls[0].arguments.get('moves', []))
  return questions.with_start(state.output.completion, begun)


@scorer(
  metrics={
    '*': [mean(), stderr(cluster='game')],
    'success*': [grouped(mean(), 'difficulty', all=False)],
  }
)
def mango_scorer(
  folder: str,
  graph: str = 'loose',
  scope: str = 'graph',
  aliases: bool = False,
  reject: float = 0.0,
  reading: str = scoring.BALANCED,
  begun: str = '',
) -> Scorer:
  """Scores of scoring.Score; standard errors are clustered by game.

  `success` counts ill-formed answers as 0; `success_formed` leaves them out, as
  the paper does.

  Args:
    folder: of games, or a packed archive of it.
    graph: see JudgeRules; as are scope, aliases, reject.
    scope: 'graph' or 'node'.
    aliases: whether `n` is north.
    reject: least similarity at which a move is taken for an action.
    reading: how a list is found, see scoring.parse.
    begun: what the prompt began of the answer.
  """
  rules = JudgeRules(graph, scope, aliases, reject)
  graphs: dict[str, JudgeGraph] = {}

  async def score(state: TaskState, target: Target) -> Score:
    """Scores one answer."""
    del target
    asked = questions.asked_of(state.metadata)
    if asked.game not in graphs:
      graphs[asked.game] = questions.judge_graph(
        readers.read(folder, asked.game), rules
      )
    answer = scoring.parse(reply_text(state, begun), reading)
    judge = facts.judged(asked.kind)
    judged = judge(graphs[asked.game], asked.question, answer)
    return Score(
      value=score_values(judged),
      answer=short_answer(asked, answer),
      reason='invalid_response_format' if judged.failure else None,
      explanation=scoring.FAILURES[judged.failure] if judged.failure else None,
      metadata=judged._asdict(),
    )

  return score


def score_values(score: scoring.Score) -> dict[str, float]:
  """Values for Inspect's means, which leave NaN out."""
  formed = not score.failure
  moves = score.moves or math.nan
  return {
    'success': score.success,
    'success_formed': score.success if formed else math.nan,
    'exact': score.exact,
    'plain': score.plain,
    'nearest': score.nearest,
    'reasoning': score.reasoning,
    'july2023': score.july2023,
    'camera_ready': score.camera_ready,
    'chance': score.chance,
    'well_formed': float(formed),
    'repaired': score.repaired / moves,
    'unknown_places': score.places / (2 * moves),
    'unknown_moves': score.edges / moves,
  }


def short_answer(
  asked: questions.MazeQuestion, answer: scoring.MovesAnswer
) -> str:
  """An answer in short: the last place, or the actions; else its failure."""
  if answer.failure:
    return answer.failure
  if asked.kind == DESTINATION:
    return answer.moves[-1].after
  return ', '.join(move.action for move in answer.moves)


VERSION = 1


@dataclasses.dataclass(frozen=True)
class MazeSource:
  """The folder of mazes, and how much of their walkthroughs is shown.

  Attributes:
    folder: of games, or a packed archive of it.
    game: one or several, joined by commas; '' is all.
    walkthroughs: another folder, which walkthroughs are taken from.
    budget: tokens of prompt and answer; 0 is no limit.
    answer: tokens of the answer.
    last: no later step is shown.
    num: questions drawn from each game; 0 is all.
    easy: when routes are easy, see text_game.game_questions.RULES.
    seed: of the draw.
  """

  folder: str
  game: str = ''
  walkthroughs: str = ''
  budget: int = questions.BUDGET
  answer: int = questions.ANSWER_TOKENS
  last: int = mazes.LAST
  num: int = 0
  easy: str = 'some'
  seed: int = 0

  def __post_init__(self) -> None:
    """Raises InputError where no folder is named, or a number is negative."""
    if not self.folder:
      raise core.InputError(
        'no folder of games was given; expected -T folder=, a folder of MANGO '
        "or one of its archives, such as 'camera-ready-70.tar.gz'"
      )
    for name in ('budget', 'answer', 'last', 'num'):
      if getattr(self, name) < 0:
        raise core.InputError(
          f'{name}={getattr(self, name)}; expected 0 or more'
        )

  def games(self) -> Sequence[str]:
    """Names of the games."""
    if self.game:
      return [name.strip() for name in self.game.split(',')]
    return readers.games(self.folder)


def joined_text(value: Any) -> str:
  """A value that the command line may have split at its commas, or read."""
  if isinstance(value, list):
    return ','.join(map(str, value))
  return str(value)


@task
@arguments.in_one_line
def mango_destination(
  folder: str = '',
  game: str | int | list[str | int] = '',
  generation: str = '',
  setting: str = 'full',
  budget: int = questions.BUDGET,
  walkthroughs: str = '',
  tokenizer: str = 'model',
  forced: bool = False,
  answer: int = questions.ANSWER_TOKENS,
  last: int = mazes.LAST,
  num: int = 0,
  graph: str = 'loose',
  seed: int = 0,
) -> Task:
  """Destination finding: where is one after a list of actions?

  Args:
    folder: of games, or a packed archive of it.
    game: one or several; '' is all.
    generation: of the prompt's keys; '' is that of the data.
    setting: 'full', 'simple' (names of places alone) or 'function'.
    budget: tokens of prompt and answer; 0 is no limit.
    walkthroughs: another folder, which walkthroughs are taken from.
    tokenizer: 'model' counts as the model does, where Inspect knows how;
      'estimate' asks nobody.
    forced: the prompt begins the answer, for models that go on with a text.
    answer: tokens of the answer.
    last: no later step of the walkthrough is shown.
    num: questions drawn from each game; 0 is all.
    graph: 'loose' or 'strict', see graphs.JudgeRules.
    seed: of the draw.
  """
  source = MazeSource(
    folder,
    joined_text(game),
    walkthroughs,
    budget,
    answer,
    last,
    num,
    seed=seed,
  )
  rules = JudgeRules(graph=graph)
  return _task(
    DESTINATION, source, generation, setting, forced, tokenizer, rules
  )


@task
@arguments.in_one_line
def mango_route(
  folder: str = '',
  game: str | int | list[str | int] = '',
  generation: str = '',
  setting: str = 'full',
  budget: int = questions.BUDGET,
  walkthroughs: str = '',
  tokenizer: str = 'model',
  forced: bool = False,
  answer: int = questions.ANSWER_TOKENS,
  last: int = mazes.LAST,
  num: int = 0,
  graph: str = 'loose',
  easy: str = 'some',
  scope: str = 'graph',
  aliases: bool = False,
  reject: float = 0.0,
  seed: int = 0,
) -> Task:
  """Route finding: a path from one place to another.

  Args:
    folder: of games, or a packed archive of it.
    game: one or several; '' is all.
    generation: of the prompt's keys; '' is that of the data.
    setting: 'full', 'simple' (names of places alone) or 'function'.
    budget: tokens of prompt and answer; 0 is no limit.
    walkthroughs: another folder, which walkthroughs are taken from.
    tokenizer: 'model' or 'estimate', see mango_destination.
    forced: the prompt begins the answer, for models that go on with a text.
    answer: tokens of the answer.
    last: no later step of the walkthrough is shown.
    num: questions drawn from each game; 0 is all.
    graph: 'loose' or 'strict', see JudgeRules; as are scope, aliases, reject.
    easy: when a route is easy: 'some', 'every', 'first' or 'any'.
    scope: 'graph' or 'node'.
    aliases: whether `n` is north.
    reject: least similarity at which a move is taken for an action.
    seed: of the draw.
  """
  source = MazeSource(
    folder,
    joined_text(game),
    walkthroughs,
    budget,
    answer,
    last,
    num,
    easy,
    seed,
  )
  rules = JudgeRules(graph, scope, aliases, reject)
  return _task(ROUTE, source, generation, setting, forced, tokenizer, rules)


def _task(
  kind: str,
  source: MazeSource,
  generation: str,
  setting: str,
  forced: bool,
  tokenizer: str,
  rules: JudgeRules,
) -> Task:
  counter = questions.counter(tokenizer)
  samples: list[Sample] = []
  for game in source.games():
    maze = readers.read(source.folder, game, source.walkthroughs)
    style = questions.MazePrompt(generation or maze.generation, setting, forced)
    samples += game_samples(maze, kind, source, style, counter)
  if not samples:
    raise core.InputError(
      f'no {kind} question is answered by what a budget of {source.budget:,} '
      'tokens shows; give more'
    )
  return Task(
    dataset=MemoryDataset(samples, name=f'mango_{kind}'),
    solver=_solver(setting),
    scorer=mango_scorer(
      source.folder, **dataclasses.asdict(rules), begun=style.start
    ),
    config=GenerateConfig(temperature=0.0, max_tokens=source.answer or None),
    version=VERSION,
  )


def game_samples(
  maze: mazes.Maze,
  kind: str,
  source: MazeSource,
  style: questions.MazePrompt,
  counter: questions.Counter = questions.estimate,
) -> list[Sample]:
  """Samples of one game: all that the shown steps answer, or some of them.

  Raises:
    InputError: no step fits into the budget.
  """
  names = questions.lists(maze.actions, maze.places)
  steps = questions.shown_steps(maze, style.setting)
  step = min(source.last, steps[-1].number)
  asked = questions.questions(maze, kind, step, source.easy)
  if source.budget and asked:
    rest = questions.longest(
      names, [question.question for question in asked], style
    )
    left = questions.room(rest, source.answer, counter, source.budget)
    step = questions.cut(steps, counter, left, step)
    asked = questions.questions(maze, kind, step, source.easy)
  if source.num < len(asked) and source.num:
    draws = basics.hash64(source.seed, np.arange(len(asked)))
    asked = [asked[k] for k in sorted(np.argsort(draws)[: source.num])]
  shown = questions.render(steps[: step + 1])
  return [
    Sample(
      id=f'{question.game}/{kind}/{question.key}',
      input=questions.prompt(shown, names, question.question, style),
      target=question.question.target,
      metadata=metadata(question, step, style, source),
    )
    for question in asked
  ]


def metadata(
  asked: questions.MazeQuestion,
  step: int,
  style: questions.MazePrompt,
  source: MazeSource | None = None,
) -> dict[str, Any]:
  """The metadata of a question; `questions.asked_of` reads it."""
  folders_of = (source.folder, source.walkthroughs) if source else ('', '')
  start, target, actions = asked.question
  return {
    'task': 'mango',
    'game': asked.game,
    'kind': asked.kind,
    'key': asked.key,
    'start': start,
    'target': target,
    'actions': list(actions),
    'difficulty': 'easy' if asked.easy else 'hard',
    'length': asked.length,
    'imputed': asked.imputed,
    'step': step,
    'generation': style.generation,
    'setting': style.setting,
    'folders': list(folders_of),
  }


def _solver(setting: str) -> Sequence[Solver]:
  if setting != 'function':
    return [generate()]
  chosen = ToolFunction(name='trajectory')
  return [
    use_tools(trajectory(), tool_choice=chosen),
    generate(tool_calls='none'),
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
  folder, walkthroughs = metadata['folders']
  half = request.answerer == 'stale_map'
  step = (metadata['step'] + 1) // 2 - 1 if half else metadata['step']
  maze, seen = _shown(folder, asked.game, walkthroughs, step)
  start, target, actions = asked.question
  if request.guesses:
    path = [
      scoring.AnswerMove(start, action, request.choice(maze.places))
      for action in actions or ('north',)
    ]
  else:
    path = facts.walk(seen.visible, start, target, actions)
  keys = questions.KEYS[metadata['generation']]
  return repr([dict(zip(keys, move, strict=True)) for move in path])


@functools.lru_cache(maxsize=4)
def _shown(
  folder: str, game: str, walkthroughs: str, step: int
) -> tuple[mazes.Maze, facts.ShownMap]:
  """A game, and what its steps up to one show."""
  maze = readers.read(folder, game, walkthroughs)
  return maze, facts.seen_at(maze, step)


MINIGAMES_VERSION = 1
MINIGAME_TOKENS = 64


@task
@arguments.in_one_line
def mango_minigames(
  folder: str = '',
  game: str | int | list[str | int] = '',
  map: bool = False,
  places: str = 'moves',
  budget: int = questions.BUDGET,
  walkthroughs: str = '',
  tokenizer: str = 'model',
  answer: int = MINIGAME_TOKENS,
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
  source = MazeSource(
    folder, joined_text(game), walkthroughs, budget, answer, last
  )
  counter = questions.counter(tokenizer)
  samples: list[Sample] = []
  for name in source.games():
    maze = readers.read(folder, name, walkthroughs)
    samples += minigame_samples(maze, source, map, places, counter)
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
    version=MINIGAMES_VERSION,
  )


def minigame_samples(
  maze: mazes.Maze,
  source: MazeSource,
  with_map: bool,
  places: str,
  counter: questions.Counter = questions.estimate,
) -> list[Sample]:
  """Samples of one game whose prompts fit the budget."""
  listed = []
  for minigame in game_questions.minigames(maze, source.last, places):
    text = questions.minigame_prompt(maze, minigame, with_map)
    if source.budget and counter(text) + source.answer > source.budget:
      break  # Later ones are longer still.
    listed.append(
      Sample(
        id=f'{maze.game}/minigame/{minigame.step}',
        input=text,
        target=minigame.action,
        metadata={
          'task': 'mango_minigames',
          'game': maze.game,
          'step': minigame.step,
          'here': minigame.here,
          'there': minigame.there,
          'allowed': list(maze.actions),
          'ways': len(minigame.ways),
          'map': with_map,
        },
      )
    )
  return listed


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
    judged = questions.judge_minigame(
      state.output.completion, target.text, state.metadata['allowed']
    )
    return Score(
      value={
        'success': judged.success,
        'well_formed': float(not judged.failure),
      },
      answer=judged.action,
      reason='invalid_response_format' if judged.failure else None,
      explanation=questions.MINIGAME_FAILURES.get(
        judged.failure, judged.failure
      ),
      metadata=judged._asdict(),
    )

  return score
