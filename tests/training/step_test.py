"""Schedules, the decay mask and clipping."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from tests import tiny
from tests.training import toy
from wm import core
from wm.core import registry
from wm.models.nn import network
from wm.options.training import Training
from wm.training import state
from wm.training import step as step_lib

CONFIG = {'steps': 100, 'lr': 0.5, 'warmup': 10}


def rates(**fields) -> np.ndarray:
  config = Training(**{**CONFIG, **fields})
  schedule = step_lib.schedule(config)
  return np.array([float(schedule(k)) for k in range(config.steps)])


def test_warm_up_then_cosine_to_zero():
  found = rates()
  np.testing.assert_allclose(found[:10], 0.05 * np.arange(1, 11), rtol=1e-5)
  after = np.arange(90) / 90
  np.testing.assert_allclose(
    found[10:], 0.25 * (1 + np.cos(np.pi * after)), atol=1e-6
  )


@pytest.mark.parametrize('horizon', [0, 40, 400])
@pytest.mark.parametrize('shape', ['linear', 'cosine'])
def test_the_published_formula_with_floor_and_horizon(shape, horizon):
  found = rates(schedule=shape, floor=0.1, horizon=horizon)
  step, end = np.arange(100), horizon or 100
  part = (np.minimum(step, end) - 10) / (end - 10)
  fall = 1 - part if shape == 'linear' else (1 + np.cos(np.pi * part)) / 2
  expected = np.where(step < 10, (step + 1) / 10, 0.1 + 0.9 * fall)
  np.testing.assert_allclose(found, 0.5 * expected, rtol=1e-5)


def test_a_floor_of_one_is_constant():
  np.testing.assert_allclose(
    rates(floor=1.0), rates(schedule='constant'), rtol=1e-6
  )


def test_a_horizon_within_the_warm_up_is_refused():
  with pytest.raises(core.InputError, match='horizon=10'):
    rates(schedule='linear', horizon=10)


def test_constant_and_no_warm_up():
  assert (rates(schedule='constant', warmup=0) == 0.5).all()
  assert (rates(schedule='constant')[10:] == 0.5).all()
  assert rates(warmup=0)[0] == 0.5


def test_a_warm_up_longer_than_the_run_is_cut():
  found = rates(steps=5, warmup=100)
  np.testing.assert_allclose(found, 0.1 * np.arange(1, 6), rtol=1e-5)


def test_one_step_of_warm_up():
  assert rates(warmup=1)[0] == pytest.approx(0.5)


def paths() -> list[str]:
  shape = network.NetworkSpec(toy.Model(), len(tiny.VOCAB), 12)
  return list(state.shapes(shape))


def test_decay_leaves_biases_norms_and_embeddings():
  mask = step_lib.decay_mask(paths(), decay_all=False)
  assert {path for path, on in mask.items() if on} == {
    'mlp.up.kernel',
    'mlp.down.kernel',
  }
  assert all(step_lib.decay_mask(paths(), decay_all=True).values())


def test_a_family_may_leave_parameters_out_of_any_decay():
  model = registry.make('model', 'deltanet(layers=1, width=64, key=8)')
  found = state.shapes(network.NetworkSpec(model, 9, 12))
  for decay_all in (False, True):
    mask = step_lib.decay_mask(found, decay_all, model.undecayed)
    kept = {path for path, on in mask.items() if not on}
    named = {path for path in found if path.endswith(('.a_log', '.dt_bias'))}
    assert len(named) == 2
    assert named == kept if decay_all else named < kept


def test_decay_shrinks_what_the_mask_says():
  config = Training(lr=0.1, warmup=0, weight_decay=0.5, clip=0.0)
  params = {'mlp.up.kernel': jnp.ones(3), 'mlp.up.bias': jnp.ones(3)}
  transform = step_lib.make_optimizer(config, params)
  zero = {path: jnp.zeros(3) for path in params}
  updates, _ = transform.update(zero, transform.init(params), params)
  after = optax.apply_updates(params, updates)
  np.testing.assert_allclose(after['mlp.up.kernel'], 0.95, rtol=1e-6)
  np.testing.assert_array_equal(after['mlp.up.bias'], 1)


def test_clipping_bounds_the_norm_that_adam_sees():
  params = {'a.kernel': jnp.zeros(4)}
  grads = {'a.kernel': jnp.full(4, 100.0)}
  for clip, expected in ((1.0, 0.1 * 0.5), (0.0, 0.1 * 100)):
    transform = step_lib.make_optimizer(Training(clip=clip), params)
    _, after = transform.update(grads, transform.init(params), params)
    moments = [x.mu for x in _adam(after)]
    np.testing.assert_allclose(moments[0]['a.kernel'], expected, rtol=1e-5)


def test_beta2_weighs_the_squares():
  params = {'a.kernel': jnp.zeros(2)}
  grads = {'a.kernel': jnp.full(2, 3.0)}
  for beta2 in (0.95, 0.999):
    transform = step_lib.make_optimizer(Training(beta2=beta2, clip=0.0), params)
    _, after = transform.update(grads, transform.init(params), params)
    squares = _adam(after)[0].nu['a.kernel']
    np.testing.assert_allclose(squares, (1 - beta2) * 9, rtol=1e-5)


def step(transform, state, params, grad, loss=1.0):
  grads = {'a.kernel': jnp.asarray(grad, jnp.float32)}
  found, state = transform.update(grads, state, params, loss=jnp.float32(loss))
  return optax.apply_updates(params, found), state


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
  transform = step_lib.make_optimizer(config, params)
  kept = step(transform, transform.init(params), params, [0.5, 2])
  assert int(step_lib.num_updates(kept[1])) == 1
  bad = step(transform, *kept[::-1], grad, loss)
  for one, other in zip(
    jax.tree.leaves(bad), jax.tree.leaves(kept), strict=True
  ):
    np.testing.assert_array_equal(one, other)
  # And what follows is as if it had not been: moments, schedule and all.
  after = step(transform, *bad[::-1], [0.5, 2])
  expected = step(transform, *kept[::-1], [0.5, 2])
  np.testing.assert_array_equal(after[0]['a.kernel'], expected[0]['a.kernel'])
  assert int(step_lib.num_updates(after[1])) == 2


def test_the_guard_changes_no_good_step():
  params = {'a.kernel': jnp.array([1.0, -2.0])}
  found = []
  for skips in (0, 3):
    transform = step_lib.make_optimizer(Training(skips=skips), params)
    state = transform.init(params)
    for grad in ([0.5, 2], [3, -1]):
      after, state = step(transform, state, params, grad)
    found.append(after['a.kernel'])
  np.testing.assert_array_equal(*found)


def _adam(tree) -> list:
  if isinstance(tree, optax.ScaleByAdamState):
    return [tree]
  if isinstance(tree, tuple):
    return [found for part in tree for found in _adam(part)]
  return []
