"""Layers of the networks: embedding, norms, rotary positions, attention, MLP.

Shape letters besides those of `core`: R rows of a tile, P positions of a
prefix, C channels of a head, F width of the MLP, X any leading dimensions.
Parameters are float32; computation is in the `dtype` given. Projections keep
the head dimension apart, so that a mesh's model axis can divide it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax.sharding import PartitionSpec

# (module, parameter) -> mesh axes of the last dimensions. Weight matrices are
# divided over both axes, by heads, MLP width or vocabulary over `model`.
_SPECS = {
  ('embedding', 'table'): ('model', 'data'),
  ('positions', 'table'): (None, 'data'),
  ('qkv', 'kernel'): ('data', None, 'model', None),
  ('qkv', 'bias'): (None, 'model', None),
  ('inputs', 'kernel'): ('data', 'model', None),
  ('out', 'kernel'): ('model', None, 'data'),
  ('up', 'kernel'): ('data', 'model'),
  ('up', 'bias'): ('model',),
  ('gate', 'kernel'): ('data', 'model'),
  ('gate', 'bias'): ('model',),
  ('down', 'kernel'): ('model', 'data'),
  ('head', 'kernel'): ('data', 'model'),
  ('head', 'bias'): ('model',),
}

# Finite, so that exp(_NEVER - _NEVER) is no NaN where nothing is seen.
_NEVER = -1e30


def _names(path: tuple[Any, ...]) -> list[str]:
  """Last two names of a parameter's path, of any of JAX's key types."""
  names = []
  for key in path:
    name = getattr(key, 'key', getattr(key, 'name', key))
    if isinstance(name, str) and name not in ('value', 'raw_value'):
      names.append(name)
  return names[-2:]


def partition_spec(
  path: tuple[Any, ...], shape: tuple[int, ...]
) -> PartitionSpec:
  """Mesh axes ('data', 'model') of a parameter; small ones are replicated.

  path: names from the network down, such as ('blocks', 0, 'mlp', 'up',
  'kernel'). Leading dimensions (layers stacked for a scan) are not divided.
  """
  axes = _SPECS.get(tuple(_names(path)), ())
  return PartitionSpec(*(None,) * (len(shape) - len(axes)), *axes)


def sharding(
  mesh: jax.sharding.Mesh, path: tuple[Any, ...], shape: tuple[int, ...]
) -> jax.sharding.NamedSharding:
  """`partition_spec` on a mesh, less the axes that do not divide `shape`."""
  axes = [
    axis if axis and size % mesh.shape[axis] == 0 else None
    for size, axis in zip(shape, partition_spec(path, shape), strict=True)
  ]
  return jax.sharding.NamedSharding(mesh, PartitionSpec(*axes))


def decays(path: tuple[Any, ...]) -> bool:
  """Is this a weight matrix, which weight decay applies to?

  Norms, biases and embedding tables are not; the number of dimensions does
  not tell, since a scan stacks layers.
  """
  return _names(path)[-1] == 'kernel'


def dropout(x: jax.Array, rate: float, key: jax.Array | None) -> jax.Array:
  """Zeroes a share `rate` of x and scales the rest; nothing without a key."""
  if key is None or not rate:
    return x
  kept = jax.random.bernoulli(key, 1 - rate, x.shape)
  return jnp.where(kept, x / (1 - rate), 0).astype(x.dtype)


class Table(nnx.Module):
  """Rows of parameters looked up by id: tokens or positions.

  init: 'normal', N(0, scale^2), or 'torch', PyTorch's default N(0, 1).
  """

  def __init__(
    self,
    num: int,
    width: int,
    rngs: nnx.Rngs,
    *,
    init: str = 'normal',
    scale: float = 0.02,
  ):
    table = jax.random.normal(rngs.params(), (num, width))
    self.table = nnx.Param(table if init == 'torch' else scale * table)


class Linear(nnx.Module):
  """A dense map; its kernel has shape inputs + outputs, each a tuple.

  init: 'normal', weights N(0, scale^2) and biases 0, or 'torch', PyTorch's
  default: both uniform in +-1 / sqrt(number of inputs).
  """

  def __init__(
    self,
    inputs: tuple[int, ...],
    outputs: tuple[int, ...],
    rngs: nnx.Rngs,
    *,
    bias: bool = True,
    init: str = 'normal',
    scale: float = 0.02,
  ):
    kernel, offset = _linear_init(inputs, outputs, rngs, bias, init, scale)
    self.kernel = nnx.Param(kernel)
    self.bias = nnx.Param(offset) if bias else None
    self.inputs, self.outputs = inputs, outputs

  def __call__(self, x: jax.Array) -> jax.Array:
    """[..., *inputs] -> [..., *outputs], as one matrix product."""
    lead = x.shape[: x.ndim - len(self.inputs)]
    kernel = self.kernel[...].astype(x.dtype)
    kernel = kernel.reshape(math.prod(self.inputs), math.prod(self.outputs))
    y = x.reshape(math.prod(lead), -1) @ kernel
    if self.bias is not None:
      y += self.bias[...].astype(x.dtype).reshape(1, -1)
    return y.reshape(*lead, *self.outputs)


def _linear_init(
  inputs: tuple[int, ...],
  outputs: tuple[int, ...],
  rngs: nnx.Rngs,
  bias: bool,
  init: str,
  scale: float,
) -> tuple[jax.Array, jax.Array | None]:
  """Kernel and bias of a `Linear`."""
  if init == 'normal':
    kernel = scale * jax.random.normal(rngs.params(), inputs + outputs)
    return kernel, jnp.zeros(outputs) if bias else None
  most = math.prod(inputs) ** -0.5

  def uniform(shape: tuple[int, ...]) -> jax.Array:
    return jax.random.uniform(rngs.params(), shape, minval=-most, maxval=most)

  return uniform(inputs + outputs), uniform(outputs) if bias else None


class Norm(nnx.Module):
  """Layer normalisation ('layer') or root mean square ('rms'), in float32."""

  def __init__(self, width: int, kind: str, eps: float = 1e-5):
    self.eps = eps
    self.scale = nnx.Param(jnp.ones(width))
    self.bias = nnx.Param(jnp.zeros(width)) if kind == 'layer' else None

  def __call__(self, x_XD: jax.Array) -> jax.Array:
    """Same shape and dtype."""
    x = x_XD.astype(jnp.float32)
    wide = (1,) * (x.ndim - 1) + (-1,)
    if self.bias is not None:
      x -= x.mean(-1, keepdims=True)
    x *= jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + self.eps)
    x *= self.scale[...].reshape(wide)
    if self.bias is not None:
      x += self.bias[...].reshape(wide)
    return x.astype(x_XD.dtype)


def rotary(
  x_XHC: jax.Array, positions_X: jax.Array, *, published: bool = False
) -> jax.Array:
  """Turns channel pairs (c, c + C/2) by position * 10000^(-2c/C) radians.

  Su et al. 2021: norms are kept, and the product of a turned query and a
  turned key depends on how far apart they are alone. `published` is what
  Walker and Lyons 2026 ran: angles laid out as above, but neighbours (2c,
  2c + 1) mixed, each with an angle of its own. That is no rotation, and
  neither holds.
  """
  half = x_XHC.shape[-1] // 2
  rates = 10000.0 ** (-jnp.arange(half, dtype=jnp.float32) / half)
  shape = (1,) * positions_X.ndim + (-1,)
  angles = positions_X[..., None].astype(jnp.float32) * rates.reshape(shape)
  cos = jnp.cos(angles)[..., None, :].astype(x_XHC.dtype)
  sin = jnp.sin(angles)[..., None, :].astype(x_XHC.dtype)
  first, second = x_XHC[..., :half], x_XHC[..., half:]
  if published:
    pairs = x_XHC.reshape(*x_XHC.shape[:-1], half, 2)
    mixed = jnp.stack([-pairs[..., 1], pairs[..., 0]], -1)
    mixed = mixed.reshape(x_XHC.shape)
    cos, sin = jnp.tile(cos, 2), jnp.tile(sin, 2)
    return x_XHC * cos + mixed * sin
  return jnp.concatenate(
    [first * cos - second * sin, second * cos + first * sin], -1
  )


class Mlp(nnx.Module):
  """Two-layer perceptron: 'gelu', 'gelu_erf' (exact) or 'swiglu'.

  hidden: 0 is 4 D, for 'swiglu' 8/3 D up to a multiple of 8.
  """

  def __init__(
    self,
    width: int,
    kind: str,
    rngs: nnx.Rngs,
    *,
    bias: bool,
    scale: float = 0.02,
    hidden: int = 0,
    init: str = 'normal',
  ):
    gated = kind == 'swiglu'
    usual = -(-8 * width // 24) * 8 if gated else 4 * width
    sizes, rest = ((width,), (hidden or usual,)), {'bias': bias, 'init': init}
    self.exact = kind == 'gelu_erf'
    self.up = Linear(*sizes, rngs, **rest)
    self.gate = Linear(*sizes, rngs, **rest) if gated else None
    self.down = Linear(*sizes[::-1], rngs, scale=scale, **rest)

  def __call__(self, x_XD: jax.Array) -> jax.Array:
    """[..., D] -> [..., D]."""
    if self.gate is None:
      x_XF = jax.nn.gelu(self.up(x_XD), approximate=not self.exact)
    else:
      x_XF = jax.nn.silu(self.gate(x_XD)) * self.up(x_XD)
    return self.down(x_XF)


class Share(NamedTuple):
  """Attention over some of the keys; shares of disjoint keys combine.

  Attributes:
    top: [...] greatest score.
    mass: [...] sum of exp(score - top).
    total: [..., C] values weighted by exp(score - top).
  """

  top: jax.Array
  mass: jax.Array
  total: jax.Array

  def combine(self, other: Share) -> Share:
    """Of both sets of keys; exactly this one where the other is empty."""
    top = jnp.maximum(self.top, other.top)
    mine, its = jnp.exp(self.top - top), jnp.exp(other.top - top)
    return Share(
      top,
      self.mass * mine + other.mass * its,
      self.total * mine[..., None] + other.total * its[..., None],
    )


def share(scores: jax.Array, seen: jax.Array, values: Any) -> Share:
  """Share of the keys [..., K] that are seen.

  values: maps weights [..., K] to the weighted sums of values [..., C].
  """
  scores = jnp.where(seen, scores.astype(jnp.float32), _NEVER)
  top = scores.max(-1)
  weights = jnp.where(seen, jnp.exp(scores - top[..., None]), 0)
  total = values(weights).astype(jnp.float32)
  return Share(top, weights.sum(-1), total)


class Attention(nnx.Module):
  """Causal multi-head attention, over whole sequences or with a cache."""

  def __init__(
    self,
    width: int,
    heads: int,
    rngs: nnx.Rngs,
    *,
    turned: bool,
    bias: bool,
    scale: float,
  ):
    channels = width // heads
    self.turned = turned
    self.qkv = Linear((width,), (3, heads, channels), rngs, bias=bias)
    self.out = Linear((heads, channels), (width,), rngs, bias=bias, scale=scale)

  def project(
    self, x_XD: jax.Array, positions_X: jax.Array
  ) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Queries (scaled), keys and values, each [..., H, C]."""
    qkv = self.qkv(x_XD)
    q, k, v = qkv[..., 0, :, :], qkv[..., 1, :, :], qkv[..., 2, :, :]
    if self.turned:
      q, k = rotary(q, positions_X), rotary(k, positions_X)
    return q * q.shape[-1] ** -0.5, k, v

  def __call__(
    self, x_BLD: jax.Array, rate: float = 0.0, key: jax.Array | None = None
  ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """Output [B, L, D], and the keys and values [B, L, H, C]."""
    length = x_BLD.shape[1]
    positions = jnp.broadcast_to(jnp.arange(length)[None], x_BLD.shape[:2])
    q, k, v = self.project(x_BLD, positions)
    scores = jnp.einsum('blhc,bmhc->bhlm', q, k).astype(jnp.float32)
    causal = jnp.tril(jnp.ones((length, length), bool))[None, None]
    weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
    weights = dropout(weights.astype(v.dtype), rate, key)
    return self.out(jnp.einsum('bhlm,bmhc->blhc', weights, v)), (k, v)

  def branch(self, rows: int, num: int, size: int, dtype: Any) -> Any:
    """Empty keys and values [R, M, H, K, C] of `size` tokens, K."""
    _, heads, channels = self.qkv.outputs
    piece = jnp.zeros((rows, num, heads, size, channels), dtype)
    return piece, piece

  def step(
    self,
    x_RMD: jax.Array,
    shared: tuple[jax.Array, jax.Array],
    own: Any,
    before_R: jax.Array,
    count_RM: jax.Array,
  ) -> tuple[jax.Array, Any]:
    """One token of each continuation: output [R, M, D], caches after it.

    shared: keys and values [R, H, P, C] of the prefixes, of which before_R
    are in use; own: pieces from `branch`, one after the other, of which
    count_RM are and one more must be free.
    """
    q, k, v = self.project(x_RMD, before_R[:, None] + count_RM)
    q_RHMC = q.swapaxes(1, 2)
    keys, values = shared
    seen = jnp.arange(keys.shape[2])[None] < before_R[:, None]
    whole = share(
      jnp.einsum('rhmc,rhpc->rhmp', q_RHMC, keys),
      seen[:, None, None],
      lambda w: jnp.einsum('rhmp,rhpc->rhmc', w.astype(v.dtype), values),
    )
    whole = jax.tree.map(lambda leaf: leaf.swapaxes(1, 2), whole)
    after, start = [], 0
    for piece in own:
      piece = _write(piece, k, v, count_RM - start)
      part = _own_share(q, piece, count_RM - start)
      # Compiled apart, so that further pieces do not change a bit.
      whole = jax.lax.optimization_barrier(whole.combine(part))
      after.append(piece)
      start += piece[0].shape[3]
    y_RMHC = whole.total / whole.mass[..., None]
    return self.out(y_RMHC.astype(x_RMD.dtype)), after


def _write(
  piece: tuple[jax.Array, jax.Array],
  k_RMHC: jax.Array,
  v_RMHC: jax.Array,
  place_RM: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  """Keys and values put at their places, where these lie in the piece."""
  rows, num, heads, size, _ = piece[0].shape
  place = jnp.where(place_RM < 0, size, place_RM)  # Negative ones would wrap.
  where = (
    jnp.arange(rows)[:, None, None],
    jnp.arange(num)[None, :, None],
    jnp.arange(heads)[None, None],
    place[..., None],
  )
  return tuple(
    old.at[where].set(new, mode='drop', unique_indices=True)
    for old, new in zip(piece, (k_RMHC, v_RMHC), strict=True)
  )


def _own_share(
  q_RMHC: jax.Array,
  piece: tuple[jax.Array, jax.Array],
  last_RM: jax.Array,
) -> Share:
  """Share of one piece, whose positions up to last_RM are seen."""
  keys, values = piece
  seen = jnp.arange(keys.shape[3])[None, None] <= last_RM[..., None]
  return share(
    jnp.einsum('rmhc,rmhkc->rmhk', q_RMHC, keys),
    seen[:, :, None],
    lambda w: jnp.einsum('rmhk,rmhkc->rmhc', w.astype(keys.dtype), values),
  )
