"""A maze as a table: rows are sets of places, where an action may have several.

Some actions of text games lead to different places at different times: a lift,
or a wind. A reader of the map alone knows then only a set of places (the subset
construction):

    hall --enter--> {lift}    lift --out--> {hall, roof}    {hall, roof} --..
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.worlds.text_game import maze as mazes

MOST_SETS = 50_000
BETWEEN = ' | '  # Places of one set, in its name.


class Sets(NamedTuple):
  """The sets of places that some actions lead to, breadth first.

  Attributes:
    delta: [R, A] int32 next rows, DEAD where an action is at none of a row's
      places; row 0 is the start alone.
    members: [R] places of each row, ascending.
    actions: [A] numbers of actions with an edge, ascending.
  """

  delta: np.ndarray
  members: tuple[tuple[int, ...], ...]
  actions: tuple[int, ...]


def sets(maze: mazes.Maze, start: int) -> Sets:
  """The subset construction from one place.

  Raises:
    InputError: there are more than MOST_SETS sets.
  """
  edges = maze.edges
  actions = np.unique(edges.action).tolist()
  column = {action: k for k, action in enumerate(actions)}
  leads: dict[tuple[int, int], set[int]] = {}
  for u, a, v in zip(*(c.tolist() for c in edges[:3]), strict=True):
    leads.setdefault((u, column[a]), set()).add(v)
  rows: dict[tuple[int, ...], int] = {(start,): 0}
  delta: list[list[int]] = []
  queue = list(rows)
  for places in queue:
    delta.append([core.DEAD] * len(actions))
    for k in range(len(actions)):
      after = sorted(set().union(*(leads.get((u, k), ()) for u in places)))
      if not after:
        continue
      key = tuple(after)
      if key not in rows:
        rows[key] = len(rows)
        queue.append(key)
      delta[-1][k] = rows[key]
    if len(rows) > MOST_SETS:
      raise core.InputError(
        f'{maze.game}: its actions lead to more than {MOST_SETS:,} sets of '
        'places; expected a map with fewer actions of several outcomes'
      )
  return Sets(np.array(delta, np.int32), tuple(queue), tuple(actions))


def name(maze: mazes.Maze, members: tuple[int, ...]) -> str:
  """Name of a set of places."""
  return BETWEEN.join(maze.places[place] for place in members)
