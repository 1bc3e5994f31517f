"""Steps of all families on a GPU have the values of a processor.

Where JAX has no GPU these are left out. Products in float32 must not be in
TF32: launch/gpu.sh sets JAX_DEFAULT_MATMUL_PRECISION=highest.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax.sharding import AxisType, Mesh

from wm.core import registry
from wm.models import transformer

LENGTH, VOCAB = 300, 40
FAMILIES = (
  *('transformer(layers=2, width=128)', 'lstm(layers=1, width=64)'),
  *('rnn(layers=1, width=64)', 'mamba(layers=1, width=64)'),
  *('mamba2(layers=1, width=64)', 'mamba3(layers=1, width=64)'),
  *('deltanet(layers=1, width=64)', 'slice(layers=1, width=64)'),
)


@pytest.fixture(scope='module')
def devices():
  """A processor and a GPU."""
  if jax.default_backend() != 'gpu':
    pytest.skip('JAX has no GPU here')
  return jax.devices('cpu')[0], jax.devices('gpu')[0]


def on(device, function, *arrays):
  """Results of a jitted function, traced as for a device and run on it."""
  mesh = Mesh(
    np.array([[device]]), ('data', 'model'), axis_types=(AxisType.Auto,) * 2
  )
  placed = jax.device_put(arrays, device)
  with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
    return [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(*placed))]


def near(first, other, share):
  """Whether arrays differ by at most a share of their largest value."""
  for x, y in zip(first, other, strict=True):
    x, y = x.astype(np.float64), y.astype(np.float64)
    assert np.abs(x - y).max() <= share * max(np.abs(y).max(), 1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize('family', FAMILIES)
def test_a_step_has_the_values_of_a_processor(family, devices):
  compare_steps(family, *devices, share=2e-3)


def compare_steps(family, processor, device, share):
  """Loss and gradients of a network on two devices, in float32."""
  model = registry.make('model', family)
  graph, params = nnx.split(model.build(VOCAB, LENGTH, nnx.Rngs(0)))
  generator = np.random.default_rng(0)
  tokens = generator.integers(0, VOCAB, (2, LENGTH)).astype(np.int32)

  def loss(params, tokens):
    logits = nnx.merge(graph, params)(tokens).astype(jnp.float32)
    likely = jax.nn.log_softmax(logits[:, :-1])
    return -jnp.take_along_axis(likely, tokens[:, 1:, None], -1).mean()

  results = [
    on(each, jax.value_and_grad(loss), params, tokens)
    for each in (device, processor)
  ]
  near(*results, share)


@pytest.mark.gpu
@pytest.mark.parametrize(
  ('dtype', 'share'), [('float32', 2e-3), ('bfloat16', 2e-2)]
)
@pytest.mark.parametrize('rate', [0.0, 0.1])
def test_attention_has_the_values_of_a_processor(dtype, share, rate, devices):
  """cuDNN and blocks against all scores at once."""
  compare_attention(dtype, rate, *devices, share)


def compare_attention(dtype, rate, processor, device, share):
  """Attention and its gradients on two devices."""
  generator = np.random.default_rng(0)
  arrays = generator.normal(size=(3, 2, LENGTH, 2, 64)).astype(np.float32)
  arrays[0] /= 8
  key = jax.random.key(0) if rate else None

  def loss(q, k, v):
    inputs = (x.astype(dtype) for x in (q, k, v))
    y = transformer.attend(*inputs, rate, key).astype(jnp.float32)
    return jnp.sin(y).mean(), y

  step = jax.value_and_grad(loss, argnums=(0, 1, 2), has_aux=True)
  near(*(on(each, step, *arrays) for each in (device, processor)), share)


def test_comparisons_hold_between_a_processor_and_itself():
  processor = jax.devices('cpu')[0]
  compare_steps(FAMILIES[1], processor, processor, 1e-6)
  compare_attention('float32', 0.1, processor, processor, 1e-6)
  with pytest.raises(AssertionError):
    near([np.ones(3)], [np.full(3, 1.1)], 1e-3)
