"""Batches as a pure function of the step, so that no order has to be saved.

    epoch    the rows of a store, in blocks of rows adjacent on disk; the
             blocks are shuffled, so a large store is read in few pieces
    stream   epoch after epoch, each with another shuffle
    window   many blocks of the stream; its rows are shuffled again
    batch    B rows of a window

A killed and restarted run therefore continues with the same batches. 'buckets'
sorts a window by length, so that the rows of a batch have similar lengths.
'random' is as published: shuffled rows, padded to the longest (Vafa et al.
2024, model.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import basics
from wm.data import store as stores

# Fewest batches and rows of a window, if the store has them.
WINDOW, WINDOW_ROWS = 64, 4096
BLOCK = 64  # Most rows of a block.
ROUNDS = 4  # Rounds of the Feistel network.
MODES = ('buckets', 'random')


def permute(
  index: np.ndarray, num: int, *words: np.ndarray | int
) -> np.ndarray:
  """A pseudo-random permutation of range(num), evaluated at `index`.

  It is a Feistel network over the next power of four. Values outside of the
  range are permuted again until they are inside (cycle walking). It needs no
  memory, however large `num` is.

  Args:
    index: [B] integers in [0, num).
    num: size of the permuted range.
    *words: integers, or arrays [B], that select the permutation.

  Returns:
    [B] int64.
  """
  half = np.uint64(max((int(num - 1).bit_length() + 1) // 2, 1))
  mask = (np.uint64(1) << half) - np.uint64(1)
  key = np.broadcast_to(basics.hash64(*words), np.shape(index))
  out = np.asarray(index, np.uint64).copy()
  todo = np.arange(len(out))
  while todo.size:
    left, right = out[todo] >> half, out[todo] & mask
    for turn in range(ROUNDS):
      mixed = basics.hash64(key[todo], turn, right) & mask
      left, right = right, left ^ mixed
    out[todo] = (left << half) | right
    todo = todo[out[todo] >= num]
  return out.astype(np.int64)


def shuffled(place: np.ndarray, num: int, seed: int) -> np.ndarray:
  """Rows at places [B] of the endless shuffled stream over `num` rows.

  Every epoch of `num` places holds every row once. The store is rotated by a
  random number of rows and cut into blocks, and the blocks are permuted. A
  small store has blocks of one row, so that a window mixes many blocks.
  """
  block = max(1, min(BLOCK, num // WINDOW_ROWS))
  epoch, place = np.divmod(place, num)
  rows = place.copy()
  whole = place < num // block * block
  number = permute(place[whole] // block, num // block, seed, 0, epoch[whole])
  rows[whole] = number * block + place[whole] % block
  turn = basics.hash64(seed, 1, epoch) % np.uint64(num)
  return (rows + turn.astype(np.int64)) % num


class _Window(NamedTuple):
  """The rows of some batches, R in all.

  Attributes:
    order: [batches, B] indices into the rows.
    rows: [R] rows of the store, ascending.
    tokens: tokens of the rows that are read, end to end.
    starts: [R] start of each row in `tokens`; DEAD if it is not read.
    lengths: [R] lengths of all rows.
  """

  order: np.ndarray
  rows: np.ndarray
  tokens: np.ndarray
  starts: np.ndarray
  lengths: np.ndarray


class Batches:
  """An endless stream of batches from a store.

  Each process of a run reads its own rows only:

    batch   0 .. B/4 | B/4 .. B/2 | B/2 .. 3B/4 | 3B/4 .. B
                                    read          read       part_ids 2, 3 of 4

  Attributes:
    store: store of the rows.
    batch: rows in a global batch, B.
    seed: seed of the order.
    mode: 'buckets' or 'random'.
    multiple: lengths are rounded up to a multiple, which bounds the number of
      compiled shapes: on Manhattan, 4 pads 4 % of tokens with 25 shapes, 16
      pads 14 % with 7.
    window: number of batches that are shuffled, and sorted, together.
    part_ids: the parts of a batch that are read, of num_parts equal parts.
  """

  def __init__(
    self,
    store: stores.Store,
    batch: int,
    seed: int,
    mode: str = 'buckets',
    multiple: int = 4,
    part_ids: Sequence[int] = (0,),
    num_parts: int = 1,
  ) -> None:
    if not len(store):
      raise core.InputError(f'{store.folder} holds no sequences to train on')
    self.store, self.batch, self.seed = store, batch, seed
    self.mode, self.multiple, self.num_parts = mode, multiple, num_parts
    self.part_ids = tuple(part_ids)
    self._rows = batch_rows(batch, self.part_ids, num_parts)
    longest = max(WINDOW, WINDOW_ROWS // batch)
    # In a window longer than an epoch a batch could hold a row twice.
    self.window = max(1, min(longest, len(store) // batch))
    self._kept: dict[int, _Window] = {}

  def _window(self, number: int) -> _Window:
    """A window by its number; the last one is cached."""
    if number not in self._kept:
      window = self._make_window(number)
      self._kept = {number: window}
      return window
    return self._kept[number]

  def _make_window(self, number: int) -> _Window:
    size = self.window * self.batch
    place = number * size + np.arange(size)
    rows = np.sort(shuffled(place, len(self.store), self.seed))
    whole = len(self._rows) == self.batch
    if whole:
      tokens, lengths = self.store.ragged(rows)
    else:
      lengths = self.store.lengths_of(rows)
    order = permute(np.arange(size), size, self.seed, 2, number)
    if self.mode == 'buckets':
      # The order is random already, so a stable sort breaks ties at random.
      order = order[np.argsort(lengths[order], kind='stable')]
      turn = permute(np.arange(self.window), self.window, self.seed, 3, number)
      order = order.reshape(-1, self.batch)[turn]
    order = order.reshape(-1, self.batch)
    read = np.arange(size)
    if not whole:
      read = np.unique(order[:, self._rows])
      tokens, _ = self.store.ragged(rows[read])
    starts = np.full(size, core.DEAD, np.int64)
    starts[read] = np.cumsum(lengths[read], dtype=np.int64) - lengths[read]
    return _Window(order, rows, tokens, starts, lengths)

  def _batch(self, step: int) -> tuple[_Window, np.ndarray]:
    """A step's window, and indices of the batch's rows in it."""
    number, place = divmod(step, self.window)
    window = self._window(number)
    return window, window.order[place]

  def rows(self, step: int) -> np.ndarray:
    """[B] int64 rows of the store in the batch of a step."""
    window, picked = self._batch(step)
    return window.rows[picked]

  def length(self, step: int) -> int:
    """L of a step's batch: its longest row, rounded up."""
    window, picked = self._batch(step)
    longest = int(window.lengths[picked].max())
    return -(-longest // self.multiple) * self.multiple

  def at(self, step: int) -> tuple[np.ndarray, np.ndarray]:
    """The batch of a step, or its parts `part_ids`, R rows.

    Args:
      step: step from 0; the batch depends on the step alone.

    Returns:
      tokens: [R, L] int32, padded with PAD; L is the same for all parts.
      lengths: [R] int32.

    Raises:
      InputError: a shard is damaged.
    """
    window, picked = self._batch(step)
    picked = picked[self._rows]
    lengths = window.lengths[picked]
    tokens = np.full((len(picked), self.length(step)), core.PAD, np.int32)
    used = np.arange(tokens.shape[1]) < lengths[:, None]
    shift = window.starts[picked] - (np.cumsum(lengths) - lengths)
    place = np.arange(lengths.sum()) + np.repeat(shift, lengths)
    tokens[used] = window.tokens[place]
    return tokens, lengths


def batch_rows(
  batch: int, part_ids: Sequence[int], num_parts: int
) -> np.ndarray:
  """Rows of a batch in some of its equal parts."""
  return np.arange(batch).reshape(num_parts, -1)[list(part_ids)].reshape(-1)
