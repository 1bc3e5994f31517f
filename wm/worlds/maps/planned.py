"""How planned routes are distributed: shortest paths, and noisy ones.

Shortest paths are one route for each pair, of equally short ones that of the
lowest labels. Noisy ones are shortest under one of the world's weightings,
each as likely: what they do next depends on which weightings have a route from
the origin to the destination that begins as this one does. There are only so
many weightings, so that this is exact.

Replanning goes on by the shortest path from wherever one is; of several
weightings those are meant of which the prefix deviates least.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from wm import core
from wm.kernels import maps as paths
from wm.worlds.maps.journeys import NODE0, Journeys
from wm.worlds.maps.processes import Routes, Tables, Wanted


class Query(Routes):
  """Shortest paths under any of K weightings, each as likely.

  The words are bits: the weightings under which the shortest path from origin
  to destination begins with the moves so far.
  """

  def __init__(
    self,
    world: Journeys,
    wanted: Wanted,
    low: int,
    lengths: Sequence[np.ndarray],
    distinct: bool = False,
    replan: bool = False,
  ) -> None:
    """See Routes.

    lengths: K weightings [S, 8], metres.
    distinct: routes that are shortest under several count once.
    """
    super().__init__(world, wanted, low, replan)
    self._lengths, self._distinct = lengths, distinct
    self.words = -(-len(lengths) // 32)
    self._tables = Tables(len(self._delta), self._labels)

  def _labels(self, goals: np.ndarray) -> np.ndarray:
    """[K, S, G] int8: the label to take from each row to each goal, or DEAD."""
    size, count = len(self._delta), len(goals)
    need = len(self._lengths) * size * count
    core.require_memory(need, f'next streets to {count:,} destinations')
    out = np.empty((len(self._lengths), size, count), np.int8)
    for labels, lengths in zip(out, self._lengths, strict=True):
      for part in core.chunks(count, 1, paths.GOALS):
        found = paths.to_goals(self._delta, lengths, goals[part])[1]
        labels[:, part] = found.T
    return out

  def _usable(self, origins: np.ndarray, goals: np.ndarray) -> np.ndarray:
    """[B, K] bool: weightings that count for pairs [B]."""
    table, place = self._tables(goals)
    usable = np.zeros((len(origins), len(table)), bool)
    for part in core.chunks(len(origins), len(table) * self._high):
      found = [
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
      routes, moves = map(np.stack, zip(*found, strict=True))
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
    self, own: np.ndarray, places: np.ndarray, labels: np.ndarray
  ) -> np.ndarray:
    return self._packed(
      self._bits(own) & (self._next_labels(places) == labels[:, None])
    )

  def _moves(self, own: np.ndarray, places: np.ndarray) -> np.ndarray:
    return self._planned(self._bits(own), places)

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
    found = np.packbits(np.pad(bits, ((0, 0), (0, spare))), axis=1)
    return found.view(np.int32)

  def _bits(self, own: np.ndarray) -> np.ndarray:
    """The bits that `_packed` packed."""
    found = np.unpackbits(np.ascontiguousarray(own).view(np.uint8), axis=1)
    return found[:, : len(self._lengths)].astype(bool)


class Replanned(Query):
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
    wanted: Wanted,
    low: int,
    lengths: Sequence[np.ndarray],
  ) -> None:
    """See Query."""
    super().__init__(world, wanted, low, lengths, replan=True)
    self.words = -(-len(lengths) // 4)

  def _start(self, rows: np.ndarray, goals: np.ndarray) -> np.ndarray:
    usable = self._usable(rows, goals)
    usable |= ~usable.any(1, keepdims=True)
    return self._packed(np.where(usable, 0, self.EXCLUDED))

  def _move(
    self, own: np.ndarray, places: np.ndarray, labels: np.ndarray
  ) -> np.ndarray:
    more = self._bits(own)
    counted = more != self.EXCLUDED
    deviates = self._next_labels(places) != labels[:, None]
    more = np.where(counted, more + deviates, self.EXCLUDED)
    more -= more.min(1, keepdims=True) * counted
    return self._packed(
      np.where(counted, np.minimum(more, self.EXCLUDED - 1), more)
    )

  def _moves(self, own: np.ndarray, places: np.ndarray) -> np.ndarray:
    return self._planned(self._bits(own) == 0, places)

  def _packed(self, bits: np.ndarray) -> np.ndarray:
    """Bytes [B, K] as [B, words] int32."""
    spare = 4 * self.words - bits.shape[1]
    return np.pad(bits.astype(np.uint8), ((0, 0), (0, spare))).view(np.int32)

  def _bits(self, own: np.ndarray) -> np.ndarray:
    """[B, K] int64: the bytes that `_packed` packed."""
    bytes_ = np.ascontiguousarray(own).view(np.uint8)
    return bytes_[:, : len(self._lengths)].astype(np.int64)


def _repeated(routes: np.ndarray) -> np.ndarray:
  """[K, B] bool: is a route [K, B, L] the same as one before it in K?"""
  hashes = np.zeros(routes.shape[:2], np.uint64)
  for column in np.moveaxis(routes, -1, 0):
    if (column < 0).all():
      break
    hashes = core.hash64(hashes, column)
  order = np.argsort(hashes, axis=0, kind='stable')
  ranked = np.take_along_axis(hashes, order, 0)
  again = np.zeros(hashes.shape, bool)
  again[1:] = ranked[1:] == ranked[:-1]
  found = np.empty_like(again)
  np.put_along_axis(found, order, again, 0)
  return found
