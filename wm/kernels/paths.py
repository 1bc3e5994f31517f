"""Front door to the searches over street graphs: NumPy in, NumPy out.

A graph is a table `delta [S, A] int32` of the row that each label leads to,
DEAD where there is no edge. Edge lengths are [S, A] float64 in metres, read
only where there is an edge. `backend` is 'numba' (compiled) or 'ref' (plain
Python, the specification); both give the same to the last bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wm import core
from wm.kernels import checks

GOALS = 512  # destinations whose distances are held at a time


def _backend(name: str) -> Any:
  """The module of that name; they are imported on first use."""
  if name not in ('numba', 'ref'):
    raise core.InputError(f'unknown backend {name!r}; available: numba, ref')
  if name == 'numba':
    from wm.kernels import paths_numba as module
  else:
    from wm.kernels import paths_ref as module
  return module


def hops(delta: np.ndarray, *, backend: str = 'numba') -> np.ndarray:
  """[S, S] fewest labels from row u to row v, all pairs.

  uint8, or uint16 where some distance is above 252 (above 65532 is refused);
  the greatest value of the type marks unreachable.
  """
  delta = checks.table(delta)
  module = _backend(backend)
  for dtype in (np.uint8, np.uint16):
    out = np.empty((len(delta), len(delta)), dtype)
    if module.hops(delta, *_edges(delta), out):
      return out
  raise core.InputError('a shortest path has more than 65532 edges')


def dijkstra(
  delta: np.ndarray,
  lengths: np.ndarray,
  sources: np.ndarray | None = None,
  *,
  reverse: bool = False,
  threads: int = 1,
  backend: str = 'numba',
) -> np.ndarray:
  """Shortest distances, metres: [B, S] float64, or [W, B, S]; inf if none.

  Entry [b, v] is the distance from sources[b] to v, or with `reverse` from v
  to sources[b]. Lengths are added in order from the source on, as Dijkstra's
  algorithm does, so the result does not depend on backend or threads.

  Args:
    delta: [S, A].
    lengths: [S, A], or [W, S, A] for W weightings; finite, not negative.
    sources: [B] rows; default all.
    reverse: follow edges backwards.
    threads: that share the sources out.
    backend: 'numba' or 'ref'.
  """
  delta = checks.table(delta)
  weightings = _lengths(delta, lengths)
  if sources is None:
    sources = np.arange(len(delta))
  sources = checks.rows(sources, len(delta), 'sources', 0)
  module = _backend(backend)
  dist = np.empty((len(weightings), len(sources), len(delta)))
  for weighting, out in zip(weightings, dist, strict=True):
    edges = _edges(delta, weighting)
    module.distances(*edges[:: -1 if reverse else 1], sources, threads, out)
  return dist if np.ndim(lengths) == 3 else dist[0]


def shortest_routes(
  delta: np.ndarray,
  lengths: np.ndarray,
  origins: np.ndarray,
  destinations: np.ndarray,
  limit: int,
  *,
  dist: np.ndarray | None = None,
  goals: np.ndarray | None = None,
  threads: int = 1,
  backend: str = 'numba',
) -> tuple[np.ndarray, np.ndarray]:
  """Labels of the shortest route of each (origin, destination).

  Of equally short ones the lowest label is taken at every row.

  Args:
    delta: [S, A].
    lengths: [S, A] metres.
    origins: [B] rows.
    destinations: [B] rows.
    limit: labels kept of a route.
    dist: [G, S] distances to the rows `goals`, from `dijkstra(reverse=True)`
      with the same lengths; computed in pieces where not given.
    goals: [G] distinct rows, all destinations among them; default all rows.
    threads: for the distances.
    backend: 'numba' or 'ref'.

  Returns:
    labels: [B, limit] int8, DEAD padded.
    moves: [B] int32, labels of the whole route, which may be above `limit`;
      0 where origin and destination are one, DEAD where there is no route.
  """
  delta = checks.table(delta)
  weighting = _lengths(delta, lengths)[0]
  origins = checks.rows(origins, len(delta), 'origins', 0)
  destinations = checks.rows(destinations, len(delta), 'destinations', 0)
  checks.same_length(origins=origins, destinations=destinations)
  module = _backend(backend)
  labels = np.full((len(origins), limit), core.DEAD, np.int8)
  moves = np.empty(len(origins), np.int32)
  if dist is not None:
    index = _index(destinations, goals, len(delta))
    given = checks.frozen(dist, np.float64)
    module.routes(
      delta, weighting, given, index, origins, destinations, labels, moves
    )
    return labels, moves
  wanted, index = np.unique(destinations, return_inverse=True)
  order = np.argsort(index, kind='stable')
  cuts = np.searchsorted(index[order], np.arange(0, len(wanted) + GOALS, GOALS))
  for piece, some in enumerate(np.split(order, cuts[1:-1])):
    here = wanted[piece * GOALS : (piece + 1) * GOALS]
    labels[some], moves[some] = shortest_routes(
      delta,
      weighting,
      origins[some],
      destinations[some],
      limit,
      dist=dijkstra(
        delta, weighting, here, reverse=True, threads=threads, backend=backend
      ),
      goals=here,
      backend=backend,
    )
  return labels, moves


def random_walks(
  delta: np.ndarray,
  num: int,
  low: int,
  high: int,
  seed: int,
  *,
  first: int = 0,
  backend: str = 'numba',
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Uniform random walks: origin, then length, then each next edge.

  Origins are uniform over rows with an edge, lengths over low..high. A walk
  that meets a row without edges ends there if it has made `low` moves, else
  it is drawn anew (Vafa et al. 2024, appendix B, leaves this open). Walk n
  is a function of (seed, n) alone.

  Args:
    delta: [S, A].
    num: N.
    low: least number of moves, at least 1.
    high: greatest.
    seed: of the whole run.
    first: number of the first walk, so that pieces of a run equal the whole.
    backend: 'numba' or 'ref'.

  Returns:
    origins: [N] int32.
    labels: [N, high] int8, DEAD padded.
    lengths: [N] int32; 0 where 1,000 draws gave no walk of `low` moves.
  """
  delta = checks.table(delta)
  if not 1 <= low <= high:
    raise core.InputError(
      f'lengths are {low}..{high}; expected 1 <= low <= high'
    )
  edges = (delta >= 0).sum(1)
  starts = np.flatnonzero(edges)
  if not len(starts):
    raise core.InputError('the graph has no edge to walk along')
  # By row: its edges in order of label, first come first.
  order = np.argsort(delta < 0, axis=1, kind='stable')
  return _backend(backend).random_walks(
    checks.frozen(np.take_along_axis(delta, order, 1), np.int32),
    checks.frozen(order, np.int8),
    checks.frozen(edges, np.int32),
    checks.frozen(starts, np.int32),
    num,
    low,
    high,
    np.uint64(seed & (2**64 - 1)),
    first,
  )


def _lengths(delta: np.ndarray, lengths: np.ndarray) -> np.ndarray:
  """[W, S, A] checked lengths, 0 where there is no edge."""
  lengths = np.asarray(lengths, np.float64)
  if lengths.shape[-2:] != delta.shape or lengths.ndim not in (2, 3):
    raise core.InputError(
      f'lengths have shape {lengths.shape}; expected {delta.shape}, or '
      f'[W, ...] of it'
    )
  lengths = np.where(delta >= 0, lengths, 0.0)
  if not (np.isfinite(lengths) & (lengths >= 0)).all():
    raise core.InputError('edge lengths must be finite and not negative')
  return checks.frozen(lengths.reshape(-1, *delta.shape), np.float64)


def _index(
  destinations: np.ndarray, goals: np.ndarray | None, size: int
) -> np.ndarray:
  """[B] int32 row of the distance table for each destination."""
  if goals is None:
    return destinations
  places = np.full(size, core.DEAD, np.int32)
  places[np.asarray(goals)] = np.arange(len(goals))
  index = places[destinations]
  if (index < 0).any():
    lost = int(destinations[np.argmax(index < 0)])
    raise core.InputError(f'destination {lost} is not among the goals')
  return checks.frozen(index, np.int32)


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
    order = np.argsort(here, kind='stable')
    indptr = np.zeros(len(delta) + 1, np.uint32)
    np.cumsum(np.bincount(here, minlength=len(delta)), out=indptr[1:])
    return (
      checks.frozen(indptr, np.uint32),
      checks.frozen(there[order], np.uint32),
      *(checks.frozen(column[order], np.float64) for column in columns),
    )

  return sorted_by(tails, heads), sorted_by(heads, tails)
