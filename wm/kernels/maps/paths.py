"""Searches over street graphs: hop counts, shortest paths, random walks.

A graph is a table `delta [S, A] int32` of the row that each label leads to,
DEAD where there is no edge. Edge lengths are [S, A] float64 in metres, read
only where there is an edge.
"""

from __future__ import annotations

import numpy as np

from wm import core
from wm.kernels.base import checks, pieces

GOALS = 512  # destinations whose distances are held at a time
ATTEMPTS = 1000  # draws of one random walk before it is given up


def hops(delta: np.ndarray) -> np.ndarray:
  """[S, S] fewest labels from row u to row v, all pairs.

  uint8, or uint16 where some distance is above 252; more than 65532 is an
  error. The greatest value of the type marks rows that cannot be reached.
  """
  from wm.kernels.maps import paths_numba

  delta = checks.table(delta)
  for dtype in (np.uint8, np.uint16):
    out = np.empty((len(delta), len(delta)), dtype)
    if paths_numba.hops(*_edges(delta), out):
      return out
  raise core.InputError('a shortest path has more than 65532 edges')


def dijkstra(
  delta: np.ndarray,
  lengths: np.ndarray,
  sources: np.ndarray | None = None,
  *,
  reverse: bool = False,
) -> np.ndarray:
  """Shortest distances, metres: [B, S] float64; inf where there is no route.

  Entry [b, v] is the distance from sources[b] to v, or with `reverse` from v
  to sources[b]. Lengths are added in order from the source on, as Dijkstra's
  algorithm does.

  Args:
    delta: [S, A].
    lengths: [S, A], finite, not negative.
    sources: [B] rows; default all.
    reverse: follow edges backwards.
  """
  delta = checks.table(delta)
  if sources is None:
    sources = np.arange(len(delta))
  sources = checks.rows(sources, len(delta), 'sources', 0)
  none = np.empty((0, len(delta)), np.int8)
  return _search(delta, lengths, sources, reverse, none)


def to_goals(
  delta: np.ndarray, lengths: np.ndarray, goals: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Distances to goals [G] and the label to take next from every row.

  Args:
    delta: [S, A].
    lengths: [S, A] metres, finite, not negative.
    goals: [G] rows.

  Returns:
    dist: [G, S] float64 metres, inf where there is no route.
    labels: [G, S] int8, of equally short routes the lowest; DEAD at the goal
      and where there is none.
  """
  delta = checks.table(delta)
  goals = checks.rows(goals, len(delta), 'goals', 0)
  labels = np.empty((len(goals), len(delta)), np.int8)
  return _search(delta, lengths, goals, True, labels), labels


def _search(
  delta: np.ndarray,
  lengths: np.ndarray,
  sources: np.ndarray,
  reverse: bool,
  labels: np.ndarray,
) -> np.ndarray:
  """Distances [B, S]; fills labels [B, S] too, unless they are empty."""
  from wm.kernels.maps import paths_numba

  lengths = np.asarray(lengths, np.float64)
  if lengths.shape != delta.shape:
    raise core.InputError(
      f'lengths have shape {lengths.shape}; expected {delta.shape}'
    )
  lengths = np.where(delta >= 0, lengths, 0.0)
  if not (np.isfinite(lengths) & (lengths >= 0)).all():
    raise core.InputError('edge lengths must be finite and not negative')
  leaving, entering = _edges(delta, lengths)
  if reverse:
    leaving, entering = entering, leaving
  names = checks.frozen(np.nonzero(delta >= 0)[1], np.int8)
  dist = np.empty((len(sources), len(delta)))
  paths_numba.distances(leaving, entering, names, sources, dist, labels)
  return dist


def follow(
  delta: np.ndarray,
  table: np.ndarray,
  origins: np.ndarray,
  index: np.ndarray,
  goals: np.ndarray,
  most: int,
) -> tuple[np.ndarray, np.ndarray]:
  """Routes from origins to goals by the labels of `to_goals`.

  Args:
    delta: [S, A].
    table: [G, S] int8 labels of `to_goals`.
    origins: [B] rows.
    index: [B] which of the goals each route goes to.
    goals: [G] rows.
    most: moves of the longest route wanted.

  Returns:
    labels: [B, most] int8, DEAD padded; the first ones of longer routes.
    moves: [B] int32; 0 at the goal, DEAD without a route, most + 1 if longer.
  """
  from wm.kernels.maps import paths_numba

  delta = checks.table(delta)
  origins = checks.rows(origins, len(delta), 'origins', 0)
  index = checks.rows(index, len(goals), 'index', 0)
  checks.same_length(origins=origins, index=index)
  checks.same_length(table=table, goals=goals)
  goals = checks.rows(goals, len(delta), 'goals', 0)
  table = checks.frozen(table, np.int8)
  labels = np.full((len(origins), most), core.DEAD, np.int8)
  moves = np.empty(len(origins), np.int32)
  # Routes to one goal together: they read the same row of the table.
  order = np.argsort(index, kind='stable')
  paths_numba.follow(delta, table, origins, index, goals, order, labels, moves)
  return labels, moves


def shortest_routes(
  delta: np.ndarray,
  lengths: np.ndarray,
  origins: np.ndarray,
  destinations: np.ndarray,
  most: int,
) -> tuple[np.ndarray, np.ndarray]:
  """`follow` after `to_goals`, GOALS destinations at a time.

  origins, destinations: [B] rows. Returns labels [B, most] and moves [B] as
  `follow` does.
  """
  origins, destinations = np.asarray(origins), np.asarray(destinations)
  checks.same_length(origins=origins, destinations=destinations)
  labels = np.full((len(origins), most), core.DEAD, np.int8)
  moves = np.empty(len(origins), np.int32)
  wanted, index = np.unique(destinations, return_inverse=True)
  order = np.argsort(index, kind='stable')
  for start in range(0, len(wanted), GOALS):
    goals = wanted[start : start + GOALS]
    low, high = np.searchsorted(index[order], [start, start + GOALS])
    some = order[low:high]
    table = to_goals(delta, lengths, goals)[1]
    labels[some], moves[some] = follow(
      delta, table, origins[some], index[some] - start, goals, most
    )
  return labels, moves


def random_walks(
  delta: np.ndarray, num: int, low: int, high: int, seed: int, *, first: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Uniform random walks: origin, then length, then each next edge.

  Origins are uniform over rows with an edge, lengths over low..high. A walk
  that meets a row without edges ends there if it has made `low` moves, and is
  drawn anew if not (Vafa et al. 2024, appendix B, leaves this open). Walk n
  depends on (seed, n) alone.

  Args:
    delta: [S, A].
    num: N.
    low: least number of moves, at least 1.
    high: greatest.
    seed: of the whole run.
    first: number of the first walk, so that pieces of a run equal the whole.

  Returns:
    origins: [N] int32.
    labels: [N, high] int8, DEAD padded.
    lengths: [N] int32; 0 where ATTEMPTS draws gave no walk of `low` moves.
  """
  from wm.kernels.maps import paths_numba

  delta = checks.table(delta)
  if not 1 <= low <= high:
    raise core.InputError(
      f'lengths are {low}..{high}; expected 1 <= low <= high'
    )
  edges = (delta >= 0).sum(1)
  starts = np.flatnonzero(edges)
  if not len(starts):
    raise core.InputError('the graph has no edge to walk along')
  # By row: its edges in order of label, then columns without an edge.
  order = np.argsort(delta < 0, axis=1, kind='stable')
  table = (
    checks.frozen(np.take_along_axis(delta, order, 1), np.int32),
    checks.frozen(order, np.int8),
    checks.frozen(edges, np.int32),
    checks.frozen(starts, np.int32),
  )
  run = np.uint64(seed & (2**64 - 1))
  return pieces.run(
    lambda some: paths_numba.random_walks(
      *table,
      some.stop - some.start,
      low,
      high,
      run,
      first + some.start,
      ATTEMPTS,
    ),
    num,
  )


def _edges(
  delta: np.ndarray, lengths: np.ndarray | None = None
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
  """Edges that leave and that enter each row.

  Each as indptr [S + 1] uint32, the other ends [E] uint32 and, if given,
  lengths [E]. Unsigned indices spare compiled code a test for negative ones.
  """
  tails, labels = np.nonzero(delta >= 0)
  heads = delta[tails, labels]
  columns = [] if lengths is None else [lengths[tails, labels]]

  def sorted_by(here: np.ndarray, there: np.ndarray) -> tuple:
    """Edges grouped by one of their ends."""
    order = np.argsort(here, kind='stable')
    indptr = np.zeros(len(delta) + 1, np.uint32)
    np.cumsum(np.bincount(here, minlength=len(delta)), out=indptr[1:])
    return (
      checks.frozen(indptr, np.uint32),
      checks.frozen(there[order], np.uint32),
      *(checks.frozen(column[order], np.float64) for column in columns),
    )

  return sorted_by(tails, heads), sorted_by(heads, tails)
