"""Attention in blocks is attention, and holds no array of all scores."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wm.kernels import attention as kernel
from wm.models import transformer

SHAPE = 2, 45, 3, 8  # Three blocks of 16: the last two overlap.


def arrays(shape=SHAPE, dtype=np.float32) -> list[jax.Array]:
  """Queries, keys, values and a slope of the outputs."""
  rng = np.random.default_rng(0)
  return [jnp.asarray(rng.normal(size=shape), dtype) for _ in range(4)]


def both(attend, q, k, v, slope):
  """Outputs, and gradients by all arguments."""

  @jax.jit
  def run(q, k, v):
    y, back = jax.vjp(attend, q, k, v)
    return y, *back(slope)

  return run(q, k, v)


@pytest.mark.parametrize(
  ('length', 'size'),
  [(1, 16), (15, 16), (16, 16), (17, 16), (45, 16), (48, 16)],
)
def test_blocks_are_the_plain_form_to_the_last_digits(length, size):
  with jax.enable_x64(True):
    inputs = arrays((2, length, 3, 8), np.float64)
    results = both(functools.partial(kernel.blocks, size=size), *inputs)
    for first, other in zip(
      results, both(transformer.whole, *inputs), strict=True
    ):
      assert first.dtype == np.float64
      np.testing.assert_allclose(first, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
  ('dtype', 'near'), [(jnp.float32, 5e-6), (jnp.bfloat16, 0.1)]
)
def test_lower_precision_keeps_its_dtype(dtype, near):
  exact = both(transformer.whole, *arrays())
  inputs = [x.astype(dtype) for x in arrays()]
  results = both(functools.partial(kernel.blocks, size=16), *inputs)
  for first, other in zip(results, exact, strict=True):
    assert first.dtype == dtype
    np.testing.assert_allclose(first.astype(np.float32), other, atol=near)


def test_great_scores_do_not_overflow():
  q, k, v, slope = arrays()
  inputs = 300 * q, k, v, slope
  results = both(functools.partial(kernel.blocks, size=16), *inputs)
  for first, other in zip(
    results, both(transformer.whole, *inputs), strict=True
  ):
    np.testing.assert_allclose(first, other, atol=2e-2, rtol=1e-4)


def test_later_tokens_and_other_rows_do_not_matter():
  q, k, v, _ = arrays()
  run = jax.jit(functools.partial(kernel.blocks, size=16))
  before = run(q, k, v)
  after = run(*(x.at[0, 20:].set(9.0).at[1].set(1.0) for x in (q, k, v)))
  np.testing.assert_array_equal(before[0, :20], after[0, :20])


def test_dropout_has_its_rate_and_its_gradient():
  """Where values are 1 an output is the share of weight that is kept."""
  shape = 4, 80, 3, 8
  q, k, v, slope = arrays(shape)
  drop = functools.partial(kernel.blocks, size=32, rate=0.25)
  kept = drop(0 * q, k, jnp.ones(shape), key=jax.random.key(0))
  assert abs(float(kept.mean()) - 1) < 0.02
  assert float(kept.std()) > 0.05
  again = drop(0 * q, k, jnp.ones(shape), key=jax.random.key(0))
  np.testing.assert_array_equal(kept, again)
  # Along any direction the loss changes as its gradient says.
  with jax.enable_x64(True):
    q, k, v, slope = arrays((1, 21, 2, 4), np.float64)
    drop = functools.partial(kernel.blocks, size=8, rate=0.25)
    loss = jax.jit(lambda *x: (slope * drop(*x, key=jax.random.key(1))).sum())
    gradient = jax.grad(loss, argnums=(0, 1, 2))(q, k, v)
    ways = [jnp.roll(x, 1, 1) for x in (q, k, v)]
    up, down = (
      loss(*(x + step * way for x, way in zip((q, k, v), ways, strict=True)))
      for step in (1e-5, -1e-5)
    )
    want = sum(
      (slope * way).sum() for slope, way in zip(gradient, ways, strict=True)
    )
    assert float(up - down) / 2e-5 == pytest.approx(float(want), rel=1e-7)


@pytest.mark.parametrize('channels', [16, 64])
def test_temporaries_are_a_quarter_of_the_scores(channels):
  shape = 4, 704, 2, channels
  scores = 4 * 4 * 2 * 704 * 704
  arguments = [jax.ShapeDtypeStruct(shape, np.float32)] * 3

  def loss(*arguments: jax.Array) -> jax.Array:
    return (transformer.attend(*arguments) ** 2).sum()

  for run in (transformer.attend, jax.grad(loss, argnums=(0, 1, 2))):
    result = jax.jit(run).lower(*arguments).compile().memory_analysis()
    assert result.temp_size_in_bytes <= scores / 4
