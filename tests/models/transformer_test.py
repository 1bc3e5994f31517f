"""Transformers: sizes, styles, and the forms that must be one function."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests import tiny
from tests.marks import few
from tests.plain import check_sessions
from wm import core
from wm.core import registry
from wm.models import transformer
from wm.models.nn import layers, network
from wm.models.serving import networks

LLAMA = transformer.Model(
  positions='rotary', norm='rms', mlp='swiglu', tied=False
)
SMALL = transformer.Model(layers=2, width=32, heads=2)


def test_the_published_model_has_its_published_size():
  model = transformer.Model(layers=12, width=768, heads=12, context=1024)
  # Vafa et al. 2024: '89.3 M'; 4,579 nodes, 8 directions, end and pad.
  assert network.NetworkSpec(model, 4589, 102).num_params == 89_366_784


def test_llama_style_has_no_biases_and_its_own_head():
  shape = network.NetworkSpec(
    dataclasses.replace(LLAMA, width=48, heads=2), 50, 30
  )
  names = {
    '.'.join(map(str, path)) for path, _ in nnx.to_flat_state(shape.abstract)
  }
  assert 'head.kernel' in names
  assert 'positions.table' not in names
  assert not [name for name in names if name.endswith('bias')]
  block = 4 * 48 * 48 + 3 * 48 * 128 + 2 * 48
  assert shape.num_params == 2 * block + 2 * 50 * 48 + 48


def loss(net: nnx.Module, tokens: jax.Array, key: jax.Array | None):
  log_probs = jax.nn.log_softmax(net(tokens[:, :-1], key))
  return -jnp.take_along_axis(log_probs, tokens[:, 1:, None], -1).mean()


def stacked(gradient: nnx.State, num: int) -> dict:
  """Path -> array, with the blocks' layers in a leading dimension."""
  flat, out = dict(nnx.to_flat_state(gradient)), {}
  for path, leaf in flat.items():
    if path[0] == 'blocks' and isinstance(path[1], int):
      rows = [flat['blocks', n, *path[2:]][...] for n in range(num)]
      out['blocks', *path[2:]] = np.stack(rows)
    else:
      out[path] = np.asarray(leaf[...])
  return out


@pytest.mark.parametrize(
  'plain',
  [
    dataclasses.replace(SMALL, dropout=0.3),
    pytest.param(LLAMA, marks=pytest.mark.slow),
  ],
)
def test_scan_and_remat_change_no_value_and_no_gradient(plain):
  tokens = jnp.asarray(np.random.default_rng(0).integers(1, 30, (2, 9)))
  key = jax.random.key(1) if plain.dropout else None

  def run(model: transformer.Model):
    shape = network.NetworkSpec(model, 30, 9)
    params = network.init(shape, 0)
    value, gradient = jax.jit(
      jax.value_and_grad(lambda p: loss(nnx.merge(shape.graph, p), tokens, key))
    )(params)
    return value, stacked(gradient, model.layers)

  value, gradient = run(plain)
  for scan, remat in ((False, True), (True, True)):
    other = dataclasses.replace(plain, scan=scan, remat=remat)
    again, same = run(other)
    np.testing.assert_allclose(again, value, rtol=1e-6)
    assert gradient.keys() == same.keys()
    for path, leaf in gradient.items():
      np.testing.assert_allclose(
        same[path], leaf, atol=2e-6, err_msg=f'{path} {scan} {remat}'
      )


def test_dropout_needs_a_key_and_uses_it():
  shape = network.NetworkSpec(dataclasses.replace(SMALL, dropout=0.5), 30, 12)
  params = network.init(shape, 0)
  tokens = jnp.ones((2, 8), jnp.int32)

  @jax.jit
  def run(key: jax.Array | None) -> jax.Array:
    return nnx.merge(shape.graph, params)(tokens, key)

  first, other = (run(jax.random.key(seed)) for seed in (0, 1))
  assert (first != other).any()
  assert (first != run(None)).any()
  np.testing.assert_array_equal(run(jax.random.key(0)), first)


@pytest.mark.parametrize(
  'model', few(1, [LLAMA, dataclasses.replace(SMALL, scan=True, remat=True)])
)
def test_sessions_of_other_styles(model):
  shape = network.NetworkSpec(model, 30, 40)
  result = networks.NetworkPredictor(model, network.init(shape, 2), 30, 1, 40)
  tokens = np.random.default_rng(0).integers(1, 30, (3, 40)).astype(np.int32)
  check_sessions(result, tokens, [4, 9, 1], 31)


@pytest.fixture(scope='module')
def wide() -> networks.NetworkPredictor:
  """Its continuations are in pages of 32 tokens."""
  model = transformer.Model(layers=1, width=128, heads=4)
  shape = network.NetworkSpec(model, 40, 80)
  assert shape.network.page_size(80) == 32
  return networks.NetworkPredictor(model, network.init(shape, 0), 40, 1, 80)


def test_long_continuations_cross_pieces_and_a_wide_network_has_them(wide):
  tokens = np.random.default_rng(0).integers(1, 40, (2, 80)).astype(np.int32)
  check_sessions(wide, tokens, [3, 5], 75)


def test_a_row_in_a_longer_piece_keeps_its_bits(wide):
  result = wide
  tokens = np.random.default_rng(0).integers(1, 40, (2, 80)).astype(np.int32)
  short = result.session(tokens[:1], np.array([5]), 2)
  both = result.session(tokens, np.array([5, 5]), 2)
  for k in range(40):  # The other row goes beyond the first page.
    both.advance(np.array([[core.DEAD] * 2, [2 + k % 3] * 2]))
  for k in range(6):
    np.testing.assert_array_equal(both.log_probs()[:1], short.log_probs())
    short.advance(np.full((1, 2), 3 + k))
    both.advance(np.array([[3 + k] * 2, [4, 4]]))


def test_lengths_in_buckets_do_not_change_a_row(monkeypatch):
  monkeypatch.setattr(network, 'CHEAP', 0)
  shape = network.NetworkSpec(dataclasses.replace(SMALL, layers=1), 30, 43)
  assert shape.buckets.tolist() == [11, 22, 33, 43]
  result = networks.NetworkPredictor(
    shape.model, network.init(shape, 0), 30, 1, 43
  )
  tokens = np.random.default_rng(0).integers(1, 30, (9, 43)).astype(np.int32)
  lengths = np.array([1, 11, 12, 22, 23, 33, 34, 43, 5])
  full = result.log_probs(tokens, np.full(9, 43))
  sample = result.log_probs(tokens, lengths)
  session = result.session(tokens, lengths, 2)
  for row, length in enumerate(lengths):
    np.testing.assert_allclose(
      sample[row, :length], full[row, :length], atol=1e-5
    )
    np.testing.assert_allclose(
      session.log_probs()[row, 0], full[row, length - 1], atol=1e-5
    )


def test_bfloat16_is_near_float32():
  tokens = np.random.default_rng(0).integers(1, 30, (3, 20)).astype(np.int32)
  result = []
  for dtype in ('float32', 'bfloat16'):
    model = dataclasses.replace(SMALL, dtype=dtype)
    params = network.init(network.NetworkSpec(model, 30, 20), 5)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(params))
    predictor = networks.NetworkPredictor(model, params, 30, 1, 20)
    result.append(predictor.log_probs(tokens, np.full(3, 20)))
    session = predictor.session(tokens, np.full(3, 9), 2)
    session.advance(np.repeat(tokens[:, 9:10], 2, axis=1))
    np.testing.assert_allclose(
      session.log_probs()[:, 0], result[-1][:, 9], atol=0.03
    )
  np.testing.assert_allclose(result[0], result[1], atol=0.05)
  assert (result[0] != result[1]).any()


@pytest.mark.parametrize(
  ('path', 'shape', 'spec'),
  [
    (('embedding', 'table'), (30, 32), ('model', 'data')),
    (('blocks', 0, 'attention', 'qkv', 'kernel'), (32, 3, 2, 16),
     ('data', None, 'model', None)),
    (('blocks', 'attention', 'qkv', 'kernel'), (5, 32, 3, 2, 16),
     (None, 'data', None, 'model', None)),
    (('blocks', 0, 'mlp', 'down', 'kernel'), (128, 32), ('model', 'data')),
    (('blocks', 0, 'before_mlp', 'scale'), (32,), (None,)),
  ],
)  # fmt: skip
def test_partition_specs(path, shape, spec):
  assert tuple(layers.partition_spec(path, shape)) == spec


def test_weight_decay_is_for_matrices():
  shape = network.NetworkSpec(dataclasses.replace(SMALL, scan=True), 30, 20)
  decayed = {
    path[-2]
    for path, _ in nnx.to_flat_state(shape.abstract)
    if layers.decays(path)
  }
  assert decayed == {'qkv', 'out', 'up', 'down'}


@pytest.mark.parametrize(
  ('spec', 'match'),
  [
    ("transformer(positions='sine')", "positions='sine'; available: learned"),
    ('transformer(width=60, heads=7)', 'not a multiple of'),
    ('transformer(layers=0)', 'layers=0'),
    ('transformer(dropout=1.0)', 'dropout=1.0'),
    ("transformer(width=3, positions='rotary')", 'not a multiple of 2'),
  ],
)
def test_bad_fields_are_named(spec, match):
  with pytest.raises(core.InputError, match=match):
    registry.make('model', spec)


def test_a_context_too_short_is_named():
  model = transformer.Model(context=7)
  with pytest.raises(core.InputError, match='context=7 is shorter'):
    model.predictor(tiny.World(), 0)
