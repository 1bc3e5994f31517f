"""Networks as models and predictors: what a family defines, what it gets.

A family is one file: a `Model` (a `NetworkModel`: fields and `build`) and a
`Network` (a Flax NNX module). From `__call__` alone it can be trained; from
`hidden`, `prefill`, `branch`, `step` (and `reset`) it gets probes and sessions,
for attention (caches that grow) and recurrences (states of constant size)
alike.

All work is done in tiles of fixed shape, and a row never meets another one:
results have the same bits for any number of rows and of devices. Shape
letters as in `layers`.
"""

from __future__ import annotations

import abc
import collections
import copy
import dataclasses
import functools
import math
from collections.abc import Iterator
from typing import Any, Self

import jax
import numpy as np
from flax import nnx

from wm import core
from wm.core import registry
from wm.models.nn import layers
from wm.models.serving import sessions


class Network(nnx.Module):
  """What a family defines; tokens are int32, logits float32.

  Pads come only at the end of a row and the network is causal, so there is
  no mask.
  """

  num_layers: int

  @abc.abstractmethod
  def __call__(
    self, tokens_BL: jax.Array, key: jax.Array | None = None
  ) -> jax.Array:
    """Logits [B, L, V] of each next token; dropout only with a key."""

  def parts(
    self, tokens_BL: jax.Array, key: jax.Array | None, sizes: layers.Sizes
  ) -> list[jax.Array]:
    """The logits as `layers.cut` does; a family may do without a cut."""
    return layers.cut(self(tokens_BL, key), sizes)

  def hidden(self, tokens_BL: jax.Array, layer: int) -> jax.Array:
    """[B, L, D] float32 after `layer` layers; -1 after the final norm."""
    raise _undefined(self, 'hidden')

  def prefill(
    self, tokens_RP: jax.Array, lengths_R: jax.Array
  ) -> tuple[Any, jax.Array]:
    """Reads prefixes: what their continuations share, and logits [R, V].

    What is shared is a tree of arrays [R, ...], whose other dimensions may
    grow with P; a recurrence gives the state after the prefix.
    """
    raise _undefined(self, 'prefill')

  def piece(self, steps: int) -> int:
    """Tokens that one piece of a continuation's memory has room for.

    Pieces are made as continuations grow, up to `steps` tokens. A recurrence
    needs but one, whatever it holds: the default.
    """
    return steps

  def branch(self, rows: int, num: int, size: int) -> Any:
    """One empty piece, for `size` tokens: a tree of arrays [R, M, ...]."""
    raise _undefined(self, 'branch')

  def reset(self, own: list[Any], shared: Any, fresh_R: jax.Array) -> list[Any]:
    """`own` with nothing appended in the rows that are fresh.

    Not called where a family does not define it: attention goes by lengths.
    A recurrence copies the state from `shared` to each continuation.
    """
    raise _undefined(self, 'reset')

  def step(
    self,
    shared: Any,
    own: list[Any],
    tokens_RM: jax.Array,
    before_R: jax.Array,
    count_RM: jax.Array,
    moved_RM: jax.Array,
  ) -> tuple[list[Any], jax.Array]:
    """Appends a token to each continuation: `own` after it, logits [R, M, V].

    own: the pieces so far, enough for one more token; before_R: prefix
    lengths; count_RM: tokens appended so far; moved_RM: False where a
    continuation stays as it was and its logits are not used.
    """
    raise _undefined(self, 'step')


def _undefined(network: Network, method: str) -> core.InputError:
  kind = type(network).__name__
  return core.InputError(f'{kind} defines no {method}: it can be trained only')


class NetworkModel(core.Trainable):
  """A family's spec; subclasses are frozen dataclasses."""

  @abc.abstractmethod
  def build(
    self, vocab_size: int, max_len: int, rngs: nnx.Rngs, outputs: int = 0
  ) -> Network:
    """See core.Trainable."""

  def predictor(self, world: core.World, seed: int) -> NetworkPredictor:
    """A predictor with random weights."""
    shape = Shape(self, len(world.vocab), world.max_len)
    return NetworkPredictor(
      self, init(shape, seed), len(world.vocab), world.end, world.max_len
    )


@dataclasses.dataclass(frozen=True)
class Shape:
  """What fixes a network's structure: static in jitted functions.

  Attributes:
    model, vocab_size, max_len, outputs: what `NetworkModel.build` is given.
  """

  model: NetworkModel
  vocab_size: int
  max_len: int
  outputs: int = 0

  def build(self, rngs: nnx.Rngs) -> Network:
    """The network with fresh weights."""
    return self.model.build(self.vocab_size, self.max_len, rngs, self.outputs)

  @property
  def graph(self) -> nnx.GraphDef:
    """The network without its weights."""
    return _structure(self)[0]

  @property
  def abstract(self) -> nnx.State:
    """Shapes and dtypes of the weights."""
    return _structure(self)[1]

  @property
  def network(self) -> Network:
    """The network with shapes in place of weights."""
    return nnx.merge(self.graph, self.abstract)

  @property
  def num_params(self) -> int:
    """Parameters, counted without allocating them."""
    return sum(leaf.size for leaf in jax.tree.leaves(self.abstract))


def reach(shape: Shape, length: int) -> int:
  """Longest sequences that weights of this shape suit, as far as `length`.

  At least the shape's max_len; `length` where no parameter depends on it (a
  recurrence, rotary positions), so that a network trained on short sequences
  can be asked about long ones.
  """
  if length <= shape.max_len:
    return shape.max_len
  try:
    longer = dataclasses.replace(shape, max_len=length).abstract
  except core.InputError:  # The family says that it is too long.
    return shape.max_len
  sizes = [
    [leaf.shape for leaf in jax.tree.leaves(tree)]
    for tree in (shape.abstract, longer)
  ]
  return length if sizes[0] == sizes[1] else shape.max_len


@functools.lru_cache(maxsize=64)
def _structure(shape: Shape) -> tuple[nnx.GraphDef, nnx.State]:
  graph, state = nnx.split(nnx.eval_shape(lambda: shape.build(nnx.Rngs(0))))
  if jax.default_backend() == 'cpu':
    leaves = jax.tree.leaves(state)
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)
    spec = registry.spec(shape.model)
    core.need_memory(size // jax.process_count(), f'weights of {spec}')
  return graph, state


@functools.partial(jax.jit, static_argnums=0)
def _init(shape: Shape, seed: jax.Array) -> nnx.State:
  return nnx.split(shape.build(nnx.Rngs(jax.random.key(seed))))[1]


def init(shape: Shape, seed: int) -> nnx.State:
  """Fresh weights."""
  return _init(shape, np.uint32(seed % 2**32))


@functools.partial(jax.jit, static_argnums=0)
def _log_probs(
  shape: Shape, params: nnx.State, tokens_BL: jax.Array
) -> jax.Array:
  return jax.nn.log_softmax(nnx.merge(shape.graph, params)(tokens_BL))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _hidden(
  shape: Shape, layer: int, params: nnx.State, tokens_BL: jax.Array
) -> jax.Array:
  return nnx.merge(shape.graph, params).hidden(tokens_BL, layer)


class NetworkReader(core.Reinitializable):
  """A network with weights, whatever its logits mean.

  Attributes:
    model: its spec.
    shape: what fixes its structure, in the form it predicts in.
    devices: where tiles go in turn; default: this process's devices.
    cache_bytes: most memory of one tile of a session, as far as one row of
      it fits.
  """

  def __init__(
    self,
    model: NetworkModel,
    params: nnx.State,
    vocab_size: int,
    end: int,
    max_len: int,
    *,
    devices: tuple[jax.Device, ...] = (),
    cache_bytes: int = 3 << 30,
    outputs: int = 0,
  ):
    """outputs: see `NetworkModel.build`."""
    self.model = model
    self.vocab_size, self.end, self.max_len = vocab_size, end, max_len
    self.devices = tuple(devices) or tuple(jax.local_devices())
    self.cache_bytes = cache_bytes
    self._outputs = outputs
    self._take(params)

  def _take(self, params: nnx.State) -> None:
    serving, self._params = self.model.serving(params)
    self.shape = Shape(serving, self.vocab_size, self.max_len, self._outputs)
    self._placed: dict[jax.Device, nnx.State] = {}

  def placed(self, device: jax.Device) -> nnx.State:
    """The weights on a device."""
    if device not in self._placed:
      self._placed[device] = jax.device_put(self._params, device)
    return self._placed[device]

  def hidden(
    self, tokens: np.ndarray, lengths: np.ndarray, layer: int
  ) -> np.ndarray:
    """[B, L, D] float32 after `layer` layers (-1: after the final norm).

    Raises:
      InputError: there is no such layer.
    """
    last = self.shape.network.num_layers
    if not -1 <= layer <= last:
      raise core.InputError(f'layer {layer} of {self.model}: -1 to {last}')
    return self.by_tiles(_hidden, (self.shape, layer), tokens, lengths)

  def untrained(self, seed: int) -> Self:
    """The same network with random weights, on the same devices."""
    twin = copy.copy(self)
    twin._take(init(dataclasses.replace(self.shape, model=self.model), seed))
    return twin

  @property
  def buckets(self) -> np.ndarray:
    """Lengths that whole sequences are padded to, ascending."""
    return sessions.buckets(self.shape)

  def by_tiles(
    self,
    function: Any,
    static: tuple[Any, ...],
    tokens: np.ndarray,
    lengths: np.ndarray,
    *more: np.ndarray,
  ) -> Any:
    """Tree of arrays [B, L, ...] that `function` gives, 0 past the lengths.

    function: of the static arguments, weights, tokens [R, P] and `more`, each
    [B, L, ...] and cut likewise.
    """
    tokens, lengths = np.asarray(tokens), np.asarray(lengths)
    sessions.check_tokens(self.shape, tokens, lengths)
    kinds = [('int32', ()), *((x.dtype.str, x.shape[2:]) for x in more)]
    out = jax.tree.map(
      lambda leaf: np.zeros((*tokens.shape, *leaf.shape[2:]), leaf.dtype),
      _results(function, static, self.shape, tuple(kinds)),
    )
    pending = collections.deque()

    def collect() -> None:
      rows, result = pending.popleft()
      for whole, part in zip(
        jax.tree.leaves(out), jax.tree.leaves(result), strict=True
      ):
        for row, values in zip(rows, np.asarray(part), strict=False):
          whole[row, : lengths[row]] = values[: lengths[row]]

    for number, (rows, *tiles) in enumerate(
      _tiles(self.buckets, lengths, tokens, *more)
    ):
      device = self.devices[number % len(self.devices)]
      placed = (jax.device_put(tile, device) for tile in tiles)
      result = function(*static, self.placed(device), *placed)
      pending.append((rows, result))
      if len(pending) > len(self.devices):
        collect()
    while pending:
      collect()
    return out


class NetworkPredictor(NetworkReader, core.Predictor):
  """A network whose logits are the next token's."""

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[B, L, V] float32 in nats; zero at positions past a row's length."""
    return self.by_tiles(_log_probs, (self.shape,), tokens, lengths)

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> sessions.NetworkSession:
    """A session with `num` continuations of each prefix [B, L]."""
    return sessions.NetworkSession(self, prefixes, lengths, num)


@functools.lru_cache(maxsize=64)
def _results(
  function: Any,
  static: tuple[Any, ...],
  shape: Shape,
  kinds: tuple[tuple[str, tuple[int, ...]], ...],
) -> Any:
  """Abstract results of `function` on a tile [1, 1, ...] of such kinds."""
  tiles = [jax.ShapeDtypeStruct((1, 1, *rest), kind) for kind, rest in kinds]
  abstract = functools.partial(function, *static)
  return jax.eval_shape(abstract, shape.abstract, *tiles)


def _tiles(
  bucket: np.ndarray, lengths: np.ndarray, *arrays: np.ndarray
) -> Iterator[tuple[np.ndarray, ...]]:
  """Row numbers and padded arrays of tiles, each of one length bucket."""
  place = np.searchsorted(bucket, lengths)
  for number, length in enumerate(bucket):
    members = np.flatnonzero((place == number) & (lengths > 0))
    size = max(sessions.TILE_TOKENS // length, 1)
    for start in range(0, len(members), size):
      rows = members[start : start + size]
      yield (
        rows,
        *(
          sessions.padded(array[rows], lengths[rows], size, length)
          for array in arrays
        ),
      )
