"""Gated DeltaNet: its definition, its forms, what a sign buys."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.marks import few
from wm import core
from wm.models import deltanet
from wm.models.nn import network

V = 11
SMALL = deltanet.Model(layers=2, width=12, heads=2, key=4, value=6, hidden=10)


def sigmoid(x: np.ndarray) -> np.ndarray:
  return 1 / (1 + np.exp(-x))


def rms(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
  return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale


def mixer(get, z: np.ndarray, most: float) -> np.ndarray:
  """The delta rule of one row [L, D], head by head and token by token."""
  (heads, key, value), length = SMALL.sizes, len(z)
  inputs = np.einsum('ld,dhf->lhf', z, get('inputs', 'kernel'))
  taps = get('convolution', 'kernel').reshape(4, heads, -1)
  rates = np.einsum('ld,drh->lrh', z, get('rates', 'kernel'))
  beta = most * sigmoid(rates[:, 0])
  step = np.log1p(np.exp(rates[:, 1] + get('dt_bias')))
  decay = np.exp(-np.exp(get('a_log')) * step)
  y = np.zeros((length, heads, value))
  for head in range(heads):
    state = np.zeros((key, value))
    for t in range(length):
      mixed = sum(
        taps[3 - back, head] * inputs[t - back, head, : 2 * key + value]
        for back in range(min(t + 1, 4))
      )
      q, k, v = np.split(mixed * sigmoid(mixed), [key, 2 * key])
      q, k = (x / np.sqrt((x**2).sum() + 1e-6) for x in (q, k))
      b = beta[t, head]
      state = decay[t, head] * (state - b * np.outer(k, k @ state))
      state += b * np.outer(k, v)
      gate = inputs[t, head, 2 * key + value :]
      y[t, head] = rms(state.T @ q / np.sqrt(key), get('norm', 'scale'))
      y[t, head] *= gate * sigmoid(gate)
  return np.einsum('lhv,hvd->ld', y, get('out', 'kernel'))


def defined(params: dict, tokens: np.ndarray, most: float) -> np.ndarray:
  """Logits [L, V] of one row in plain NumPy."""
  x = params['embedding', 'table'][tokens]
  for n in range(SMALL.layers):
    get = lambda *path, n=n: params['blocks', n, *path]  # noqa: E731
    z = rms(x, get('before_mixer', 'scale'))
    x = x + mixer(lambda *path, get=get: get('mixer', *path), z, most)
    z = rms(x, get('before_mlp', 'scale'))
    gate = z @ get('mlp', 'gate', 'kernel')
    hidden = gate * sigmoid(gate) * (z @ get('mlp', 'up', 'kernel'))
    x = x + hidden @ get('mlp', 'down', 'kernel')
  head = params['head', 'kernel'], params['head', 'bias']
  return rms(x, params['final', 'scale']) @ head[0] + head[1]


def weights(model: deltanet.Model, scale: float = 10.0) -> nnx.State:
  """Larger than fresh ones, so that every part shows in the logits."""

  def enlarge(path, leaf: jax.Array) -> jax.Array:
    names = jax.tree_util.keystr(path)
    return leaf * scale if 'kernel' in names or 'table' in names else leaf

  params = network.init(network.NetworkSpec(model, V, 40), 1)
  return jax.tree_util.tree_map_with_path(enlarge, params)


def run(model: deltanet.Model, tokens: np.ndarray, params=None) -> np.ndarray:
  graph = network.NetworkSpec(model, V, 40).graph
  params = weights(model) if params is None else params
  return jax.jit(lambda p: nnx.merge(graph, p)(jnp.asarray(tokens)))(params)


@pytest.mark.parametrize('negative', few(1, [True, False]))
def test_a_network_is_its_definition(negative):
  model = dataclasses.replace(SMALL, negative=negative)
  params = weights(model)
  flat = {
    path: np.asarray(leaf[...], np.float64)
    for path, leaf in nnx.to_flat_state(params)
  }
  tokens = np.random.default_rng(0).integers(1, V, 14)
  want = defined(flat, tokens, 2.0 if negative else 1.0)
  np.testing.assert_allclose(run(model, tokens[None])[0], want, atol=2e-4)
  assert np.ptp(want) > 0.1


def test_fresh_weights_are_the_published_ones():
  model = deltanet.Model(layers=1, width=512, heads=64, key=8)
  flat = dict(
    nnx.to_flat_state(network.init(network.NetworkSpec(model, V, 9), 0))
  )
  assert model.sizes == (64, 8, 16)
  for path, leaf in flat.items():
    if path[-1] == 'kernel':
      assert np.std(leaf[...]) == pytest.approx(0.02, rel=0.05), path
  mixer = {path[-1]: leaf[...] for path, leaf in flat.items() if 'a_log' in path
           or 'dt_bias' in path}  # fmt: skip
  rates = np.exp(mixer['a_log'])
  assert 0 < rates.min() < 2
  assert 14 < rates.max() < 16
  steps = np.log(jax.nn.softplus(mixer['dt_bias'])) / np.log(10)
  assert -3 <= steps.min() < -2.8
  assert -1.2 < steps.max() <= -1
  biases = [path for path in flat if path[-1] == 'bias']
  assert biases == [('head', 'bias')]


@pytest.mark.parametrize(
  ('fields', 'match'),
  [
    ({'heads': -1}, 'heads=-1'),
    ({'width': 4, 'heads': 4}, 'width=4 leaves no key'),
    ({'dropout': 1.0}, 'dropout=1.0'),
  ],
)
def test_bad_fields_are_named(fields, match):
  with pytest.raises(core.InputError, match=match):
    deltanet.Model(**fields)
