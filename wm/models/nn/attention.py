"""Causal attention, with rotary positions, over sequences or with a cache.

Shape letters as in `layers`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from wm.kernels import attention as kernel
from wm.models.nn import layers

# Kinds of positions that turn queries and keys; see `rotary`.
ROTARY = ('rotary', 'rotary_published')

# Up to this length all scores at once are as fast, and no more than rows.
_WHOLE = 128
# Backend -> tokens of a block.
_BLOCK, _ELSEWHERE = {'cpu': 64}, 128
_FUSED = range(8, 129, 8)  # Channels of a head that cuDNN takes.

# Finite, so that exp(_NEVER - _NEVER) is no NaN where nothing is seen.
_NEVER = -1e30


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
  cos = jnp.cos(angles)[..., None, None, :].astype(x_XHC.dtype)
  sin = jnp.sin(angles)[..., None, None, :].astype(x_XHC.dtype)
  # Halves as a dimension of their own: no copy of what they are cut from.
  halves = x_XHC.reshape(*x_XHC.shape[:-1], 2, half)
  signed = jnp.concatenate([-sin, sin], -2)
  if published:
    pairs = x_XHC.reshape(*x_XHC.shape[:-1], half, 2)
    mixed = jnp.stack([-pairs[..., 1], pairs[..., 0]], -1)
    turned = halves * cos + mixed.reshape(halves.shape) * sin
  else:
    turned = halves * cos + halves[..., ::-1, :] * signed
  return turned.reshape(x_XHC.shape)


def attend(
  q_BLHC: jax.Array,
  k_BLHC: jax.Array,
  v_BLHC: jax.Array,
  rate: float = 0.0,
  key: jax.Array | None = None,
) -> jax.Array:
  """Causal attention [B, L, H, C] of scaled queries; dropout with a key.

  Longer sequences are done in blocks. On a GPU cuDNN does what it can: low
  precision, without dropout (not tested: no GPU was at hand).
  """
  length, channels = q_BLHC.shape[1], q_BLHC.shape[3]
  backend, dropped = jax.default_backend(), key is not None and rate > 0
  low = q_BLHC.dtype in (jnp.bfloat16, jnp.float16)
  if backend == 'gpu' and low and channels in _FUSED and not dropped:
    return jax.nn.dot_product_attention(
      q_BLHC, k_BLHC, v_BLHC, scale=1.0, is_causal=True, implementation='cudnn'
    )
  if length > _WHOLE:
    size = _BLOCK.get(backend, _ELSEWHERE)
    return kernel.blocks(q_BLHC, k_BLHC, v_BLHC, size, rate, key)
  return whole(q_BLHC, k_BLHC, v_BLHC, rate, key)


def whole(
  q_BLHC: jax.Array,
  k_BLHC: jax.Array,
  v_BLHC: jax.Array,
  rate: float = 0.0,
  key: jax.Array | None = None,
) -> jax.Array:
  """`attend` with all scores [B, H, L, L] at once."""
  length = q_BLHC.shape[1]
  scores = jnp.einsum('blhc,bmhc->bhlm', q_BLHC, k_BLHC)
  scores = scores.astype(jnp.promote_types(scores.dtype, jnp.float32))
  causal = jnp.tril(jnp.ones((length, length), bool))[None, None]
  weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
  weights = layers.dropout(weights.astype(v_BLHC.dtype), rate, key)
  return jnp.einsum('bhlm,bmhc->blhc', weights, v_BLHC)


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
  """Causal multi-head attention, over whole sequences or with a cache.

  positions: queries and keys are turned by theirs where this is in ROTARY.
  """

  def __init__(
    self,
    width: int,
    heads: int,
    rngs: nnx.Rngs,
    *,
    positions: str,
    bias: bool,
    scale: float,
    init: str = 'normal',
  ):
    channels, rest = width // heads, {'bias': bias, 'init': init}
    self.positions = positions
    self.qkv = layers.Linear((width,), (3, heads, channels), rngs, **rest)
    self.out = layers.Linear(
      (heads, channels), (width,), rngs, scale=scale, **rest
    )

  def project(
    self, x_XD: jax.Array, positions_X: jax.Array
  ) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Queries (scaled), keys and values, each [..., H, C]."""
    q, k, v = (part[..., 0, :, :] for part in self.qkv.split(x_XD, (1,) * 3))
    if self.positions in ROTARY:
      published = self.positions == 'rotary_published'
      q = rotary(q, positions_X, published=published)
      k = rotary(k, positions_X, published=published)
    return q * q.shape[-1] ** -0.5, k, v

  def __call__(
    self, x_BLD: jax.Array, rate: float = 0.0, key: jax.Array | None = None
  ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """Output [B, L, D], and the keys and values [B, L, H, C]."""
    positions = jnp.arange(x_BLD.shape[1])[None]
    positions = jnp.broadcast_to(positions, x_BLD.shape[:2])
    q, k, v = self.project(x_BLD, positions)
    y_BLHC = attend(q, k, v, rate, key)
    return self.out(y_BLHC), (k, v)

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
