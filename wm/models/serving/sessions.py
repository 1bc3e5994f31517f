"""Sessions of networks: prefixes are prefilled, continuations decoded in step.

A `NetworkSession` (see `core.Session`) computes log-probabilities of B x M
continuations of B prefixes, which grow by one token at a time. `networks` opens
sessions; the steps themselves are in `wm.models.nn`.

  session  B rows in ceil(B / R) tiles, on the devices in turn
  tile     R rows x M continuations, on one device:

    prefix      [R, ...]           cache of the prefixes, written by prefill
    pages    n x [R, M, ...]       caches of appended tokens, one page for
                                   every K tokens, written by decode
    log_probs   [R, M, V]          stay on the device; tokens and bools leave
    prefix_len  [R], added [R, M]  tokens of each, on the host

  tokens of a continuation
    0 ............ prefix_len | 0 ....... K | K ..... 2 K | ...
             prefix           |   pages[0]  |   pages[1]  |

The instructions for a row do not depend on its place or its neighbours: shapes
depend only on the model, M and the row's own length. All sessions share the
jitted functions; caches are donated, not copied.

A `NetworkMachine` takes the same steps within one compiled program. The two
prefixes of slot b are rows 2 b and 2 b + 1. All pages are allocated at the
start, as a program allocates no memory. A `TableMachine` looks up its steps in
the table of a process.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax

from wm import core
from wm.models.nn.network import (
  DecodeStep,
  NetworkSpec,
  Placement,
  StatefulNetwork,
  device_of,
  memory_of,
)

# Continuations of a tile: enough to keep a core's multipliers busy; for small
# networks the time between products dominates, so their tiles are larger.
TILE_LANES, SMALL_TILE_LANES = 256, 512
SMALL = 5_000_000  # Parameters of the largest small network.
# Continuations of a prefix at a time: more wait for the longest of them, fewer
# read a prefix more often.
PREFIX_LANES = 8
TILE_TOKENS = 1024  # Tokens of a tile of whole sequences: fits a core's cache.
# Limits on other devices, as far as memory permits; not timed there.
DEVICE_LANES, DEVICE_TOKENS = 4096, 1 << 16
UNKNOWN = 8 << 30  # Bytes assumed of a device that does not report its memory.
START_TOKENS = 128  # Tokens of a tile of prefixes.


class TileSizes(NamedTuple):
  """Sizes of tiles, the units of computation on a device.

  Attributes:
    tokens: tokens of a tile of whole sequences.
    cache_bytes: memory limit of one tile of a session.
    lanes: limit of continuations of a session's tile; 0 is by `tile_rows`.
  """

  tokens: int = TILE_TOKENS
  cache_bytes: int = 3 << 30
  lanes: int = 0


def tile_sizes(platform: str, memory: int, outputs: int) -> TileSizes:
  """Sizes for a device of a platform with `memory` bytes.

  outputs: logits per token. A tile takes at most a quarter of the memory: four
  float32 arrays of the size of its logits. Sizes are powers of two, so that
  similar devices have equal tiles.
  """
  if platform == 'cpu':
    return TileSizes()
  fitting = max(memory // 4 // (16 * outputs), TILE_TOKENS)
  tokens = 1 << (min(fitting, DEVICE_TOKENS).bit_length() - 1)
  return TileSizes(tokens, memory // 4, DEVICE_LANES)


def sizes_on(device: jax.Device, outputs: int) -> TileSizes:
  """`tile_sizes` of a local device."""
  return tile_sizes(device.platform, memory_of(device) or UNKNOWN, outputs)


@functools.lru_cache(maxsize=64)
def page_size(spec: NetworkSpec) -> int:
  """Tokens of one page."""
  return spec.network.page_size(spec.max_len)


@functools.lru_cache(maxsize=64)
def caches(spec: NetworkSpec, rows: int, num: int) -> tuple[Any, Any]:
  """Shapes and dtypes of a tile's prefix cache and of one of its pages."""

  def make(params: nnx.State, tokens: jax.Array, used: jax.Array) -> Any:
    network = nnx.merge(spec.graph, params)
    prefix, _ = network.prefill(tokens, used)
    return prefix, network.new_page(rows, num, page_size(spec))

  return jax.eval_shape(
    make,
    spec.abstract,
    jax.ShapeDtypeStruct((rows, spec.max_len), np.int32),
    jax.ShapeDtypeStruct((rows,), np.int32),
  )


def _zeros(tree: Any) -> Any:
  return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), tree)


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def new_tile(spec: NetworkSpec, rows: int, num: int) -> tuple[Any, jax.Array]:
  """An empty tile: prefix cache and log-probabilities."""
  prefix, _ = caches(spec, rows, num)
  return _zeros(prefix), jnp.zeros((rows, num, spec.vocab_size))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def new_page(spec: NetworkSpec, rows: int, num: int) -> Any:
  """An empty page of a tile."""
  return _zeros(caches(spec, rows, num)[1])


@functools.lru_cache(maxsize=64)
def tile_rows(
  spec: NetworkSpec, num: int, cache_bytes: int, lanes: int = 0
) -> int:
  """Rows of a tile: `lanes` continuations, if their caches fit.

  lanes: 0 means the fastest number on a CPU.
  """
  prefix, page = (
    sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
    for tree in caches(spec, 1, num)
  )
  # In the worst case, all pages exist beside the prefix and log-probabilities.
  pages = -(-spec.max_len // page_size(spec))
  # Bytes of a row: float32 log-probabilities take 4 M V.
  size = prefix + pages * page + 4 * num * spec.vocab_size
  lanes = lanes or (SMALL_TILE_LANES if spec.num_params < SMALL else TILE_LANES)
  return max(min(lanes // num, cache_bytes // size), 1)


@functools.partial(
  jax.jit, static_argnums=0, donate_argnames=('prefix', 'log_probs')
)
def prefill(
  spec: NetworkSpec,
  params: nnx.State,
  prefix: Any,
  log_probs: jax.Array,
  rows: jax.Array,
  tokens: jax.Array,
  lengths: jax.Array,
) -> tuple[Any, jax.Array]:
  """Prefills prefixes into `rows` of a tile; rows past the end are dropped."""
  network = nnx.merge(spec.graph, params)
  new, logits = network.prefill(tokens, lengths)

  def put(tile: jax.Array, leaf: jax.Array) -> jax.Array:
    # The new cache has the length of the bucket; the tile's has max_len.
    # tile [R, ...max_len...], new [r, ...bucket...] into rows r of it
    place = (rows, *(slice(0, size) for size in leaf.shape[1:]))
    return tile.at[place].set(leaf, mode='drop')

  # The M continuations of a prefix start equal.
  first = jax.nn.log_softmax(logits)[:, None]
  first = jnp.broadcast_to(first, (len(rows), *log_probs.shape[1:]))
  prefix = jax.tree.map(put, prefix, new)
  return prefix, log_probs.at[rows].set(first, mode='drop')


@functools.partial(jax.jit, static_argnums=0, donate_argnames='pages')
def restart_pages(
  spec: NetworkSpec, pages: Any, prefix: Any, fresh: jax.Array
) -> Any:
  """Resets the pages of fresh continuations [R, M]."""
  # Attention masks places beyond a row's length: its pages need no reset.
  network = spec.network
  if isinstance(network, StatefulNetwork):
    return network.restart(pages, prefix, fresh)
  return pages


@functools.partial(
  jax.jit, static_argnums=0, donate_argnames=('pages', 'log_probs')
)
def decode(
  spec: NetworkSpec,
  params: nnx.State,
  prefix: Any,
  pages: Any,
  log_probs: jax.Array,
  tokens: jax.Array,
  prefix_len: jax.Array,
  added: jax.Array,
) -> tuple[Any, jax.Array]:
  """Pages and log-probabilities after one token of each continuation."""
  moved = tokens != core.DEAD
  network = nnx.merge(spec.graph, params)
  # All continuations are computed, moved or not: shapes are constant.
  tokens = jnp.where(moved, tokens, core.PAD)
  step = DecodeStep(tokens, prefix_len, added, moved)
  pages, logits = network.decode(prefix, pages, step)
  new = jax.nn.log_softmax(logits)
  return pages, jnp.where(moved[..., None], new, log_probs)


@functools.partial(jax.jit, donate_argnums=0)
def _noted(first: jax.Array, log_probs: jax.Array, rows: jax.Array) -> Any:
  """Log-probabilities after prefixes [R, V], with those of new rows."""
  return first.at[rows].set(log_probs[rows, 0], mode='drop')


@functools.partial(jax.jit, donate_argnums=0)
def _rewound(log_probs: jax.Array, first: jax.Array, lanes: jax.Array) -> Any:
  """Log-probabilities [R, M, V]; those after the prefix where lanes [R, M]."""
  return jnp.where(lanes[..., None], first[:, None], log_probs)


@functools.partial(jax.jit, static_argnums=0)
def _draw(accept: Any, log_probs: jax.Array, uniform: jax.Array) -> jax.Array:
  return accept.draw(log_probs, uniform)


@functools.partial(jax.jit, static_argnums=0)
def accepts(accept: Any, log_probs: jax.Array, tokens: jax.Array) -> jax.Array:
  """[R, M] bool: True where the rule accepts the tokens [R, M]; never DEAD."""
  mask = accept.mask(log_probs)
  taken = jnp.take_along_axis(mask, jnp.maximum(tokens, 0)[..., None], -1)
  return taken[..., 0] & (tokens != core.DEAD)


class _Tile:
  """R rows at one placement; see the module's docstring."""

  def __init__(
    self,
    spec: NetworkSpec,
    params: nnx.State,
    rows: int,
    num: int,
    placement: Placement,
  ):
    self.spec, self.params, self.placement = spec, params, placement
    self.device = device_of(placement)
    # 1, not 0, since rows beyond the batch are read like others.
    self.prefix_len = np.ones(rows, np.int32)
    self.added = np.zeros((rows, num), np.int32)
    # Committed to the placement like the weights, so `decode` compiles once.
    with jax.default_device(self.device):
      tile = jax.device_put(new_tile(spec, rows, num), placement)
    self.prefix, self.log_probs = tile
    self.first = jnp.copy(self.log_probs[:, 0])
    self.pages: list[Any] = []
    self.stateful = isinstance(spec.network, StatefulNetwork)

  def grow(self, tokens: int) -> int:
    """Makes pages for `tokens` tokens; returns the number of pages needed."""
    num_pages = -(-tokens // page_size(self.spec))
    while len(self.pages) < num_pages:
      with jax.default_device(self.device):
        page = new_page(self.spec, *self.added.shape)
        self.pages.append(jax.device_put(page, self.placement))
    return num_pages

  def put(self, *arrays: np.ndarray) -> tuple[Any, ...]:
    """Copies of arrays, for programs at this tile's placement."""
    # Copied, as the host changes `added` while a program runs.
    copies = tuple(map(np.array, arrays))
    if isinstance(self.placement, jax.Device):
      return copies  # A program takes them in a tenth of `device_put`'s time.
    return jax.device_put(copies, self.placement)

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """Prefills rows, one length bucket at a time."""
    self.prefix_len[rows] = lengths
    self.added[rows] = 0
    # Each length bucket is a program; its rows go in calls of equal size.
    bucket = self.spec.buckets
    place = np.searchsorted(bucket, lengths)
    for number, length in enumerate(bucket):
      members = np.flatnonzero(place == number)
      size = max(START_TOKENS // length, 1)
      for part in core.predictor.chunks(len(members), 1, size):
        chosen = members[part]
        # Indices past the tile's end pad the call; their results are dropped.
        where = np.full(size, len(self.prefix_len), np.int32)
        where[: len(chosen)] = rows[chosen]
        used = np.ones(size, np.int32)
        used[: len(chosen)] = lengths[chosen]
        tokens = core.predictor.padded(
          prefixes[chosen], lengths[chosen], size, length
        )
        self.prefix, self.log_probs = prefill(
          self.spec,
          self.params,
          self.prefix,
          self.log_probs,
          *self.put(where, tokens, used),
        )
    # Indices past the tile's end pad the call, as above.
    places = np.full(len(self.prefix_len), len(self.prefix_len), np.int32)
    places[: len(rows)] = rows
    self.first = _noted(self.first, self.log_probs, *self.put(places))
    fresh = np.zeros(self.added.shape, bool)
    fresh[rows] = True
    self._reset(fresh)

  def _reset(self, fresh: np.ndarray) -> None:
    if self.stateful:  # The state after the prefix goes into the only page.
      self.grow(1)
      self.pages = restart_pages(
        self.spec, self.pages, self.prefix, *self.put(fresh)
      )

  def rewind(self, lanes: np.ndarray) -> None:
    """Takes continuations, lanes [R, M] bool, back to their prefix."""
    if lanes.any():
      self.added[lanes] = 0
      (fresh,) = self.put(lanes)
      self.log_probs = _rewound(self.log_probs, self.first, fresh)
      self._reset(lanes)

  def advance(self, tokens: np.ndarray) -> None:
    """Appends tokens [R, M]."""
    moved = tokens != core.DEAD
    if not moved.any():  # For example, if all trials of the tile are decided.
      return
    # Only pages in use are passed, as attention's work grows with their number.
    used = self.grow(int(self.added[moved].max()) + 1)
    self.pages[:used], self.log_probs = decode(
      self.spec,
      self.params,
      self.prefix,
      self.pages[:used],
      self.log_probs,
      *self.put(tokens, self.prefix_len, self.added),
    )
    self.added = self.added + moved


class NetworkSession(core.Session):
  """B rows in ceil(B / R) tiles, on the devices in turn."""

  def __init__(
    self,
    spec: NetworkSpec,
    placed: Callable[[Placement], nnx.State],
    prefixes: tuple[np.ndarray, np.ndarray],
    num: int,
    *,
    devices: tuple[Placement, ...],
    cache_bytes: int,
    lanes: int = 0,
  ):
    """Prefills the prefixes.

    Args:
      spec: of the network.
      placed: placement -> the weights there.
      prefixes: prefixes [B, L] and their lengths [B].
      num: M, continuations of each prefix.
      devices: tiles go to these in turn.
      cache_bytes: memory limit of a tile, of at least one row.
      lanes: see `tile_rows`.
    """
    if num < 1:
      raise core.InputError(f'{num} continuations; expected at least 1')
    self._spec, self._num, self._batch = spec, num, len(prefixes[1])
    self._rows = tile_rows(spec, num, cache_bytes, lanes)
    self._tiles = []
    # Devices in turn: one computes while the next is fed.
    for tile in range(-(-self._batch // self._rows)):
      device = devices[tile % len(devices)]
      params = placed(device)
      self._tiles.append(_Tile(spec, params, self._rows, num, device))
    self.restart(np.arange(self._batch), *prefixes)

  def _split(self, array: np.ndarray, fill: Any) -> np.ndarray:
    """[B, ...] -> [tiles, R, ...], padded."""
    # The last tile may have fewer rows than the others.
    short = len(self._tiles) * self._rows - self._batch
    pad = np.full((short, *array.shape[1:]), fill, array.dtype)
    whole = np.concatenate([array, pad])
    return whole.reshape(len(self._tiles), self._rows, *array.shape[1:])

  def _join(self, parts: list[jax.Array], dtype: Any, *rest: int) -> np.ndarray:
    """[B, M, *rest] of all rows, from the tiles' parts."""
    none = np.zeros((0, self._num, *rest), dtype)
    return np.concatenate([none, *map(np.asarray, parts)])[: self._batch]

  def log_probs(self) -> np.ndarray:
    """[B, M, V] float32 in nats."""
    parts = [tile.log_probs for tile in self._tiles]
    return self._join(parts, np.float32, self._spec.vocab_size)

  def draw(self, accept: Any, uniform: np.ndarray) -> np.ndarray:
    """[B, M] int32 tokens; see `core.Session.draw`."""
    uniform = self._split(np.asarray(uniform, np.float32), 0)
    return self._join(self._each(_draw, accept, uniform), np.int32)

  def accepted(self, accept: Any, tokens: np.ndarray) -> np.ndarray:
    """[B, M] bool; see `core.Session.accepted`."""
    tokens = self._split(np.asarray(tokens, np.int32), core.DEAD)
    return self._join(self._each(accepts, accept, tokens), bool)

  def _each(
    self, ask: Callable[..., jax.Array], accept: Any, array: np.ndarray
  ) -> list[jax.Array]:
    return [
      ask(accept, tile.log_probs, *tile.put(part))
      for tile, part in zip(self._tiles, array, strict=True)
    ]

  def advance(self, tokens: np.ndarray) -> None:
    """Appends tokens [B, M]; see `core.Session.advance`.

    Raises:
      InputError: a token is out of the vocabulary, or a sequence would grow
        longer than the model's max_len.
    """
    tokens = self._split(np.asarray(tokens, np.int32), core.DEAD)
    self._spec.check_ids(tokens[tokens != core.DEAD])
    longest = self._spec.max_len
    # All tiles are checked before any advances, so errors change no tile.
    for tile, part in zip(self._tiles, tokens, strict=True):
      # [R, M]: continuations without room for another token.
      full = tile.added + tile.prefix_len[:, None] >= longest
      if (full & (part != core.DEAD)).any():
        raise core.InputError(
          f'a continuation grows past {longest} tokens, the longest that the '
          'model takes'
        )
    for tile, part in zip(self._tiles, tokens, strict=True):
      tile.advance(part)

  def rewind(self, lanes: np.ndarray) -> None:
    """See `core.Session.rewind`."""
    for tile, part in zip(self._tiles, self._split(lanes, False), strict=True):
      tile.rewind(part)

  def restart(
    self, rows: np.ndarray, prefixes: np.ndarray, lengths: np.ndarray
  ) -> None:
    """New prefixes [R, L] in rows [R]; see `core.Session.restart`.

    Raises:
      InputError: a prefix is empty, too long or has unknown tokens.
    """
    rows = np.asarray(rows)
    prefixes, lengths = np.asarray(prefixes), np.asarray(lengths)
    core.predictor.check_prefixes(lengths)
    self._spec.check_tokens(prefixes, lengths)
    for number, tile in enumerate(self._tiles):
      # Row b of the session is row b % R of tile b // R.
      mine = rows // self._rows == number
      if mine.any():
        tile.restart(rows[mine] % self._rows, prefixes[mine], lengths[mine])


class MachineState(NamedTuple):
  """The state of all rows in a compiled program.

  Attributes:
    prefix, pages, log_probs: see the module's docstring.
    prefix_len: [R] int32 tokens of the prefix.
    added: [R, M] int32 tokens appended to the prefix.
  """

  prefix: Any
  pages: list[Any]
  log_probs: jax.Array
  prefix_len: jax.Array
  added: jax.Array


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=('params', 'prefixes', 'lengths'),
  meta_fields=('spec', 'num', 'room', 'accept', 'sampler'),
)
@dataclasses.dataclass(frozen=True)
class NetworkMachine:
  """A network and its trials; see `core.Predictor.machine`."""

  params: nnx.State
  prefixes: Any  # NumPy's arrays on the host, JAX's in the program.
  lengths: Any
  spec: NetworkSpec
  num: int
  room: int
  accept: Any
  sampler: Any

  def blank(self, slots: int) -> MachineState:
    """A state of zeros, with pages for `room` tokens."""
    shape = self.spec, 2 * slots, self.num
    # A session adds pages as needed; a program needs all of them at the start.
    room = min(self.room, self.spec.max_len)
    pages = -(-room // page_size(self.spec))
    prefix, log_probs = new_tile(*shape)
    return MachineState(
      prefix,
      [new_page(*shape) for _ in range(pages)],
      log_probs,
      jnp.ones(2 * slots, jnp.int32),
      jnp.zeros(shape[1:], jnp.int32),
    )

  def restart(
    self, state: MachineState, fresh: jax.Array, trial: jax.Array
  ) -> MachineState:
    """Prefills the rows of fresh slots, a few at a time as in a session."""
    rows, length = 2 * len(trial), self.prefixes.shape[-1]
    size = max(START_TOKENS // length, 1)
    fresh = jnp.repeat(fresh, 2)  # Slots -> rows: both sides of a trial.
    # [B, 2, L] -> [2 B, L]: a trial's two prefixes are neighbouring rows.
    tokens = self.prefixes[trial].reshape(rows, length)
    lengths = self.lengths[trial].reshape(rows)
    order = jnp.argsort(~fresh, stable=True)  # Fresh rows come first.

    def prefill_part(part: jax.Array, tile: tuple[Any, jax.Array]) -> Any:
      nth = part * size + jnp.arange(size)
      row = order[nth % rows]
      where = jnp.where(nth < fresh.sum(), row, rows)  # `rows` is dropped.
      return prefill(
        self.spec, self.params, *tile, where, tokens[row], lengths[row]
      )

    # As many calls as fresh rows need: often none; at the start, all.
    parts, tile = -(-fresh.sum() // size), (state.prefix, state.log_probs)
    prefix, log_probs = lax.fori_loop(0, parts, prefill_part, tile)
    each = jnp.broadcast_to(fresh[:, None], state.added.shape)
    pages = restart_pages(self.spec, state.pages, prefix, each)
    prefix_len = jnp.where(fresh, lengths, state.prefix_len)
    added = jnp.where(fresh[:, None], 0, state.added)
    return MachineState(prefix, pages, log_probs, prefix_len, added)

  def draw(self, state: MachineState, uniform: jax.Array) -> jax.Array:
    """[B, M] int32; see traced.Machine."""
    return self.sampler.draw(state.log_probs[::2], uniform)  # First prefixes.

  def vacuous(self, state: MachineState) -> jax.Array:
    """[B, M] bool; see traced.Machine."""
    return ~self.accept.mask(state.log_probs[::2]).any(-1)

  def accepted(self, state: MachineState, tokens: jax.Array) -> jax.Array:
    """[B, M] bool; see traced.Machine."""
    return accepts(self.accept, state.log_probs[1::2], tokens)

  def advance(self, state: MachineState, tokens: jax.Array) -> MachineState:
    """Appends tokens [B, M] to both sides of each trial."""
    # Tokens drawn after the first prefix are also appended to the second.
    both = jnp.repeat(tokens, 2, axis=0)
    pages, log_probs = decode(
      self.spec,
      self.params,
      state.prefix,
      state.pages,
      state.log_probs,
      both,
      state.prefix_len,
      state.added,
    )
    added = state.added + (both != core.DEAD)
    return state._replace(pages=pages, log_probs=log_probs, added=added)


def bucketed(
  spec: NetworkSpec, prefixes: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Cuts or pads prefixes [T, 2, L] to the longest one's bucket; and lengths.

  Raises:
    InputError: a prefix is too long, or has unknown tokens.
  """
  flat = prefixes.reshape(-1, prefixes.shape[-1])
  spec.check_tokens(flat, lengths.reshape(-1))
  # All trials of a program have one prefix shape, the longest one's bucket.
  bucket = spec.buckets
  length = int(bucket[np.searchsorted(bucket, lengths.max())])
  flat = core.predictor.padded(flat, lengths.reshape(-1), len(flat), length)
  return flat.reshape(*lengths.shape, length), lengths.astype(np.int32)


def table_devices() -> tuple[jax.Device, ...]:
  """The first local device, which suffices for look-ups in a table."""
  return (jax.local_devices()[0],)


@functools.partial(
  jax.tree_util.register_dataclass,
  data_fields=('table', 'start'),
  meta_fields=('num',),
)
@dataclasses.dataclass(frozen=True)
class TableMachine:
  """A table (see the diagram in `process`) and its trials.

  The state is table rows [B, 2, M]. Arrays are NumPy's on the host, JAX's in
  the program.

  table: `process.TableRows` of all states.
  start: [T, 2] int32 rows after the prefixes.
  """

  table: Any
  start: Any
  num: int

  def blank(self, slots: int) -> np.ndarray:
    """A state of row 0 everywhere."""
    return np.zeros((slots, 2, self.num), np.int32)

  def restart(
    self, state: jax.Array, fresh: jax.Array, trial: jax.Array
  ) -> jax.Array:
    """See traced.Machine."""
    # [B, 2] -> [B, 2, 1]: the M continuations of a prefix start in one row.
    start = self.start[trial][..., None]
    return jnp.where(fresh[:, None, None], start, state)

  def draw(self, state: jax.Array, uniform: jax.Array) -> jax.Array:
    """[B, M] int32 tokens, bit-equal to `Accept.draw` of NumPy arrays."""
    # The first accepted token whose cumulative mass exceeds the draw. If
    # rounding leaves the draw above all masses, the last accepted token.
    row = state[:, 0]
    mass, drawn = self.table.mass[row], self.table.drawn[row]
    over = drawn & (mass > (uniform * mass[..., -1])[..., None])
    last = drawn.shape[-1] - 1 - jnp.argmax(drawn[..., ::-1], axis=-1)
    place = jnp.where(over.any(-1), jnp.argmax(over, axis=-1), last)
    return jnp.where(drawn.any(-1), self.table.tokens[row, place], core.DEAD)

  def vacuous(self, state: jax.Array) -> jax.Array:
    """[B, M] bool; see traced.Machine."""
    return ~self.table.accepted[state[:, 0]].any(-1)

  def accepted(self, state: jax.Array, tokens: jax.Array) -> jax.Array:
    """[B, M] bool; see traced.Machine."""
    # Neither rule accepts a token that the row does not list.
    row = state[:, 1]
    equal = self.table.tokens[row] == tokens[..., None]
    return (equal & self.table.accepted[row]).any(-1) & (tokens != core.DEAD)

  def advance(self, state: jax.Array, tokens: jax.Array) -> jax.Array:
    """See traced.Machine."""
    # [B, M] -> [B, 1, M]: both prefixes of a slot append the same tokens.
    tokens = tokens[:, None]
    place = jnp.argmax(self.table.tokens[state] == tokens[..., None], axis=-1)
    return jnp.where(tokens == core.DEAD, state, self.table.next[state, place])
