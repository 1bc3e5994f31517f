"""Questions on a maze: destinations of paths, and routes between places.

A *destination* question (DF) is a place and the actions of one simple path; a
*route* question (RF) is an ordered pair of places with a simple path between
them (Ding et al. 2024, section 2.2). Both have two steps, so that labels at any
prefix are comparisons of arrays:

    answerable at step T:  answerable <= T
    easy at step T:        easy <= T, else hard

Minigames: steps of a walkthrough to visited places (section 3.4).

A model sees the steps before and must predict the next action of the
walkthrough. A step is a minigame if its action is a direction to another place,
and the walkthrough has taken this edge or its opposite before: a map of the
visited part has the answer. As published (Ding et al. 2024), opposites are
assumed to lead back.

The paper has 284 minigames, in 47 games (table 10). In the first 70 steps of
the published data there are 380 (48): the walk is where the first line of the
last observation of a direction says. The paper's models saw fewer steps:
cut-offs of some 3,600 tokens give about 280. The published lists of valid
actions come from the games themselves, which the data lacks: `actions` of the
maze replace them.
"""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import resources
from wm.kernels import simple_paths as kernels
from wm.worlds.text_game import maze as mazes


class DestinationQuestions(NamedTuple):
  """P destination questions: all simple paths of a maze.

  Attributes:
    paths: the paths, their edges numbered as in the maze; labels are the steps
      `easy` and `answerable`.
    answerable: [P] int32, the step from which every edge is known.
    easy: [P] int32, the step from which every edge is walked, or NEVER.
  """

  paths: kernels.SimplePaths
  answerable: np.ndarray
  easy: np.ndarray

  @property
  def size(self) -> int:
    """How many there are."""
    return len(self.answerable)


class RouteQuestions(NamedTuple):
  """R route questions: ordered pairs of places with a simple path between them.

  Attributes:
    source: [R] int32 places, ascending.
    target: [R] int32 places, ascending within a source.
    answerable: [R] int32, the step from which some path is known.
    easy: [R] int32, the step from which some shortest path is walked, as in the
      paper's tables, or NEVER.
    shortest: [R] int32 number of edges of the shortest path.
  """

  source: np.ndarray
  target: np.ndarray
  answerable: np.ndarray
  easy: np.ndarray
  shortest: np.ndarray

  @property
  def size(self) -> int:
    """How many there are."""
    return len(self.answerable)


def counts(questions: DestinationQuestions | RouteQuestions) -> np.ndarray:
  """[NEVER, 2] int64: numbers of easy and hard questions at every step."""
  since, walked = questions.answerable, questions.easy
  easy = np.bincount(np.maximum(since, walked), minlength=mazes.NEVER + 1)
  every = np.bincount(since, minlength=mazes.NEVER + 1)
  easy, every = (np.cumsum(c[: mazes.NEVER]) for c in (easy, every))
  return np.stack([easy, every - easy], axis=-1)


def destinations(
  maze: mazes.Maze, *, longest: int = 0, listed: bool = True
) -> DestinationQuestions:
  """All destination questions of a maze.

  Args:
    maze: the map, or a prefix of it.
    longest: limit of edges per path; 0 is no limit.
    listed: True returns the edges of paths; labels alone take a tenth of the
      memory.

  Raises:
    InputError: there are more than kernels.MOST paths.
  """
  edges = maze.edges
  stamps = edges.answerable
  paths = kernels.list_paths(
    edges.source,
    edges.target,
    len(maze.places),
    (stamps.forward, stamps.total),
    longest=longest,
    listed=listed,
  )
  easy, answerable = paths.labels
  return DestinationQuestions(paths, answerable, easy)


def routes(questions: DestinationQuestions, nodes: int) -> RouteQuestions:
  """Route questions of a maze with these simple paths.

  Args:
    questions: all simple paths of the maze.
    nodes: number of places.

  Raises:
    InputError: too little memory.
  """
  resources.require_memory(
    24 * nodes * nodes, f'routes between {nodes:,} places'
  )
  walks = questions.paths
  pair = walks.source.astype(np.int64) * nodes + walks.target
  places, count = nodes * nodes, np.bincount(pair, minlength=nodes * nodes)
  shortest = _least(pair, walks.length, places)
  since = _least(pair, questions.answerable, places)
  short = np.flatnonzero(walks.length == shortest[pair])
  walked = _least(pair[short], questions.easy[short], places)
  joined = np.flatnonzero(count)
  source, target = np.divmod(joined, nodes)
  return RouteQuestions(
    source.astype(np.int32),
    target.astype(np.int32),
    since[joined],
    walked[joined],
    shortest[joined],
  )


def _least(pair: np.ndarray, values: np.ndarray, size: int) -> np.ndarray:
  least = np.full(size, mazes.NEVER, np.int32)
  np.minimum.at(least, pair, values)
  return least


def path_id(maze: mazes.Maze, edges: np.ndarray) -> str:
  """The published id of a destination question: SHA-256 of its edges."""
  steps = []
  for edge in edges.tolist():
    source, action, target = maze.words(edge)
    steps.append({'prev_node': source, 'node': target, 'action': action})
  return _hashed(steps)


def pair_id(maze: mazes.Maze, source: int, target: int) -> str:
  """The published id of a route question: SHA-256 of its places."""
  names = maze.places[source], maze.places[target]
  return _hashed(dict(zip(('src_node', 'dst_node'), names, strict=True)))


def _hashed(value: object) -> str:
  return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


class Minigame(NamedTuple):
  """A step whose action is to be predicted.

  Attributes:
    step: its number; a model sees the steps before.
    place: the current place.
    action: the correct answer.
    next_place: the place after the action.
    ways: (place, action) of each edge from the current place in the steps
      before, in order of first step: the map that a prompt may add.
  """

  step: int
  place: str
  action: str
  next_place: str
  ways: tuple[tuple[str, str], ...]


def minigames(maze: mazes.Maze, last: int = mazes.LAST) -> tuple[Minigame, ...]:
  """The minigames of a walkthrough.

  Args:
    maze: with a walkthrough, whose step 0 is not a minigame.
    last: the last step that may be a minigame.

  Raises:
    InputError: no walkthrough.
  """
  if not maze.steps:
    raise core.InputError(f'{maze.game} has no walkthrough to make games of')
  at = _places(maze)
  ways_seen: dict[str, dict[tuple[str, str], None]] = {}
  games = []
  for step, before, after in zip(maze.steps[1:], at, at[1:], strict=False):
    action = step.action.lower()
    if step.number > last:
      break
    if action not in mazes.OPPOSITE or before == after:
      continue
    ways = ways_seen.setdefault(before, {})
    if (after, action) in ways:
      games.append(Minigame(step.number, before, action, after, tuple(ways)))
    ways[after, action] = None
    ways_seen.setdefault(after, {})[before, mazes.OPPOSITE[action]] = None
  return tuple(games)


def _places(maze: mazes.Maze) -> list[str]:
  """Name of the place after each step."""
  places: list[str] = []
  for step in maze.steps:
    moved = step.action.lower() in mazes.OPPOSITE
    line = step.observation.split('\n')[0].strip()
    places.append(line if moved or not places else places[-1])
  return places
