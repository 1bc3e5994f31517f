"""SLiCE: published sizes, its definition in NumPy, forms, long inputs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.marks import few
from tests.models.recurrent_test import changed, made, tokens
from wm import core
from wm.models import slice as slices

SMALL = slices.Model(layers=1, width=12, block_size=4)


def scaled(net: nnx.Module, factor: float) -> nnx.Module:
  graph, params = nnx.split(net)
  return nnx.merge(graph, jax.tree.map(lambda leaf: factor * leaf, params))


def test_weights_start_as_published():
  model = slices.Model(layers=1, width=96, block_size=8, init_std=0.3)
  net = made(model)
  layer = net.blocks[0]
  for leaf, std in (
    (layer.transition.kernel, 0.3 / 8**0.5),
    (layer.drive.kernel, 0.3),
    (layer.first, 0.3),
    (net.embedding.table, 1.0),
    (layer.mlp.up.kernel, 96**-0.5 / 3**0.5),
    (net.head.kernel, 96**-0.5 / 3**0.5),
  ):
    assert np.std(leaf[...]) == pytest.approx(std, rel=0.25)
    assert abs(np.mean(leaf[...])) < 0.25 * std


def _norm(x: np.ndarray) -> np.ndarray:
  return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def definition(net: nnx.Module, arguments: np.ndarray) -> np.ndarray:
  """The one layer's output y, by spec, token by token, in float64."""
  model, layer = net.model, net.blocks[0]
  size, width = model.block_size, model.width
  x_LD = np.asarray(net.embedding.table[...], np.float64)[arguments]
  w_a = np.asarray(layer.transition.kernel[...], np.float64)
  w_b = np.asarray(layer.drive.kernel[...], np.float64).reshape(-1, width)
  y, u, out = np.asarray(layer.first[...], np.float64), np.zeros(width), []
  for x in x_LD:
    now = _norm(x)
    w = model.scale * np.concatenate([[1.0], now - u])
    whole = np.zeros((width, width))  # A row-major reshape of W_A w.
    flat = np.einsum('e,enij->nij', w, w_a).reshape(-1)
    for place, value in enumerate(flat):
      block, rest = divmod(place, size * size)
      row, column = divmod(rest, size)
      whole[block * size + row, block * size + column] = value
    y, u = y + whole @ y + w @ w_b, now
    out.append(y)
  return np.stack(out)


@pytest.mark.parametrize('size', few(2, [1, 3, 4, 12]))
def test_states_are_those_of_the_definition(size):
  net = made(dataclasses.replace(SMALL, block_size=size, init_std=0.7))
  inputs = tokens(2, 40)
  x = net.embed(inputs)
  _, (y, u) = net.blocks[0](x)
  for row in range(2):
    want = definition(net, inputs[row])
    np.testing.assert_allclose(y[row], want[-1], rtol=1e-4, atol=1e-5)
    _, (early, _) = net.blocks[0](x, jnp.array([17, 17]))
    np.testing.assert_allclose(early[row], want[16], rtol=1e-4, atol=1e-5)
  np.testing.assert_allclose(u, _norm(np.asarray(x[:, -1])), atol=1e-5)


def test_exp_is_the_matrix_exponential():
  linalg = pytest.importorskip('scipy.linalg', reason='SciPy is missing')
  rng = np.random.default_rng(0)
  a = rng.normal(size=(6, 4, 4)).astype(np.float32)
  want = np.stack([linalg.expm(x.astype(float)) for x in a])
  np.testing.assert_allclose(slices.transition(a, 'exp'), want, rtol=1e-4)
  turn = slices.transition(jnp.asarray(a - a.swapaxes(1, 2)), 'exp')
  product = jnp.einsum('nij,nkj->nik', turn, turn)
  np.testing.assert_allclose(
    product, np.broadcast_to(np.eye(4), product.shape), atol=1e-5
  )


def test_bounded_maps_never_stretch_and_keep_permutations():
  rng = np.random.default_rng(0)
  a = rng.normal(size=(50, 4, 4)) * np.logspace(-2, 6, 50)[:, None, None]
  result = np.asarray(slices.transition(jnp.asarray(a, jnp.float32), 'bounded'))
  assert np.linalg.norm(result, 2, (1, 2)).max() < 1 + 1e-6
  turn = np.eye(4)[[2, 0, 3, 1]] * np.array([1, -1, 1, 1])[:, None]
  kept = slices.transition(jnp.asarray(turn - np.eye(4)), 'bounded')
  np.testing.assert_allclose(kept, turn, atol=1e-6)
  small = 0.5 * np.eye(4) - np.eye(4)
  kept = slices.transition(jnp.asarray(small), 'bounded')
  np.testing.assert_allclose(kept, 0.5 * np.eye(4), atol=1e-6)


@pytest.mark.parametrize('size', [1, 4])
def test_inputs_far_from_training_overflow_only_where_nothing_bounds(size):
  """Where a state overflows, every later output says so: none is a number."""
  inputs = jnp.asarray(tokens(4, 700))
  model = dataclasses.replace(SMALL, block_size=size)

  @jax.jit
  def finite(net: nnx.Module) -> tuple[jax.Array, jax.Array]:
    results = net.hidden(inputs, 1), net(inputs)
    return tuple(jnp.isfinite(x).all(-1) for x in results)

  for kind in ('bounded', 'plain'):
    net = changed(model, transition=kind)
    assert finite(net)[1].all()
    states, logits = map(np.asarray, finite(scaled(net, 6.0)))
    if kind == 'bounded':
      assert logits.all()
  assert not states[:, -1].any()
  assert states[:, 0].all()
  np.testing.assert_array_equal(states, np.logical_and.accumulate(states, 1))
  assert not (logits & ~states).any()


def test_dropout_is_on_the_embeddings_and_on_both_parts_of_a_layer():
  model = dataclasses.replace(SMALL, dropout=0.5)
  net, plain = made(model), changed(model, dropout=0.0)
  inputs = jnp.asarray(tokens())
  first, other = jax.random.key(3), jax.random.key(4)
  np.testing.assert_array_equal(net(inputs), plain(inputs))
  np.testing.assert_array_equal(plain(inputs, first), plain(inputs))
  seeds = [np.asarray(net(inputs, key)) for key in (first, first, other)]
  np.testing.assert_array_equal(seeds[0], seeds[1])
  assert (seeds[0] != seeds[2]).any()
  whole, dropped = net.embed(inputs), net.stream(inputs, 0, first)
  zero = np.asarray(dropped == 0)
  assert 0.4 < zero.mean() < 0.6
  np.testing.assert_array_equal(dropped, np.where(zero, 0, 2 * whole))
  layer = net.blocks[0]
  keys = jax.random.split(first, 40)
  drawn = jax.jit(jax.vmap(lambda key: layer(whole, key=key)[0]))(keys)
  assert (np.std(drawn, 0) > 0).all()


@pytest.mark.parametrize(
  ('wrong', 'match'),
  [
    ({'block_size': 5}, 'expected a divisor of width=12'),
    ({'block_size': 0}, 'block_size=0; expected at least 1'),
    ({'transition': 'tanh'}, 'available: plain, exp, bounded'),
  ],
)
def test_bad_fields_are_named(wrong, match):
  with pytest.raises(core.InputError, match=match):
    slices.Model(width=12, **{'block_size': 4, **wrong})
