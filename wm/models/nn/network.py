"""The methods that a network defines, for training and for predictions.

Training needs only `__call__`. Probes and interventions need `hidden` and
`resume`. Sessions need `prefill`, `new_page` and `decode` (and `restart`), for
attention (caches that grow) as for recurrences (states of constant size).
`base.family.Stack` defines all these from the blocks of a family. A
`NetworkSpec` describes the weights of a network. Training stores weights on a
`storage_mesh`, whose axes are the prime factors of the mesh's sizes. Serving
puts a copy at each of the `placements`: a device, or a group of devices where
one device cannot hold the weights. Shape letters as in `layers`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, cast

import jax
import numpy as np
from flax import nnx
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from wm import core
from wm.core import registry, resources
from wm.models.nn import layers

# Parameters times tokens below which compiling costs more than padding.
CHEAP = 100_000_000
MOST_REPLICATED = 1 << 12  # Larger arrays are sharded.
_DIGITS = '0123456789'
# A device, or a group of devices with a replicated array on each.
Placement: TypeAlias = jax.Device | NamedSharding


class DecodeStep(NamedTuple):
  """One more token of each continuation.

  Attributes:
    tokens: [R, M] int32.
    prefix_len: [R] int32, tokens of the prefix.
    added: [R, M] int32, tokens appended to the prefix so far.
    moved: [R, M] bool, False where a continuation is unchanged and its logits
      are not used.
  """

  tokens: jax.Array
  prefix_len: jax.Array
  added: jax.Array
  moved: jax.Array


class Network(nnx.Module):
  """A network of a family; tokens are int32, logits float32.

  Pads come only at the end of a row and the network is causal, so no padding
  mask is needed.
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
    """The logits cut by `layers.cut`; a family may compute the parts alone."""
    return layers.cut(self(tokens_BL, key), sizes)

  def at(self, tokens_BL: jax.Array, places_BP: jax.Array) -> jax.Array:
    """Logits [B, P, V] at some places; a family may skip the other places."""
    return layers.taken(self(tokens_BL), places_BP)

  def hidden(self, tokens_BL: jax.Array, layer: int) -> jax.Array:
    """[B, L, D] float32 after `layer` layers; -1: after the final norm."""
    raise _undefined(self, 'hidden')

  def resume(
    self, tokens_BL: jax.Array, layer: int, x_BLD: jax.Array
  ) -> jax.Array:
    """Logits [B, L, V] if `hidden` of these tokens were x_BLD."""
    raise _undefined(self, 'resume')

  def prefill(
    self, tokens_RP: jax.Array, lengths_R: jax.Array
  ) -> tuple[Any, jax.Array]:
    """Reads prefixes; returns the cache, and logits [R, V] after them.

    The cache is a tree of arrays [R, ...], whose other dimensions may grow
    with P; for a recurrence it is the state after the prefix.
    """
    raise _undefined(self, 'prefill')

  def page_size(self, max_len: int) -> int:
    """Tokens that fit in one page of a continuation's cache.

    Pages are made as continuations grow, up to `max_len` tokens. A recurrence
    needs only one page: the default.
    """
    return max_len

  def new_page(self, rows: int, num: int, size: int) -> Any:
    """An empty page for `size` tokens: a tree of arrays [R, M, ...]."""
    raise _undefined(self, 'new_page')

  def decode(
    self, prefix: Any, pages: list[Any], step: DecodeStep
  ) -> tuple[list[Any], jax.Array]:
    """Appends a token to each continuation.

    Returns the updated pages, and logits [R, M, V].

    prefix: the cache from `prefill`.
    pages: the pages so far, with room for one more token.
    """
    raise _undefined(self, 'decode')


class StatefulNetwork(Network):
  """A network whose continuations hold states, as recurrences do.

  Attention masks positions beyond the current tokens, so stale entries of its
  pages are harmless; a recurrent state must be reset when a row restarts.
  """

  @abc.abstractmethod
  def restart(
    self, pages: list[Any], prefix: Any, fresh_RM: jax.Array
  ) -> list[Any]:
    """Pages with the prefix's state in each fresh continuation."""


def _undefined(network: Network, method: str) -> core.InputError:
  kind = type(network).__name__
  return core.InputError(f'{kind} defines no {method}: it can be trained only')


@dataclasses.dataclass(frozen=True)
class NetworkSpec:
  """The structure of a network, a static argument of jitted functions.

  Attributes:
    model: the model that builds the network.
    vocab_size, max_len, outputs: arguments of `build`.
  """

  model: core.Trainable
  vocab_size: int
  max_len: int
  outputs: int = 0

  def build(self, rngs: nnx.Rngs) -> Network:
    """The network with fresh weights."""
    sizes = self.vocab_size, self.max_len, rngs, self.outputs
    # core does not import `Network`; by contract a family builds one.
    return cast(Network, self.model.build(*sizes))

  @property
  def graph(self) -> nnx.GraphDef:
    """The network without its weights."""
    return _structure(self)[0]

  @property
  def abstract(self) -> nnx.State:
    """Shapes and dtypes of the weights, as an nnx.State."""
    return _structure(self)[1]

  @property
  def network(self) -> Network:
    """The network with shapes in place of weights."""
    return nnx.merge(self.graph, self.abstract)

  @property
  def shapes(self) -> dict[str, jax.ShapeDtypeStruct]:
    """Path -> shape and dtype of each parameter."""
    return flatten(self.abstract)

  def tree(self, params: dict[str, Any]) -> Any:
    """Parameters by path -> the network's pytree."""
    leaves = [params[path] for path in paths(self.abstract)]
    return jax.tree.unflatten(jax.tree.structure(self.abstract), leaves)

  @functools.cached_property
  def buckets(self) -> np.ndarray:
    """Lengths that rows are padded to, ascending; the last is max_len."""
    # Each bucket is one program; four reduce the padding where it costs much.
    if self.num_params * self.max_len < CHEAP:
      return np.array([self.max_len])
    return np.unique([-(-self.max_len * n // 4) for n in (1, 2, 3, 4)])

  def check_ids(self, tokens: np.ndarray) -> None:
    """Raises InputError for ids [N] outside the vocabulary."""
    wrong = tokens[(tokens < 0) | (tokens >= self.vocab_size)]
    if wrong.size:
      raise core.InputError(
        f'token {wrong[0]}: the model has ids 0 to {self.vocab_size - 1}'
      )

  def check_tokens(self, tokens: np.ndarray, lengths: np.ndarray) -> None:
    """Raises InputError for ids outside the vocabulary or too long rows."""
    self.check_ids(tokens[np.arange(tokens.shape[1]) < lengths[:, None]])
    if lengths.size and lengths.max() > self.max_len:
      raise core.InputError(
        f'a sequence of {lengths.max()} tokens: the model takes up to '
        f'{self.max_len}'
      )

  @property
  def num_params(self) -> int:
    """Parameters, counted without allocating them."""
    return sum(leaf.size for leaf in jax.tree.leaves(self.abstract))

  @property
  def num_bytes(self) -> int:
    """Bytes of all parameters."""
    leaves = jax.tree.leaves(self.abstract)
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def paths(tree: Any) -> list[str]:
  """Dotted paths of the leaves of a pytree, in its own order."""
  # ('blocks', 0, 'mlp', 'kernel', 'value') -> 'blocks.0.mlp.kernel'
  leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
  names = [
    jax.tree_util.keystr(path, simple=True, separator='.') for path, _ in leaves
  ]
  # NNX variables hold their array under a last key of their own.
  return [
    name.removesuffix('.value').removesuffix('.raw_value') for name in names
  ]


def flatten(tree: Any) -> dict[str, Any]:
  """Path -> leaf."""
  return dict(zip(paths(tree), jax.tree.leaves(tree), strict=True))


def max_supported_length(spec: NetworkSpec, length: int) -> int:
  """Longest sequence, up to `length`, that these weights can read.

  `length` if no parameter depends on the sequence length (recurrences, rotary
  positions), so that a network trained on short sequences can be queried about
  long ones; otherwise, or for shorter lengths, the spec's max_len.
  """
  # A network built for max_len reads all shorter sequences.
  if length <= spec.max_len:
    return spec.max_len
  try:
    longer = dataclasses.replace(spec, max_len=length).abstract
  except core.InputError:  # Too long for the family.
    return spec.max_len
  # Equal shapes: no parameter grows with the length, so the weights fit.
  sizes = [
    [leaf.shape for leaf in jax.tree.leaves(tree)]
    for tree in (spec.abstract, longer)
  ]
  return length if sizes[0] == sizes[1] else spec.max_len


@functools.lru_cache(maxsize=64)
def _structure(spec: NetworkSpec) -> tuple[nnx.GraphDef, nnx.State]:
  # Traced, not run: shapes cost no memory, whatever the model's size.
  graph, state = nnx.split(nnx.eval_shape(lambda: spec.build(nnx.Rngs(0))))
  # Under a mesh weights are divided, and may only be compiled, never allocated.
  if jax.default_backend() == 'cpu' and not layers.divided():
    leaves = jax.tree.leaves(state)
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)
    # An InputError here precedes the kernel's out-of-memory killer.
    what = f'weights of {registry.spec(spec.model)}'
    resources.require_memory(size // jax.process_count(), what)
  return graph, state


def _axes(size: int, name: str) -> dict[str, int]:
  """A mesh axis split into one axis per prime factor, the largest first."""
  factors, prime = [], 2
  while size > 1:
    if size % prime:
      prime += 1
    else:
      factors.append(prime)
      size //= prime
  return {f'{name}{n}': x for n, x in enumerate(reversed(factors or [1]))}


def storage_axes(mesh: Mapping[str, int]) -> dict[str, int]:
  """Axes over which parameters are stored, from the axes of a mesh.

  {'data': 12, 'model': 1} -> {'data0': 3, 'data1': 2, 'data2': 2, 'model0': 1}:
  a dimension that 12 devices cannot divide takes 2 of them, and another one 6.
  """
  return _axes(mesh['data'], 'data') | _axes(mesh['model'], 'model')


def storage_mesh(mesh: Mesh) -> Mesh:
  """The devices of a mesh by `storage_axes`."""
  axes = storage_axes(mesh.shape)
  auto = (AxisType.Auto,) * len(axes)
  devices = mesh.devices.reshape(tuple(axes.values()))
  return Mesh(devices, tuple(axes), axis_types=auto)


def batch_mesh(storage: Mesh) -> Mesh:
  """The mesh ('data', 'model') that `storage_mesh` was made from."""
  sizes = [x for name, x in storage.shape.items() if name[:5] == 'model']
  devices = storage.devices.reshape(-1, int(np.prod(sizes)))
  return Mesh(devices, ('data', 'model'), axis_types=(AxisType.Auto,) * 2)


def division(
  path: str, shape: tuple[int, ...], axes: Mapping[str, int]
) -> tuple[P, int]:
  """The `storage_axes` that divide a parameter, and its numbers per device.

  `layers.partition_spec` is followed as far as dimensions are divisible. For an
  array above MOST_REPLICATED the remaining axes divide other dimensions, so
  that each device stores 1 / devices of the array if its sizes permit.
  """
  keys = path.split('.')
  usual = layers.partition_spec(tuple(keys), shape)
  local = list(shape)
  names: list[list[str]] = [[] for _ in shape]
  # A scan reads one layer at a time: the stacked dimension is not divided.
  stacked = int(keys[0] == 'blocks' and not keys[1].isdigit())

  def put(axis: str, dims: Iterable[int]) -> bool:
    for dim in dims:
      if local[dim] % axes[axis] == 0:
        names[dim].append(axis)
        local[dim] //= axes[axis]
        return True
    return False

  left = []
  for axis in axes:
    layer = [d for d, name in enumerate(usual) if name == axis.rstrip(_DIGITS)]
    if not put(axis, layer):
      left.append(axis)
  if np.prod(shape) > MOST_REPLICATED:
    for axis in left:
      put(axis, sorted(range(stacked, len(shape)), key=lambda d: -local[d]))
  return P(*(tuple(dim) or None for dim in names)), int(np.prod(local))


def storage_shardings(
  shapes: Mapping[str, Any], storage: Mesh | AbstractMesh
) -> dict[str, NamedSharding]:
  """The sharding of each parameter on a `storage_mesh`, from its shape."""
  axes = dict(storage.shape)
  return {
    path: NamedSharding(storage, division(path, leaf.shape, axes)[0])
    for path, leaf in shapes.items()
  }


def placements(
  weights: int, devices: Sequence[jax.Device]
) -> tuple[Placement, ...]:
  """Devices, or groups of devices, that each hold a copy of the weights.

  A group has the fewest devices whose memory is twice the size of the weights,
  or one where devices do not report their memory.

  weights: bytes of all parameters. devices: of this process.
  """
  num, memory = len(devices), memory_of(devices[0])
  fitting = (n for n in range(1, num) if num % n == 0)
  enough = (n for n in fitting if not memory or 2 * weights <= n * memory)
  if (shards := next(enough, num)) == 1:
    return tuple(devices)
  return tuple(
    NamedSharding(_group(devices[first : first + shards]), P())
    for first in range(0, num, shards)
  )


def memory_of(device: jax.Device) -> int:
  """Memory in bytes; 0 where it is unknown, as for CPUs."""
  stats = device.memory_stats() if device.platform != 'cpu' else None
  return int((stats or {}).get('bytes_limit', 0))


def _group(devices: Sequence[jax.Device]) -> Mesh:
  auto = (AxisType.Auto,) * 2
  shape = np.array(devices).reshape(1, -1)
  return storage_mesh(Mesh(shape, ('data', 'model'), axis_types=auto))


def device_of(placement: Placement) -> jax.Device:
  """The first device of a placement."""
  if isinstance(placement, NamedSharding):
    device: jax.Device = placement.mesh.devices.flat[0]
    return device
  return placement


def weight_shardings(
  shapes: Mapping[str, Any], placement: Placement
) -> dict[str, Any]:
  """The sharding of each parameter at a placement, from its shape."""
  if isinstance(placement, NamedSharding):
    return {**storage_shardings(shapes, placement.mesh)}
  return dict.fromkeys(shapes, jax.sharding.SingleDeviceSharding(placement))


@functools.partial(jax.jit, static_argnums=0)
def _init(spec: NetworkSpec, seed: jax.Array) -> nnx.State:
  return nnx.split(spec.build(nnx.Rngs(jax.random.key(seed))))[1]


def init(
  spec: NetworkSpec, seed: int, placement: Placement | None = None
) -> nnx.State:
  """Fresh weights; in a group, each device initialises its own shards."""
  if not isinstance(placement, NamedSharding):
    return _init(spec, np.uint32(seed % 2**32))
  where = spec.tree(weight_shardings(spec.shapes, placement))
  divided = jax.jit(_init, static_argnums=0, out_shardings=where)
  weights: nnx.State = divided(spec, np.uint32(seed % 2**32))
  return weights
