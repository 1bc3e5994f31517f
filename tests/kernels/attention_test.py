"""Attention in blocks is attention, and holds no array of all scores."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from wm.kernels import attention as kernel
from wm.models import transformer
from wm.models.nn import network
from wm.models.serving import networks

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
  given = [jax.ShapeDtypeStruct(shape, np.float32)] * 3

  def loss(*given: jax.Array) -> jax.Array:
    return (transformer.attend(*given) ** 2).sum()

  for run in (transformer.attend, jax.grad(loss, argnums=(0, 1, 2))):
    result = jax.jit(run).lower(*given).compile().memory_analysis()
    assert result.temp_size_in_bytes <= scores / 4


@pytest.mark.parametrize('positions', ['learned', 'rotary'])
def test_a_long_transformer_predicts_what_its_sessions_do(
  monkeypatch, positions
):
  """Sessions have a cache and no blocks."""
  monkeypatch.setattr(transformer, '_WHOLE', 16)
  monkeypatch.setattr(transformer, '_BLOCK', {'cpu': 16})
  model = transformer.Model(layers=1, width=32, heads=2, positions=positions)
  params = network.init(network.NetworkSpec(model, 30, 45), 0)
  result = networks.NetworkPredictor(model, params, 30, 1, 45)
  tokens = np.random.default_rng(0).integers(1, 30, (2, 45)).astype(np.int32)
  full = result.log_probs(tokens, np.array([45, 40]))
  session = result.session(tokens, np.array([20, 37]), 1)
  for n in range(3):
    at = np.array([20, 37]) + n
    want = full[np.arange(2), at - 1]
    np.testing.assert_allclose(session.log_probs()[:, 0], want, atol=2e-5)
    session.advance(tokens[np.arange(2), at][:, None])


def test_dropout_of_weights_is_hashed():
  """A generator's bits for every weight took longer than the attention."""
  key = jax.random.key(0)
  drop = functools.partial(kernel.blocks, size=16, rate=0.25, key=key)
  x = jnp.zeros((2, 40, 3, 4))
  program = str(jax.make_jaxpr(jax.grad(lambda x: drop(x, x, x).sum()))(x))
  assert 'f32[2,3,16,16]' in program
  drawn = re.findall(r'random_bits\[[^\]]*shape=\(([^)]*)\)', program)
  assert set(drawn) == {'2,'}
