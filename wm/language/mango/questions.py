"""What is asked about a maze, and what of its walkthrough is shown.

Questions are those of wm.worlds.text_game.skeletons, in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.language.mango import prefix, prompts
from wm.language.mango.graphs import Graph, Rules
from wm.language.mango.scoring import Question
from wm.worlds.text_game import maze as mazes
from wm.worlds.text_game import skeletons

DESTINATION, ROUTE = KINDS = 'destination', 'route'


class Asked(NamedTuple):
  """A question and what is known of it.

  Attributes:
    game: its name.
    kind: 'destination' or 'route'.
    key: the published id, SHA-256 of its path or its places.
    question: its words.
    easy: whether what it needs was walked by the step that it is asked at.
    length: moves of its path; of a route, of the shortest.
    imputed: moves of its path that are only imputed; of a route -1.
  """

  game: str
  kind: str
  key: str
  question: Question
  easy: bool
  length: int
  imputed: int


def asked_of(known: Mapping[str, Any]) -> Asked:
  """The question of a sample's metadata; KeyError where it has none."""
  actions = tuple(known['actions'])
  return Asked(
    known['game'],
    known['kind'],
    known['key'],
    Question(known['start'], known['target'], actions),
    known['difficulty'] == 'easy',
    known['length'],
    known['imputed'],
  )


def listed(
  maze: mazes.Maze, kind: str, step: int = mazes.LAST, rule: str = 'some'
) -> list[Asked]:
  """Questions that a prefix up to a step answers, as skeletons order them.

  Args:
    maze: all of the map.
    kind: 'destination' or 'route'.
    step: the last one that is shown.
    rule: when routes are easy; see skeletons.RULES.

  Raises:
    InputError: there is no such kind or rule.
  """
  if kind not in KINDS:
    raise core.InputError(
      f'no kind of questions {kind!r}; available: {", ".join(KINDS)}'
    )
  known = maze.edges.answerable.total <= step
  some = maze._replace(edges=_kept(maze.edges, known))
  found = skeletons.destinations(some, listed=kind == DESTINATION)
  if kind == DESTINATION:
    return _destinations(some, found, step)
  return _routes(maze, some, found, step, rule)


def _kept(edges: mazes.Edges, rows: np.ndarray) -> mazes.Edges:
  played, answerable = (
    mazes.Stamps(*(column[rows] for column in stamps))
    for stamps in (edges.played, edges.answerable)
  )
  ends = edges.source[rows], edges.action[rows], edges.target[rows]
  return mazes.Edges(*ends, played, answerable)


def _destinations(
  maze: mazes.Maze, found: skeletons.Destinations, step: int
) -> list[Asked]:
  walked = maze.edges.answerable.forward <= step
  asked = []
  for number in range(found.size):
    path = found.paths.of(number)
    names = [maze.words(edge) for edge in path.tolist()]
    question = Question(
      names[0][0], names[-1][2], tuple(action for _, action, _ in names)
    )
    asked.append(
      Asked(
        maze.game,
        DESTINATION,
        skeletons.path_id(maze, path),
        question,
        bool(found.easy[number] <= step),
        len(path),
        int((~walked[path]).sum()),
      )
    )
  return asked


def _routes(
  whole: mazes.Maze,
  some: mazes.Maze,
  found: skeletons.Destinations,
  step: int,
  rule: str,
) -> list[Asked]:
  """Routes that are answerable in `some`, easy by the paths of the whole map.

  So the published tables have it: a path that a prefix shows may be no
  shortest one, and is not easy then.
  """
  places = len(some.places)
  there = skeletons.routes(found, places)
  labels = skeletons.routes(
    skeletons.destinations(whole, listed=False), places, rule
  )
  pair = labels.source.astype(np.int64) * places + labels.target
  at = np.searchsorted(
    pair, there.source.astype(np.int64) * places + there.target
  )
  return [
    Asked(
      some.game,
      ROUTE,
      skeletons.pair_id(some, source, target),
      Question(some.places[source], some.places[target]),
      bool(labels.easy[row] <= step),
      int(labels.shortest[row]),
      -1,
    )
    for row, source, target in zip(
      at.tolist(), there.source.tolist(), there.target.tolist(), strict=True
    )
  ]


def graph(maze: mazes.Maze, rules: Rules | None = None) -> Graph:
  """The graph that judges answers about a maze: all of its map."""
  edges = (maze.words(edge) for edge in range(maze.edges.source.size))
  return Graph(edges, rules)


def trail(maze: mazes.Maze) -> list[str]:
  """The place after each step of the walkthrough; '' where it is not known.

  See `maze.followed`. A walk stays where the annotation ends.
  """
  names = [*maze.places, '']
  known = [names[place] for place in mazes.followed(maze).tolist()]
  return known + [known[-1]] * (len(maze.steps) - len(known))


def steps(maze: mazes.Maze, setting: str = 'full') -> list[prefix.Shown]:
  """Steps of the walkthrough as a prompt shows them, in a setting.

  Raises:
    InputError: the maze has no walkthrough.
  """
  if not maze.steps:
    raise core.InputError(
      f'{maze.game} has no walkthrough; expected a folder with one, or '
      'walkthroughs=, where they are'
    )
  shown = [
    prefix.Shown(step.number, step.action or 'Init', step.observation)
    for step in maze.steps
  ]
  return prompts.simple(shown, trail(maze)) if setting == 'simple' else shown
