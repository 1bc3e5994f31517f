"""Batches as a pure function of the step: nothing to save, nothing to lose.

Position p of the endless stream of rows is row `permute(p mod N)` of epoch
p // N, so a run that is killed and started again goes on with the very batch
it would have had. 'buckets' sorts a window of the stream by length and cuts
it into batches of like lengths; 'random' is the published way, a plain batch
padded to its longest row (Vafa et al. 2024, model.py).
"""

from __future__ import annotations

import numpy as np

from wm import core
from wm.data import store as stores

WINDOW = 64  # Batches in a window of the bucket order.
ROUNDS = 4  # Of the Feistel network.
MODES = ('buckets', 'random')


def permute(
  index: np.ndarray, num: int, *words: np.ndarray | int
) -> np.ndarray:
  """A pseudo-random permutation of range(num), evaluated at `index`.

  A Feistel network over the next power of four, with values past the end
  sent round again (cycle walking): no memory, however large `num` is.

  Args:
    index: [B] integers in [0, num).
    num: size of the permuted range.
    *words: integers, or arrays [B], that select the permutation.

  Returns:
    [B] int64.
  """
  half = np.uint64(max((int(num - 1).bit_length() + 1) // 2, 1))
  mask = (np.uint64(1) << half) - np.uint64(1)
  key = np.broadcast_to(core.hash64(*words), np.shape(index))
  out = np.asarray(index, np.uint64).copy()
  todo = np.arange(len(out))
  while todo.size:
    left, right = out[todo] >> half, out[todo] & mask
    for turn in range(ROUNDS):
      mixed = core.hash64(key[todo], turn, right) & mask
      left, right = right, left ^ mixed
    out[todo] = (left << half) | right
    todo = todo[out[todo] >= num]
  return out.astype(np.int64)


class Batches:
  """An endless stream of batches from a store.

  Attributes:
    store: where rows come from.
    batch: rows in a global batch, B.
    seed: of the order.
    mode: 'buckets' or 'random'.
    multiple: lengths are rounded up to it, which bounds the number of shapes
      that are compiled: 4 wastes 3 % of Manhattan's tokens on 25 shapes, 16
      wastes 12 % on 7.
  """

  def __init__(
    self,
    store: stores.Store,
    batch: int,
    seed: int,
    mode: str = 'buckets',
    multiple: int = 4,
  ) -> None:
    if not len(store):
      raise core.InputError(f'{store.folder} holds no sequences to train on')
    if mode not in MODES or batch < 1 or multiple < 1:
      raise core.InputError(
        f'batches of {batch} rows, mode {mode!r}, multiple {multiple}: '
        f'expected at least 1, one of {MODES}, at least 1'
      )
    self.store, self.batch, self.seed = store, batch, seed
    self.mode, self.multiple = mode, multiple
    # A window longer than an epoch would put a row beside itself.
    self.window = max(1, min(WINDOW, len(store) // batch))
    self._plan: tuple[int, np.ndarray, np.ndarray] = (-1, *_nothing())

  def epoch(self, step: int) -> float:
    """Passes over the data that are complete before `step`."""
    return step * self.batch / len(self.store)

  def _window(self, number: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and lengths [batches, B] of a window, the latest one kept."""
    if self._plan[0] != number:
      self._plan = (number, *self._make_window(number))
    return self._plan[1:]

  def _make_window(self, number: int) -> tuple[np.ndarray, np.ndarray]:
    size = self.window * self.batch
    place = number * size + np.arange(size)
    epoch, index = np.divmod(place, len(self.store))
    rows = permute(index, len(self.store), self.seed, epoch)
    lengths = self.store.lengths_of(rows)
    if self.mode == 'buckets':
      # The stream is shuffled already, so a stable sort breaks ties at random.
      order = np.argsort(lengths, kind='stable').reshape(-1, self.batch)
      turn = np.arange(self.window)
      order = order[permute(turn, self.window, self.seed, number)]
      return rows[order], lengths[order]
    return rows.reshape(-1, self.batch), lengths.reshape(-1, self.batch)

  def rows(self, step: int) -> np.ndarray:
    """[B] int64 rows of the store in the batch of a step."""
    window, place = divmod(step, self.window)
    return self._window(window)[0][place]

  def length(self, step: int) -> int:
    """L of a step's batch: its longest row, rounded up."""
    window, place = divmod(step, self.window)
    longest = int(self._window(window)[1][place].max())
    return -(-longest // self.multiple) * self.multiple

  def at(
    self, step: int, process: int = 0, processes: int = 1
  ) -> tuple[np.ndarray, np.ndarray]:
    """The batch of a step, or one process's part of it.

    Args:
      step: from 0; the batch depends on nothing else.
      process: which part; parts follow each other in the global batch.
      processes: number of equal parts, which must divide the batch.

    Returns:
      tokens: [B / processes, L] int32, padded with PAD; L is the same for
        all parts.
      lengths: [B / processes] int32.

    Raises:
      InputError: the batch does not divide, or a shard is damaged.
    """
    if self.batch % processes:
      raise core.InputError(
        f'a batch of {self.batch} cannot be cut into {processes} equal parts'
      )
    part = self.batch // processes
    rows = self.rows(step)[process * part : (process + 1) * part]
    tokens, lengths = self.store.take(rows)
    padded = np.zeros((part, self.length(step)), np.int32)
    padded[:, : tokens.shape[1]] = tokens
    return padded, lengths

  def useful(self, first: int, last: int) -> float:
    """Share of tokens in the batches of steps [first, last) that are no pad."""
    real = total = 0
    for step in range(first, last):
      window, place = divmod(step, self.window)
      real += int(self._window(window)[1][place].sum())
      total += self.batch * self.length(step)
    return real / total if total else float('nan')


def _nothing() -> tuple[np.ndarray, np.ndarray]:
  return np.zeros((0, 0), np.int64), np.zeros((0, 0), np.int32)
