"""Steps that follow each other: few on accelerators, and the same results."""

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AbstractDevice, AxisType, Mesh

from wm.core import registry
from wm.runtime import compute

LENGTH = 512


def mesh(target: str) -> jax.sharding.AbstractMesh:
  """One device, as if it were of a platform."""
  devices = np.array(jax.devices()[:1]).reshape(1, 1)
  item = Mesh(devices, ('data', 'model'), axis_types=(AxisType.Auto,) * 2)
  device = AbstractDevice(device_kind='', num_cores=None, platform=target)
  return item.abstract_mesh.update(abstract_device=device)


def test_the_platform_is_that_of_the_mesh():
  assert compute.platform() == 'cpu'
  with jax.sharding.use_abstract_mesh(mesh('tpu')):
    assert compute.platform() == 'tpu'


def steps(jaxpr: jax.extend.core.Jaxpr) -> int:
  """Steps of scans that follow each other: of nested ones the product."""
  total = 0
  for equation in jaxpr.eqns:
    assert equation.primitive.name != 'while'
    inner = sum(
      steps(x) for x in jax.extend.core.jaxprs_in_params(equation.params)
    )
    if equation.primitive.name == 'scan':
      inner = equation.params['length'] * max(inner, 1)
    total += inner
  return total


def trained(spec: str, target: str):
  """(depth, output and gradients) of a layer, forward and backward."""
  model = registry.make('model', spec)
  block = model.block(0, nnx.Rngs(0))
  graph, params = nnx.split(block)
  x = np.random.default_rng(0).normal(size=(1, LENGTH, model.width))

  def loss(params, x):
    y = nnx.merge(graph, params)(x)[0]
    return jnp.sin(y).mean(), y

  with jax.sharding.use_abstract_mesh(mesh(target)):
    gradient = jax.jit(jax.value_and_grad(loss, argnums=(0, 1), has_aux=True))
    traced = gradient.trace(params, x.astype(np.float32))
    results = traced.lower().compile()(params, x.astype(np.float32))
  return steps(traced.jaxpr.jaxpr), jax.tree.leaves(results)


@pytest.mark.parametrize(
  'spec', ['mamba(width=8, layers=1, state=4)', 'slice(width=8, block_size=4)']
)
def test_accelerators_take_few_steps_to_the_same_result(spec):
  depth, results = trained(spec, 'tpu')
  assert 0 < depth < 64
  usual, expected = trained(spec, 'cpu')
  assert usual >= 2 * LENGTH
  for first, other in zip(results, expected, strict=True):
    scale = max(np.abs(other).max(), 1e-6)
    np.testing.assert_allclose(first, other, rtol=0, atol=1e-4 * scale)


def test_an_rnn_takes_all_its_steps_on_any_platform():
  depth, _ = trained('rnn(width=8, layers=1)', 'tpu')
  assert depth == 2 * LENGTH
