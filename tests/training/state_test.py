"""Meshes: parameters are divided as the layers say, results stay the same."""

import functools
import pathlib
import re

import jax
import numpy as np
import pytest

from tests import tiny
from tests.marks import few
from wm import core
from wm.core import registry
from wm.models.nn import network
from wm.options.training import Training
from wm.training import loop, state
from wm.training import loss as loss_lib

MODEL = 'transformer(layers=1, width=16, heads=2, {})'


@functools.cache
def run(spec: str, mesh_size: tuple[int, int], steps: int = 3):
  """Reports [steps, 6] and the state after a few steps on random tokens."""
  config = Training(steps=steps, warmup=0)
  model = registry.make('model', MODEL.format(spec))
  spec = network.NetworkSpec(model, len(tiny.VOCAB), 16)
  shapes, mesh = spec.shapes, state.mesh(*mesh_size)
  transform = state.make_optimizer(config, shapes)
  abstract = state.abstract_state(shapes, transform, mesh)
  schedule = state.schedule(config)
  objective = loss_lib.NextTokenLoss(tiny.World())
  act = loop.make_train_step(spec, transform, schedule, objective, 0, abstract)
  now = state.create(spec, 0, transform, abstract)
  rng, reports = np.random.default_rng(0), []
  for number in range(steps):
    tokens = rng.integers(1, len(tiny.VOCAB), (8, 16)).astype(np.int32)
    lengths = rng.integers(2, 17, 8).astype(np.int32)
    now, report = act(
      now, np.int32(number), *loop.place_batch(mesh, tokens, lengths)
    )
    reports.append(np.asarray(report))
  return np.array(reports), now


@pytest.mark.parametrize(
  ('spec', 'mesh_size'),
  few(
    1,
    [
      ('dropout=0.2', (2, 1)),
      ('dropout=0.2', (1, 2)),
      # On a mesh, scans are tried in mesh_test too.
      pytest.param(
        "scan=True, remat=True, norm='rms', mlp='swiglu'",
        (2, 1),
        marks=pytest.mark.slow,
      ),
    ],
  ),
)
def test_losses_do_not_depend_on_the_mesh(spec, mesh_size):
  first, other = run(spec, (1, 1))[0], run(spec, mesh_size)[0]
  np.testing.assert_allclose(first, other, rtol=2e-5)


@pytest.mark.parametrize('mesh_size', [(2, 1), (1, 2)])
def test_matrices_and_their_moments_are_divided(mesh_size):
  _, now = run('dropout=0.2', mesh_size)
  kernel = 'blocks.0.mlp.up.kernel'
  moments = [
    leaf
    for path, leaf in network.flatten(now.opt).items()
    if path.endswith(kernel)
  ]
  assert len(moments) == 2
  for array in (now.params[kernel], *moments):
    part = array.addressable_shards[0].data
    assert part.size == array.size // 2
  whole = now.params['final.scale'].addressable_shards
  assert all(shard.data.shape == (16,) for shard in whole)


def test_bfloat16_computes_low_and_keeps_float32():
  low, now = run("dropout=0.2, dtype='bfloat16'", (1, 1))
  high, _ = run('dropout=0.2', (1, 1))
  assert all(leaf.dtype == np.float32 for leaf in now.params.values())
  assert np.isfinite(low).all()
  np.testing.assert_allclose(low[:, 0], high[:, 0], rtol=0.05)
  assert (low[:, 0] != high[:, 0]).any()


@pytest.mark.parametrize('size', [(3, 1), (0, 3), (2, 2)])
def test_a_mesh_that_does_not_fit(size):
  with pytest.raises(core.InputError, match='does not fit the 2 devices'):
    state.mesh(*size)


def test_a_mesh_takes_all_devices_unless_told():
  assert dict(state.mesh(0, 1).shape) == {'data': 2, 'model': 1}
  assert dict(state.mesh(0, 2).shape) == {'data': 1, 'model': 2}
  assert state.mesh(1, 1).size == 1


def test_flattened_parameters_come_back():
  model = registry.make('model', MODEL.format('scan=True'))
  spec = network.NetworkSpec(model, 8, 12)
  params = network.init(spec, 0)
  flat = network.flatten(params)
  assert 'embedding.table' in flat
  assert len(flat) == len(jax.tree.leaves(params))
  again = spec.tree(flat)
  assert jax.tree.structure(again) == jax.tree.structure(params)
  for first, other in zip(
    jax.tree.leaves(params), jax.tree.leaves(again), strict=True
  ):
    assert first is other


FLAGS = pathlib.Path(__file__).parents[2] / 'launch' / 'flags'
# Data and model axes of v5e-16, v5e-256, v5p-64 and eight GPUs.
MESHES = [(16, 1), (8, 2), (256, 1), (128, 2), (64, 4), (64, 1), (8, 1), (4, 2)]


def shipped() -> dict[str, state.Shapes]:
  """Shapes of every model that a flagfile trains, on 4,589 tokens."""
  specs = set()
  for path in FLAGS.rglob('*.flags'):
    specs.update(re.findall(r'^--model=(.*)$', path.read_text(), re.M))
  models = {spec: registry.make('model', spec) for spec in sorted(specs)}
  return {
    spec: network.NetworkSpec(model, 4589, 400).shapes
    for spec, model in models.items()
    if isinstance(model, core.Trainable)
  }


@pytest.mark.slow
def test_a_device_of_any_topology_holds_its_share_of_the_state():
  every = shipped()
  assert len(every) > 10
  for spec, shapes in every.items():
    for data, model in MESHES:
      local, equal = state.memory(shapes, {'data': data, 'model': model}, 3)
      # Below 8 MB a device, small arrays that all devices hold whole count.
      assert local <= max(1.5 * equal, equal + (8 << 20)), (spec, data, model)


def test_the_largest_model_is_divided_256_ways():
  flags = (FLAGS / 'sizes' / 'xl.flags').read_text()
  spec = re.search(r'^--model=(.*)$', flags, re.M)[1]
  shapes = network.NetworkSpec(registry.make('model', spec), 4589, 400).shapes
  for mesh in ({'data': 256, 'model': 1}, {'data': 8, 'model': 2}):
    local, equal = state.memory(shapes, mesh, 3)
    assert local < 1.05 * equal
  state.check_memory(shapes, {'data': 256, 'model': 1}, 3)
  # Neither 25 heads nor a width of 1,600 has a factor of three.
  with pytest.raises(core.InputError, match='12 x 1 devices'):
    state.check_memory(shapes, {'data': 12, 'model': 1}, 3)


@pytest.mark.parametrize('size', [(1, 1), (2, 1), (1, 2)])
def test_a_mesh_comes_back_from_its_storage(size):
  mesh = state.mesh(*size)
  again = network.batch_mesh(network.storage_mesh(mesh))
  assert again == mesh


def test_axes_are_prime_factors():
  assert network.storage_axes({'data': 12, 'model': 1}) == {
    **{'data0': 3, 'data1': 2, 'data2': 2},
    'model0': 1,
  }


def test_a_state_that_no_mesh_divides_is_refused():
  shapes = {'w': jax.ShapeDtypeStruct((50257, 8191), 'float32')}
  with pytest.raises(core.InputError, match='do not divide the sizes'):
    state.check_memory(shapes, {'data': 2, 'model': 1}, 3)
