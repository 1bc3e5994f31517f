"""Routes over a street graph: samples in batches, and their distribution.

Random walks and shortest paths are drawn in batches. Such routes are `labels
[N, K] int8`, DEAD padded, with `moves [N]` in use, from `origins [N]` to
`destinations [N]`, all rows of the graph.

Classes `...Process` define the distribution of these routes, token by token.

Random walks have uniform origins, lengths low..high and edges; their last
intersection is their destination. So the next token depends on the current
intersection (u), the destination (d) and the number of moves so far (t). Let
W_t(u) be the mass of all walks that are at u after t moves and end at d, with
one unit for each length:

  W_t(u) = e_t(u) [u = d] + mean of W_{t+1}(v) over the edges u -> v

  p(end | u, d, t)    = e_t(u) [u = d] / W_t(u)
  p(u -> v | u, d, t) = W_{t+1}(v) / (edges of u * W_t(u))

where e_t(u) is the number of lengths that end a walk at u: 1 for
low <= t <= high; without an edge out of u, all lengths from t on, as the walk
ends there. A walk that ends so before `low` moves is drawn again, and has no
mass.

With `replan` the distribution is the limit of these samplers mixed with a
vanishing share of random legal moves: where no route continues, the next token
is uniform over the legal moves.

`PlannedProcess` is the distribution of planned routes. Shortest paths are one
route for each pair; ties take the lowest labels. Noisy routes are shortest
under one of the world's weightings, with equal probabilities: the next token
depends on the weightings whose route from origin to destination begins with the
moves so far. The weightings are finitely many, so this is exact.

`ReplannedProcess` continues on the shortest path from the current intersection,
under the weightings from which the prefix deviates least.
"""

from __future__ import annotations

import abc
import collections
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, NamedTuple

import numpy as np
import scipy

from wm import core
from wm.core import basics, resources
from wm.kernels import dfa
from wm.kernels.maps import pair_routes, paths
from wm.worlds.base import sampling
from wm.worlds.maps.navigation import DIRECTION0, END, NODE0, START, Navigation

CHUNK = 1 << 16  # Random walks per batch.
PLANNED = 1 << 20  # Pairs per batch of planned routes.
TOGETHER = 64  # Weightings per search, whose distances fit a cache.

# Limit of candidate walks per requested walk, beyond a million, before a split
# counts as exhausted.
WALKS_EACH = 400

Pairs = Callable[[np.ndarray, np.ndarray], np.ndarray]
Numbered = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class RouteBatch(NamedTuple):
  """Candidates in order; `cause` is '' or the reason for dropping one.

  Attributes:
    origins: [N] rows.
    destinations: [N] rows.
    labels: [N, K] int8, DEAD padded.
    moves: [N] int32.
    weighting: [N] int32, index of the weighting under which a route is
      shortest, or DEAD.
    cause: [N] str.
  """

  origins: np.ndarray
  destinations: np.ndarray
  labels: np.ndarray
  moves: np.ndarray
  weighting: np.ndarray
  cause: np.ndarray

  def take(self, rows: np.ndarray) -> RouteBatch:
    """The given rows."""
    return RouteBatch(*(array[rows] for array in self))


def collect(
  batches: Iterator[RouteBatch], num: int, most: int
) -> tuple[RouteBatch, dict[str, int]]:
  """The first `num` usable candidates, and earlier drops by cause."""
  none = np.zeros(0, np.int32)
  labels, cause = np.zeros((0, most), np.int8), np.zeros(0, 'U16')
  usable = [RouteBatch(none, none, labels, none, none, cause)]
  counts: collections.Counter[str] = collections.Counter()
  for batch in batches if num else ():
    good = np.flatnonzero(batch.cause == '')[:num]
    num -= len(good)
    looked = batch.cause if num else batch.cause[: good[-1] + 1]
    counts.update(sorted(looked[looked != ''].tolist()))
    usable.append(batch.take(good))
    if not num:
      break
  return RouteBatch(*map(np.concatenate, zip(*usable, strict=True))), dict(
    counts
  )


def permuted(first: int, num: int, size: int, seed: int) -> np.ndarray:
  """Entries first..first + num - 1 of a shuffled list that has range(size).

  The list has length `domain(size)`; entries beyond range(size) are left out,
  so that fewer may be returned. A Feistel network needs no memory and permits
  any order of calls.
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
    # Index -1 is the last row or column, which is DEAD.
    rows[k + 1] = flat[(rows[k] % len(padded)) * width + column % width]
  return np.ascontiguousarray(rows.T)


def walks(
  delta: np.ndarray, low: int, high: int, seed: int, num: int, in_split: Pairs
) -> Iterator[RouteBatch]:
  """Random walks of low..high moves with uniform lengths, origins and edges.

  Cause 'dead_end': every try ended at an intersection without an exit. Walks
  between pairs that are not `in_split` are left out.
  """
  if not _lasting(delta, low).any():
    return
  first, limit = 0, (1 << 20) + WALKS_EACH * num
  chunk = min(max(num + num // 8, 256), CHUNK)
  while first < limit:
    origins, labels, moves = dfa.random_walks(
      delta, chunk, low, high, seed, first=first
    )
    first += chunk
    goals = np.full(chunk, dfa.NO_GOAL)
    _, ends, _ = dfa.walk(delta, origins, goals, labels, moves)
    rows = np.flatnonzero(in_split(origins, ends))
    cause = np.where(moves < low, 'dead_end', '')
    weighting = np.full(chunk, core.DEAD, np.int32)
    yield RouteBatch(origins, ends, labels, moves, weighting, cause).take(rows)
    chunk = CHUNK


def _lasting(delta: np.ndarray, moves: int) -> np.ndarray:
  """[S] bool: rows from which some walk has `moves` moves."""
  lasting = np.ones(len(delta), bool)
  for _ in range(moves):
    lasting = np.append(lasting, False)[delta].any(1)
  return lasting


class Roads:
  """Shortest paths under K sets of edge lengths [S, 8], in metres.

  On ties, the path with the lowest label at each intersection. Pairs that share
  few destinations are searched one by one. Other pairs share one search per
  destination, under all sets at once; a single set has a table of all
  destinations ([S, S] int8).
  """

  def __init__(self, delta: np.ndarray, lengths: Sequence[np.ndarray]) -> None:
    self._delta, self.lengths = delta, lengths
    self._all: np.ndarray | None = None
    self._maps: dict[tuple[int, int], pair_routes.RoadMap] = {}
    self._searched = 0

  @functools.cached_property
  def _reach(self) -> paths.Reach:
    return paths.Reach(self._delta)

  @functools.cached_property
  def _joined(self) -> tuple[np.ndarray, np.ndarray]:
    """[S] bool each: roads lead to the largest part, and from it."""
    part = paths.parts(self._delta)
    root = int(np.argmax(part == np.bincount(part).argmax()))
    leads, reached = (self._reach.hops(root, to) >= 0 for to in (True, False))
    return leads, reached

  def hopeless(
    self, origins: np.ndarray, destinations: np.ndarray, most: int
  ) -> np.ndarray:
    """[N] int32: DEAD without a path, most + 1 if all are longer, or else 0.

    0 is no promise: nothing is searched where `most` moves lead across much of
    the map, and a shortest path may have more moves than others.
    """
    moves = np.zeros(len(origins), np.int32)
    if self._bounded(most):
      to_part, from_part = self._joined
      start, end = to_part[origins], from_part[destinations]
      # From a place of the largest part, and to one, all is known.
      moves[from_part[origins] & start & ~end] = core.DEAD
      moves[to_part[destinations] & end & ~start] = core.DEAD
      rows = np.flatnonzero(start & end)
      pairs = origins[rows], destinations[rows]
      far = ~self._reach.near(*pairs, most)
      moves[rows[far]] = most + 1
    return moves

  def _bounded(self, most: int) -> bool:
    """Do `most` moves, which reach about 2 most^2 places, span a small part?"""
    return 8 * most * most <= len(self._delta)

  def routes(
    self,
    number: np.ndarray,
    origins: np.ndarray,
    destinations: np.ndarray,
    most: int,
  ) -> tuple[np.ndarray, np.ndarray]:
    """Labels [N, most] and moves [N]: DEAD without a path, most + 1 if long.

    number: [N] index of the set under which each path is shortest.
    """
    count, goals = len(origins), len(np.unique(destinations))
    bounded = self._bounded(most)
    # Searches of few moves are short, and never across the map.
    single = (bounded and len(self.lengths) == 1) or self._single(count, goals)
    if len(self.lengths) == 1 and not single:
      return self._tabled(origins, destinations, most)
    self._searched += 0 if bounded else single * count
    search = pair_routes.single_routes if single else pair_routes.swept_routes
    labels = np.empty((count, most), np.int8)
    moves = np.empty(count, np.int32)
    for first in range(0, len(self.lengths), TOGETHER):
      rows = np.flatnonzero(number // TOGETHER == first // TOGETHER)
      labels[rows], moves[rows] = search(
        self._road_map(first, single),
        number[rows] - first,
        origins[rows],
        destinations[rows],
        most,
      )
    return labels, moves

  def _single(self, pairs: int, goals: int) -> bool:
    """True if a search per pair is faster than one per destination."""
    # One for a destination takes 200 us on Manhattan under 50 sets of lengths,
    # one for a pair 30 us.
    if len(self.lengths) > 1:
      return pairs < 6 * goals
    # A search for a pair takes a fourth of one for a destination.
    few = self._searched + pairs < 4 * len(self._delta)
    return self._all is None and few and pairs < 3 * goals

  def _road_map(self, first: int, single: bool) -> pair_routes.RoadMap:
    """With landmarks once there are enough searches to pay for them."""
    landmarks = pair_routes.LANDMARKS * (
      single and self._searched >= pair_routes.MANY
    )
    if (first, landmarks) not in self._maps:
      lengths = np.stack(self.lengths[first : first + TOGETHER])
      self._maps[first, landmarks] = pair_routes.road_map(
        self._delta, lengths, landmarks
      )
    return self._maps[first, landmarks]

  def _tabled(
    self, origins: np.ndarray, destinations: np.ndarray, most: int
  ) -> tuple[np.ndarray, np.ndarray]:
    """`routes` by tables of labels, of all destinations if there are many."""
    size = len(self._delta)
    if self._all is None and 4 * len(np.unique(destinations)) < size:
      return paths.shortest_routes(
        self._delta, self.lengths[0], origins, destinations, most
      )
    if self._all is None:
      self._all = self._first_labels()
    labels = np.empty((len(origins), most), np.int8)
    moves = np.empty(len(origins), np.int32)
    # One row of _all at a time.
    order = np.argsort(destinations, kind='stable')
    labels[order], moves[order] = dfa.follow(
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
      paths.to_goals(self._delta, self.lengths[0], goals)[1]
      for goals in np.split(every, every[paths.GOALS :: paths.GOALS])
    ]
    return np.concatenate(parts)


def metres(
  delta: np.ndarray,
  lengths: np.ndarray,
  origins: np.ndarray,
  destinations: np.ndarray,
) -> np.ndarray:
  """[N] float64 shortest lengths, metres; infinite without a path."""
  metres = np.empty(len(origins))
  goals, index = np.unique(destinations, return_inverse=True)
  for first in range(0, len(goals), paths.GOALS):
    chunk = goals[first : first + paths.GOALS]
    near = paths.dijkstra(delta, lengths, chunk, reverse=True)
    rows = np.flatnonzero((index >= first) & (index < first + len(chunk)))
    metres[rows] = near[index[rows] - first, origins[rows]]
  return metres


def planned(
  roads: Roads,
  pairs: Numbered,
  size: int,
  bounds: tuple[int, int],
  seed: int,
  num: int,
  in_split: Pairs,
) -> Iterator[RouteBatch]:
  """Shortest routes of `size` numbered pairs, once under each weighting.

  Args:
    roads: of all weightings.
    pairs: numbers [N] -> origins and destinations [N].
    size: number of pairs.
    bounds: fewest and most moves of a usable route.
    seed: of the order.
    num: number of requested routes, a hint.
    in_split: mask of usable pairs.
  """
  every = len(roads.lengths) * size
  # The first chunk gives the rate of usable candidates.
  first, chunk, usable = 0, 1024, 0
  while first < domain(every):
    index = permuted(first, chunk, every, seed)
    first += chunk
    number, pair = np.divmod(index, size)
    origins, destinations = pairs(pair)
    use = (origins != destinations) & in_split(origins, destinations)
    batch = _plan(roads, number[use], origins[use], destinations[use], bounds)
    yield batch
    usable += int((batch.cause == '').sum())
    # As many candidates as the missing routes need, at the rate so far.
    missing = max(num - usable, num // 16) * first / max(usable, 1)
    chunk = min(max(int(1.05 * missing), 256), PLANNED)


def _plan(
  roads: Roads,
  number: np.ndarray,
  origins: np.ndarray,
  destinations: np.ndarray,
  bounds: tuple[int, int],
) -> RouteBatch:
  labels = np.full((len(origins), bounds[1]), core.DEAD, np.int8)
  moves = roads.hopeless(origins, destinations, bounds[1])
  near = np.flatnonzero(moves == 0)
  labels[near], moves[near] = roads.routes(
    number[near], origins[near], destinations[near], bounds[1]
  )
  cause = np.select(
    [moves == core.DEAD, moves < bounds[0], moves > bounds[1]],
    ['no_path', 'too_short', 'too_long'],
    '',
  )
  return RouteBatch(
    origins, destinations, labels, moves, number.astype(np.int32), cause
  )


def fresh(batches: Iterator[RouteBatch]) -> Iterator[RouteBatch]:
  """Marks repeated usable routes as 'duplicate'."""
  seen = np.zeros(0, np.uint64)
  for batch in batches:
    hashes = basics.hash64(batch.origins, batch.destinations)
    # Eight labels are hashed as one number.
    spare = -batch.labels.shape[1] % 8
    padded = np.pad(batch.labels, ((0, 0), (0, spare)))
    for column in padded.view(np.uint64).T:
      hashes = basics.hash64(hashes, column)
    usable = np.flatnonzero(batch.cause == '')
    values, firsts = np.unique(hashes[usable], return_index=True)
    again = np.ones(len(usable), bool)
    again[firsts[~np.isin(values, seen)]] = False
    cause = batch.cause.astype('U16')
    cause[usable[again]] = 'duplicate'
    seen = np.union1d(seen, values)
    yield batch._replace(cause=cause)


def weighting(length_m: np.ndarray, number: int) -> np.ndarray:
  """Edge lengths of a noisy weighting, [S, 8] float64 metres, NaN kept.

  Each length W becomes W + e with e ~ Gamma(shape=W, scale=1), so that the
  mean doubles (Vafa et al. 2024, appendix B).
  """
  rng = np.random.default_rng([0, number])
  noisy = np.array(length_m)
  edges = ~np.isnan(noisy)
  noisy[edges] += rng.standard_gamma(noisy[edges])
  return noisy


BUDGET = 1 << 29  # Limit of bytes of cached tables by destination.
ORIGINS = 64  # Origins per batch of weights.


class RouteProcess(core.SequenceProcess):
  """Routes of a world; memory is a world state and words of the subclass."""

  words: int

  def __init__(
    self, world: Navigation, in_sample: Pairs, low: int, replan: bool = False
  ) -> None:
    """Takes the world and the kind of routes.

    world: world of the streets and moves.
    in_sample: rows [N], [N] -> [N] bool, True for pairs that are sampled.
    low: fewest moves of a route.
    replan: mix with a vanishing share of random legal moves.
    """
    self._world, self._wanted, self._low = world, in_sample, low
    self._replan = replan
    self._delta, self._high = world.graph.delta, world.moves

  @abc.abstractmethod
  def _weigh(self, origins: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """[O, G] float64 mass of the routes from origins [O] to goals [G]."""

  @abc.abstractmethod
  def _start(self, rows: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """[B, words] int32 after origins and destinations [B]."""

  @abc.abstractmethod
  def _move(
    self, words: np.ndarray, places: np.ndarray, labels: np.ndarray
  ) -> np.ndarray:
    """[B, words] after labels [B] were taken from places [B, 2]."""

  @abc.abstractmethod
  def _moves(self, words: np.ndarray, places: np.ndarray) -> np.ndarray:
    """[B, 9] float64 masses of `end` and the directions."""

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    words = np.zeros((batch, self.words), np.int32)
    return np.concatenate([self._world.init(batch), words], axis=1)

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess; DEAD words after a token that is illegal."""
    before = memory[:, :2]
    places = self._world.advance(before, tokens)
    after = np.zeros_like(memory)
    after[:, :2] = places
    # After the prompt, and on the way.
    placed = (places >= 0).all(-1)
    fresh = placed & (before[:, 1] < 0)
    if fresh.any():
      after[fresh, 2:] = self._start(*places[fresh].T)
    moved = placed & ~fresh
    if moved.any():
      labels = tokens[moved] - DIRECTION0
      after[moved, 2:] = self._move(memory[moved, 2:], before[moved], labels)
    after[places[:, 0] == core.DEAD] = core.DEAD
    return after

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess."""
    places = memory[:, :2]
    placed = (places >= 0).all(-1)
    start = places[:, 0] == START
    stated = (places[:, 0] >= 0) & ~placed
    size = len(self._delta) if (start | stated).any() else 0
    mass = np.zeros((len(memory), max(size, NODE0 - 1)))
    tokens = np.full(mass.shape, core.DEAD, np.int32)
    if placed.any():
      mass[placed, : NODE0 - 1] = self._moves(
        memory[placed, 2:], places[placed]
      )
    tokens[placed, : NODE0 - 1] = np.arange(END, NODE0)
    if size:
      tokens[start | stated, :size] = NODE0 + np.arange(size)
    if start.any():
      mass[start, :size] = self._origins
    if stated.any():
      origins, back = np.unique(places[stated, 0], return_inverse=True)
      mass[stated, :size] = self._destinations(origins)[back.reshape(-1)]
    if self._replan:
      # No route continues here: only the share of random moves remains.
      lost = (places[:, 0] != core.DEAD) & ~mass.any(-1)
      legal = self._world.legal(places[lost])
      place = np.maximum(tokens[lost], 0)
      named = tokens[lost] != core.DEAD
      mass[lost] = named & np.take_along_axis(legal, place, 1)
    return sampling.normalised(mass, tokens)

  @functools.cached_property
  def _origins(self) -> np.ndarray:
    """[S] float64 masses of origins."""
    every = np.arange(len(self._delta))
    return np.concatenate(
      [
        self._destinations(part).sum(-1)
        for part in np.split(every, every[ORIGINS::ORIGINS])
      ]
    )

  def _destinations(self, origins: np.ndarray) -> np.ndarray:
    """[O, S] float64 masses of sampled destinations."""
    every = np.arange(len(self._delta))
    mass = self._weigh(origins, every)
    pairs = np.meshgrid(origins, every, indexing='ij')
    return mass * self._wanted(*map(np.ravel, pairs)).reshape(mass.shape)


class GoalTables:
  """A cache of tables [..., G] of destinations, made on first use."""

  def __init__(
    self, size: int, make: Callable[[np.ndarray], np.ndarray]
  ) -> None:
    """size: S; make: goals [G] -> their tables [..., G]."""
    self._make = make
    self._place = np.full(size, core.DEAD)
    self._tables: np.ndarray | None = None

  def __call__(self, goals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tables [..., K], and the index of each goal [B] among them."""
    goals_asked = np.unique(goals)
    new = goals_asked[self._place[goals_asked] < 0]
    if self._tables is None or len(new):
      self._add(goals_asked, new)
    assert self._tables is not None
    return self._tables, self._place[goals]

  def _add(self, goals: np.ndarray, new: np.ndarray) -> None:
    cached = self._tables
    if cached is not None:
      each = cached.nbytes // max(cached.shape[-1], 1)
      if cached.nbytes + len(new) * each > BUDGET:
        cached, new = None, goals
        self._place[:] = core.DEAD
    tables = self._make(new)
    parts = [tables] if cached is None else [cached, tables]
    self._tables = np.concatenate(parts, axis=-1)
    count = self._tables.shape[-1]
    self._place[new] = np.arange(count - len(new), count)


class RandomWalkProcess(RouteProcess):
  """Random walks; the only word is the number of moves so far."""

  words = 1

  def __init__(
    self, world: Navigation, in_sample: Pairs, low: int, replan: bool = False
  ) -> None:
    """See Routes."""
    super().__init__(world, in_sample, low, replan)
    size = len(self._delta)
    self._edges = (self._delta >= 0).sum(1)  # Streets that leave a row.
    moves = np.arange(self._high + 1)[:, None]
    # e_t(u): one length, or all remaining ones without an edge out of u.
    ends = np.where(self._edges > 0, 1, self._high + 1 - moves)
    self._ends = np.where(moves >= low, ends, 0).astype(np.float64)
    self._tables = GoalTables(size, self._masses)

  @functools.cached_property
  def _matrix(self):
    """[S, S] sparse: probabilities of the next row of a walk."""

    rows, labels = np.nonzero(self._delta >= 0)
    entries = 1 / self._edges[rows], (rows, self._delta[rows, labels])
    return scipy.sparse.csr_array(entries, shape=(len(self._delta),) * 2)

  def _masses(self, goals: np.ndarray) -> np.ndarray:
    """[high + 2, S, G] float64: W_t(u) of each goal; 0 after `high`."""
    size, columns = len(self._delta), np.arange(len(goals))
    out = np.zeros((self._high + 2, size, len(goals)))
    for t in range(self._high, -1, -1):
      out[t] = self._matrix @ out[t + 1]
      out[t, goals, columns] += self._ends[t, goals]
    return out

  def _weigh(self, origins: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Follows the walks forwards from the origins: W_0 of all goals at once."""
    arrived = np.zeros((len(self._delta), len(origins)))
    arrived[origins, np.arange(len(origins))] = 1
    mass = np.zeros_like(arrived)
    for ends in self._ends:
      mass += ends[:, None] * arrived
      arrived = self._matrix.T @ arrived
    return mass.T[:, goals]

  def _start(self, rows: np.ndarray, goals: np.ndarray) -> np.ndarray:
    del goals
    return np.zeros((len(rows), 1), np.int32)

  def _move(
    self, words: np.ndarray, places: np.ndarray, labels: np.ndarray
  ) -> np.ndarray:
    del places, labels
    return np.minimum(words + 1, self._high + 1)  # No token follows there.

  def _moves(self, words: np.ndarray, places: np.ndarray) -> np.ndarray:
    (moves,), (rows, goals) = words.T, places.T
    table, place = self._tables(goals)
    heads, time = self._delta[rows], np.minimum(moves, self._high)
    mass = np.zeros((len(words), NODE0 - 1))
    mass[:, 0] = (rows == goals) * self._ends[time, rows]
    ahead = table[time[:, None] + 1, heads, place[:, None]]
    mass[:, 1:] = np.where(heads >= 0, ahead, 0)
    mass[:, 1:] /= np.maximum(self._edges[rows], 1)[:, None]
    return np.where((moves <= self._high)[:, None], mass, 0)


class PlannedProcess(RouteProcess):
  """Shortest paths under any of K weightings, with equal probabilities.

  The words are bits: weightings under which the shortest path from origin to
  destination begins with the moves so far.
  """

  def __init__(
    self,
    world: Navigation,
    in_sample: Pairs,
    low: int,
    lengths: Sequence[np.ndarray],
    replan: bool = False,
  ) -> None:
    """See Routes.

    lengths: K weightings [S, 8], metres.
    """
    super().__init__(world, in_sample, low, replan)
    self._lengths = lengths
    self.words = -(-len(lengths) // 32)
    self._tables = GoalTables(len(self._delta), self._labels)

  def _labels(self, goals: np.ndarray) -> np.ndarray:
    """[K, S, G] int8: the label to take from each row to each goal, or DEAD."""
    size, count = len(self._delta), len(goals)
    need = len(self._lengths) * size * count
    resources.require_memory(need, f'next streets to {count:,} destinations')
    out = np.empty((len(self._lengths), size, count), np.int8)
    for labels, lengths in zip(out, self._lengths, strict=True):
      for part in core.predictor.chunks(count, 1, paths.GOALS):
        first_labels = paths.to_goals(self._delta, lengths, goals[part])[1]
        labels[:, part] = first_labels.T
    return out

  def _usable(self, origins: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """[B, K] bool: weightings that count for pairs [B]."""
    table, place = self._tables(goals)
    usable = np.zeros((len(origins), len(table)), bool)
    for part in core.predictor.chunks(len(origins), len(table) * self._high):
      followed = [
        dfa.follow(
          self._delta,
          labels.T[place[part]],
          origins[part],
          np.arange(part.stop - part.start),
          goals[part],
          self._high,
        )
        for labels in table
      ]
      moves = np.stack([moves for _, moves in followed])
      usable[part] = ((moves >= self._low) & (moves <= self._high)).T
    return usable

  def _weigh(self, origins: np.ndarray, goals: np.ndarray) -> np.ndarray:
    pairs = map(np.ravel, np.meshgrid(origins, goals, indexing='ij'))
    mass = self._usable(*pairs).sum(-1).astype(np.float64)
    return mass.reshape(len(origins), len(goals))

  def _start(self, rows: np.ndarray, goals: np.ndarray) -> np.ndarray:
    return self._packed(self._usable(rows, goals))

  def _move(
    self, words: np.ndarray, places: np.ndarray, labels: np.ndarray
  ) -> np.ndarray:
    return self._packed(
      self._bits(words) & (self._next_labels(places) == labels[:, None])
    )

  def _moves(self, words: np.ndarray, places: np.ndarray) -> np.ndarray:
    return self._planned(self._bits(words), places)

  def _planned(self, going: np.ndarray, places: np.ndarray) -> np.ndarray:
    """[B, 9] numbers of weightings in `going` [B, K] by their next label."""
    labels = self._next_labels(places)
    mass = np.zeros((len(labels), NODE0 - 1))
    # At the destination there is no label: DEAD is the first column.
    for k, column in enumerate(labels.T):
      mass[np.arange(len(labels)), column + 1] += going[:, k]
    mass[places[:, 0] != places[:, 1], 0] = 0
    return mass

  def _next_labels(self, places: np.ndarray) -> np.ndarray:
    """[B, K] int8 label under each weighting, DEAD at the destination."""
    rows, goals = places.T
    table, place = self._tables(goals)
    return table[:, rows, place].T

  def _packed(self, bits: np.ndarray) -> np.ndarray:
    """Bits [B, K] as [B, words] int32."""
    spare = 32 * self.words - bits.shape[1]
    packed = np.packbits(np.pad(bits, ((0, 0), (0, spare))), axis=1)
    return packed.view(np.int32)

  def _bits(self, words: np.ndarray) -> np.ndarray:
    """The bits that `_packed` packed."""
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1)
    return bits[:, : len(self._lengths)].astype(bool)


class ReplannedProcess(PlannedProcess):
  """Shortest paths from the current intersection, under the best weightings.

  The words are bytes, one for each weighting: the number of moves by which the
  prefix deviates from this weighting more than from the best one, or EXCLUDED
  if the sampler has no route of the pair under this weighting. For a pair that
  is never sampled, no weighting is excluded.
  """

  EXCLUDED: ClassVar[int] = 255

  def __init__(
    self,
    world: Navigation,
    in_sample: Pairs,
    low: int,
    lengths: Sequence[np.ndarray],
  ) -> None:
    """See PlannedProcess."""
    super().__init__(world, in_sample, low, lengths, replan=True)
    self.words = -(-len(lengths) // 4)

  def _start(self, rows: np.ndarray, goals: np.ndarray) -> np.ndarray:
    usable = self._usable(rows, goals)
    usable |= ~usable.any(1, keepdims=True)
    return self._packed(np.where(usable, 0, self.EXCLUDED))

  def _move(
    self, words: np.ndarray, places: np.ndarray, labels: np.ndarray
  ) -> np.ndarray:
    more = self._bits(words)
    counted = more != self.EXCLUDED
    deviates = self._next_labels(places) != labels[:, None]
    more = np.where(counted, more + deviates, self.EXCLUDED)
    more -= more.min(1, keepdims=True) * counted
    return self._packed(
      np.where(counted, np.minimum(more, self.EXCLUDED - 1), more)
    )

  def _moves(self, words: np.ndarray, places: np.ndarray) -> np.ndarray:
    return self._planned(self._bits(words) == 0, places)

  def _packed(self, bits: np.ndarray) -> np.ndarray:
    """Bytes [B, K] as [B, words] int32."""
    spare = 4 * self.words - bits.shape[1]
    return np.pad(bits.astype(np.uint8), ((0, 0), (0, spare))).view(np.int32)

  def _bits(self, words: np.ndarray) -> np.ndarray:
    """[B, K] int64: the bytes that `_packed` packed."""
    bytes_ = np.ascontiguousarray(words).view(np.uint8)
    return bytes_[:, : len(self._lengths)].astype(np.int64)
