"""What holds for Mamba, Mamba-2 and Mamba-3 alike."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.marks import few
from tests.plain import check_sessions
from wm import core
from wm.core import registry
from wm.kernels.scan import forms
from wm.models.base import recurrent
from wm.models.nn import layers, network
from wm.models.serving import networks

SPECS = (
  'mamba(layers=1, width=32, state=4)',
  'mamba2(layers=1, width=32, state=8, channels=16)',
  'mamba3(layers=1, width=32, state=8, channels=16)',
  'mamba3(layers=1, width=32, state=8, channels=16, rank=3)',
)
V, OUTPUTS = 20482, 1878


# Of rank 1 and of more: more is the general one.
@pytest.fixture(
  params=[
    pytest.param(x, marks=pytest.mark.slow if x == SPECS[2] else ())
    for x in SPECS
  ]
)
def model(request) -> recurrent.SsmModel:
  return registry.make('model', request.param)


@functools.cache
def weights(model: recurrent.SsmModel, times: float = 1.0):
  """(graph, params) of a network of 11 tokens, weights times a factor."""
  shape = network.NetworkSpec(model, 11, 800)
  params = network.init(shape, 1)
  return shape.graph, jax.tree.map(lambda leaf: times * leaf, params)


def tokens(length: int, rows: int = 2) -> np.ndarray:
  rng = np.random.default_rng(length)
  return rng.integers(1, 11, (rows, length)).astype(np.int32)


def test_pads_leave_the_state(model):
  graph, params = weights(model)
  block = nnx.merge(graph, params).blocks[0]
  x = np.random.default_rng(0).normal(size=(4, 13, 32)).astype(np.float32)
  lengths = np.array([13, 1, 6, 2])
  run = jax.jit(lambda x, lengths: block(x, lengths)[1])
  result = run(x, lengths)
  other = np.where(np.arange(13)[None, :, None] < lengths[:, None, None], x, 7)
  again = run(other, lengths)
  for first, same in zip(*map(jax.tree.leaves, (result, again)), strict=True):
    np.testing.assert_array_equal(first, same)
  sample = jax.jit(lambda x: block(x)[1])(x[2:3, :6])
  for first, same in zip(*map(jax.tree.leaves, (result, sample)), strict=True):
    assert first.dtype == jnp.float32
    np.testing.assert_allclose(first[2], same[0], atol=1e-5)


@pytest.mark.parametrize('spec', few(1, [SPECS[0], SPECS[1], SPECS[3]]))
def test_700_steps_far_from_training_are_finite_and_agree(spec, monkeypatch):
  model = registry.make('model', spec)
  graph, params = weights(model, 4.0)
  inputs = tokens(700)

  def loss(params) -> tuple[jax.Array, jax.Array]:
    logits = nnx.merge(graph, params)(inputs)
    return logits.mean(), logits

  slope, logits = jax.jit(jax.grad(loss, has_aux=True))(params)
  assert all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(slope))
  # Chunks of one step are the recurrence itself.
  chunks = forms.run_chunks
  monkeypatch.setattr(
    *(forms, 'run_chunks'), lambda body, size, *rest: chunks(body, 1, *rest)
  )
  again = jax.jit(lambda params: loss(params)[1])(params)
  np.testing.assert_allclose(logits, again, atol=2e-5 * float(abs(again).max()))


def test_sessions_of_many_ranks_have_a_memory_of_constant_size():
  model = registry.make('model', SPECS[-1])
  graph, params = weights(model)
  net = nnx.merge(graph, params)
  assert jax.tree.all(
    jax.tree.map(
      lambda a, b: a.shape == b.shape,
      net.new_page(2, 3, 1),
      net.new_page(2, 3, 99),
    )
  )
  result = networks.NetworkPredictor(model, params, 11, 1, 800)
  check_sessions(result, tokens(30), [4, 9], 12)


def test_dropout_is_on_the_embeddings_alone():
  half = registry.make('model', SPECS[0].replace(')', ', dropout=0.5)'))
  graph, params = weights(half)
  inputs, key = tokens(6), jax.random.key(3)

  @jax.jit
  def run(params, key):
    net = nnx.merge(graph, params)
    return net(inputs, key), net.blocks[0](net.embed(inputs), key=key)[0]

  result, again, plain = run(params, key), run(params, key), run(params, None)
  assert (result[0] != plain[0]).any()
  np.testing.assert_array_equal(result[0], again[0])
  np.testing.assert_array_equal(result[1], plain[1])


@pytest.mark.parametrize('spec', few(1, [SPECS[0], SPECS[1], SPECS[3]]))
def test_bfloat16_is_near_float32(spec):
  model = registry.make('model', spec)
  graph, params = weights(model)
  half = dataclasses.replace(model, dtype='bfloat16')
  other = network.NetworkSpec(half, 11, 800).graph
  inputs = tokens(40)
  run = jax.jit(
    lambda graph, params: nnx.merge(graph, params)(inputs), static_argnums=0
  )
  result, near = run(graph, params), run(other, params)
  assert near.dtype == jnp.float32
  assert (near != result).any()
  np.testing.assert_allclose(near, result, atol=0.05 * float(abs(result).max()))


def test_decay_of_weights_is_for_dense_maps(model):

  flat = nnx.to_flat_state(weights(model)[1])
  kept = {path[-1] for path, _ in flat if not layers.decays(path)}
  assert {'table', 'skip', 'scale', 'bias'} <= kept
  assert not {'log_rate', 'dt_bias', 'spread', 'gates', 'collect'} & {
    path[-1] for path, _ in flat if layers.decays(path)
  }


def test_step_sizes_start_between_a_thousandth_and_a_tenth():
  sizes = jax.nn.softplus(recurrent.step_bias(20_000, nnx.Rngs(0)))
  assert 0.99e-3 < sizes.min() < 1.01e-3
  assert 0.099 < sizes.max() < 0.101
  assert abs(float(jnp.log(sizes).mean()) - np.log(0.01)) < 0.03


@pytest.mark.parametrize(
  ('spec', 'match'),
  [
    ('mamba(state=0)', 'state=0; expected at least 1'),
    ("mamba(steps='torch')", "steps='torch'; available: mamba, normal"),
    ('mamba2(width=40)', 'width=40 times expand=2 is not a multiple'),
    ("mamba2(weights='xavier')", "weights='xavier'; available: torch, normal"),
    ('mamba3(state=30)', 'state=30 is not a multiple of 4'),
    ('mamba3(rank=0)', 'rank=0; expected at least 1'),
  ],
)
def test_bad_fields_are_named(spec, match):
  with pytest.raises(core.InputError, match=match):
    registry.make('model', spec)
