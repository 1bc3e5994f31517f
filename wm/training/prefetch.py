"""Batches are made and put on the devices ahead of time, by a thread."""

from __future__ import annotations

import collections
import concurrent.futures
import hashlib
import itertools
from collections.abc import Callable, Iterator

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from wm import core
from wm.data import store as stores
from wm.training import curriculum

AHEAD = 2  # Batches under way beyond the one that is asked for.
MULTIPLE = 16  # Lengths are rounded up to it, so few shapes are compiled.


def place(
  mesh: Mesh,
  tokens: np.ndarray,
  lengths: np.ndarray,
  world: core.Labelled | None = None,
) -> tuple[jax.Array, ...]:
  """Puts a global batch on the devices, divided over the data axis.

  Args:
    mesh: with axes 'data' and 'model'.
    tokens: [B, L] int32.
    lengths: [B] int32.
    world: whose state labels go with the batch; None is without.

  Returns:
    Tokens, lengths, and with a world labels [B, L, K]. Each process makes the
    labels of its own rows only.
  """
  rows = NamedSharding(mesh, PartitionSpec('data'))
  cache: dict[tuple[int, int], np.ndarray] = {}

  def labels(index: tuple[slice, ...]) -> np.ndarray:
    part = slice(*index[0].indices(len(tokens)))
    if (part.start, part.stop) not in cache:
      assert world is not None  # Only then does a batch have labels.
      cache[part.start, part.stop] = world.sequence_labels(
        tokens[part], lengths[part]
      )
    return cache[part.start, part.stop]

  def put(shape: tuple[int, ...], part: Callable[..., np.ndarray]) -> jax.Array:
    return jax.make_array_from_callback(shape, rows, part)

  batch: tuple[jax.Array, ...] = (
    put(tokens.shape, lambda index: tokens[index]),
  )
  batch += (put(lengths.shape, lambda index: lengths[index]),)
  if world is not None:
    batch += (put((*tokens.shape, len(world.heads.sizes)), labels),)
  return batch


class Prefetch:
  """Training batches by step; a context that owns its thread.

  Attributes:
    source: the pure function from step to batch.
    world: whose state labels go with each batch; None is without.
  """

  def __init__(
    self,
    source: curriculum.Curriculum,
    mesh: Mesh,
    steps: int,
    world: core.Labelled | None = None,
  ) -> None:
    self.source, self.world = source, world
    self._mesh, self._steps = mesh, steps
    self._pool = concurrent.futures.ThreadPoolExecutor(1, 'batches')

  def digest(self, step: int) -> str:
    """Hash of a step's batch, by which a bad batch is found again.

    It ends the thread: nothing may be asked for afterwards.
    """
    self._pool.shutdown(wait=True, cancel_futures=True)
    hashed = hashlib.sha256()
    for array in self.source.at(step):
      hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()[:16]

  def _make(self, step: int) -> tuple[jax.Array, ...]:
    return place(self._mesh, *self.source.at(step), self.world)

  def run(self, first: int) -> Iterator[tuple[int, tuple[jax.Array, ...]]]:
    """Yields (step, batch on the devices) for each step from `first`."""
    ready: collections.deque = collections.deque()
    following = iter(range(first, self._steps))
    for step in range(first, self._steps):
      for ahead in itertools.islice(following, AHEAD + 1 - len(ready)):
        ready.append(self._pool.submit(self._make, ahead))
      yield step, ready.popleft().result()

  def __enter__(self) -> Prefetch:
    return self

  def __exit__(self, *error: object) -> None:
    self._pool.shutdown(wait=True, cancel_futures=True)


def heldout(
  store: stores.Store, batch: int, max_len: int, num: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
  """Yields every row once, in order of length: tokens [batch, L], lengths.

  num: the first so many rows; 0 is all. The last batch is filled up with rows
  of length 0, which add nothing to sums.
  """
  order = np.argsort(store.lengths[: num or None], kind='stable')
  for first in range(0, len(order), batch):
    tokens, lengths = store.take(order[first : first + batch])
    width = -(-tokens.shape[1] // MULTIPLE) * MULTIPLE
    full = np.full((batch, min(width, max_len)), core.PAD, np.int32)
    full[: len(tokens), : tokens.shape[1]] = tokens
    padded = np.zeros(batch, np.int32)
    padded[: len(lengths)] = lengths
    yield full, padded
