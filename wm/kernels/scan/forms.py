"""Recurrences computed by chunks of time, and defaults of platforms.

Only the states between chunks are stored; the backward pass recomputes the rest
of a chunk, which stays in the processor's caches. So memory is that of the
arguments, the outputs and one state per chunk. Chunks are sliced from the
arguments one by one, without a transpose that brings time first and without
cutting along batch or heads, so that a mesh may divide these.

Shape letters: B batch, L length, K steps of a chunk, X any other dimensions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from wm.runtime import compute

# body(weights, state, chunk of `inputs`) -> (next state, outputs of the chunk).
Body = Callable[[Any, Any, Any], tuple[Any, Any]]

# e^-100 is zero in float32; the bound keeps sums of logarithms finite.
_LEAST = -100.0


def bounded(a: jax.Array) -> jax.Array:
  """Logarithms of decays, bounded below so that they can be summed."""
  return jnp.maximum(a, _LEAST)


def run_chunks(
  body: Body, size: int, weights: Any, start: Any, inputs: Any
) -> tuple[Any, Any]:
  """Outputs [B, L, ...] and the state after the last step.

  Args:
    body: computes one chunk; it is differentiated only by its arguments, and
      must not close over traced arrays.
    size: steps of a chunk; a short last chunk is padded by zeros, which must
      leave the state unchanged.
    weights: tree of arrays passed to every chunk.
    start: tree of arrays, the state before the first step.
    inputs: tree of floating arrays [B, L, ...].
  """
  length = jax.tree.leaves(inputs)[0].shape[1]
  size = max(min(size, length), 1)
  short = -length % size
  if short:
    inputs = jax.tree.map(functools.partial(_padded, short=short), inputs)
  y, state = _run(body, size, weights, start, inputs)
  return jax.tree.map(lambda leaf: leaf[:, :length], y), state


def decays(a_XK: jax.Array) -> jax.Array:
  """[..., K, K] exp(a_(j + 1) + ... + a_i) for i >= j, else 0.

  Each pair is summed separately, as the difference of two long sums would lose
  the digits of weak decays after strong ones. a: from `bounded`.
  """
  # As a product: row i of `lower` adds up u = 0..i of a_u, and column j keeps
  # those after step j, which leaves u = j + 1..i.
  size = a_XK.shape[-1]
  lower = jnp.tril(jnp.ones((size, size), a_XK.dtype))
  wide = (1,) * (a_XK.ndim - 1)
  after_XUJ = jnp.tril(lower, -1).reshape(*wide, size, size)
  sums_XIJ = jnp.matmul(
    lower, a_XK[..., :, None] * after_XUJ, precision=jax.lax.Precision.HIGHEST
  )
  # Zeroed twice: without the inner `where`, exp of the masked sums would give
  # NaN gradients.
  seen = lower.reshape(*wide, size, size) > 0
  return jnp.where(seen, jnp.exp(jnp.where(seen, sums_XIJ, 0)), 0)


def _padded(leaf_BLX: jax.Array, short: int) -> jax.Array:
  rest = ((0, 0),) * (leaf_BLX.ndim - 2)
  return jnp.pad(leaf_BLX, ((0, 0), (0, short), *rest))


def _part(tree: Any, number: jax.Array, size: int) -> Any:
  """Chunk `number` [B, K, ...] of each leaf."""
  return jax.tree.map(
    lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, number * size, size, 1),
    tree,
  )


def _put(tree: Any, part: Any, number: jax.Array, size: int) -> Any:
  """Replaces chunk `number` of each leaf."""

  def put(leaf: jax.Array, part: jax.Array) -> jax.Array:
    return jax.lax.dynamic_update_slice_in_dim(leaf, part, number * size, 1)

  return jax.tree.map(put, tree, part)


def _unset(leaf: jax.Array) -> jax.Array:
  return jnp.empty(leaf.shape, leaf.dtype)


def _numbers(inputs: Any, size: int) -> jax.Array:
  return jnp.arange(jax.tree.leaves(inputs)[0].shape[1] // size)


def _walk(
  body: Body, size: int, weights: Any, start: Any, inputs: Any, keep: bool
) -> tuple[tuple[Any, Any], Any]:
  """(y, state), and the states [S, ...] before the chunks if they are kept."""
  length = jax.tree.leaves(inputs)[0].shape[1]
  first = jax.tree.map(lambda leaf: leaf[:, :size], inputs)
  shapes = jax.eval_shape(body, weights, start, first)[1]
  empty = jax.tree.map(
    lambda y: jnp.empty((y.shape[0], length, *y.shape[2:]), y.dtype), shapes
  )

  def step(carry: Any, number: jax.Array) -> tuple[Any, Any]:
    state, whole = carry
    after, y = body(weights, state, _part(inputs, number, size))
    return (after, _put(whole, y, number, size)), state if keep else None

  # Outputs are written in place; stacking would need a transpose that brings
  # batch first.
  numbers = _numbers(inputs, size)
  (state, y), before = jax.lax.scan(step, (start, empty), numbers)
  return (y, state), before


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _run(
  body: Body, size: int, weights: Any, start: Any, inputs: Any
) -> tuple[Any, Any]:
  return _walk(body, size, weights, start, inputs, False)[0]


def _forward(
  body: Body, size: int, weights: Any, start: Any, inputs: Any
) -> tuple[tuple[Any, Any], Any]:
  result, before = _walk(body, size, weights, start, inputs, True)
  return result, (weights, inputs, before)


def _backward(
  body: Body, size: int, residuals: Any, slopes: tuple[Any, Any]
) -> tuple[Any, Any, Any]:
  weights, inputs, before = residuals
  to_y, to_state = slopes

  def step(carry: Any, now: tuple[jax.Array, Any]) -> tuple[Any, None]:
    """Recomputes a chunk from the state before it, and backpropagates."""
    to_weights, to_state, to_inputs = carry
    number, state = now
    part = _part(inputs, number, size)
    # Recomputes the chunk with residuals for its gradient.
    _, pull = jax.vjp(body, weights, state, part)
    more, to_state, to_part = pull((to_state, _part(to_y, number, size)))
    to_weights = jax.tree.map(jnp.add, to_weights, more)
    to_inputs = _put(to_inputs, to_part, number, size)
    return (to_weights, to_state, to_inputs), None

  # Gradients of `inputs` need no zeros: each chunk is written once.
  nothing = jax.tree.map(jnp.zeros_like, weights)
  carry = nothing, to_state, jax.tree.map(_unset, inputs)
  now = _numbers(inputs, size), before
  return jax.lax.scan(step, carry, now, reverse=True)[0]


_run.defvjp(_forward, _backward)


def usual(measured: Mapping[str, Any]) -> Any:
  """The best measured setting of this platform; others use the GPU's."""
  return measured.get(compute.platform(), measured['gpu'])


def diagonal(decay: jax.Array, added: jax.Array, start: jax.Array) -> jax.Array:
  """All h_t = decay_t h_(t-1) + added_t [B, L, ...] by an associative scan."""

  def after(first: Any, second: Any) -> Any:
    # Maps h -> d h + u composed: the second after the first.
    return first[0] * second[0], second[0] * first[1] + second[1]

  product, total = jax.lax.associative_scan(after, (decay, added), axis=1)
  return product * start[:, None] + total
