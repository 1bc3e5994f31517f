"""Causal attention over sequences, and one token after the other by a cache.

Shape letters as in `layers`.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from wm.kernels import attention as kernel
from wm.models.nn import layers, network, rotary

# Up to this length all scores at once are as fast, and no more than rows.
_WHOLE = 128
# Backend -> tokens of a block.
_BLOCK, _ELSEWHERE = {'cpu': 64}, 128
_FUSED = range(8, 129, 8)  # Channels of a head that cuDNN takes.

# Finite, so that exp(_NEVER - _NEVER) is no NaN where nothing is seen.
_NEVER = -1e30


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
  # scores [B, H, L, L]: row l has a query's scores for all keys m <= l.
  length = q_BLHC.shape[1]
  scores = jnp.einsum('blhc,bmhc->bhlm', q_BLHC, k_BLHC)
  # Softmax in float32: sums of many 16-bit weights would not reach 1.
  scores = scores.astype(jnp.promote_types(scores.dtype, jnp.float32))
  causal = jnp.tril(jnp.ones((length, length), bool))[None, None]
  weights = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
  weights = layers.dropout(weights.astype(v_BLHC.dtype), rate, key)
  return jnp.einsum('bhlm,bmhc->blhc', weights, v_BLHC)


class Partial(NamedTuple):
  """Softmax attention over some of the keys; disjoint ones can be merged.

  Attributes:
    top: [...] greatest score.
    mass: [...] sum of exp(score - top).
    total: [..., C] values weighted by exp(score - top).
  """

  top: jax.Array
  mass: jax.Array
  total: jax.Array

  def merge(self, other: Partial) -> Partial:
    """Over both sets of keys; exactly this one where the other is empty."""
    # Both are brought to one reference, the greater score: no exp overflows.
    top = jnp.maximum(self.top, other.top)
    mine, its = jnp.exp(self.top - top), jnp.exp(other.top - top)
    return Partial(
      top,
      self.mass * mine + other.mass * its,
      self.total * mine[..., None] + other.total * its[..., None],
    )


def partial(scores: jax.Array, seen: jax.Array, values: Any) -> Partial:
  """Attention over those of the keys [..., K] that are seen.

  values: maps weights [..., K] to the weighted sums of values [..., C].
  """
  # top [..., 1 a query], weights [..., K]; unseen keys weigh exactly 0.
  scores = jnp.where(seen, scores.astype(jnp.float32), _NEVER)
  top = scores.max(-1)
  weights = jnp.where(seen, jnp.exp(scores - top[..., None]), 0)
  total = values(weights).astype(jnp.float32)
  return Partial(top, weights.sum(-1), total)


class Attention(nnx.Module):
  """Causal multi-head attention, over whole sequences or with a cache.

  positions: queries and keys are turned by theirs where this is one of
    `rotary.KINDS`.
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
    channels, self.positions = width // heads, positions
    linear = functools.partial(layers.Linear, rngs=rngs, bias=bias, init=init)
    self.qkv = linear((width,), (3, heads, channels))
    self.out = linear((heads, channels), (width,), scale=scale)

  def project(
    self, x_XD: jax.Array, positions_X: jax.Array
  ) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Queries (scaled), keys and values, each [..., H, C]."""
    # qkv [D, 3, H, C]: three products, as a cut of one would be copied.
    q, k, v = (part[..., 0, :, :] for part in self.qkv.split(x_XD, (1,) * 3))
    if self.positions in rotary.KINDS:
      published = self.positions == 'rotary_published'
      q = rotary.rotate(q, positions_X, published=published)
      k = rotary.rotate(k, positions_X, published=published)
    # 1 / sqrt(C) here: L C numbers are scaled, not L^2 scores.
    return q * q.shape[-1] ** -0.5, k, v

  def __call__(
    self, x_BLD: jax.Array, rate: float = 0.0, key: jax.Array | None = None
  ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """Output [B, L, D], and the keys and values [B, L, H, C]."""
    q, k, v = self.project(x_BLD, places(x_BLD))
    y_BLHC = attend(q, k, v, rate, key)
    return self.out(y_BLHC), (k, v)

  def at(self, x_BLD: jax.Array, places_BP: jax.Array) -> jax.Array:
    """Output [B, P, D] at some places."""
    # Queries at P places, keys and values at all L: P L scores, not L^2.
    q_BPHC = self.project(layers.taken(x_BLD, places_BP), places_BP)[0]
    _, k, v = self.project(x_BLD, places(x_BLD))
    seen = jnp.arange(x_BLD.shape[1])[None, None] <= places_BP[..., None]
    part = partial(
      jnp.einsum('bphc,blhc->bhpl', q_BPHC, k),
      seen[:, None],
      lambda w: jnp.einsum('bhpl,blhc->bhpc', w.astype(v.dtype), v),
    )
    y_BPHC = (part.total / part.mass[..., None]).swapaxes(1, 2)
    return self.out(y_BPHC.astype(x_BLD.dtype))

  def new_page(self, rows: int, num: int, size: int, dtype: Any) -> Any:
    """Empty keys and values [R, M, H, K, C] of `size` tokens, K."""
    _, heads, channels = self.qkv.outputs
    page = jnp.zeros((rows, num, heads, size, channels), dtype)
    return page, page

  def decode(
    self,
    x_RMD: jax.Array,
    prefix: tuple[jax.Array, jax.Array],
    pages: list[tuple[jax.Array, jax.Array]],
    step: network.DecodeStep,
  ) -> tuple[jax.Array, list[tuple[jax.Array, jax.Array]]]:
    """One token of each continuation: output [R, M, D], pages after it.

      key           0 .... prefix_len | 0 ... added, this token
      cache         prefix, of P      | pages[0], of K | pages[1] | ...

    The prefix is read once for the M continuations that share it; each page
    is attended to by itself and merged, so that a longer list of pages changes
    no bit of what the first ones give.

    prefix: keys and values [R, H, P, C], of which step.prefix_len are in use.
    pages: from `new_page`, in which step.added places are in use and at least
      one more is free.
    """
    added_RM = step.added
    q, k, v = self.project(x_RMD, step.prefix_len[:, None] + added_RM)
    # [R, H, M, C] x [R, H, P, C] -> scores [R, H, M, P]: the M continuations
    # are rows of one product with the prefix's keys.
    q_RHMC = q.swapaxes(1, 2)
    keys, values = prefix
    seen = jnp.arange(keys.shape[2])[None] < step.prefix_len[:, None]
    part = partial(
      jnp.einsum('rhmc,rhpc->rhmp', q_RHMC, keys),
      seen[:, None, None],
      lambda w: jnp.einsum('rhmp,rhpc->rhmc', w.astype(v.dtype), values),
    )
    # Back to [R, M, H, ...], as pages have a cache for each continuation.
    part = jax.tree.map(lambda leaf: leaf.swapaxes(1, 2), part)
    after, start = [], 0
    for page in pages:
      page = _write(page, k, v, added_RM - start)
      further = _over_page(q, page, added_RM - start)
      # Compiled apart, so that further pages do not change a bit.
      part = jax.lax.optimization_barrier(part.merge(further))
      after.append(page)
      start += page[0].shape[3]
    y_RMHC = part.total / part.mass[..., None]
    return self.out(y_RMHC.astype(x_RMD.dtype)), after


def places(x_BLX: jax.Array) -> jax.Array:
  """[B, L] the position of each token of whole sequences."""
  return jnp.broadcast_to(jnp.arange(x_BLX.shape[1])[None], x_BLX.shape[:2])


def _write(
  page: tuple[jax.Array, jax.Array],
  k_RMHC: jax.Array,
  v_RMHC: jax.Array,
  place_RM: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  """Keys and values put at their places, where these lie in the page."""
  rows, num, heads, size, _ = page[0].shape
  # Places of other pages are out of range either way, and are dropped.
  place = jnp.where(place_RM < 0, size, place_RM)  # Negative ones would wrap.
  where = (
    jnp.arange(rows)[:, None, None],
    jnp.arange(num)[None, :, None],
    jnp.arange(heads)[None, None],
    place[..., None],
  )

  def put(old: jax.Array, new: jax.Array) -> jax.Array:
    return old.at[where].set(new, mode='drop', unique_indices=True)

  return put(page[0], k_RMHC), put(page[1], v_RMHC)


def _over_page(
  q_RMHC: jax.Array, page: tuple[jax.Array, jax.Array], last_RM: jax.Array
) -> Partial:
  """Attention over one page, whose places up to last_RM are seen."""
  keys, values = page
  seen = jnp.arange(keys.shape[3])[None, None] <= last_RM[..., None]
  return partial(
    jnp.einsum('rmhc,rmhkc->rmhk', q_RMHC, keys),
    seen[:, :, None],
    lambda w: jnp.einsum('rmhk,rmhkc->rmhc', w.astype(keys.dtype), values),
  )
