"""Causal attention in blocks, without an array of all query-key pairs.

Scores are computed for S queries and S keys at a time, none above the diagonal:

    keys j      0   1   2   3 (last)      L = 3 S + 2: the last block ends
    queries 0   x                         where the sequence does, so it
            1   x   x                     overlaps block 2 by S - 2 tokens,
            2   x   x   x                 which count in block 2 alone.
            3   x   x   x   x             Nothing is padded or copied.

For the keys so far, a query stores the largest score, the sum of exponentials
and the weighted sum of values (online softmax: Milakov and Gimelshein 2018).
The backward pass recomputes the scores from the logarithm of that sum (Dao et
al. 2022, arXiv 2205.14135). Both passes loop over blocks by `fori_loop`, which
keeps compilers from merging the loops and storing the recomputed scores.

Shape letters: B batch, L length, H heads, C channels, S tokens of a block.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

# Finite, so that exp(_NEVER - _NEVER) is not NaN where all keys are masked.
_NEVER = -1e30


def dropout_bits(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
  """Pseudo-random uint32, hashes of each element's index and the key.

  Two rounds of multiplying and shifting, as in MurmurHash3's finaliser: a tenth
  of the work of `jax.random.bits`, no memory, and the same bits on any mesh.
  """
  # The key enters before and between the rounds. If it entered only before, two
  # keys would give the same bits in another order.
  before, between = jax.random.bits(key, (2,))
  # Row-major number of each element, modulo 2^32.
  place, stride = jnp.zeros(shape, jnp.uint32), 1
  for axis in reversed(range(len(shape))):
    index = jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
    place += index * jnp.uint32(stride % 2**32)
    stride *= shape[axis]
  x = place * jnp.uint32(0x9E3779B1) + before
  x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
  x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
  x = (x ^ (x >> 16)) + between
  x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
  x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
  return x ^ (x >> 16)


def kept(key: jax.Array, shape: tuple[int, ...], rate: float) -> jax.Array:
  """Bool mask of kept elements when a share `rate` is dropped."""
  # Compares 32 random bits per element with the rate, without drawing floats.
  # The bound of a rate close to 1 is rounded to fit 32 bits.
  bound = min(round(rate * 2**32), 2**32 - 1)
  return dropout_bits(key, shape) >= jnp.uint32(bound)


def blocks(
  q_BLHC: jax.Array,
  k_BLHC: jax.Array,
  v_BLHC: jax.Array,
  size: int,
  rate: float = 0.0,
  key: jax.Array | None = None,
) -> jax.Array:
  """Causal attention softmax(q k') v: [B, L, H, C].

  All arrays and products have one floating dtype; sums are at least float32.
  Queries are not scaled here.

  Args:
    q_BLHC: queries.
    k_BLHC: keys.
    v_BLHC: values.
    size: S, tokens of a block, capped at L.
    rate: of dropout on the weights.
    key: of dropout; None disables dropout.
  """
  rate = 0.0 if key is None else rate
  size = min(size, q_BLHC.shape[1])
  return _blocks(size, rate, q_BLHC, k_BLHC, v_BLHC, key if rate else None)


def _cut(x: jax.Array, first: jax.Array, size: int, axis: int = 1) -> jax.Array:
  return jax.lax.dynamic_slice_in_dim(x, first, size, axis)


def _put(
  x: jax.Array, part: jax.Array, first: jax.Array, axis: int = 1
) -> jax.Array:
  part = part.astype(x.dtype)
  return jax.lax.dynamic_update_slice_in_dim(x, part, first, axis)


def _wide(x: jax.Array) -> Any:
  """The dtype of sums."""
  return jnp.promote_types(x.dtype, jnp.float32)


def _product(subscripts: str, first: jax.Array, second: jax.Array) -> jax.Array:
  """An einsum in the second's dtype, summed in a wide one."""
  first = first.astype(second.dtype)
  kind = _wide(second)
  return jnp.einsum(subscripts, first, second, preferred_element_type=kind)


class _BlockGrid:
  """Positions of blocks, and masks of query block i and key block j."""

  def __init__(self, length: int, size: int, rate: float, key: Any) -> None:
    self.length, self.size, self.num = length, size, -(-length // size)
    self.rate, self.key = rate, key

  def first(self, i: jax.Array) -> jax.Array:
    """First token of a block."""
    return jnp.minimum(i * self.size, self.length - self.size)

  def unshared(self, i: jax.Array) -> jax.Array:
    """[S] bool: tokens that belong to no earlier block."""
    return self.first(i) + jnp.arange(self.size) >= i * self.size

  def seen(self, i: jax.Array, j: jax.Array) -> jax.Array:
    """[1, 1, S, S] bool: pairs that count."""
    place = jnp.arange(self.size)
    query, key = self.first(i) + place, self.first(j) + place
    pairs = (key[None] <= query[:, None]) & self.unshared(j)[None]
    return (pairs & self.unshared(i)[:, None])[None, None]

  def dropped(self, weights: jax.Array, i: jax.Array, j: jax.Array) -> Any:
    """The weights [B, H, S, S] of a pair of blocks after dropout."""
    if not self.rate:
      return weights
    # One PRNG key per pair of blocks: both passes drop the same weights.
    key = jax.random.fold_in(self.key, i * self.num + j)
    keep = kept(key, weights.shape, self.rate)
    return jnp.where(keep, weights / (1 - self.rate), 0)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _blocks(
  size: int, rate: float, q: jax.Array, k: jax.Array, v: jax.Array, key: Any
) -> jax.Array:
  return _forward(size, rate, q, k, v, key)[0]


def _forward(
  size: int, rate: float, q: jax.Array, k: jax.Array, v: jax.Array, key: Any
) -> tuple[jax.Array, Any]:
  """Outputs, and residuals for the backward pass."""
  #   q, k, v, y   [B, L, H, C]     a block of them      [B, S, H, C]
  #   sums         [B, H, L]        top, mass            [B, H, S]
  #   scores, weights of a pair     [B, H, S, S]         total  [B, H, S, C]
  batch, length, heads, channels = q.shape
  grid, kind = _BlockGrid(length, size, rate, key), _wide(q)
  none_BHS = jnp.zeros((batch, heads, size), kind)

  def queries(i: jax.Array, whole: Any) -> Any:
    """Puts a block's outputs, and its logarithms of sums, in their place."""
    start, mask = grid.first(i), grid.unshared(i)
    q_BSHC = _cut(q, start, size)

    def keys(j: jax.Array, so_far: Any) -> Any:
      """Adds one block of keys to the queries' running sums."""
      top, mass, total = so_far
      k_BSHC, v_BSHC = (_cut(x, grid.first(j), size) for x in (k, v))
      scores = _product('bshc,bthc->bhst', q_BSHC, k_BSHC)
      scores = jnp.where(grid.seen(i, j), scores, _NEVER)
      # Earlier sums are relative to the old largest score: rescale them.
      new = jnp.maximum(top, scores.max(-1))
      weights, old = jnp.exp(scores - new[..., None]), jnp.exp(top - new)
      mass = mass * old + weights.sum(-1)
      # Dropout follows the softmax: the sum includes dropped weights.
      weights = grid.dropped(weights, i, j)
      more = _product('bhst,bthc->bhsc', weights, v_BSHC)
      return new, mass, total * old[..., None] + more

    nothing = jnp.zeros((batch, heads, size, channels), kind)
    # Keys of later blocks than i come after all of its queries.
    top, mass, total = jax.lax.fori_loop(
      0, i + 1, keys, (none_BHS + _NEVER, none_BHS, nothing)
    )
    # Rows of another block do not change.
    new_BSHC = (total / mass[..., None]).swapaxes(1, 2)
    y, sums = whole
    old_BSHC, old_BHS = _cut(y, start, size), _cut(sums, start, size, 2)
    y_BSHC = jnp.where(mask[None, :, None, None], new_BSHC, old_BSHC)
    sums_BHS = jnp.where(mask[None, None], top + jnp.log(mass), old_BHS)
    return _put(y, y_BSHC, start), _put(sums, sums_BHS, start, 2)

  empty = jnp.zeros_like(q), jnp.zeros((batch, heads, length), kind)
  y, sums = jax.lax.fori_loop(0, grid.num, queries, empty)
  return y, (q, k, v, key, y, sums)


def _backward(size: int, rate: float, residuals: Any, slope: jax.Array) -> Any:
  """Gradients of queries, keys and values, from that of the outputs."""
  q, k, v, key, y, sums = residuals
  grid, kind = _BlockGrid(q.shape[1], size, rate, key), _wide(q)
  # With weights w = softmax(s): dL/ds = w (dL/dw - level), where
  # level = sum of w * dL/dw = dL/dy * y, one number per query.
  level = jnp.einsum('blhc,blhc->bhl', slope.astype(kind), y.astype(kind))

  def keys(j: jax.Array, slopes: Any) -> Any:
    """Adds the contribution of a block of keys and values to the gradients."""
    start = grid.first(j)
    k_BSHC, v_BSHC = (_cut(x, start, size) for x in (k, v))

    def queries(i: jax.Array, so_far: Any) -> Any:
      """The gradients, with one more block of queries."""
      to_q, to_k_BSHC, to_v_BSHC = so_far
      first = grid.first(i)
      q_BSHC, slope_BSHC = (_cut(x, first, size) for x in (q, slope))
      sums_BHS1, level_BHS1 = (
        _cut(x, first, size, 2)[..., None] for x in (sums, level)
      )
      scores = _product('bshc,bthc->bhst', q_BSHC, k_BSHC)
      # Recomputes the softmax from the logarithm of its sum.
      weights = jnp.where(grid.seen(i, j), jnp.exp(scores - sums_BHS1), 0)
      dropped = grid.dropped(weights, i, j)
      to_v_BSHC += _product('bhst,bshc->bthc', dropped, slope_BSHC)
      to_dropped = _product('bshc,bthc->bhst', slope_BSHC, v_BSHC)
      # Dropped weights have gradient 0; kept weights are scaled as before.
      to_weights = grid.dropped(to_dropped, i, j)
      to_scores = weights * (to_weights - level_BHS1)
      to_k_BSHC += _product('bhst,bshc->bthc', to_scores, q_BSHC)
      more = _product('bhst,bthc->bshc', to_scores, k_BSHC)
      to_q = _put(to_q, _cut(to_q, first, size) + more, first)
      return to_q, to_k_BSHC, to_v_BSHC

    to_q, to_k, to_v = slopes
    nothing = jnp.zeros(k_BSHC.shape, kind)
    # Queries of earlier blocks than j see none of its keys.
    to_q, more_k, more_v = jax.lax.fori_loop(
      j, grid.num, queries, (to_q, nothing, nothing)
    )
    to_k = _put(to_k, _cut(to_k, start, size) + more_k, start)
    return to_q, to_k, _put(to_v, _cut(to_v, start, size) + more_v, start)

  nothing = jnp.zeros(q.shape, kind)
  slopes = jax.lax.fori_loop(0, grid.num, keys, (nothing, nothing, nothing))
  return *(x.astype(q.dtype) for x in slopes), None


_blocks.defvjp(_forward, _backward)
