"""Routes over a street graph, in batches: random walks and shortest paths.

Routes are `labels [N, K] int8`, DEAD padded, with `moves [N]` in use, from
`origins [N]` to `destinations [N]`, all rows of the graph.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import basics
from wm.kernels import dfa
from wm.kernels.maps import paths

CHUNK = 1 << 16  # Candidates looked at together.

# Random walks looked at, beyond a million, for each one that is wanted before
# a split is taken to have no more of them.
WALKS_EACH = 400

Pairs = Callable[[np.ndarray, np.ndarray], np.ndarray]
Numbered = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Routes(NamedTuple):
  """Candidates in order; `cause` says why one cannot be used, '' if it can.

  Attributes:
    origins: [N] rows.
    destinations: [N] rows.
    labels: [N, K] int8, DEAD padded.
    moves: [N] int32.
    weighting: [N] int32, noisy weighting a route is shortest under, or DEAD.
    cause: [N] str.
  """

  origins: np.ndarray
  destinations: np.ndarray
  labels: np.ndarray
  moves: np.ndarray
  weighting: np.ndarray
  cause: np.ndarray

  def take(self, rows: np.ndarray) -> Routes:
    """The given rows."""
    return Routes(*(array[rows] for array in self))


def none(most: int) -> Routes:
  """No routes, of at most `most` directions."""
  rows = np.zeros(0, np.int32)
  labels = np.zeros((0, most), np.int8)
  return Routes(rows, rows, labels, rows, rows, np.zeros(0, 'U16'))


def collect(
  batches: Iterator[Routes], num: int, most: int
) -> tuple[Routes, dict[str, int]]:
  """The first `num` usable candidates, and drops before the last by cause."""
  usable = [none(most)]
  counts: collections.Counter[str] = collections.Counter()
  for batch in batches if num else ():
    good = np.flatnonzero(batch.cause == '')[:num]
    num -= len(good)
    looked = batch.cause if num else batch.cause[: good[-1] + 1]
    counts.update(sorted(looked[looked != ''].tolist()))
    usable.append(batch.take(good))
    if not num:
      break
  return Routes(*map(np.concatenate, zip(*usable, strict=True))), dict(counts)


def permuted(first: int, num: int, size: int, seed: int) -> np.ndarray:
  """Entries first..first + num - 1 of a shuffled list that holds range(size).

  The list is `domain(size)` long; what is in it beyond range(size) is left
  out, so fewer may come. A Feistel network: no memory, any order of calls.
  """
  half = (domain(size).bit_length() - 1) // 2
  shift, mask = np.uint64(half), np.uint64((1 << half) - 1)
  index = np.arange(first, min(first + num, domain(size))).astype(np.uint64)
  left, right = index >> shift, index & mask
  for turn in range(6):
    left, right = right, left ^ (basics.hash64(seed, turn, right) & mask)
  mixed = (left << shift) | right
  return mixed[mixed < np.uint64(size)].astype(np.int64)


def domain(size: int) -> int:
  """Length of the list of `permuted`: the next power of four."""
  half = 1
  while 4**half < size:
    half += 1
  return 4**half


def trace(
  delta: np.ndarray, origins: np.ndarray, labels: np.ndarray
) -> np.ndarray:
  """[N, K + 1] int32 rows along routes; DEAD after a label without an edge."""
  width = delta.shape[1] + 1
  # A row and a column of DEAD, so that DEAD leads to itself.
  padded = np.full((len(delta) + 1, width), core.DEAD, np.int32)
  padded[:-1, :-1] = delta
  flat = padded.reshape(-1)
  rows = np.empty((labels.shape[1] + 1, len(origins)), np.int32)
  rows[0] = origins
  for k, column in enumerate(labels.T):
    # Negative rows and labels count from the end, where DEAD is.
    rows[k + 1] = flat[(rows[k] % len(padded)) * width + column % width]
  return np.ascontiguousarray(rows.T)


def walks(
  delta: np.ndarray, low: int, high: int, seed: int, num: int, in_split: Pairs
) -> Iterator[Routes]:
  """Random walks of low..high moves with uniform lengths, origins and edges.

  'dead_end': every try met an intersection without an exit. Walks between
  pairs that are not `in_split` are left out.
  """
  if not _lasting(delta, low).any():
    return
  first, limit = 0, (1 << 20) + WALKS_EACH * num
  chunk = min(max(num + num // 8, 256), CHUNK)
  while first < limit:
    origins, labels, moves = paths.random_walks(
      delta, chunk, low, high, seed, first=first
    )
    first += chunk
    goals = np.full(chunk, dfa.NONE)
    _, ends, _ = dfa.walk(delta, origins, goals, labels, moves)
    rows = np.flatnonzero(in_split(origins, ends))
    cause = np.where(moves < low, 'dead_end', '')
    weighting = np.full(chunk, core.DEAD, np.int32)
    yield Routes(origins, ends, labels, moves, weighting, cause).take(rows)
    chunk = CHUNK


def _lasting(delta: np.ndarray, moves: int) -> np.ndarray:
  """[S] bool: rows that some walk of so many moves leaves from."""
  lasting = np.ones(len(delta), bool)
  for _ in range(moves):
    lasting = np.append(lasting, False)[delta].any(1)
  return lasting


class Roads:
  """Shortest paths under one set of edge lengths [S, 8], in metres.

  Of equally short paths, the one with the lowest label at each intersection.
  Once most destinations are wanted, a table of all is kept ([S, S] int8).
  """

  def __init__(self, delta: np.ndarray, lengths: np.ndarray) -> None:
    self._delta, self.lengths = delta, lengths
    self._all: np.ndarray | None = None

  def routes(
    self, origins: np.ndarray, destinations: np.ndarray, most: int
  ) -> tuple[np.ndarray, np.ndarray]:
    """Labels [N, most] and moves [N]: DEAD without a path, most + 1 if long."""
    size = len(self._delta)
    if self._all is None and 4 * len(np.unique(destinations)) < size:
      return paths.shortest_routes(
        self._delta, self.lengths, origins, destinations, most
      )
    if self._all is None:
      self._all = self._first_labels()
    labels = np.empty((len(origins), most), np.int8)
    moves = np.empty(len(origins), np.int32)
    # One row of _all at a time.
    order = np.argsort(destinations, kind='stable')
    labels[order], moves[order] = paths.follow(
      self._delta,
      self._all,
      origins[order],
      destinations[order],
      np.arange(size),
      most,
    )
    return labels, moves

  def _first_labels(self) -> np.ndarray:
    """[S, S] int8: label to take from each row (column) to each goal (row)."""
    every = np.arange(len(self._delta))
    parts = [
      paths.to_goals(self._delta, self.lengths, goals)[1]
      for goals in np.split(every, every[paths.GOALS :: paths.GOALS])
    ]
    return np.concatenate(parts)

  def metres(self, origins: np.ndarray, destinations: np.ndarray) -> np.ndarray:
    """[N] float64 least lengths, infinite without a path."""
    metres = np.empty(len(origins))
    goals, index = np.unique(destinations, return_inverse=True)
    for first in range(0, len(goals), paths.GOALS):
      chunk = goals[first : first + paths.GOALS]
      near = paths.dijkstra(self._delta, self.lengths, chunk, reverse=True)
      rows = np.flatnonzero((index >= first) & (index < first + len(chunk)))
      metres[rows] = near[index[rows] - first, origins[rows]]
    return metres


def planned(
  roads: Callable[[int], Roads],
  weightings: int,
  pairs: Numbered,
  size: int,
  bounds: tuple[int, int],
  seed: int,
  num: int,
  in_split: Pairs,
) -> Iterator[Routes]:
  """Shortest routes of `size` numbered pairs, each once under each weighting.

  Args:
    roads: weighting number, or DEAD for true lengths, -> its roads.
    weightings: how many; 0 is true lengths only.
    pairs: numbers [N] -> origins and destinations [N].
    size: number of pairs.
    bounds: fewest and most moves of a route that is of use.
    seed: of the order.
    num: routes wanted, a hint.
    in_split: which pairs to use.
  """
  every = max(weightings, 1) * size
  first, chunk = 0, min(max(2 * num, 1024), CHUNK)
  while first < domain(every):
    index = permuted(first, chunk, every, seed)
    first, chunk = first + chunk, min(2 * chunk, CHUNK)
    number, pair = np.divmod(index, size)
    origins, destinations = pairs(pair)
    use = (origins != destinations) & in_split(origins, destinations)
    number = np.where(weightings > 0, number, core.DEAD)[use]
    yield _plan(roads, number, origins[use], destinations[use], bounds)


def _plan(
  roads: Callable[[int], Roads],
  number: np.ndarray,
  origins: np.ndarray,
  destinations: np.ndarray,
  bounds: tuple[int, int],
) -> Routes:
  labels = np.full((len(number), bounds[1]), core.DEAD, np.int8)
  moves = np.zeros(len(number), np.int32)
  for value in np.unique(number):
    rows = np.flatnonzero(number == value)
    labels[rows], moves[rows] = roads(int(value)).routes(
      origins[rows], destinations[rows], bounds[1]
    )
  cause = np.select(
    [moves == core.DEAD, moves < bounds[0], moves > bounds[1]],
    ['no_path', 'too_short', 'too_long'],
    '',
  )
  return Routes(
    origins, destinations, labels, moves, number.astype(np.int32), cause
  )


def fresh(batches: Iterator[Routes]) -> Iterator[Routes]:
  """Marks usable routes that came before as 'duplicate'."""
  seen = np.zeros(0, np.uint64)
  for batch in batches:
    hashes = basics.hash64(batch.origins, batch.destinations)
    for column in batch.labels.T:
      hashes = basics.hash64(hashes, column)
    usable = np.flatnonzero(batch.cause == '')
    values, firsts = np.unique(hashes[usable], return_index=True)
    again = np.ones(len(usable), bool)
    again[firsts[~np.isin(values, seen)]] = False
    cause = batch.cause.astype('U16')
    cause[usable[again]] = 'duplicate'
    seen = np.union1d(seen, values)
    yield batch._replace(cause=cause)


def weighting(length_m: np.ndarray, seed: int, number: int) -> np.ndarray:
  """Edge lengths of a noisy weighting, [S, 8] float64 metres, NaN kept.

  Each length W becomes W + e with e ~ Gamma(shape=W, scale=1), so that the
  mean doubles (Vafa et al. 2024, appendix B).
  """
  rng = np.random.default_rng([seed, number])
  noisy = np.array(length_m)
  edges = ~np.isnan(noisy)
  noisy[edges] += rng.standard_gamma(noisy[edges])
  return noisy
