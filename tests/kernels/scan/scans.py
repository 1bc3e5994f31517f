"""Recurrences one step after the other, and what the tests of scans share."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wm.kernels.scan import delta_rule, state_space


def around(chunk: int, *longer: int) -> pytest.MarkDecorator:
  """Parametrizes (length, dtype): one, chunks short and long by one, `longer`.

  Every length is tried in float64, which shows the smallest slip, and one in
  float32. A long one is in float32, and in both where there is time.
  """
  lengths = 1, chunk - 1, chunk, chunk + 1
  inputs = [(length, 'float64') for length in lengths]
  inputs += [(length, 'float32') for length in (chunk + 1, *longer)]
  slow = [
    pytest.param(length, 'float64', marks=pytest.mark.slow) for length in longer
  ]
  return pytest.mark.parametrize(('length', 'dtype'), [*inputs, *slow])


def close(result, wanted, tolerance: float) -> None:
  """Within a share of the largest number of each leaf."""
  for first, other in zip(
    jax.tree.leaves(result), jax.tree.leaves(wanted), strict=True
  ):
    other = np.asarray(other)
    scale = max(float(np.abs(other).max()), 1e-6)
    np.testing.assert_allclose(first, other, atol=tolerance * scale, rtol=0)


def trained(scan):
  """Compiles (arguments, form...) -> outputs and state of a scan, and slopes.

  They are the gradient of a loss that takes all outputs and the state.
  """

  @functools.partial(jax.jit, static_argnums=(1, 2))
  def run(arguments, *form):
    def loss(arguments):
      y, state = scan(arguments, *form)
      return jnp.sin(y).mean() + jnp.cos(state).mean(), (y, state)

    return jax.grad(loss, has_aux=True)(arguments)[::-1]

  return run


def matrix_steps(taken) -> tuple[jax.Array, jax.Array]:
  """Outputs and the last state of matrix states, by `ssd_step`.

  given: the arguments of `ssd_step` [B, L, ...] by name, `start`, and `late`
  where inputs have further weight from the next step on.
  """
  names = [k for k, x in taken.items() if k != 'start' and x is not None]
  steps = {k: jnp.asarray(taken[k]).swapaxes(0, 1) for k in names}

  @jax.checkpoint  # Only the states are kept for the backward pass.
  def body(h, now):
    late = now.pop('late', None)
    y, h = state_space.ssd_step(**now, state=h)
    if late is not None:
      h = h + late[..., None, None] * state_space.outer(now['x'], now['b'])
    return h, y

  state, y = jax.lax.scan(body, jnp.asarray(taken['start']), steps)
  return y.swapaxes(0, 1), state


def delta_steps(*arrays) -> tuple[jax.Array, jax.Array]:
  """As `delta_rule.delta`, by `delta_step`."""

  def body(state, token):
    y, state = delta_rule.delta_step(*token, state)
    return state, y

  steps = tuple(jnp.asarray(x).swapaxes(0, 1) for x in arrays[:-1])
  state, y = jax.lax.scan(body, jnp.asarray(arrays[-1]), steps)
  return y.swapaxes(0, 1), state
