"""Turning pairs: circles, what rotations keep, and their slopes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wm.models import mamba3

R, H, N, A = 3, 4, 8, 2


def vectors(rows: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """b [rows, R, N], biases [R, H, N] and turns [rows, H, A]."""
  rng = np.random.default_rng(0)
  turns = rng.uniform(-0.5, 0.5, (rows, H, A))
  return rng.normal(size=(rows, R, N)), rng.normal(size=(R, H, N)), turns


def defined(b, bias, turns):
  """The definition: quarters 0 and 2 turn together, 1 and 3 stay."""
  b = b[..., None, :] + bias.reshape((1,) * (b.ndim - 2) + bias.shape)
  angles = 2 * jnp.pi * turns[..., None, :, :]
  cos, sin = jnp.cos(angles), jnp.sin(angles)
  item, middle, two, rest = jnp.split(b, 4, -1)
  parts = [item * cos - two * sin, middle, two * cos + item * sin, rest]
  return jnp.concatenate(parts, -1)


@pytest.mark.parametrize(('dtype', 'digit'), [('f4', 1.3e-7), ('f8', 3e-16)])
def test_the_circle_is_cosine_and_sine_to_the_last_digits(dtype, digit):
  with jax.enable_x64(True):
    turns = np.linspace(-0.5, 0.5, 40_001).astype(dtype)
    cos, sin = jax.jit(mamba3.circle)(turns)
    assert cos.dtype == sin.dtype == dtype
    angles = 2 * np.pi * turns.astype('f8')
    np.testing.assert_allclose(cos, np.cos(angles), atol=digit)
    np.testing.assert_allclose(sin, np.sin(angles), atol=digit)
    for place in (-0.5, -0.25, 0.0, 0.25, 0.5):
      cos, sin = (float(x) for x in mamba3.circle(jnp.asarray(place, dtype)))
      assert round(cos) == round(np.cos(2 * np.pi * place))
      assert abs(cos * sin) < digit


def test_turned_vectors_are_the_definition_and_so_are_their_slopes():
  with jax.enable_x64(True):
    inputs = vectors()
    weight = np.random.default_rng(1).normal(size=(5, R, H, N))

    def slopes(function):
      def loss(inputs):
        result = function(*inputs)
        return (weight * result).sum() + jnp.sin(result).sum(), result

      return jax.jit(jax.grad(loss, has_aux=True))(inputs)

    for first, other in zip(
      *map(jax.tree.leaves, (slopes(mamba3.turned), slopes(defined))),
      strict=True,
    ):
      np.testing.assert_allclose(first, other, atol=1e-12)


def test_leading_dimensions_are_free():
  b, bias, turns = (x.astype(np.float32) for x in vectors(6))
  whole = mamba3.turned(b, bias, turns)
  parts = mamba3.turned(b.reshape(2, 3, R, N), bias, turns.reshape(2, 3, H, A))
  np.testing.assert_array_equal(parts.reshape(6, R, H, N), whole)
  np.testing.assert_allclose(
    mamba3.turned(b[0], bias, turns[0]), whole[0], atol=1e-6
  )


def test_pairs_of_one_rank_are_neighbours():
  b = jnp.arange(8.0)
  np.testing.assert_array_equal(mamba3.pairs(b, 4), b)
  np.testing.assert_array_equal(mamba3.pairs(b, 1), [0, 2, 4, 5, 1, 3, 6, 7])


def test_turns_do_not_lose_digits_with_length():
  moved = np.random.default_rng(0).uniform(0, 5, 20_000).astype(np.float32)

  @jax.jit
  def turns(moved: jax.Array) -> jax.Array:
    return jax.lax.associative_scan(mamba3.add_turns, mamba3.within(moved))

  gap = np.asarray(turns(moved), np.float64)
  gap = gap - np.cumsum(moved.astype(np.float64))
  assert np.abs(gap - np.round(gap)).max() < 2e-6
