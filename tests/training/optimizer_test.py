"""Schedules, the decay mask and clipping."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import tiny
from tests.marks import few
from tests.training import mean_mlp
from wm import core
from wm.core import registry
from wm.models.nn import network
from wm.options.training import Training
from wm.training import state as state_lib

CONFIG = {'steps': 100, 'lr': 0.5, 'warmup': 10}


def rates(**fields) -> np.ndarray:
  config = Training(**{**CONFIG, **fields})
  schedule = state_lib.schedule(config)
  return np.array([float(schedule(k)) for k in range(config.steps)])


@pytest.mark.parametrize('floor', [0.0, 0.1])
@pytest.mark.parametrize('shape', ['linear', 'cosine'])
def test_the_published_formula_with_floor(shape, floor):
  result = rates(schedule=shape, floor=floor)
  step = np.arange(100)
  part = (step - 10) / 90
  fall = 1 - part if shape == 'linear' else (1 + np.cos(np.pi * part)) / 2
  expected = np.where(step < 10, (step + 1) / 10, floor + (1 - floor) * fall)
  np.testing.assert_allclose(result, 0.5 * expected, rtol=1e-5, atol=1e-6)


def test_constant_and_no_warm_up():
  assert (rates(schedule='constant', warmup=0) == 0.5).all()
  assert (rates(schedule='constant')[10:] == 0.5).all()
  assert rates(warmup=0)[0] == 0.5


def paths() -> list[str]:
  shape = network.NetworkSpec(mean_mlp.Model(), len(tiny.VOCAB), 12)
  return list(shape.shapes)


def test_decay_leaves_biases_norms_and_embeddings():
  mask = state_lib.decay_mask(paths(), decay_all=False)
  assert {path for path, on in mask.items() if on} == {
    'mlp.up.kernel',
    'mlp.down.kernel',
  }
  assert all(state_lib.decay_mask(paths(), decay_all=True).values())


def test_a_family_may_leave_parameters_out_of_any_decay():
  model = registry.make('model', 'deltanet(layers=1, width=64, key=8)')
  results = network.NetworkSpec(model, 9, 12).shapes
  for decay_all in (False, True):
    mask = state_lib.decay_mask(results, decay_all, model.undecayed)
    kept = {path for path, on in mask.items() if not on}
    named = {path for path in results if path.endswith(('.a_log', '.dt_bias'))}
    assert len(named) == 2
    assert named == kept if decay_all else named < kept


def test_decay_shrinks_what_the_mask_says():
  config = Training(lr=0.1, warmup=0, weight_decay=0.5, clip=0.0)
  params = {'mlp.up.kernel': jnp.ones(3), 'mlp.up.bias': jnp.ones(3)}
  transform = state_lib.make_optimizer(config, params)
  zero = {path: jnp.zeros(3) for path in params}
  updates, _ = transform.update(zero, transform.init(params), params)
  after = optax.apply_updates(params, updates)
  np.testing.assert_allclose(after['mlp.up.kernel'], 0.95, rtol=1e-6)
  np.testing.assert_array_equal(after['mlp.up.bias'], 1)


def test_clipping_bounds_the_norm_that_adam_sees():
  params = {'a.kernel': jnp.zeros(4)}
  grads = {'a.kernel': jnp.full(4, 100.0)}
  for clip, expected in ((1.0, 0.1 * 0.5), (0.0, 0.1 * 100)):
    transform = state_lib.make_optimizer(Training(clip=clip), params)
    _, after = transform.update(grads, transform.init(params), params)
    moments = [x.mu for x in _adam(after)]
    np.testing.assert_allclose(moments[0]['a.kernel'], expected, rtol=1e-5)


def test_beta2_weighs_the_squares():
  params = {'a.kernel': jnp.zeros(2)}
  grads = {'a.kernel': jnp.full(2, 3.0)}
  for beta2 in (0.95, 0.999):
    transform = state_lib.make_optimizer(
      Training(beta2=beta2, clip=0.0), params
    )
    _, after = transform.update(grads, transform.init(params), params)
    squares = _adam(after)[0].nu['a.kernel']
    np.testing.assert_allclose(squares, (1 - beta2) * 9, rtol=1e-5)


def step(transform, state, params, grad, loss=1.0):
  grads = {'a.kernel': jnp.asarray(grad, jnp.float32)}
  result, state = transform.update(grads, state, params, loss=jnp.float32(loss))
  return optax.apply_updates(params, result), state


@pytest.mark.parametrize(
  ('grad', 'loss'),
  [
    ([np.nan, 1], 1.0),
    ([np.inf, 1], 1.0),
    ([1e30, 1], 1.0),  # Its square is infinite, and so would be the moment.
    ([1, 1], np.nan),
    ([1, 1], np.inf),
  ],
)
@pytest.mark.parametrize('clip', [0.0, 1.0])
def test_a_step_that_is_not_finite_leaves_everything(grad, loss, clip):
  config = Training(skips=3, lr=0.1, warmup=5, clip=clip)
  params = {'a.kernel': jnp.array([1.0, -2.0])}
  transform = state_lib.make_optimizer(config, params)
  kept = step(transform, transform.init(params), params, [0.5, 2])
  assert int(state_lib.num_updates(kept[1])) == 1
  bad = step(transform, *kept[::-1], grad, loss)
  for first, other in zip(
    jax.tree.leaves(bad), jax.tree.leaves(kept), strict=True
  ):
    np.testing.assert_array_equal(first, other)
  # And what follows is as if it had not been: moments, schedule and all.
  after = step(transform, *bad[::-1], [0.5, 2])
  expected = step(transform, *kept[::-1], [0.5, 2])
  np.testing.assert_array_equal(after[0]['a.kernel'], expected[0]['a.kernel'])
  assert int(state_lib.num_updates(after[1])) == 2


def test_the_guard_changes_no_good_step():
  params = {'a.kernel': jnp.array([1.0, -2.0])}
  result = []
  for skips in (0, 3):
    transform = state_lib.make_optimizer(Training(skips=skips), params)
    state = transform.init(params)
    for grad in ([0.5, 2], [3, -1]):
      after, state = step(transform, state, params, grad)
    result.append(after['a.kernel'])
  np.testing.assert_array_equal(*result)


def _adam(tree) -> list:
  if isinstance(tree, optax.ScaleByAdamState):
    return [tree]
  if isinstance(tree, tuple):
    return [result for part in tree for result in _adam(part)]
  return []


FAMILIES = {
  'transformer(layers=1, width=8, heads=2)': {
    'blocks.0.attention.qkv.kernel': (3, 8, 8),
    'blocks.0.attention.out.kernel': (1, 8, 8),
    'blocks.0.mlp.up.kernel': (1, 8, 32),
    'blocks.0.mlp.down.kernel': (1, 32, 8),
  },
  'transformer(layers=3, width=8, scan=True, tied=False)': {
    'blocks.attention.qkv.kernel': (9, 8, 8),
    'blocks.attention.out.kernel': (3, 8, 8),
    'blocks.mlp.up.kernel': (3, 8, 32),
    'blocks.mlp.down.kernel': (3, 32, 8),
  },
  'lstm(layers=1, width=8)': {
    'blocks.0.input.kernel': (1, 8, 32),
    'blocks.0.state.kernel': (1, 8, 32),
  },
  'deltanet(layers=1, width=64, key=8)': {
    'blocks.0.mixer.inputs.kernel': (1, 64, 48),
    'blocks.0.mixer.rates.kernel': (1, 64, 2),
    'blocks.0.mixer.out.kernel': (1, 16, 64),
    'blocks.0.mlp.up.kernel': (1, 64, 256),
    'blocks.0.mlp.gate.kernel': (1, 64, 256),
    'blocks.0.mlp.down.kernel': (1, 256, 64),
  },
}


def spec_of(model: str) -> network.NetworkSpec:
  return network.NetworkSpec(registry.make('model', model), 9, 12)


@pytest.mark.parametrize('model', FAMILIES)
def test_muon_moves_dense_maps_as_matrices_and_adamw_the_rest(model):
  spec = spec_of(model)
  shapes, axes = spec.shapes, state_lib.matrix_axes(spec)
  states = {
    name: state_lib.make_optimizer(
      Training(optimizer=name), shapes, (), axes
    ).init(jax.tree.map(jnp.zeros_like, shapes))
    for name in ('auto', 'muon', 'adamw')
  }
  trees = {name: jax.tree.structure(state) for name, state in states.items()}
  assert trees['auto'] == trees['muon'] != trees['adamw']
  assert set(axes) == set(FAMILIES[model])
  for path, (batch, rows, columns) in FAMILIES[model].items():
    shape = shapes[path].shape
    sizes = [
      int(np.prod([shape[axis] for axis in part])) for part in axes[path]
    ]
    assert sizes == [rows, columns]
    assert np.prod(shape) == batch * rows * columns


@pytest.mark.parametrize('model', few(1, list(FAMILIES)[:2]))
def test_muons_updates_have_singular_values_near_one(model):
  """Each map by itself, whatever axes its kernel has."""
  spec = spec_of(model)
  shapes, axes = spec.shapes, state_lib.matrix_axes(spec)
  config = Training(
    optimizer='muon', matrix_lr=1.0, lr=1.0, warmup=0, weight_decay=0, clip=0
  )
  transform = state_lib.make_optimizer(config, shapes, (), axes)
  rng = np.random.default_rng(0)
  grads = {
    path: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32)
    for path, leaf in shapes.items()
  }
  params = jax.tree.map(jnp.zeros_like, grads)
  result, _ = transform.update(grads, transform.init(params), params)
  for path, (batch, rows, columns) in FAMILIES[model].items():
    inputs, outputs = axes[path]
    move = np.moveaxis(
      result[path], [*inputs, *outputs], range(-len(inputs) - len(outputs), 0)
    ).reshape(batch, rows, columns)
    scale = max(1, columns / rows) ** 0.5
    values = np.linalg.svd(move, compute_uv=False) / scale
    assert values.min() > 0.3
    assert values.max() < 1.3
  # The rest is AdamW's first step: the sign.
  np.testing.assert_allclose(np.abs(result['embedding.table']), 1.0, rtol=1e-3)


@pytest.mark.parametrize(
  'model',
  [
    pytest.param(name, marks=pytest.mark.slow if number else ())
    for number, name in enumerate(FAMILIES)
  ],
)
def test_stacks_of_matrices_move_as_each_does(model):
  """By the same state, which does not tell the two apart."""
  spec = spec_of(model)
  shapes, axes = spec.shapes, state_lib.matrix_axes(spec)
  config = Training(optimizer='muon', warmup=0, weight_decay=0.1)
  rng = np.random.default_rng(0)
  params, *grads = (
    {
      k: jnp.asarray(rng.normal(size=x.shape), jnp.float32)
      for k, x in shapes.items()
    }
    for _ in range(3)
  )
  ends = []
  for divided in (False, True):
    rule = state_lib.make_optimizer(config, shapes, (), axes, divided=divided)
    state, now = rule.init(params), params
    for grad in grads:
      moves, state = rule.update(grad, state, now)
      now = optax.apply_updates(now, moves)
    ends.append((now, state))
  assert jax.tree.structure(ends[0]) == jax.tree.structure(ends[1])
  for stack, single in zip(*map(jax.tree.leaves, ends), strict=True):
    np.testing.assert_allclose(stack, single, rtol=1e-5, atol=1e-6)


def test_muon_needs_a_matrix_and_auto_takes_none():
  with pytest.raises(core.InputError, match='optimizer=muon'):
    state_lib.make_optimizer(Training(optimizer='muon'), ['a.bias'])
  params = {'a.bias': jnp.ones(3)}
  after = []
  for name in ('auto', 'adamw'):
    transform = state_lib.make_optimizer(Training(optimizer=name), params)
    updates, _ = transform.update(params, transform.init(params), params)
    after.append(updates['a.bias'])
  np.testing.assert_array_equal(*after)


@pytest.mark.parametrize('width', [0.05, 0.2])
def test_the_average_is_over_its_share_of_the_run(width):
  """Weights by place: their spread is the width, and they add up to one."""
  num, params = 400, {'a.kernel': jnp.zeros(401)}
  inner = optax.stateless(
    lambda grads, _: grads  # So that `latest` is what was added so far.
  )
  transform = state_lib.averaged(inner, width)
  state, mean = transform.init(params), params
  for number in range(1, num + 1):
    # The latest parameters are the indicator of this update.
    grads = jax.nn.one_hot(number, 401) - state.latest['a.kernel']
    moves, state = transform.update({'a.kernel': grads}, state, mean)
    mean = optax.apply_updates(mean, moves)
  weights = np.asarray(mean['a.kernel'], np.float64)
  assert weights.sum() == pytest.approx(1, abs=1e-4)
  place = np.arange(401) / num
  middle = (weights * place).sum()
  spread = (weights * (place - middle) ** 2).sum() ** 0.5
  assert spread == pytest.approx(width, rel=0.02)
  assert (np.diff(weights[1:]) > -1e-6).all()  # The later the more.
  latest = state_lib.latest_params(mean, state)['a.kernel']
  np.testing.assert_allclose(latest, jax.nn.one_hot(num, 401), atol=1e-5)


def test_without_an_average_the_latest_are_the_parameters():
  params = {'a.kernel': jnp.ones(2)}
  transform = state_lib.make_optimizer(Training(), params)
  assert state_lib.latest_params(params, transform.init(params)) is params
