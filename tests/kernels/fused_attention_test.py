"""Attention kernels of accelerators, interpreted, against the plain form."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractDevice, NamedSharding
from jax.sharding import PartitionSpec as P

from tests.kernels.attention_test import arrays, both
from wm.kernels import fused_attention
from wm.models import transformer
from wm.training import state

RATE = 0.25


def plain(q, k, v, key=None):
  """All scores at once, with the weights that the kernels drop."""
  batch, length, heads, _ = q.shape
  scores = jnp.einsum('blhc,bmhc->bhlm', q, k).astype(jnp.float32)
  causal = jnp.tril(jnp.ones((length, length), bool))[None, None]
  weights = jax.nn.softmax(jnp.where(causal, scores, -1e30), -1)
  if key is not None:
    row, query, other = (
      jax.lax.broadcasted_iota(jnp.int32, (batch * heads, length, length), n)
      for n in range(3)
    )
    words = jax.random.bits(key, (2,)).astype(jnp.int32)
    mask = fused_attention.kept(words, RATE, row, query, other, length)
    weights = jnp.where(mask.reshape(weights.shape), weights / (1 - RATE), 0)
  return jnp.einsum('bhlm,bmhc->blhc', weights.astype(v.dtype), v)


def close(results, wanted, near):
  for first, other in zip(results, wanted, strict=True):
    assert first.dtype == other.dtype
    first, other = (np.asarray(x, np.float32) for x in (first, other))
    np.testing.assert_allclose(first, other, rtol=0, atol=near)


@pytest.mark.parametrize(
  ('length', 'dtype', 'near'), [(1, 'float32', 5e-6), (45, 'bfloat16', 0.1)]
)
def test_kernels_are_the_plain_form(length, dtype, near):
  inputs = arrays((2, length, 3, 8), dtype)
  fused = functools.partial(fused_attention.attend, size=16)
  close(both(fused, *inputs), both(plain, *inputs), near)


def test_both_passes_drop_the_same_weights():
  inputs, key = arrays(), jax.random.key(7)
  fused = functools.partial(fused_attention.attend, rate=RATE, key=key, size=16)
  expected = both(functools.partial(plain, key=key), *inputs)
  close(both(fused, *inputs), expected, 1e-5)


def test_weights_are_dropped_at_their_rate():
  shape = 4, 300, 300
  row, query, key = (
    jax.lax.broadcasted_iota(jnp.int32, shape, n) for n in range(3)
  )
  words = jax.random.bits(jax.random.key(0), (2,)).astype(jnp.int32)
  mask = np.asarray(fused_attention.kept(words, 0.1, row, query, key, 300))
  assert mask.mean() == pytest.approx(0.9, abs=0.002)
  rest = mask - mask.mean()
  for shift, axis in ((1, 2), (1, 1), (1, 0), (7, 2)):
    correlation = (rest * np.roll(rest, shift, axis)).mean() / 0.09
    assert abs(correlation) < 0.01


@pytest.mark.parametrize('size', [(2, 1), (1, 2)])
def test_a_mesh_drops_and_gives_the_same(size):
  inputs, key = arrays((2, 20, 2, 8)), jax.random.key(7)
  # Blocks of another size drop the same, too.
  fused, wide = (
    functools.partial(fused_attention.attend, rate=RATE, key=key, size=n)
    for n in (16, 32)
  )
  expected = [*map(np.asarray, both(wide, *inputs))]
  mesh = state.mesh(*size)
  placed = [jax.device_put(x, NamedSharding(mesh, P('data'))) for x in inputs]
  with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
    close(both(fused, *placed), expected, 1e-5)


def program(target: str, shape, dtype, rate=0.1) -> str:
  """What `attend` traces to for a platform."""
  mesh = state.mesh(1, 1).abstract_mesh
  device = AbstractDevice(device_kind='', num_cores=None, platform=target)
  x = jax.ShapeDtypeStruct(shape, dtype)

  def run(q, k, v):
    return transformer.attend(q, k, v, rate, jax.random.key(0))

  with jax.sharding.use_abstract_mesh(mesh.update(abstract_device=device)):
    return str(jax.make_jaxpr(run)(x, x, x))


@pytest.mark.parametrize('target', ['tpu', 'gpu'])
def test_the_platform_chooses_the_kernel(target, monkeypatch):
  low = jnp.bfloat16
  assert 'pallas_call' in program(target, (2, 300, 2, 64), low)
  assert 'pallas_call' in program(target, (2, 300, 2, 64), np.float32)
  assert 'pallas_call' not in program(target, (2, 100, 2, 64), low)
  assert 'pallas_call' not in program('cpu', (2, 300, 2, 64), low)
  asked = []

  def cudnn(q, k, v, **options):
    asked.append(options['implementation'])
    return v

  monkeypatch.setattr(jax.nn, 'dot_product_attention', cudnn)
  program(target, (2, 300, 2, 64), low, 0.0)
  assert asked == ['cudnn'] * (target == 'gpu')
  # No kernel of a GPU has 48 channels.
  other = program(target, (2, 300, 2, 48), low)
  assert ('pallas_call' in other) == (target == 'tpu')


def test_a_gpu_gets_its_kernels():
  """Lowered for a GPU, which need not be there; compiled only on one."""
  mesh = state.mesh(1, 1).abstract_mesh
  device = AbstractDevice(device_kind='', num_cores=None, platform='gpu')
  x = jax.ShapeDtypeStruct((2, 300, 2, 64), jnp.bfloat16)

  def loss(*given):
    y = transformer.attend(*given, 0.1, jax.random.key(0))
    return y.astype(jnp.float32).sum()

  gradient = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))
  with jax.sharding.use_abstract_mesh(mesh.update(abstract_device=device)):
    lowered = gradient.trace(x, x, x).lower(lowering_platforms=('cuda',))
  text = lowered.as_text()
  for kernel in ('_forward_kernel', '_keys_kernel', '_queries_kernel'):
    assert f'name = "{kernel}"' in text
