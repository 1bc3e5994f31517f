"""Layers by themselves: hashed dropout, dense maps in parts, label losses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.marks import few
from wm.models.nn import layers

HEADS = (3, 3, 2, 5, *(2,) * 40, 70)


def masks(num, shape, rate=0.1):
  """[num, *shape] bool: what `dropout` keeps with each of so many keys."""
  keys = jax.random.split(jax.random.key(0), num)
  kept = jax.vmap(lambda key: layers.dropout(jnp.ones(shape), rate, key))(keys)
  return np.asarray(kept) > 0


@pytest.mark.parametrize('rate', [0.01, 0.1, 0.5])
def test_dropout_keeps_its_share_with_every_key(rate):
  shape = 16, 32, 128
  dropped = 1 - masks(20, shape, rate).reshape(20, -1).mean(-1)
  error = (rate * (1 - rate) / np.prod(shape)) ** 0.5
  deviations = (dropped - rate) / error
  assert np.abs(deviations).max() < 4.5
  assert 0.4 < deviations.std() < 1.7  # Of 20 normal ones; p < 1e-4 each.


def test_places_and_keys_are_independent():
  """Neighbours in any dimension, steps of one key, halves of a split."""
  kept = masks(8, (16, 64, 128)).astype(np.float64)
  kept = (kept - kept.mean()) / kept.std()
  flat, size = kept.reshape(8, -1), kept[0].size
  for lag in (1, 2, 3, 64, 127, 128, 129, 256, 8192, 16384):
    products = (flat[:, lag:] * flat[:, :-lag]).mean(-1) * (size - lag) ** 0.5
    assert np.abs(products).max() < 5, lag
  between = flat @ flat.T / size**0.5
  assert np.abs(between - np.diag(np.diag(between))).max() < 5
  # Nor is one the other in another order, as by a key that is merely added.
  turned = np.fft.irfft(
    np.fft.rfft(flat[:1]) * np.conj(np.fft.rfft(flat[1:])), size
  )
  assert np.abs(turned).max() / size**0.5 < 6.5


def test_dropout_scales_what_it_keeps_and_needs_a_key():
  x = jnp.arange(1.0, 1001.0)
  assert layers.dropout(x, 0.1, None) is x
  assert layers.dropout(x, 0.0, jax.random.key(0)) is x
  result = np.asarray(layers.dropout(x, 0.2, jax.random.key(0)))
  np.testing.assert_allclose(
    result[result > 0], np.asarray(x / 0.8)[result > 0]
  )


def test_dropout_of_a_rate_next_to_1_drops_nearly_all():
  kept = layers.dropout(jnp.ones(1000), 1 - 1e-10, jax.random.key(0))
  assert not kept.any()


@pytest.mark.parametrize('outputs', [(7,), (4, 2, 3)])
def test_a_dense_map_in_parts_is_the_whole_cut(outputs):
  linear = layers.Linear((5,), outputs, nnx.Rngs(0), init='torch')
  graph, params = nnx.split(linear)
  x = jax.random.normal(jax.random.key(1), (2, 3, 5))
  sizes = (1, outputs[0] - 2, 1)

  def whole(params):
    return jnp.sin(nnx.merge(graph, params)(x))

  def parts(params):
    result = nnx.merge(graph, params).split(x, sizes)
    return jnp.sin(jnp.concatenate(result, 2))

  # Sums of a few terms of order 1: their order is the processor's, and an
  # outcome near 0 has an error relative to the terms, not to itself.
  np.testing.assert_allclose(whole(params), parts(params), rtol=1e-6, atol=1e-6)
  gradients = [
    jax.grad(lambda params, run=run: (run(params) ** 2).sum())(params)
    for run in (whole, parts)
  ]
  jax.tree.map(
    lambda first, second: np.testing.assert_allclose(
      first, second, rtol=2e-5, atol=2e-5
    ),
    *gradients,
  )


def test_a_pair_of_sizes_turns_a_part():
  linear = layers.Linear((5,), (9,), nnx.Rngs(0), init='torch')
  x = jax.random.normal(jax.random.key(1), (2, 3, 5))
  y = linear(x)
  for first, turned, last in (
    linear.split(x, (2, (2, 3), 1)),
    layers.cut(y, (2, (2, 3), 1)),
  ):
    np.testing.assert_allclose(first, y[..., :2], rtol=1e-6)
    np.testing.assert_allclose(last, y[..., 8:], rtol=1e-6)
    want = y[..., 2:8].reshape(2, 3, 2, 3).swapaxes(2, 3).reshape(2, 3, 6)
    np.testing.assert_allclose(turned, want, rtol=1e-6)


def test_narrow_heads_share_a_product_and_many_small_ones_are_turned():
  chess = (13,) * 64 + (2,) * 5 + (9, 3) + (256,) * 4
  assert layers.state_widths(chess) == ((64, 13), 22, 1024)
  assert layers.state_widths((3,) * 64) == ((64, 3),)
  assert layers.state_widths((80, 2, 3)) == (80, 5)


@pytest.mark.parametrize('scale', few(1, [1.0, 3000.0]))
def test_label_losses_have_the_gradient_of_log_softmax(scale):
  """In float64, in one array and by runs; far logits overflow nowhere."""
  rng = np.random.default_rng(0)
  labels = np.stack([rng.integers(0, n, 50) for n in HEADS], -1)
  slope = rng.normal(size=labels.shape)

  def plain(logits):
    parts = jnp.split(logits, np.cumsum(HEADS)[:-1], -1)
    result = [
      -jnp.take_along_axis(jax.nn.log_softmax(part), labels[:, [k]], -1)[:, 0]
      for k, part in enumerate(parts)
    ]
    return jnp.stack(result, -1)

  def whole(logits):
    return layers.state_losses(logits, labels, HEADS)

  def runs(logits):
    cut = layers.cut(logits, layers.state_widths(HEADS))
    return layers.state_losses(cut, labels, HEADS)

  with jax.enable_x64(True):
    logits = np.float32(scale * rng.normal(size=(50, sum(HEADS))))
    logits = jnp.asarray(logits, jnp.float64)
    want, pull = jax.vjp(jax.jit(plain), logits)
    for loss in (whole, runs):
      result, pull_found = jax.vjp(jax.jit(loss), logits)
      np.testing.assert_allclose(result, want, rtol=2e-6, atol=1e-6)
      inputs = jnp.asarray(slope, result.dtype)
      np.testing.assert_allclose(
        pull_found(inputs)[0], pull(jnp.asarray(slope))[0], atol=3e-5
      )
