"""The selective scan (S6): a diagonal recurrence that takes its step sizes.

    h_t = e^{d_t rate} h_{t-1} + d_t x_t b_t        y_t = <h_t, c_t>

for each channel, with N numbers of state (Gu & Dao 2023, arXiv 2312.00752,
section 3). Every state has a decay of its own, so a chunk is no product of
matrices. Forms: 'sequential', 'associative' (all states of all steps at once),
'chunked' (sequential, and chunks are computed again in the backward pass, which
keeps a state a chunk in memory instead of one a step), 'auto'.

Shape letters: B batch, L length, D channels, N states of a channel.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from wm.kernels.scan import forms

# Backend -> (form, steps of a chunk); the CPU's was measured in training (2
# cores, float32; tests/bench/ssd_bench.py), the others' were not.
_AUTO = {'cpu': ('chunked', 16), 'gpu': ('chunked', 64)}

# A step of 1e-8 decays to zero in float32, and no gradient overflows.
_LEAST = -1e10


def selective(
  x: jax.Array,
  delta: jax.Array,
  rate: jax.Array,
  b: jax.Array,
  c: jax.Array,
  start: jax.Array,
  *,
  form: str = 'auto',
  chunk: int = 0,
) -> tuple[jax.Array, jax.Array]:
  """Outputs [B, L, D] of the recurrence, and the state after the last step.

  Steps of size 0 leave the state as it was.

  Args:
    x: [B, L, D] inputs.
    delta: [B, L, D] step sizes, at least 0.
    rate: [D, N], at most 0; -inf forgets all at every step of size above 0.
    b: [B, L, N].
    c: [B, L, N].
    start: [B, D, N] state before the first step; its dtype is computed in.
    form: see above.
    chunk: steps of a chunk; 0 is the default.

  Raises:
    InputError: no such form.
  """
  form, chunk = forms.resolve(form, chunk, *forms.usual(_AUTO))
  inputs = tuple(leaf.astype(start.dtype) for leaf in (x, delta, b, c))
  rate = _bounded(rate.astype(start.dtype))
  if form == 'associative':
    return _associative(rate, inputs, start)
  # The other forms scan over time, which then comes first: [L, B, ...].
  steps = tuple(leaf.swapaxes(0, 1) for leaf in inputs)
  if form == 'sequential':
    state, y = _run(rate, start, steps)
  else:
    state, y = _chunked(rate, start, steps, chunk)
  return y.swapaxes(0, 1), state


def step(
  x_XD: jax.Array,
  delta_XD: jax.Array,
  rate_DN: jax.Array,
  b_XN: jax.Array,
  c_XN: jax.Array,
  state_XDN: jax.Array,
) -> tuple[jax.Array, jax.Array]:
  """One step: outputs [..., D] and the state after it."""
  rate = _bounded(rate_DN).reshape((1,) * (x_XD.ndim - 1) + rate_DN.shape)
  decay = jnp.exp(delta_XD[..., None] * rate)
  added = (delta_XD * x_XD)[..., None] * b_XN[..., None, :]
  state = decay * state_XDN + added
  return (state * c_XN[..., None, :]).sum(-1), state


def _bounded(rate: jax.Array) -> jax.Array:
  """Finite, since a step of size 0 is multiplied by it."""
  return jnp.maximum(rate, _LEAST)


def _run(rate: jax.Array, state: jax.Array, steps_L: Any) -> Any:
  """(state after, y [L, B, D]) of steps [L, B, ...]."""

  @jax.checkpoint  # Only the states are kept for the backward pass.
  def body(h: jax.Array, now: Any) -> tuple[jax.Array, jax.Array]:
    x, delta, b, c = now
    y, h = step(x, delta, rate, b, c, h)
    return h, y

  return jax.lax.scan(body, state, steps_L)


def _chunked(rate: jax.Array, start: jax.Array, steps_L: Any, size: int) -> Any:
  length = steps_L[0].shape[0]
  size = max(min(size, length), 1)
  short = -length % size

  def cut(leaf: jax.Array) -> jax.Array:
    leaf = jnp.pad(leaf, ((0, short), *((0, 0),) * (leaf.ndim - 1)))
    return leaf.reshape(-1, size, *leaf.shape[1:])

  # The outer scan keeps a state a chunk; a chunk's steps are run again for the
  # backward pass. Padding has steps of size 0, which change nothing.
  run = jax.checkpoint(functools.partial(_run, rate))
  state, y = jax.lax.scan(run, start, tuple(cut(leaf) for leaf in steps_L))
  return state, y.reshape(-1, *y.shape[2:])[:length]


def _associative(rate: jax.Array, inputs: Any, start: jax.Array) -> Any:
  x, delta, b, c = inputs
  decay = jnp.exp(delta[..., None] * rate[None, None])
  added = (delta * x)[..., None] * b[:, :, None]
  h = forms.diagonal(decay, added, start)
  return jnp.einsum('bldn,bln->bld', h, c), h[:, -1]
