"""Distances between states, so that pairs of points are compared at equal ones.

States with the same legal next tokens may lie nearer each other than others
do: on a line all but the ends have the same. Whoever tells near states apart
less, and knows nothing of legal tokens, then seems to lump by them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from wm import core
from wm.evaluation.fewshot.coin_tasks import Points

# Most states of an automaton whose distances are found by search.
MOST_STATES = 2000
APART = np.iinfo(np.int32).max  # No path leads from either to the other.


class Distances(NamedTuple):
  """Distances of points; either in moves or in labels.

  Attributes:
    moves: [S, S] int32 moves from one state to another on the shortest path,
      the lesser of both directions; APART where there is none.
    rows: [G, n] int64 places of the points' states in `moves`; any where there
      is no point.
    labels: [G, n, K] labels of the points' states; 0 where there is no point.
  """

  moves: np.ndarray | None
  rows: np.ndarray | None
  labels: np.ndarray | None

  def between(
    self, group: int, first: np.ndarray, second: np.ndarray
  ) -> np.ndarray:
    """[K] int32 distances between points first [K] and second [K] of n."""
    if self.moves is not None and self.rows is not None:
      rows = self.rows[group]
      return self.moves[rows[first], rows[second]]
    assert self.labels is not None  # One or the other.
    differ = np.zeros(len(first), np.int32)
    for label in self.labels[group].T:  # One at a time bounds memory.
      differ += label[first] != label[second]
    return differ


def of_points(world: core.World, points: Points) -> Distances | None:
  """Distances between the states of points [G, M, P], n = M * P.

  In moves where the world is a finite automaton of at most MOST_STATES states;
  else by the number of labels that differ, where the state is a board. None of
  other worlds.
  """
  ids = points.states.reshape(len(points.states), -1)
  if isinstance(world, core.Finite):
    used = np.unique(ids[ids != core.DEAD])
    moves = _moves(world, used)
    if moves is not None:
      rows = np.searchsorted(used, ids)
      return Distances(moves, np.minimum(rows, len(used) - 1), None)
  if isinstance(world, core.Labelled) and _is_board(world.heads):
    return Distances(None, None, _labels(world, points))
  return None


def _is_board(heads: core.Heads) -> bool:
  """Whether a state is read as several labels of one kind, such as squares.

  A state of a map has two labels, place and destination. The number that differ
  says nothing about the distance between two states.
  """
  read = heads.sizes if heads.probe is None else heads.sizes[heads.probe]
  return len(read) > 1 and len({*read}) == 1


def _moves(world: core.Finite, used: np.ndarray) -> np.ndarray | None:
  """[S, S] int32 as Distances.moves, of state ids [S], all reachable.

  None where more than MOST_STATES states are reachable.
  """
  frontier = world.init(1)
  place = {int(world.state_id(frontier)[0]): 0}
  edges = []
  while len(frontier):
    source, token = np.nonzero(world.legal(frontier))
    after = world.advance(frontier[source], token.astype(np.int32))
    tails = world.state_id(frontier)[source].tolist()
    heads = world.state_id(after)
    new, first = np.unique(heads, return_index=True)
    fresh = [k for k, head in zip(first, new, strict=True) if head not in place]
    place |= {int(heads[k]): len(place) + n for n, k in enumerate(fresh)}
    if len(place) > MOST_STATES:
      return None
    edges += [
      (place[tail], place[head])
      for tail, head in zip(tails, heads.tolist(), strict=True)
    ]
    frontier = after[fresh]
  ends = np.array(edges, np.int32).reshape(-1, 2).T
  shape = len(place), len(place)
  graph = sparse.coo_array((np.ones(ends.shape[1]), tuple(ends)), shape)
  chosen = np.array([place[state] for state in used.tolist()], np.int64)
  steps = csgraph.dijkstra(graph.tocsr(), indices=chosen, unweighted=True)
  steps = steps[:, chosen]
  steps = np.minimum(steps, steps.T)
  return np.where(np.isfinite(steps), steps, APART).astype(np.int32)


def _labels(world: core.Labelled, points: Points) -> np.ndarray:
  """[G, M * P, K] labels of the points' states."""
  heads = world.heads
  labels = np.zeros((*points.states.shape, len(heads.sizes)), heads.dtype)
  group, row, place = np.nonzero(points.states != core.DEAD)
  lengths = points.places[group, row, place] + 1
  start = world.init(len(group))
  _, states = world.walk(start, points.tokens[group, row], lengths)
  labels[group, row, place] = world.labels(states)
  return labels.reshape(len(labels), -1, len(heads.sizes))
