"""How the routes are distributed that a map samples, a token at a time.

Random walks have uniform origins, lengths low..high and edges, and name the
intersection where they end as their destination. So what they do next depends
on where they are (u), where they will end (d) and how many moves they have
made (t). With W_t(u) the mass of all walks that are at u after t moves and end
at d, a unit for each length,

  W_t(u) = e_t(u) [u = d] + mean of W_{t+1}(v) over the edges u -> v

  p(end | u, d, t)    = e_t(u) [u = d] / W_t(u)
  p(u -> v | u, d, t) = W_{t+1}(v) / (edges of u * W_t(u))

where e_t(u) is the number of lengths that end a walk here: 1 for
low <= t <= high, and where no edge leaves u all those not below t, as a walk
that meets a street without exit ends there. One that does so before it has
made `low` moves is drawn anew, and has no mass.

With `replan` it is the limit of these samplers mixed with a vanishing share of
random legal moves. A walk is random anyway. Where no route leads on, the random
moves are left, which are uniform over what is legal.

Planned routes are `PlannedRoutes`. Shortest paths are one route for each pair,
of equally short ones that of the lowest labels. Noisy ones are shortest under
one of the world's weightings, each as likely: what they do next depends on
which weightings have a route from the origin to the destination that begins as
this one does. There are only so many weightings, so that this is exact.

Replanning goes on by the shortest path from wherever one is; of several
weightings those are meant of which the prefix deviates least.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics, resources
from wm.kernels.maps import paths
from wm.worlds.maps.navigation import DIRECTION0, END, NODE0, START, Journeys

BUDGET = 1 << 29  # Bytes of tables by destination that are kept.
ORIGINS = 64  # Whose destinations are weighed together.

Wanted = Callable[[np.ndarray, np.ndarray], np.ndarray]


class Routes(core.SequenceProcess):
  """Routes of a world; the memory is a state of it and words of one's own."""

  words: int

  def __init__(
    self, world: Journeys, in_sample: Wanted, low: int, replan: bool = False
  ) -> None:
    """Takes what routes are like.

    world: whose streets and moves these are.
    in_sample: pairs of rows [N], [N] -> [N] bool, which of them are sampled.
    low: fewest moves of a route.
    replan: mixed with a vanishing share of random legal moves.
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
    # Stated, and going on.
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
      # No route goes on here: what is left is the share of random moves.
      lost = (places[:, 0] != core.DEAD) & ~mass.any(-1)
      legal = self._world.legal(places[lost])
      place = np.maximum(tokens[lost], 0)
      named = tokens[lost] != core.DEAD
      mass[lost] = named & np.take_along_axis(legal, place, 1)
    total = np.maximum(mass.sum(-1, keepdims=True), np.finfo(float).tiny)
    with np.errstate(divide='ignore'):
      log_probs = np.log(mass / total)
    return np.where(mass > 0, tokens, core.DEAD), log_probs

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
    """[O, S] float64 masses of destinations, those that are wanted."""
    every = np.arange(len(self._delta))
    mass = self._weigh(origins, every)
    pairs = np.meshgrid(origins, every, indexing='ij')
    return mass * self._wanted(*map(np.ravel, pairs)).reshape(mass.shape)


class Tables:
  """Tables [..., G] of destinations, made when one is first asked for."""

  def __init__(
    self, size: int, make: Callable[[np.ndarray], np.ndarray]
  ) -> None:
    """size: S; make: goals [G] -> their tables [..., G]."""
    self._make = make
    self._place = np.full(size, core.DEAD)
    self._kept: np.ndarray | None = None

  def __call__(self, goals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Tables [..., K], and which of them are those of goals [B]."""
    goals_asked = np.unique(goals)
    new = goals_asked[self._place[goals_asked] < 0]
    if self._kept is None or len(new):
      self._add(goals_asked, new)
    assert self._kept is not None
    return self._kept, self._place[goals]

  def _add(self, goals: np.ndarray, new: np.ndarray) -> None:
    cached = self._kept
    if cached is not None:
      each = cached.nbytes // max(cached.shape[-1], 1)
      if cached.nbytes + len(new) * each > BUDGET:
        cached, new = None, goals
        self._place[:] = core.DEAD
    tables = self._make(new)
    parts = [tables] if cached is None else [cached, tables]
    self._kept = np.concatenate(parts, axis=-1)
    count = self._kept.shape[-1]
    self._place[new] = np.arange(count - len(new), count)


class Walks(Routes):
  """Random walks; the word is the number of moves made."""

  words = 1

  def __init__(
    self, world: Journeys, in_sample: Wanted, low: int, replan: bool = False
  ) -> None:
    """See Routes."""
    super().__init__(world, in_sample, low, replan)
    size = len(self._delta)
    self._edges = (self._delta >= 0).sum(1)
    moves = np.arange(self._high + 1)[:, None]
    # e_t(u): one length, or all that are left where no edge leaves.
    ends = np.where(self._edges > 0, 1, self._high + 1 - moves)
    self._ends = np.where(moves >= low, ends, 0).astype(np.float64)
    self._tables = Tables(size, self._masses)

  @functools.cached_property
  def _matrix(self):
    """[S, S] sparse: probabilities of the next row of a walk."""
    from scipy import sparse  # Only walks need it.

    rows, labels = np.nonzero(self._delta >= 0)
    entries = 1 / self._edges[rows], (rows, self._delta[rows, labels])
    return sparse.csr_array(entries, shape=(len(self._delta),) * 2)

  def _masses(self, goals: np.ndarray) -> np.ndarray:
    """[high + 2, S, G] float64: W_t(u) of each goal; none after `high`."""
    size, columns = len(self._delta), np.arange(len(goals))
    out = np.zeros((self._high + 2, size, len(goals)))
    for t in range(self._high, -1, -1):
      out[t] = self._matrix @ out[t + 1]
      out[t, goals, columns] += self._ends[t, goals]
    return out

  def _weigh(self, origins: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """Follows the walks from the origins on: W_0, of all goals at once."""
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
    return np.minimum(words + 1, self._high + 1)  # There, nothing follows.

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


class PlannedRoutes(Routes):
  """Shortest paths under any of K weightings, each as likely.

  The words are bits: the weightings under which the shortest path from origin
  to destination begins with the moves so far.
  """

  def __init__(
    self,
    world: Journeys,
    in_sample: Wanted,
    low: int,
    lengths: Sequence[np.ndarray],
    distinct: bool = False,
    replan: bool = False,
  ) -> None:
    """See Routes.

    lengths: K weightings [S, 8], metres.
    distinct: routes that are shortest under several count once.
    """
    super().__init__(world, in_sample, low, replan)
    self._lengths, self._distinct = lengths, distinct
    self.words = -(-len(lengths) // 32)
    self._tables = Tables(len(self._delta), self._labels)

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
        paths.follow(
          self._delta,
          labels.T[place[part]],
          origins[part],
          np.arange(part.stop - part.start),
          goals[part],
          self._high,
        )
        for labels in table
      ]
      routes, moves = map(np.stack, zip(*followed, strict=True))
      usable[part] = ((moves >= self._low) & (moves <= self._high)).T
      if self._distinct:
        usable[part] &= ~_repeated(routes).T
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
    """[B, 9] weightings of those `going` [B, K] that take each label next."""
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


class Replanned(PlannedRoutes):
  """Shortest paths from wherever one is, under the weightings meant.

  The words are bytes, one for each weighting: by how many more moves the prefix
  deviates from it than from the best one, or EXCLUDED where the sampler uses it
  for no route from the origin to the destination. For a pair that is never
  sampled none is excluded.
  """

  EXCLUDED: ClassVar[int] = 255

  def __init__(
    self,
    world: Journeys,
    in_sample: Wanted,
    low: int,
    lengths: Sequence[np.ndarray],
  ) -> None:
    """See PlannedRoutes."""
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


def _repeated(routes: np.ndarray) -> np.ndarray:
  """[K, B] bool: is a route [K, B, L] the same as one before it in K?"""
  hashes = np.zeros(routes.shape[:2], np.uint64)
  for column in np.moveaxis(routes, -1, 0):
    if (column < 0).all():
      break
    hashes = basics.hash64(hashes, column)
  order = np.argsort(hashes, axis=0, kind='stable')
  ranked = np.take_along_axis(hashes, order, 0)
  again = np.zeros(hashes.shape, bool)
  again[1:] = ranked[1:] == ranked[:-1]
  repeated = np.empty_like(again)
  np.put_along_axis(repeated, order, again, 0)
  return repeated
