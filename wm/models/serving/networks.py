"""Predictors of trained networks: next tokens or states of whole sequences.

A model and its weights become a `NetworkPredictor` or `NetworkStatePredictor`.
`sessions` decodes continuations, and `adaptation` learns small tasks.

Rows are computed in tiles of one padded length P, of the ascending `buckets`:

  tokens [B, L], lengths [B]        tile [R, P], R = max(tokens // P, 1)
    row 0  ######## .......           P = 8    row 0  ########
    row 1  ####### ........                    row 1  #######.
    row 2  ##############.            P = 16   row 2  ##############..

The shapes of a row, hence its instructions, do not depend on other rows:
results are bit-identical for any number of rows and of devices.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
from collections.abc import Iterator
from typing import Any, Self

import jax
import numpy as np
from flax import nnx

from wm import core
from wm.core import adapting, registry
from wm.models.nn import layers, network
from wm.models.serving import adaptation, sessions

LIGHT = 1_000_000  # Parameters below which a token is little work.


class NetworkReader(core.HiddenStates, core.Adaptable):
  """A network with weights; subclasses interpret its logits.

  Attributes:
    model: its spec as trained.
    spec: its structure in the form used for prediction.
    devices: tiles go to these in turn; default: this process's devices, in
      groups where one cannot hold the weights (`network.placements`).
    cache_bytes: memory limit of one tile of a session, of at least one row.
    tile_tokens: tokens of a tile, of at least one row.
    lanes: see `sessions.TileSizes`.
  """

  devices: tuple[network.Placement, ...] = ()

  def __init__(
    self,
    model: core.Trainable,
    params: nnx.State,
    vocab_size: int,
    end: int,
    max_len: int,
    *,
    devices: tuple[jax.Device, ...] = (),
    cache_bytes: int = 0,
    outputs: int = 0,
  ):
    """outputs: see `core.Trainable.build`; cache_bytes: 0 is by the device."""
    self.model = model
    self.vocab_size, self.end, self.max_len = vocab_size, end, max_len
    self._outputs = outputs
    self._take(params)
    self._local = tuple(devices) or tuple(jax.local_devices())
    self.devices = network.placements(self.spec.num_bytes, self._local)
    sizes = sessions.sizes_on(self._local[0], outputs or vocab_size)
    self.tile_tokens, self.lanes = sizes.tokens, sizes.lanes
    self.cache_bytes = cache_bytes or sizes.cache_bytes

  def _take(self, params: nnx.State) -> None:
    model, self._params = self.model.for_inference(params)
    self.spec = network.NetworkSpec(
      model, self.vocab_size, self.max_len, self._outputs
    )
    # Weights are copied to a placement on first use.
    self._placed: dict[network.Placement, nnx.State] = {}

  def placed(self, placement: network.Placement) -> nnx.State:
    """The weights at a placement."""
    if placement not in self._placed:
      params = network.flatten(self._params)
      where = network.weight_shardings(params, placement)
      self._placed[placement] = self.spec.tree(jax.device_put(params, where))
    return self._placed[placement]

  def untrained(self, seed: int) -> Self:
    """The same network with random weights, on the same devices."""
    twin = copy.copy(self)
    # In the form used for training: `_take` converts it for prediction.
    trained = dataclasses.replace(self.spec, model=self.model)
    twin._take(network.init(trained, seed, self.devices[0]))
    return twin

  def interactive(self) -> Self:
    """See core.TokenReader: tiles of one row."""
    twin = copy.copy(self)
    twin.cache_bytes = twin.tile_tokens = 0
    return twin

  def hidden(
    self, tokens: np.ndarray, lengths: np.ndarray, layer: int
  ) -> np.ndarray:
    """[B, L, D] float32 after `layer` layers (-1: after the final norm).

    Raises:
      InputError: there is no such layer.
    """
    self._check_layer(layer)
    return self.map_tiles(_hidden, (self.spec, layer), tokens, lengths)

  def _check_layer(self, layer: int) -> None:
    # 0: embeddings; `last`: the stream after all blocks; -1: after the norm.
    last, spec = self.spec.network.num_layers, registry.spec(self.model)
    if not -1 <= layer <= last:
      raise core.InputError(f'layer {layer} of {spec}: -1 to {last}')

  def adapt_to(self, data: adapting.Adaptation) -> np.ndarray:
    """See core.Adaptable: by gradient steps, at the first placement."""
    with jax.default_device(network.device_of(self.devices[0])):
      # Adaptation runs in parallel on one device, see `ParallelCalls`.
      weights = self.placed(self.devices[0])
      adapter = adaptation.Adapter(self.spec, weights)
      return adapter.adapt_to(data)

  @property
  def buckets(self) -> np.ndarray:
    """Lengths that whole sequences are padded to, ascending."""
    return self.spec.buckets

  def map_tiles(
    self,
    function: Any,
    static: tuple[Any, ...],
    tokens: np.ndarray,
    lengths: np.ndarray,
    *more: np.ndarray,
  ) -> Any:
    """Applies `function` to tiles: a tree of arrays [B, L, ...].

    Results are 0 past the lengths.

    function: of the static arguments, weights, tokens [R, P] and `more`, arrays
    [B, L, ...] that are cut into tiles in the same way.
    """
    tokens, lengths, *rest = map(np.asarray, (tokens, lengths, *more))
    self.spec.check_tokens(tokens, lengths)
    # Shapes of the results come from tracing, without computation.
    kinds = [('int32', ()), *((x.dtype.str, x.shape[2:]) for x in rest)]
    out = jax.tree.map(
      lambda leaf: np.zeros((*tokens.shape, *leaf.shape[2:]), leaf.dtype),
      _abstract_results(function, static, self.spec, tuple(kinds)),
    )
    # (rows, result) of tiles that devices are still computing.
    pending: collections.deque[tuple[np.ndarray, Any]] = collections.deque()

    def collect() -> None:
      rows, result = pending.popleft()
      # A tile's last rows may be pads: `rows` is shorter than the tile.
      for whole, part in zip(
        jax.tree.leaves(out), jax.tree.leaves(result), strict=True
      ):
        for row, values in zip(rows, np.asarray(part), strict=False):
          whole[row, : lengths[row]] = values[: lengths[row]]

    for number, (rows, *arrays) in enumerate(
      _tiles(self.tile_tokens, self.buckets, lengths, tokens, *rest)
    ):
      # device 0   tile 0 . . | tile 2 . . |
      # device 1     tile 1 . . | tile 3 . . |
      # host                  copy 0  copy 1
      device = self.devices[number % len(self.devices)]
      placed = (jax.device_put(array, device) for array in arrays)
      result = function(*static, self.placed(device), *placed)
      pending.append((rows, result))
      # Each device computes a tile while the host copies another one.
      if len(pending) > len(self.devices):
        collect()
    while pending:
      collect()
    return out


class NetworkPredictor(NetworkReader, core.Predictor):
  """A network whose logits are those of the next token."""

  session_lanes = sessions.PREFIX_LANES

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[B, L, V] float32 in nats; zero at positions past a row's length."""
    return self.map_tiles(tile_log_probs, (self.spec,), tokens, lengths)

  def patched(
    self,
    tokens: np.ndarray,
    lengths: np.ndarray,
    layer: int,
    hidden: np.ndarray,
  ) -> np.ndarray:
    """See core.HiddenStates.patched."""
    self._check_layer(layer)
    hidden = np.asarray(hidden, np.float32)
    return self.map_tiles(_resumed, (self.spec, layer), tokens, lengths, hidden)

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """A session with `num` continuations of each prefix [B, L]."""
    return sessions.NetworkSession(
      self.spec,
      self.placed,
      (prefixes, lengths),
      num,
      devices=self.devices,
      cache_bytes=self.cache_bytes,
      lanes=self.lanes,
    )

  @property
  def prefers_device_loop(self) -> bool:
    """True below LIGHT parameters, where `tests/bench` is faster on a CPU."""
    whole = isinstance(self.devices[0], jax.Device)
    return whole and self.spec.num_params < LIGHT

  def machine(
    self, prefixes: np.ndarray, lengths: np.ndarray, **fields: Any
  ) -> tuple[sessions.NetworkMachine, int]:
    """See core.Predictor; slots of two rows fill one tile of a session."""
    starts = sessions.bucketed(self.spec, prefixes, lengths)
    # The two rows of a slot are the prefixes of a trial.
    num, room = fields['num'], (self.cache_bytes, self.lanes)
    rows = sessions.tile_rows(self.spec, num, *room)
    machine = sessions.NetworkMachine(
      self._params, *starts, self.spec, **fields
    )
    return machine, max(rows // 2, 1)


class NetworkStatePredictor(NetworkReader, core.StatePredictor):
  """A network whose outputs [B, L, C] are logits of states, not of tokens.

  C is the sum of the numbers of classes of all labels.
  """

  def __init__(
    self,
    model: core.Trainable,
    params: nnx.State,
    world: core.World,
    max_len: int,
    **placement: Any,
  ):
    """placement: `devices` and `cache_bytes` of NetworkReader.

    Raises:
      InputError: the world gives no labels.
    """
    if not isinstance(world, core.Labelled):
      raise core.InputError(f'{world.name} gives its states no labels')
    # One head per label; their logits are concatenated, sum(heads) in all.
    self.heads = world.heads.sizes
    outputs = sum(self.heads)
    size, end = len(world.vocab), world.end
    super().__init__(
      model, params, size, end, max_len, outputs=outputs, **placement
    )

  @functools.cached_property
  def buckets(self) -> np.ndarray:
    """Powers of two from 64, and max_len: lengths of games vary widely."""
    # One program each; beyond 64 tokens at most half of a row is padding.
    powers = 64 * 2 ** np.arange(32)
    return np.append(powers[powers < self.max_len], self.max_len)

  def states(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """[B, L, K] int32, 0 past a row's length."""
    return self.map_tiles(tile_states, (self.spec, self.heads), tokens, lengths)

  def state_loss(
    self, tokens: np.ndarray, lengths: np.ndarray, labels: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """`states`, and [B, L] float32 mean nats per label, in one pass."""
    static = self.spec, self.heads
    return self.map_tiles(_state_loss, static, tokens, lengths, labels)


@functools.partial(jax.jit, static_argnums=0)
def tile_log_probs(
  spec: network.NetworkSpec, params: nnx.State, tokens_BL: jax.Array
) -> jax.Array:
  """[R, P, V] nats of a tile [R, P]."""
  return jax.nn.log_softmax(nnx.merge(spec.graph, params)(tokens_BL))


@functools.partial(jax.jit, static_argnums=(0, 1))
def _hidden(
  spec: network.NetworkSpec, layer: int, params: nnx.State, tokens_BL: jax.Array
) -> jax.Array:
  return nnx.merge(spec.graph, params).hidden(tokens_BL, layer)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _resumed(
  spec: network.NetworkSpec,
  layer: int,
  params: nnx.State,
  tokens_BL: jax.Array,
  x_BLD: jax.Array,
) -> jax.Array:
  net = nnx.merge(spec.graph, params)
  return jax.nn.log_softmax(net.resume(tokens_BL, layer, x_BLD))


@functools.partial(jax.jit, static_argnums=(0, 1))
def tile_states(
  spec: network.NetworkSpec,
  heads: layers.Heads,
  params: nnx.State,
  tokens_BL: jax.Array,
) -> jax.Array:
  """[R, P, K] int32 labels of a tile [R, P]."""
  logits_BLC = nnx.merge(spec.graph, params)(tokens_BL)
  return layers.state_classes(logits_BLC, heads)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _state_loss(
  spec: network.NetworkSpec,
  heads: layers.Heads,
  params: nnx.State,
  tokens_BL: jax.Array,
  labels_BLK: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  logits_BLC = nnx.merge(spec.graph, params)(tokens_BL)
  loss_BLK = layers.state_losses(logits_BLC, labels_BLK, heads)
  return layers.state_classes(logits_BLC, heads), loss_BLK.mean(-1)


@functools.lru_cache(maxsize=64)
def _abstract_results(
  function: Any,
  static: tuple[Any, ...],
  spec: network.NetworkSpec,
  kinds: tuple[tuple[str, tuple[int, ...]], ...],
) -> Any:
  """Shapes and dtypes of the results of `function` on tiles [1, 1, ...].

  kinds: (dtype, shape beyond [1, 1]) of each array.
  """
  tile = [jax.ShapeDtypeStruct((1, 1, *rest), kind) for kind, rest in kinds]
  abstract = functools.partial(function, *static)
  return jax.eval_shape(abstract, spec.abstract, *tile)


def _tiles(
  tile_tokens: int,
  buckets: np.ndarray,
  lengths: np.ndarray,
  *arrays: np.ndarray,
) -> Iterator[tuple[np.ndarray, ...]]:
  """Row numbers and padded arrays of tiles, each of one bucket."""
  # A tile holds about tile_tokens tokens: longer buckets have fewer rows.
  of_rows = np.searchsorted(buckets, lengths)  # The shortest sufficient one.
  for bucket, length in enumerate(buckets):
    members = np.flatnonzero((of_rows == bucket) & (lengths > 0))
    size = max(tile_tokens // length, 1)
    for part in core.predictor.chunks(len(members), 1, size):
      rows = members[part]
      tile = (
        core.predictor.padded(array[rows], lengths[rows], size, length)
        for array in arrays
      )
      yield rows, *tile
