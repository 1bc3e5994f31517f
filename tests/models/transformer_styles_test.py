"""Transformers as the chess paper has them, and the positions of its code."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.marks import few
from tests.plain import check_sessions
from wm import core
from wm.models import transformer
from wm.models.nn import network

CHESS = transformer.Model(
  layers=2,
  width=24,
  heads=3,
  positions='rotary',
  norm='rms',
  epsilon=1e-6,
  mlp='swiglu',
  ratio=4,
  biases=True,
  tied=False,
  head_bias=True,
  init='torch',
)
PUBLISHED = dataclasses.replace(CHESS, positions='rotary_published')
V = 17


def turned(x: np.ndarray, position: int, published: bool) -> np.ndarray:
  """One vector [C] at a position."""
  out = transformer.rotate(
    jnp.asarray(x, jnp.float32)[None],
    jnp.asarray(position),
    published=published,
  )
  return np.asarray(out)[0].astype(np.float64)


def vectors(seed: int) -> np.ndarray:
  return np.random.default_rng(seed).normal(size=(2, 64))


@settings(max_examples=40, deadline=None)
@given(
  seed=st.integers(0, 10**6),
  first=st.integers(0, 300),
  second=st.integers(0, 300),
  shift=st.integers(0, 400),
)
def test_rotary_keeps_norms_and_sees_distance_alone(seed, first, second, shift):
  q, k = vectors(seed)
  assert np.linalg.norm(turned(q, first, False)) == pytest.approx(
    np.linalg.norm(q), rel=1e-5
  )
  score, other = (
    turned(q, first + by, False) @ turned(k, second + by, False)
    for by in (0, shift)
  )
  assert score == pytest.approx(other, abs=5e-3)


@pytest.mark.parametrize('position', [1, 7, 300])
def test_the_published_positions_by_channels(position):
  x = vectors(1)[0]
  want = np.zeros(64)
  for c in range(64):
    angle = position * 10000.0 ** (-2 * (c % 32) / 64)
    partner = -x[c + 1] if c % 2 == 0 else x[c - 1]
    want[c] = x[c] * np.cos(angle) + partner * np.sin(angle)
  np.testing.assert_allclose(turned(x, position, True), want, atol=1e-4)


def rms(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
  return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale


def defined(params: dict, tokens: np.ndarray, published: bool) -> np.ndarray:
  """Logits [L, V] of one row in plain NumPy."""
  x = params['embedding', 'table'][tokens]
  for n in range(CHESS.layers):
    get = lambda *path, n=n: params['blocks', n, *path]  # noqa: E731
    z = rms(x, get('before_attention', 'scale'))
    parts = np.einsum('ld,dkhc->klhc', z, get('attention', 'qkv', 'kernel'))
    parts += get('attention', 'qkv', 'bias')[:, None]
    y = np.zeros(x.shape)
    for head in range(CHESS.heads):
      q, k = (
        [turned(row, m, published) for m, row in enumerate(parts[i][:, head])]
        for i in (0, 1)
      )
      scores = np.array(q) @ np.array(k).T / np.sqrt(8)
      weights = np.tril(np.exp(scores - scores.max()))
      weights /= weights.sum(-1, keepdims=True)
      out = get('attention', 'out', 'kernel')[head]
      y += weights @ parts[2][:, head] @ out
    x = x + y + get('attention', 'out', 'bias')
    z = rms(x, get('before_mlp', 'scale'))
    up, gate = (
      z @ get('mlp', name, 'kernel') + get('mlp', name, 'bias')
      for name in ('up', 'gate')
    )
    y = gate / (1 + np.exp(-gate)) * up
    x = x + y @ get('mlp', 'down', 'kernel') + get('mlp', 'down', 'bias')
  head = params['head', 'kernel'], params['head', 'bias']
  return rms(x, params['final', 'scale']) @ head[0] + head[1]


@pytest.mark.parametrize('model', few(1, [CHESS, PUBLISHED]))
def test_the_chess_papers_transformer_is_its_definition(model):
  shape = network.NetworkSpec(model, V, 12)
  params = network.init(shape, 3)
  flat = {
    path: np.asarray(leaf[...], np.float64)
    for path, leaf in nnx.to_flat_state(params)
  }
  assert flat['blocks', 0, 'mlp', 'up', 'kernel'].shape == (24, 96)
  tokens = np.random.default_rng(0).integers(1, V, 12)
  result = jax.jit(nnx.merge(shape.graph, params).__call__)(tokens[None])[0]
  want = defined(flat, tokens, model == PUBLISHED)
  np.testing.assert_allclose(result, want, atol=2e-4)


@pytest.mark.parametrize('model', [CHESS, PUBLISHED])
def test_sessions_turn_as_whole_sequences_do(model):
  result = model.predictor(_World(), 0)
  tokens = np.random.default_rng(0).integers(1, V, (2, 12)).astype(np.int32)
  check_sessions(result, tokens, [3, 5], 6, 5e-5)


class _World:
  """As much of a world as a predictor asks for."""

  vocab, end, max_len = tuple(map(str, range(V))), 1, 12


def test_pytorchs_initial_weights():
  model = dataclasses.replace(CHESS, width=96)
  shape = network.NetworkSpec(model, 300, 12)
  flat = dict(nnx.to_flat_state(network.init(shape, 0)))
  assert np.std(flat['embedding', 'table'][...]) == pytest.approx(1, rel=0.02)
  for path, leaf in flat.items():
    if path[-1] not in ('kernel', 'bias'):
      continue
    inputs = 4 * 96 if path[-2] == 'down' else 96
    most, result = inputs**-0.5, np.abs(np.asarray(leaf[...]))
    assert 0.9 * most < result.max() <= most, path
    assert result.mean() == pytest.approx(most / 2, rel=0.25), path


def test_biases_are_a_field_of_their_own():
  def biases(**fields) -> set:
    model = transformer.Model(layers=1, width=8, **fields)
    shape = network.NetworkSpec(model, V, 4, 5)
    return {
      path[-2]
      for path, _ in nnx.to_flat_state(shape.abstract)
      if path[-1] == 'bias' and path[-2] in ('qkv', 'out', 'up', 'down', 'head')
    }

  inner = {'qkv', 'out', 'up', 'down'}
  assert biases() == biases(norm='rms', biases=True) == inner
  assert not biases(norm='rms')
  assert not biases(biases=False)
  assert biases(norm='rms', head_bias=True) == {'head'}


@pytest.mark.parametrize(
  ('fields', 'match'),
  [
    ({'positions': 'rope'}, 'available: learned, rotary, rotary_published'),
    ({'positions': 'rotary_published', 'width': 9, 'heads': 3}, r'2 \* 3'),
    ({'init': 'xavier'}, 'available: gpt2, torch'),
    ({'mlp': 'relu'}, 'available: gelu, gelu_erf, swiglu'),
    ({'biases': 'some'}, 'available: None, True, False'),
    ({'ratio': -1}, 'ratio=-1'),
    ({'epsilon': 0.0}, 'epsilon=0.0'),
  ],
)
def test_bad_styles_are_named(fields, match):
  with pytest.raises(core.InputError, match=match):
    transformer.Model(**fields)


def test_a_tied_head_may_have_a_bias():
  model = transformer.Model(layers=1, width=8, head_bias=True)
  net = model.build(V, 5, nnx.Rngs(0))
  tokens = jnp.arange(5)[None] % V
  before = np.asarray(net(tokens))
  bias = jnp.arange(V, dtype=jnp.float32)
  net.tied_bias[...] = bias
  np.testing.assert_allclose(net(tokens), before + np.asarray(bias), atol=1e-5)
  lengths = jnp.array([5])
  np.testing.assert_allclose(
    net.prefill(tokens, lengths)[1], before[:, -1] + np.arange(V), atol=1e-5
  )
