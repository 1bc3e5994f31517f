"""Inspect's tasks `wm/mango_destination` and `wm/mango_route`.

    inspect eval wm/mango_route --model wm/solver -T game=zork1 \\
      -T folder=camera-ready-70.tar.gz

Source: Ding et al. 2024; defaults are the paper's.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import GenerateConfig
from inspect_ai.solver import Solver, generate, use_tools
from inspect_ai.tool import ToolFunction

from wm import core
from wm.language import arguments, providers
from wm.language.mango import (
  baselines,
  counting,
  parsing,
  prefix,
  prompts,
  questions,
  scorers,
)
from wm.language.mango.graphs import Rules
from wm.language.mango.questions import DESTINATION, ROUTE
from wm.worlds.text_game import folders, readers
from wm.worlds.text_game import maze as mazes

VERSION = 1


@dataclasses.dataclass(frozen=True)
class Source:
  """Where mazes are, and how much of their walkthroughs is shown.

  Attributes:
    folder: of games, or a packed archive of it.
    game: one or several, joined by commas; '' is all.
    walkthroughs: another folder, which walkthroughs are taken from.
    budget: tokens of prompt and answer; 0 is no limit.
    answer: tokens of the answer.
    last: no later step is shown.
    num: questions drawn from each game; 0 is all.
    easy: when routes are easy, see text_game.skeletons.RULES.
    seed: of the draw.
  """

  folder: str
  game: str = ''
  walkthroughs: str = ''
  budget: int = prefix.BUDGET
  answer: int = prompts.ANSWER_TOKENS
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
    return folders.games(self.folder)


def text(value: Any) -> str:
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
  budget: int = prefix.BUDGET,
  walkthroughs: str = '',
  tokenizer: str = 'model',
  forced: bool = False,
  answer: int = prompts.ANSWER_TOKENS,
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
    graph: 'loose' or 'strict', see graphs.Rules.
    seed: of the draw.
  """
  source = Source(
    folder, text(game), walkthroughs, budget, answer, last, num, seed=seed
  )
  rules = Rules(graph=graph)
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
  budget: int = prefix.BUDGET,
  walkthroughs: str = '',
  tokenizer: str = 'model',
  forced: bool = False,
  answer: int = prompts.ANSWER_TOKENS,
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
    graph: 'loose' or 'strict', see graphs.Rules; as are scope, aliases, reject.
    easy: when a route is easy: 'some', 'every', 'first' or 'any'.
    scope: 'graph' or 'node'.
    aliases: whether `n` is north.
    reject: least similarity at which a move is taken for an action.
    seed: of the draw.
  """
  source = Source(
    folder, text(game), walkthroughs, budget, answer, last, num, easy, seed
  )
  rules = Rules(graph, scope, aliases, reject)
  return _task(ROUTE, source, generation, setting, forced, tokenizer, rules)


def _task(
  kind: str,
  source: Source,
  generation: str,
  setting: str,
  forced: bool,
  tokenizer: str,
  rules: Rules,
) -> Task:
  counter = counting.counter(tokenizer)
  samples: list[Sample] = []
  for game in source.games():
    maze = readers.read(source.folder, game, source.walkthroughs)
    style = prompts.Style(generation or maze.generation, setting, forced)
    samples += sampled(maze, kind, source, style, counter)
  if not samples:
    raise core.InputError(
      f'no {kind} question is answered by what a budget of {source.budget:,} '
      'tokens shows; give more'
    )
  return Task(
    dataset=MemoryDataset(samples, name=f'mango_{kind}'),
    solver=_solver(setting),
    scorer=scorers.mango_scorer(
      source.folder, **dataclasses.asdict(rules), begun=style.start
    ),
    config=GenerateConfig(temperature=0.0, max_tokens=source.answer or None),
    version=VERSION,
  )


def sampled(
  maze: mazes.Maze,
  kind: str,
  source: Source,
  style: prompts.Style,
  counter: prefix.Counter = prefix.estimate,
) -> list[Sample]:
  """Samples of one game: all that the shown steps answer, or some of them.

  Raises:
    InputError: no step fits into the budget.
  """
  names = prompts.lists(maze.actions, maze.places)
  steps = questions.steps(maze, style.setting)
  step = min(source.last, steps[-1].number)
  asked = questions.listed(maze, kind, step, source.easy)
  if source.budget and asked:
    rest = prompts.longest(names, [one.question for one in asked], style)
    left = prefix.room(rest, source.answer, counter, source.budget)
    step = prefix.cut(steps, counter, left, step)
    asked = questions.listed(maze, kind, step, source.easy)
  if source.num < len(asked) and source.num:
    draws = core.hash64(source.seed, np.arange(len(asked)))
    asked = [asked[k] for k in sorted(np.argsort(draws)[: source.num])]
  shown = prefix.render(steps[: step + 1])
  return [
    Sample(
      id=f'{one.game}/{kind}/{one.key}',
      input=prompts.prompt(shown, names, one.question, style),
      target=one.question.target,
      metadata=metadata(one, step, style, source),
    )
    for one in asked
  ]


def metadata(
  asked: questions.Asked,
  step: int,
  style: prompts.Style,
  source: Source | None = None,
) -> dict[str, Any]:
  """What a log keeps of a question; `questions.asked_of` reads it."""
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
    use_tools(scorers.trajectory(), tool_choice=chosen),
    generate(tool_calls='none'),
  ]


def known_answer(request: providers.Request) -> str:
  """Moves on the map that the shown steps allow; see providers.answer.

  'old_map' knows the first half of the steps; 'yes' and 'random' name places,
  or in a minigame any allowed action.
  """
  metadata = request.metadata
  if metadata['task'] == 'mango_minigames':
    allowed = metadata['allowed']
    action = request.choice(allowed) if request.guesses else request.target
    return f'Answer: {action}'
  asked = questions.asked_of(metadata)
  folder, walkthroughs = metadata['folders']
  half = request.answerer == 'old_map'
  step = (metadata['step'] + 1) // 2 - 1 if half else metadata['step']
  maze, seen = _shown(folder, asked.game, walkthroughs, step)
  start, target, actions = asked.question
  if request.guesses:
    path = [
      parsing.Move(start, action, request.choice(maze.places))
      for action in actions or ('north',)
    ]
  else:
    path = baselines.walk(seen.visible, start, target, actions)
  keys = prompts.KEYS[metadata['generation']]
  return repr([dict(zip(keys, move, strict=True)) for move in path])


@functools.lru_cache(maxsize=4)
def _shown(
  folder: str, game: str, walkthroughs: str, step: int
) -> tuple[mazes.Maze, baselines.Seen]:
  """A game, and what its steps up to one show."""
  maze = readers.read(folder, game, walkthroughs)
  return maze, baselines.seen(maze, step)
