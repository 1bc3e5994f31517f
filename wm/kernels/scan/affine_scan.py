"""Affine recurrences y_t = a_t y_{t-1} + b_t of vectors, in two forms.

  sequential    one step after the other
  associative   maps composed in a tree: (A, b) after (P, q) is (AP, Aq + b)

The gradient is such a recurrence too, backwards in time: with g = dL/dy,
h_t = g_t + a_{t+1}' h_{t+1} is dL/db, and h_t y_{t-1}' is dL/da. It is computed
in the same form, so that only a and y are stored.

Shape letters: L length, X any other dimensions.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from wm.kernels.scan import forms

# Platform -> form. Measured on a CPU, 2 cores, float32, forward and backward,
# CPU ms (tests/bench/scan_bench.py):
#                             sequential  associative
#   16 x 128, 128 wide               2.3          9.0
#   16 x 600, 512 wide                52          213
#   16 x 128, 128 in 8 x 8           3.7           17
#   16 x 600, 512 in 4 x 4           106        1,234
# On other platforms many small steps are slow; the tree has fewest (not
# measured).
_FORMS = {'cpu': 'sequential', 'gpu': 'associative'}


def affine(
  a: jax.Array, b: jax.Array, start: jax.Array, form: str = '', axis: int = 1
) -> jax.Array:
  """All y_t = a_t y_{t-1} + b_t, from y_{-1} = start; the shape of b.

  a: [B, L, D] for diagonal maps of b [B, L, D], or [B, L, N, k, k] for blocks
  of b [B, L, N, k]. start: b's shape without L, or broadcastable to it. All
  have one floating dtype, also that of the computation. form: see above; '' is
  the
  platform's. axis: the dimension L, 1 or 0.
  """
  start = jnp.broadcast_to(start, b.shape[:axis] + b.shape[axis + 1 :])
  form = form or forms.usual(_FORMS)
  y = _affine(form, jnp.moveaxis(a, axis, 0), jnp.moveaxis(b, axis, 0), start)
  return jnp.moveaxis(y, 0, axis)


def affine_step(a: jax.Array, b: jax.Array, y: jax.Array) -> jax.Array:
  """One step, a y + b: a [..., k] or [..., k, k], b and y [..., k]."""
  return _act(a, y) + b


def _act(a: jax.Array, y: jax.Array) -> jax.Array:
  """a y, where a is diagonal or has one more dimension."""
  if a.ndim == y.ndim:
    return a * y
  return jnp.einsum('...ij,...j->...i', a, y)


def _turned(a: jax.Array, blocks: bool) -> jax.Array:
  return a.swapaxes(-1, -2) if blocks else a


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _affine(
  form: str, a_LX: jax.Array, b_LX: jax.Array, start_X: jax.Array
) -> jax.Array:
  if form == 'sequential':
    return _sequential(a_LX, b_LX, start_X)
  return _associative(a_LX, b_LX, start_X)


def _forward(
  form: str, a_LX: jax.Array, b_LX: jax.Array, start_X: jax.Array
) -> tuple[jax.Array, tuple[jax.Array, jax.Array, jax.Array]]:
  y_LX = _affine(form, a_LX, b_LX, start_X)
  return y_LX, (a_LX, y_LX, start_X)


def _backward(
  form: str, residuals: tuple[jax.Array, jax.Array, jax.Array], g_LX: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array]:
  a_LX, y_LX, start_X = residuals
  blocks = a_LX.ndim > y_LX.ndim
  if form == 'sequential':
    h_LX, to_start_X = _sequential_back(a_LX, g_LX)
  else:
    # The same recurrence backwards in time:
    #   h_t = g_t + a_{t+1}' h_{t+1}, from nothing after the last step.
    # Entry t of the reversed maps is a_{L-t}'. The first entry multiplies
    # nothing: a_0 is a placeholder.
    later = _turned(jnp.concatenate([a_LX[1:], a_LX[:1]]), blocks)[::-1]
    nothing = jnp.zeros_like(start_X)
    h_LX = _affine(form, later, g_LX[::-1], nothing)[::-1]
    to_start_X = _act(_turned(a_LX[0], blocks), h_LX[0])
  before_LX = jnp.concatenate([start_X[None], y_LX[:-1]])  # y_{t-1}.
  if blocks:
    to_a_LX = h_LX[..., :, None] * before_LX[..., None, :]
  else:
    to_a_LX = h_LX * before_LX
  return to_a_LX, h_LX, to_start_X


_affine.defvjp(_forward, _backward)


def _sequential(
  a_LX: jax.Array, b_LX: jax.Array, start_X: jax.Array
) -> jax.Array:
  def body(y_X: jax.Array, inputs: Any) -> tuple[jax.Array, jax.Array]:
    a_X, b_X = inputs
    y_X = affine_step(a_X, b_X, y_X)
    return y_X, y_X

  return jax.lax.scan(body, start_X, (a_LX, b_LX))[1]


def _sequential_back(
  a_LX: jax.Array, g_LX: jax.Array
) -> tuple[jax.Array, jax.Array]:
  """h [L, ...], and a_0' h_0: without a copy of a."""
  blocks = a_LX.ndim > g_LX.ndim

  def body(later_X: jax.Array, inputs: Any) -> tuple[jax.Array, jax.Array]:
    a_X, g_X = inputs
    h_X = g_X + later_X
    return _act(_turned(a_X, blocks), h_X), h_X

  nothing = jnp.zeros_like(g_LX[0])
  to_start_X, h_LX = jax.lax.scan(body, nothing, (a_LX, g_LX), reverse=True)
  return h_LX, to_start_X


def _associative(
  a_LX: jax.Array, b_LX: jax.Array, start_X: jax.Array
) -> jax.Array:
  blocks = a_LX.ndim > b_LX.ndim
  # The first step is computed first, so that the scan starts from zero.
  b_LX = jnp.concatenate(
    [affine_step(a_LX[:1], b_LX[:1], start_X[None]), b_LX[1:]]
  )

  def after(first: Any, second: Any) -> tuple[jax.Array, jax.Array]:
    a, b = second
    return a @ first[0] if blocks else a * first[0], affine_step(a, b, first[1])

  length = len(b_LX)
  short = (1 << (length - 1).bit_length()) - length
  # Padding at the end does not affect earlier steps.
  a_LX, b_LX = _padded(a_LX, short), _padded(b_LX, short)
  return _tree(after, a_LX, b_LX)[1][:length]


def _tree(after: Any, *maps_LX: jax.Array) -> tuple[jax.Array, ...]:
  """Compositions of the maps up to each of L places; L is a power of two.

  As `lax.associative_scan`, whose interleaved padding makes a TPU's compiler
  (libtpu 0.0.42) fail for block maps.
  """
  if len(maps_LX[0]) == 1:
    return maps_LX
  pairs = [x.reshape(-1, 2, *x.shape[1:]) for x in maps_LX]
  even, odd = (tuple(x[:, n] for x in pairs) for n in (0, 1))
  # Compositions of pairs give those that end at odd places, then at even ones.
  odd = _tree(after, *after(even, odd))
  later = after([x[:-1] for x in odd], [x[1:] for x in even])
  return tuple(
    jnp.stack([jnp.concatenate([first[:1], rest]), last], 1).reshape(x.shape)
    for first, rest, last, x in zip(even, later, odd, maps_LX, strict=True)
  )


def _padded(x_LX: jax.Array, short: int) -> jax.Array:
  return jnp.pad(x_LX, ((0, short), *((0, 0),) * (x_LX.ndim - 1)))
