"""Chunks one after the other, beside one `lax.scan` over the steps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.kernels.scan.scans import close
from wm.kernels.scan import forms


def body(weights, state, part):
  """A cell of matrix and element-wise products, step by step, unrolled."""
  kept, outputs = state, []
  for t in range(part['x'].shape[1]):
    x, gate = part['x'][:, t], part['gate'][:, t]
    kept = kept + gate[:, None] * jnp.tanh(x @ weights + kept)
    outputs.append(jnp.sin(kept) * x)
  return kept, jnp.stack(outputs, 1)


def inputs(length: int, dtype: str = 'float64'):
  rng = np.random.default_rng(length)

  def draw(*shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(dtype)

  part = {'x': draw(2, length, 3), 'gate': draw(2, length)}
  return draw(3, 3) / 3, draw(2, 3), part


@functools.partial(jax.jit, static_argnums=0)
def trained(size: int, arguments):
  """Outputs and state, and slopes; by one body for all where size is 0."""

  def loss(arguments):
    if size:
      y, state = forms.run_chunks(body, size, *arguments)
    else:
      state, y = body(*arguments)
    return jnp.sin(y).sum() + jnp.cos(state).sum(), (y, state)

  return jax.grad(loss, has_aux=True)(arguments)


@pytest.mark.parametrize(('length', 'size'), [(1, 4), (3, 4), (8, 4), (9, 4)])
def test_chunks_are_the_body_of_all_steps(length, size):
  with jax.enable_x64(True):
    arguments = inputs(length)
    close(trained(size, arguments), trained(0, arguments), 1e-13)


def test_a_first_call_and_one_that_is_trained_give_the_same_bits():
  arguments = inputs(7, 'float32')
  y, state = jax.jit(functools.partial(forms.run_chunks, body, 2))(*arguments)
  result = trained(2, arguments)[1]
  np.testing.assert_array_equal(y, result[0])
  np.testing.assert_array_equal(state, result[1])
  assert y.shape == (2, 7, 3)


def test_slopes_of_slopes():
  with jax.enable_x64(True):
    weights, start, part = inputs(4)
    along = np.random.default_rng(0).normal(size=weights.shape)

    def value(weights):
      return (forms.run_chunks(body, 2, weights, start, part)[0] ** 2).sum()

    slope = jax.jit(jax.grad(value))
    result = jax.jit(jax.grad(lambda w: (slope(w) * along).sum()))(weights)
    numeric = slope(weights + 1e-5 * along) - slope(weights - 1e-5 * along)
    np.testing.assert_allclose(result, numeric / 2e-5, atol=1e-6)


def test_what_is_kept_is_a_state_a_chunk():
  """No memory for what a chunk makes on its way, however many there are."""

  def wide(weights, state, part):
    x = jnp.tanh(part[:, :, None] * weights)  # [B, K, 4000]
    return state + x.sum((1, 2)), jnp.sin(x).sum(-1)

  def loss(weights, part, size):
    y, state = forms.run_chunks(wide, size, weights, jnp.zeros(2), part)
    return y.sum() + state.sum()

  def temporary(size: int) -> int:
    slope = jax.jit(jax.grad(loss), static_argnums=2)
    shapes = (
      jax.ShapeDtypeStruct((1, 1, 4000), jnp.float32),
      jax.ShapeDtypeStruct((2, 256), jnp.float32),
    )
    made = slope.lower(*shapes, size).compile()
    return made.memory_analysis().temp_size_in_bytes

  whole = 2 * 256 * 4000 * 4  # Bytes of x.
  assert temporary(8) < whole / 8


@pytest.mark.parametrize('shape', [(6,), (2, 3, 5)])
def test_decays_are_of_the_steps_between(shape):
  with jax.enable_x64(True):
    a = -np.abs(np.random.default_rng(0).normal(size=shape))
    result = forms.decays(jnp.asarray(a))
    size = shape[-1]
    assert result.shape == (*shape, size)
    for i, j in np.ndindex(size, size):
      want = np.exp(a[..., j + 1 : i + 1].sum(-1)) if i >= j else 0
      np.testing.assert_allclose(result[..., i, j], want, atol=1e-14)
