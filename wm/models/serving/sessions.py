"""Sessions of networks: prefixes shared by continuations, in fixed tiles.

  tile:  R rows x M continuations, on one device
  shared [R, ...]     what the prefix left behind, written by restart
  own    [R, M, ...]  what each continuation added, written by step
  log_probs [R, M, V] stay on the device; tokens and bools leave it

A row is computed by the same instructions wherever it sits and whatever its
neighbours are: shapes depend on the model, M and the row's own length alone.
Jitted functions are shared by all sessions; caches are donated, not copied.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from wm import core

if TYPE_CHECKING:
  from wm.models.nn.network import NetworkPredictor, Shape

# Continuations of a tile: enough to keep a core's multipliers busy; small
# networks spend their time between the products and take more.
TILE_LANES, SMALL_TILE_LANES = 256, 512
TILE_TOKENS = 1024  # Tokens of a tile of whole sequences.
START_TOKENS = 128  # Tokens of a tile of prefixes.
SMALL = 5_000_000  # Parameters below which compiling costs more than pads.


@functools.lru_cache(maxsize=64)
def buckets(shape: Shape) -> np.ndarray:
  """Lengths that rows are padded to, ascending; the last is max_len."""
  if shape.num_params < SMALL:
    return np.array([shape.max_len])
  return np.unique([-(-shape.max_len * n // 4) for n in (1, 2, 3, 4)])


def check_tokens(shape: Shape, tokens: np.ndarray, lengths: np.ndarray) -> None:
  """Raises InputError for ids outside the vocabulary or too long rows."""
  used = np.arange(tokens.shape[1])[None] < lengths[:, None]
  wrong = tokens[used & ((tokens < 0) | (tokens >= shape.vocab_size))]
  if wrong.size:
    raise core.InputError(
      f'token {wrong[0]}: the model has ids 0 to {shape.vocab_size - 1}'
    )
  if lengths.size and lengths.max() > shape.max_len:
    raise core.InputError(
      f'a sequence of {lengths.max()} tokens: the model takes up to '
      f'{shape.max_len}'
    )


def padded(
  tokens: np.ndarray, lengths: np.ndarray, rows: int, length: int
) -> np.ndarray:
  """[rows, length, ...]: the used part of tokens [N, L, ...], PAD elsewhere.

  Of type int32 where there are no further dimensions.
  """
  kind = np.int32 if tokens.ndim == 2 else tokens.dtype
  out = np.full((rows, length, *tokens.shape[2:]), core.PAD, kind)
  for row, (line, used) in enumerate(zip(tokens, lengths, strict=True)):
    out[row, :used] = line[:used]
  return out


@functools.lru_cache(maxsize=64)
def piece_size(shape: Shape) -> int:
  """Tokens of one piece of a continuation's memory."""
  return shape.network.piece(shape.max_len)


@functools.lru_cache(maxsize=64)
def _blank(shape: Shape, rows: int, num: int) -> tuple[Any, Any]:
  """Abstract (shared, one piece of own) of a tile."""

  def build(params: nnx.State, tokens: jax.Array, used: jax.Array) -> Any:
    network = nnx.merge(shape.graph, params)
    shared, _ = network.prefill(tokens, used)
    return shared, network.branch(rows, num, piece_size(shape))

  return jax.eval_shape(
    build,
    shape.abstract,
    jax.ShapeDtypeStruct((rows, shape.max_len), np.int32),
    jax.ShapeDtypeStruct((rows,), np.int32),
  )


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _new_tile(shape: Shape, rows: int, num: int) -> Any:
  shared = jax.tree.map(
    lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), _blank(shape, rows, num)[0]
  )
  return shared, jnp.zeros((rows, num, shape.vocab_size))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _new_piece(shape: Shape, rows: int, num: int) -> Any:
  return jax.tree.map(
    lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), _blank(shape, rows, num)[1]
  )


@functools.lru_cache(maxsize=64)
def tile_rows(shape: Shape, num: int, cache_bytes: int) -> int:
  """Rows of a tile: as many lanes as pay, if their caches fit."""
  shared, piece = (
    sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
    for tree in _blank(shape, 1, num)
  )
  pieces = -(-shape.max_len // piece_size(shape))
  size = shared + pieces * piece + 4 * num * shape.vocab_size
  small = shape.num_params < SMALL
  lanes = SMALL_TILE_LANES if small else TILE_LANES
  return max(min(lanes // num, cache_bytes // size), 1)


@functools.partial(
  jax.jit, static_argnums=0, donate_argnames=('shared', 'log_probs')
)
def _start(
  shape: Shape,
  params: nnx.State,
  shared: Any,
  log_probs: jax.Array,
  rows: jax.Array,
  tokens: jax.Array,
  lengths: jax.Array,
) -> tuple[Any, jax.Array]:
  """A tile with prefixes put in `rows`; a row past the end is a pad."""
  network = nnx.merge(shape.graph, params)
  new, logits = network.prefill(tokens, lengths)

  def put(tile: jax.Array, leaf: jax.Array) -> jax.Array:
    place = (rows, *(slice(0, size) for size in leaf.shape[1:]))
    return tile.at[place].set(leaf, mode='drop')

  first = jax.nn.log_softmax(logits)[:, None]
  first = jnp.broadcast_to(first, (len(rows), *log_probs.shape[1:]))
  shared = jax.tree.map(put, shared, new)
  return shared, log_probs.at[rows].set(first, mode='drop')


@functools.partial(jax.jit, static_argnums=0, donate_argnames='own')
def _reset(shape: Shape, own: Any, shared: Any, fresh: jax.Array) -> Any:
  return shape.network.reset(own, shared, fresh)


@functools.partial(
  jax.jit, static_argnums=0, donate_argnames=('own', 'log_probs')
)
def _step(
  shape: Shape,
  params: nnx.State,
  shared: Any,
  own: Any,
  log_probs: jax.Array,
  tokens: jax.Array,
  before: jax.Array,
  count: jax.Array,
) -> tuple[Any, jax.Array]:
  moved = tokens != core.DEAD
  network = nnx.merge(shape.graph, params)
  own, logits = network.step(
    shared, own, jnp.where(moved, tokens, core.PAD), before, count, moved
  )
  new = jax.nn.log_softmax(logits)
  return own, jnp.where(moved[..., None], new, log_probs)


@functools.partial(jax.jit, donate_argnums=0)
def _branch(tile: Any, parents: jax.Array) -> Any:
  """Continuations [R, M, ...] that go on from their parents [R, M]."""
  rows = jnp.arange(len(parents))[:, None]
  return jax.tree.map(lambda leaf: leaf[rows, parents], tile)


@functools.partial(jax.jit, static_argnums=0)
def _draw(accept: Any, log_probs: jax.Array, uniform: jax.Array) -> jax.Array:
  return accept.draw(log_probs, uniform)


@functools.partial(jax.jit, static_argnums=0)
def _accepted(
  accept: Any, log_probs: jax.Array, tokens: jax.Array
) -> jax.Array:
  mask = accept.mask(log_probs)
  taken = jnp.take_along_axis(mask, jnp.maximum(tokens, 0)[..., None], -1)
  return taken[..., 0] & (tokens != core.DEAD)


class _Tile:
  """R rows on one device."""

  def __init__(
    self, predictor: NetworkPredictor, rows: int, num: int, device: Any
  ):
    from wm.models.nn import network  # Deferred: it imports this module.

    self.shape, self.device = predictor.shape, device
    self.params = predictor.placed(device)
    self.before = np.ones(rows, np.int32)
    self.count = np.zeros((rows, num), np.int32)
    with jax.default_device(device):
      self.shared, self.log_probs = _new_tile(self.shape, rows, num)
    self.own = []
    kind = type(self.shape.network)
    self.resets = kind.reset is not network.Network.reset

  def grow(self, tokens: int) -> int:
    """Makes pieces for so many tokens; the number of pieces they take."""
    wanted = -(-tokens // piece_size(self.shape))
    while len(self.own) < wanted:
      with jax.default_device(self.device):
        self.own.append(_new_piece(self.shape, *self.count.shape))
    return wanted

  def put(self, *arrays: np.ndarray) -> tuple[jax.Array, ...]:
    """Copies on this tile's device."""
    return tuple(jax.device_put(np.array(x), self.device) for x in arrays)

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """Prefills rows, in tiles of their own length buckets."""
    self.before[rows] = lengths
    self.count[rows] = 0
    bucket = buckets(self.shape)
    place = np.searchsorted(bucket, lengths)
    for number, length in enumerate(bucket):
      members = np.flatnonzero(place == number)
      size = max(START_TOKENS // length, 1)
      for start in range(0, len(members), size):
        some = members[start : start + size]
        where = np.full(size, len(self.before), np.int32)
        where[: len(some)] = rows[some]
        used = np.ones(size, np.int32)
        used[: len(some)] = lengths[some]
        tokens = padded(prefixes[some], lengths[some], size, length)
        self.shared, self.log_probs = _start(
          self.shape,
          self.params,
          self.shared,
          self.log_probs,
          *self.put(where, tokens, used),
        )
    if self.resets:
      self.grow(1)
      fresh = np.zeros(len(self.before), bool)
      fresh[rows] = True
      self.own = _reset(self.shape, self.own, self.shared, *self.put(fresh))

  def advance(self, tokens: np.ndarray, parents: np.ndarray | None) -> None:
    """Appends tokens [R, M], after branching."""
    if parents is not None:
      self.own, self.log_probs = _branch(
        (self.own, self.log_probs), *self.put(parents)
      )
      self.count = np.take_along_axis(self.count, parents, 1)
    moved = tokens != core.DEAD
    if not moved.any():
      return
    used = self.grow(int(self.count[moved].max()) + 1)
    self.own[:used], self.log_probs = _step(
      self.shape,
      self.params,
      self.shared,
      self.own[:used],
      self.log_probs,
      *self.put(tokens, self.before, self.count),
    )
    self.count = self.count + moved


class NetworkSession(core.Session):
  """B rows in ceil(B / R) tiles, on the predictor's devices in turn."""

  def __init__(
    self,
    predictor: NetworkPredictor,
    prefixes: np.ndarray,
    lengths: np.ndarray,
    num: int,
  ):
    if num < 1:
      raise core.InputError(f'{num} continuations; expected at least 1')
    self._shape, self._num, self._batch = predictor.shape, num, len(lengths)
    self._rows = tile_rows(predictor.shape, num, predictor.cache_bytes)
    devices = predictor.devices
    self._tiles = [
      _Tile(predictor, self._rows, num, devices[tile % len(devices)])
      for tile in range(-(-self._batch // self._rows))
    ]
    self.restart(np.arange(self._batch), prefixes, lengths)

  def _split(self, array: np.ndarray, fill: Any) -> np.ndarray:
    """[B, ...] -> [tiles, R, ...], padded."""
    short = len(self._tiles) * self._rows - self._batch
    pad = np.full((short, *array.shape[1:]), fill, array.dtype)
    whole = np.concatenate([array, pad])
    return whole.reshape(len(self._tiles), self._rows, *array.shape[1:])

  def _join(self, parts: list[jax.Array], dtype: Any) -> np.ndarray:
    if not parts:
      return np.zeros((0, self._num), dtype)
    return np.concatenate([np.asarray(x) for x in parts])[: self._batch]

  def log_probs(self) -> np.ndarray:
    """[B, M, V] float32 in nats."""
    if not self._tiles:
      return np.zeros((0, self._num, self._shape.vocab_size), np.float32)
    return self._join([tile.log_probs for tile in self._tiles], np.float32)

  def draw(self, accept: Any, uniform: np.ndarray) -> np.ndarray:
    """[B, M] int32 tokens; see `core.Session.draw`."""
    uniform = self._split(np.asarray(uniform, np.float32), 0)
    parts = [
      _draw(accept, tile.log_probs, *tile.put(part))
      for tile, part in zip(self._tiles, uniform, strict=True)
    ]
    return self._join(parts, np.int32)

  def accepted(self, accept: Any, tokens: np.ndarray) -> np.ndarray:
    """[B, M] bool; see `core.Session.accepted`."""
    tokens = self._split(np.asarray(tokens, np.int32), core.DEAD)
    parts = [
      _accepted(accept, tile.log_probs, *tile.put(part))
      for tile, part in zip(self._tiles, tokens, strict=True)
    ]
    return self._join(parts, bool)

  def advance(
    self, tokens: np.ndarray, parents: np.ndarray | None = None
  ) -> None:
    """Appends tokens [B, M]; see `core.Session.advance`.

    Raises:
      InputError: a token is out of the vocabulary, or a sequence would grow
        longer than the model's max_len.
    """
    tokens = self._split(np.asarray(tokens, np.int32), core.DEAD)
    branch = np.arange(self._num, dtype=np.int32)[None]
    if parents is not None and (parents == branch).all():
      parents = None
    if parents is not None:
      parents = self._split(np.asarray(parents, np.int32), 0)
    self._check(tokens, parents)
    for number, tile in enumerate(self._tiles):
      tile.advance(tokens[number], None if parents is None else parents[number])

  def _check(self, tokens: np.ndarray, parents: np.ndarray | None) -> None:
    size, longest = self._shape.vocab_size, self._shape.max_len
    if ((tokens < core.DEAD) | (tokens >= size)).any():
      raise core.InputError(
        f'tokens {tokens.min()} to {tokens.max()}: the model has ids 0 to '
        f'{size - 1}'
      )
    for number, tile in enumerate(self._tiles):
      count = tile.count
      if parents is not None:
        count = np.take_along_axis(count, parents[number], 1)
      full = count + tile.before[:, None] >= longest
      if (full & (tokens[number] != core.DEAD)).any():
        raise core.InputError(
          f'a continuation grows past {longest} tokens, the longest that the '
          'model takes'
        )

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """New prefixes [R, L] in rows [R]; see `core.Session.restart`.

    Raises:
      InputError: a prefix is empty, too long or has unknown tokens.
    """
    rows = np.asarray(rows)
    prefixes, lengths = np.asarray(prefixes), np.asarray(lengths)
    if (lengths < 1).any():
      raise core.InputError('an empty prefix; expected at least one token')
    check_tokens(self._shape, prefixes, lengths)
    for number, tile in enumerate(self._tiles):
      mine = rows // self._rows == number
      if mine.any():
        tile.restart(rows[mine] % self._rows, prefixes[mine], lengths[mine])
