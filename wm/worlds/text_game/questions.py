"""Questions on a maze: destinations of paths, and routes between places.

A *destination* question (DF) is a place and the actions of one simple path; a
*route* question (RF) is an ordered pair of places with a simple path between
them (Ding et al. 2024, section 2.2). Both have two steps, so that labels at any
prefix are comparisons of arrays:

    answerable at step T:  answerable <= T
    easy at step T:        easy <= T, else hard

Questions on a `maze.prefix` have the same labels, except for routes: a path may
be shortest in the prefix but not in the whole map. The published tables use the
whole map.

Minigames: steps of a walkthrough to visited places (section 3.4).

A model sees the steps before and must predict the next action of the
walkthrough. A step is a minigame if its action is a direction to another place,
and the walkthrough has taken this edge or its opposite before: a map of the
visited part has the answer. As published (Ding et al. 2024), opposites are
assumed to lead back.

The paper has 284 minigames, in 47 games (table 10). In the first 70 steps of
the published data, their number depends on the assumed place of the walk:

    lines   first line of every observation; 'Taken.' is a place too   169 (37)
    moves   first line of the last observation of a direction          380 (48)
    trail   the annotators' places                                     537 (50)

The paper's models saw fewer steps: with cut-offs of some 3,600 tokens, 'moves'
gives about 280. The published lists of valid actions come from the games
themselves, which the data lacks: `actions` of the maze replace them.
"""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import inputs, resources
from wm.kernels import simple_paths as kernels
from wm.worlds.text_game import maze as mazes

# Rules for easy routes: the paths of the pair that must be walked, not imputed.
# 'some' shortest path (the paper's tables); 'every' shortest path (its text,
# which speaks of "the" shortest one); the 'first' shortest path in order of the
# file's edges (its scoring program, whose order of paths is not in the data: it
# has 11,114 easy routes, this rule 11,256); 'any' simple path of any length
# (the camera-ready data).
RULES = 'some', 'every', 'first', 'any'


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
    easy: [R] int32, the step from which the rule's paths are walked, or NEVER.
    num_paths: [R] int64 number of simple paths of the pair.
    shortest: [R] int32 number of edges of the shortest path.
  """

  source: np.ndarray
  target: np.ndarray
  answerable: np.ndarray
  easy: np.ndarray
  num_paths: np.ndarray
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
  maze: mazes.Maze,
  *,
  played: bool = False,
  longest: int = 0,
  listed: bool = True,
  most: int = kernels.MOST,
) -> DestinationQuestions:
  """All destination questions of a maze.

  Args:
    maze: the map, or a prefix of it.
    played: labels by the steps of moves, not by those of the text.
    longest: limit of edges per path; 0 is no limit.
    listed: True returns the edges of paths; labels alone take a tenth of the
      memory.
    most: limit of paths.

  Raises:
    InputError: there are more than `most` paths.
  """
  edges = maze.edges
  stamps = edges.played if played else edges.answerable
  paths = kernels.list_paths(
    edges.source,
    edges.target,
    len(maze.places),
    (stamps.forward, stamps.total),
    longest=longest,
    listed=listed,
    most=most,
  )
  easy, answerable = paths.labels
  return DestinationQuestions(paths, answerable, easy)


def routes(
  questions: DestinationQuestions, nodes: int, easy: str = 'some'
) -> RouteQuestions:
  """Route questions of a maze with these simple paths.

  Args:
    questions: all simple paths of the maze.
    nodes: number of places.
    easy: the rule, of RULES.

  Raises:
    InputError: an unknown rule, or too little memory.
  """
  inputs.check_known(easy, RULES, f'routes are easy by {easy!r}')
  resources.require_memory(
    24 * nodes * nodes, f'routes between {nodes:,} places'
  )
  walks = questions.paths
  pair = walks.source.astype(np.int64) * nodes + walks.target
  places, count = nodes * nodes, np.bincount(pair, minlength=nodes * nodes)
  shortest = _least(pair, walks.length, places)
  since = _least(pair, questions.answerable, places)
  short = walks.length == shortest[pair]
  if easy == 'any':
    walked = _least(pair, questions.easy, places)
  elif easy == 'every':
    walked = np.zeros(places, np.int32)
    np.maximum.at(walked, pair[short], questions.easy[short])
  else:
    chosen = np.flatnonzero(short)
    if easy == 'first':
      chosen = chosen[np.unique(pair[chosen], return_index=True)[1]]
    walked = _least(pair[chosen], questions.easy[chosen], places)
  joined = np.flatnonzero(count)
  source, target = np.divmod(joined, nodes)
  return RouteQuestions(
    source.astype(np.int32),
    target.astype(np.int32),
    since[joined],
    walked[joined],
    count[joined],
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


PLACES = 'moves', 'lines', 'trail'


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


def minigames(
  maze: mazes.Maze, last: int = mazes.LAST, places: str = 'moves'
) -> tuple[Minigame, ...]:
  """The minigames of a walkthrough.

  Args:
    maze: with a walkthrough, whose step 0 is not a minigame.
    last: the last step that may be a minigame.
    places: rule for the current place, of PLACES.

  Raises:
    InputError: an unknown rule, or no walkthrough.
  """
  inputs.check_known(places, PLACES, f'minigames by places={places!r}')
  if not maze.steps:
    raise core.InputError(f'{maze.game} has no walkthrough to make games of')
  at = _places(maze, places)
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


def _places(maze: mazes.Maze, rule: str) -> list[str]:
  """Name of the place after each step."""
  if rule == 'trail':
    return [maze.places[k] for k in mazes.followed(maze).tolist()]
  places: list[str] = []
  for step in maze.steps:
    moved = rule == 'lines' or step.action.lower() in mazes.OPPOSITE
    line = step.observation.split('\n')[0].strip()
    places.append(line if moved or not places else places[-1])
  return places
