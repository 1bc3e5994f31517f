"""Questions about mazes of text games, their prompts, and how much is shown.

A prompt shows whole steps of a walkthrough within a budget of tokens, two
lists, and a question. The two generations of the authors' program differ in the
names of the three values of a move. Minigames show the steps before one that
goes where the walk has been, and ask for the next action; their published
prompts had rewards and lists of valid actions, which are not in the data: the
map's list of actions stands in. All words are our own, but for files that the
user brings:

  destination.txt  {walkthrough}, {allowed}, {places}, {start}, {actions}
  route.txt        {walkthrough}, {allowed}, {places}, {start}, {target}
  minigame.txt     {walkthrough}, {allowed}, and, with a map, {ways}

Source: Ding et al. 2024, sections 3.1 and 3.4,
appendix A.4.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from inspect_ai.model import ModelAPI, get_model

from wm import core
from wm.language import provider
from wm.language.answers import grammar
from wm.language.papers import published
from wm.language.papers.mango import maze_questions
from wm.language.papers.mango import score as scoring
from wm.language.papers.mango.score import JudgeGraph, MazeQuestion
from wm.runtime import pages
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game.maze import WalkthroughStep

BUDGET = 4096  # Tokens of a prompt and its answer.

TEXTS = pages.macros('wm.language.papers.mango', 'prompt.md.j2')
# What one token is at least, where no tokenizer counts: English has about 4.
_CHARACTERS = 3.5

Counter = Callable[[str], int]


def estimate(text: str) -> int:
  """Tokens of a text, rather too many than too few; no tokenizer is asked."""
  return -int(-len(text.encode('utf-8', 'replace')) // _CHARACTERS)


def render(steps: Sequence[WalkthroughStep]) -> str:
  """Whole blocks, as in the published walkthroughs; no blanks at the end."""
  return ''.join(map(TEXTS.block, steps)).rstrip()


def cut(
  steps: Sequence[WalkthroughStep],
  counter: Counter,
  budget: int,
  last: int = mazes.LAST,
) -> int:
  """The last step T of the longest prefix that fits, whole blocks only.

  Texts of growing length are counted, about ten of them.

  Args:
    steps: of a walkthrough, from step 0.
    counter: tokens of a text; must not fall as the text grows.
    budget: most tokens of the prefix.
    last: no later step than this.

  Raises:
    InputError: the first step does not fit.
  """
  candidates = [step for step in steps if step.number <= last]
  counted = functools.cache(lambda size: counter(render(candidates[:size])))
  # Sizes 1, 2, ... count ever more tokens: how many of them fit?
  sizes = range(1, len(candidates) + 1)
  fit = bisect.bisect_right(sizes, budget, key=counted)
  if not fit:
    raise core.InputError(
      f'a budget of {budget:,} tokens does not hold step 0, which takes '
      f'{counted(1):,}; give more'
    )
  return candidates[fit - 1].number


def counter(tokenizer: str = 'model') -> Counter:
  """Returns a token counter: the model's own if it has one, else an estimate.

  tokenizer: 'model' or 'estimate'.
  """
  if tokenizer == 'estimate':
    return estimate
  model = get_model()
  kind = type(model.api)
  if (
    kind.count_text_tokens is ModelAPI.count_text_tokens
    and kind.count_tokens is ModelAPI.count_tokens
  ):
    return estimate

  def count(text: str) -> int:
    """Tokens of a text; InputError where the provider is out of reach."""
    try:
      return provider.wait(model.count_tokens(text))
    except OSError as error:
      raise core.InputError(
        f'{model.name} counts no tokens: {error}; -T tokenizer=estimate needs '
        'nobody'
      ) from error

  return count


# Tokens of the budget for an answer: the camera-ready program's for GPT. A
# model that thinks may write more, which changes no prompt.
ANSWER_TOKENS, MOST_TOKENS = 512, 8192


def keys_of(generation: str) -> tuple[str, str, str]:
  """Spellings of the three values of a move, in prompts of a generation."""
  return scoring.KEYS[generation == 'paper']


PROMPTS = 'destination', 'route', 'minigame'


def prompt(
  shown: str,
  asked: MazeQuestion,
  names: tuple[Sequence[str], Sequence[str]],
  generation: str = 'camera_ready',
  folder: str = '',
) -> str:
  """The whole prompt.

  Args:
    shown: the walkthrough's prefix, see render.
    asked: the question; one with actions asks for a destination.
    names: actions and places that it lists.
    generation: of the data, as text_game.Maze has it.
    folder: of the authors' prompts; '' is our own words.

  Raises:
    InputError: the authors' files are missing or no such prompts.
  """
  actions, places = (str([*each]) for each in names)
  kind, last = ROUTE, {'target': asked.target}
  if asked.actions:
    kind, last = DESTINATION, {'actions': str([*asked.actions])}
  values = {'walkthrough': shown, 'allowed': actions, 'places': places}
  values |= {'start': asked.start, **last}
  form = str(TEXTS.form(keys_of(generation)))
  return published.render(folder, kind, PROMPTS, values, TEXTS, form=form)


DESTINATION, ROUTE = KINDS = 'destination', 'route'


def asked_of(metadata: Mapping[str, Any]) -> MazeQuestion:
  """The question of a sample's metadata; KeyError where it has none."""
  values = {**metadata, 'easy': metadata['difficulty'] == 'easy'}
  asked = MazeQuestion(*(values[name] for name in MazeQuestion._fields))
  return asked._replace(actions=tuple(asked.actions))


def questions(
  maze: mazes.Maze, kind: str, step: int = mazes.LAST
) -> list[MazeQuestion]:
  """Questions that a prefix up to a step answers, in the order of the world.

  Args:
    maze: all of the map.
    kind: 'destination' or 'route'.
    step: the last one that is shown.
  """
  if kind == ROUTE:
    return _routes(maze, step)
  shown_edges = maze.edges.answerable.total <= step
  shown = maze._replace(edges=mazes.chosen(maze.edges, shown_edges))
  walked = shown.edges.answerable.forward <= step
  paths = maze_questions.destinations(shown)
  asked = []
  for number in range(paths.size):
    path = paths.paths.of(number)
    names = [shown.words(edge) for edge in path.tolist()]
    asked.append(
      MazeQuestion(
        names[0][0],
        names[-1][2],
        tuple(action for _, action, _ in names),
        maze.game,
        DESTINATION,
        maze_questions.path_id(shown, path),
        bool(paths.easy[number] <= step),
        len(path),
        int((~walked[path]).sum()),
      )
    )
  return asked


def _routes(maze: mazes.Maze, step: int) -> list[MazeQuestion]:
  """Routes that a prefix answers, easy by the paths of the whole map.

  So the published tables have it: a path that a prefix shows may be no
  shortest one, and is not easy then.
  """
  paths = maze_questions.destinations(maze, listed=False)
  pairs = maze_questions.routes(paths, len(maze.places))
  asked = []
  for row in np.flatnonzero(pairs.answerable <= step).tolist():
    source, target = int(pairs.source[row]), int(pairs.target[row])
    asked.append(
      MazeQuestion(
        maze.places[source],
        maze.places[target],
        (),
        maze.game,
        ROUTE,
        maze_questions.pair_id(maze, source, target),
        bool(pairs.easy[row] <= step),
        int(pairs.shortest[row]),
      )
    )
  return asked


def judge_graph(maze: mazes.Maze) -> JudgeGraph:
  """The graph that judges answers about a maze: all of its map."""
  return JudgeGraph(maze.words(e) for e in range(maze.edges.source.size))


def places_walked(maze: mazes.Maze) -> list[str]:
  """The place after each step of the walkthrough; '' where it is not known.

  See `mazes.followed`. A walk stays where the annotation ends.
  """
  names = [*maze.places, '']
  walked = [names[place] for place in mazes.followed(maze).tolist()]
  return walked + [walked[-1]] * (len(maze.steps) - len(walked))


def shown_steps(
  maze: mazes.Maze, setting: str = 'full'
) -> list[WalkthroughStep]:
  """Steps of the walkthrough as a prompt shows them, in a setting.

  Raises:
    InputError: the maze has no walkthrough.
  """
  if not maze.steps:
    raise core.InputError(
      f'{maze.game} has no walkthrough; expected a folder with one'
    )
  simple = setting == 'simple'
  places = places_walked(maze) if simple else [''] * len(maze.steps)
  return [
    step._replace(
      action=step.action or 'Init',
      observation=place if simple else step.observation,
    )
    for step, place in zip(maze.steps, places, strict=True)
  ]


def minigame_prompt(
  maze: mazes.Maze,
  asked: maze_questions.Minigame,
  with_map: bool,
  prompts: str = '',
) -> str:
  """The whole prompt of one minigame.

  Args:
    maze: the game.
    asked: the minigame.
    with_map: adds a line for each way that the steps before show from there.
    prompts: folder of the authors' prompts; '' is our own words.
  """
  values = {'walkthrough': render(maze.steps[: asked.step])}
  values['allowed'] = str(list(maze.actions))
  if with_map:
    values['ways'] = str(TEXTS.ways(asked.ways))
  return published.render(prompts, 'minigame', PROMPTS, values, TEXTS)


def judge_minigame(
  reply: str, right: str, allowed: Sequence[str]
) -> tuple[scoring.Score, str]:
  """Reads an answer and compares it; nothing in it is executed.

  Args:
    reply: of a model, of any form or size.
    right: what the walkthrough did.
    allowed: the list of the prompt.

  Returns:
    Its score, with `success` 1 where it is right and without a failure where
    it is wrong, but allowed; and the action as read, '' where none was.
  """
  names = list(dict.fromkeys([*allowed, right]))
  reading = grammar.choice(reply, scoring.action_names(tuple(names)))
  if reading.failure:
    failure = reading.failure.replace('unknown_name', 'not_allowed')
    return scoring.Score(failure), ''
  action = names[reading.value]
  return scoring.Score(success=float(action == right), moves=1), action
