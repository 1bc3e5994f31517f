"""A maze of a text game: places, edges, and the steps at which they are known.

A walkthrough is played step by step. An edge is *walked* from the first step
that takes it. If a walkthrough takes the opposite direction first, the edge is
*imputed* from that step on, provided that the data confirms it (Ding et al.
2024, section 2). A step is *answerable* once the text has named its target: in
the dark, a few steps later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import inputs

NEVER = 9999  # Replaces a step that does not exist.
LAST = 70  # Last step of the published maps.

OPPOSITE = {
  ahead: back
  for a, b in (
    ('north', 'south'),
    ('east', 'west'),
    ('northeast', 'southwest'),
    ('northwest', 'southeast'),
    ('up', 'down'),
  )
  for ahead, back in ((a, b), (b, a))
}


class WalkthroughStep(NamedTuple):
  """A step of a walkthrough.

  Attributes:
    number: from 0, which is the text before the first action.
    action: 'Init' at step 0; '' if the data has none.
    observation: the game's answer; '' if the data has none.
  """

  number: int
  action: str
  observation: str


class Stamps(NamedTuple):
  """The first steps at which E edges are known, or NEVER.

  Attributes:
    forward: [E] int32, the first step that walks the edge. 0 in the paper's
      generation of the data, which omits this step.
    reverse: [E] int32, the first step that walks its opposite, if the data
      imputes the edge; NEVER if the data omits it.
    total: [E] int32, the first step at which the edge is walked or imputed.
  """

  forward: np.ndarray
  reverse: np.ndarray
  total: np.ndarray


class MazeEdges(NamedTuple):
  """E edges in the order of the file; (source, action, target) are distinct.

  Attributes:
    source: [E] int32 places.
    action: [E] int32 actions.
    target: [E] int32 places.
    played: steps of the moves.
    answerable: steps at which the text reveals them, the source of the labels
      of questions.
  """

  source: np.ndarray
  action: np.ndarray
  target: np.ndarray
  played: Stamps
  answerable: Stamps

  @property
  def size(self) -> int:
    """Number of edges."""
    return len(self.source)

  @property
  def walked(self) -> np.ndarray:
    """[E] bool: True for edges that are walked, not only imputed."""
    return self.answerable.forward < NEVER


class Maze(NamedTuple):
  """A game's map, and the walkthrough behind it.

  Attributes:
    game: its name.
    generation: of the data, 'camera_ready', 'paper' or 'annotation'.
    places: names of S locations, in the order of the file.
    actions: names of actions, in the order of the file; prompts show this list.
      Some may have no edge.
    edges: between places.
    steps: of the walkthrough, from step 0; () if the data has none. They may
      continue beyond the map.
    trail: [K + 1] int32 place after each step 0..K, DEAD if unknown; empty if
      the data omits it.
  """

  game: str
  generation: str
  places: tuple[str, ...]
  actions: tuple[str, ...]
  edges: MazeEdges
  steps: tuple[WalkthroughStep, ...]
  trail: np.ndarray

  @property
  def start(self) -> int:
    """The first place of the walkthrough: the source of its first move.

    The paper's generation does not separate the first step of an edge from that
    of its opposite: of the edges known first, the first in the file is taken
    (right in 51 of 53 games).
    """
    if self.trail.size:
      return int(self.trail[0])
    played = self.edges.played
    first = np.lexsort((played.total, played.forward))[0]
    return int(self.edges.source[first])

  @property
  def last(self) -> int:
    """The last step at which an edge becomes known."""
    steps = self.edges.answerable.total
    return int(steps[steps < NEVER].max(initial=0))

  def words(self, edge: int) -> tuple[str, str, str]:
    """Names of an edge's source, action and target."""
    edges = self.edges
    return (
      self.places[edges.source[edge]],
      self.actions[edges.action[edge]],
      self.places[edges.target[edge]],
    )


def chosen(edges: MazeEdges, mask: np.ndarray) -> MazeEdges:
  """The edges of a mask [E]."""
  ends = (column[mask] for column in edges[:3])
  stamps = (Stamps(*(c[mask] for c in columns)) for columns in edges[3:])
  return MazeEdges(*ends, *stamps)


def seen(maze: Maze) -> np.ndarray:
  """[S] bool: places with an edge."""
  mask = np.zeros(len(maze.places), bool)
  mask[maze.edges.source] = mask[maze.edges.target] = True
  return mask


def followed(maze: Maze) -> np.ndarray:
  """[K + 1] int32 place after each step of the walkthrough.

  This is `trail` of the data, or else follows from the actions: the first step
  of an edge takes this edge, and a later step takes any edge from the current
  place with its action. On the 53 games, all but one of the first 70 steps
  (3,560 in all) agree with the annotators.

  Raises:
    InputError: there is no walkthrough.
  """
  if maze.trail.size:
    return maze.trail
  if not maze.steps:
    raise core.InputError(f'{maze.game} has no walkthrough to follow')
  edges = maze.edges
  walked = np.flatnonzero(edges.walked).tolist()
  since = edges.played.forward
  first = {int(since[e]): e for e in walked}
  leads: dict[tuple[int, str], list[int]] = {}
  for e in sorted(walked, key=lambda e: int(since[e])):
    name = maze.actions[edges.action[e]]
    leads.setdefault((int(edges.source[e]), name.lower()), []).append(e)
  trail = [maze.start]
  for step in maze.steps[1:]:
    options = leads.get((trail[-1], step.action.lower()), [])
    options = [e for e in options if since[e] <= step.number]
    taken = first.get(step.number, options[-1] if options else None)
    trail.append(trail[-1] if taken is None else int(edges.target[taken]))
  return np.array(trail, np.int32)


def made(
  game: str,
  generation: str,
  names: tuple[Sequence[str], Sequence[str]],
  triples: Sequence[Sequence[str]],
  stamps: Sequence[Sequence[int]],
  where: str,
) -> Maze:
  """A maze of named edges, without a walkthrough.

  Args:
    game: its name.
    generation: of the data.
    names: of places, and of actions.
    triples: E edges as source, action and target.
    stamps: [E, 6] steps: forward, reverse, total as played; then answerable.
    where: the file, for errors.

  Raises:
    InputError: a duplicate name or edge, an edge with an unknown name or an
      invalid step, or no edge.
  """
  places, actions = (
    _numbered(listed_names, what, where)
    for listed_names, what in zip(names, ('location', 'action'), strict=True)
  )
  if not triples:
    raise core.InputError(f'{where} has no edge; expected one at least')
  rows = []
  for source, action, target in triples:
    rows.append(
      (
        _known(source, places, 'location', where),
        _known(action, actions, 'action', where),
        _known(target, places, 'location', where),
      )
    )
  if len(set(rows)) < len(rows):
    last = {row: k for k, row in enumerate(rows)}
    again = next(k for k, row in enumerate(rows) if last[row] != k)
    raise core.InputError(f'{where}: the edge {triples[again]} is there twice')
  for row in stamps:
    if not all(0 <= step <= NEVER for step in row):
      raise core.InputError(
        f'{where}: an edge has the steps {list(row)}; steps are 0 to {NEVER}, '
        'which is never'
      )
  columns = np.array(stamps, np.int32).reshape(len(rows), 6).T
  source, action, target = np.array(rows, np.int32).T
  edges = MazeEdges(
    source, action, target, Stamps(*columns[:3]), Stamps(*columns[3:])
  )
  trail = np.zeros(0, np.int32)
  shown, listed = map(tuple, names)
  return Maze(game, generation, shown, listed, edges, (), trail)


def _numbered(names: Sequence[str], what: str, where: str) -> dict[str, int]:
  numbers = {name: k for k, name in enumerate(names)}
  if len(numbers) < len(names):
    twice = next(n for k, n in enumerate(names) if numbers[n] != k)
    raise core.InputError(f'{where}: the {what} {twice!r} is listed twice')
  return numbers


def _known(name: str, numbers: dict[str, int], what: str, where: str) -> int:
  text = f'{where}: an edge has the unknown {what} {name!r}'
  inputs.check_known(name, numbers, text, 4)
  return numbers[name]
