"""Mamba and Mamba-2: published sizes, initial weights, the plain recurrence."""

import jax
import numpy as np
from flax import nnx

from wm.core import registry
from wm.models.nn import network


def silu(x: np.ndarray) -> np.ndarray:
  return x / (1 + np.exp(-x))


def rms(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
  return x / np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-5) * scale


def convolved(x: np.ndarray, conv: nnx.Module) -> np.ndarray:
  """[L, C]: a causal convolution of width 4, and SiLU."""
  kernel, y = values(conv.kernel), np.zeros(x.shape)
  for t in range(len(x)):
    for w in range(4):
      if t - 3 + w >= 0:
        y[t] += kernel[w] * x[t - 3 + w]
  return silu(y + values(conv.bias))


def values(param: nnx.Param) -> np.ndarray:
  return np.asarray(param[...], np.float64)


def mixer(spec: str) -> nnx.Module:
  """The first block's, with every parameter drawn at random."""
  shape = network.NetworkSpec(registry.make('model', spec), 11, 50)
  rng = np.random.default_rng(0)
  params = jax.tree.map(
    lambda leaf: leaf + 0.3 * rng.normal(size=leaf.shape).astype(np.float32),
    network.init(shape, 0),
  )
  return nnx.merge(shape.graph, params).blocks[0].mixer


def run(net: nnx.Module, u: np.ndarray) -> np.ndarray:
  """A mixer's outputs [L, D] of one row."""
  graph, params = nnx.split(net)
  call = jax.jit(lambda params, u: nnx.merge(graph, params)(u)[0])
  return call(params, u[None].astype(np.float32))[0]


def test_mamba_is_its_recurrence():
  net = mixer('mamba(layers=1, width=32, state=4)')
  u = np.random.default_rng(1).normal(size=(15, 32))
  x, gate = np.split(
    u @ values(net.up.kernel) + values(net.up.bias), 2, axis=-1
  )
  x = convolved(x, net.conv)
  dt, b, c = np.split(x @ values(net.select.kernel), [2, 6], axis=-1)
  dt = rms(dt, values(net.norm_dt.scale)) @ values(net.dt.kernel)
  dt = np.log1p(np.exp(dt + values(net.dt.bias)))
  b, c = rms(b, values(net.norm_b.scale)), rms(c, values(net.norm_c.scale))
  rates, h, y = -np.exp(values(net.log_rate)), np.zeros((64, 4)), []
  for t in range(15):
    h = np.exp(dt[t][:, None] * rates) * h
    h += (dt[t] * x[t])[:, None] * b[t]
    y.append(h @ c[t] + values(net.skip) * x[t])
  out = (np.stack(y) * silu(gate)) @ values(net.down.kernel)
  result = run(net, u)
  np.testing.assert_allclose(result, out + values(net.down.bias), atol=2e-5)


def test_mamba2_is_its_recurrence():
  net = mixer('mamba2(layers=1, width=32, state=8, channels=16)')
  u = np.random.default_rng(1).normal(size=(15, 32))
  gate, xbc, dt = np.split(u @ values(net.up.kernel), [64, 144], axis=-1)
  x, b, c = np.split(convolved(xbc, net.conv), [64, 72], axis=-1)
  x = x.reshape(15, 4, 16)
  dt = np.log1p(np.exp(dt + values(net.dt_bias)))
  a, h, y = -np.exp(values(net.log_rate)) * dt, np.zeros((4, 16, 8)), []
  for t in range(15):
    for head in range(4):
      inputs = dt[t, head] * np.outer(x[t, head], b[t])
      h[head] = np.exp(a[t, head]) * h[head] + inputs
    y.append(h @ c[t] + values(net.skip)[:, None] * x[t])
  y = np.stack(y).reshape(15, 64) * silu(gate)
  out = rms(y, values(net.norm.scale)) @ values(net.down.kernel)
  result = run(net, u)
  np.testing.assert_allclose(result, out, atol=2e-5)


def test_step_sizes_are_proper_unless_asked_for_as_published():
  def step_sizes(spec: str) -> np.ndarray:
    model = registry.make('model', spec)
    shape = network.NetworkSpec(model, 11, 50)
    net = nnx.merge(shape.graph, network.init(shape, 0)).blocks[0].mixer
    bias = values(net.dt.bias)
    return values(net.dt.kernel), np.log1p(np.exp(bias))

  kernel, sizes = step_sizes('mamba(layers=1, width=256)')
  assert np.abs(kernel).max() <= 16**-0.5
  assert 0.9e-3 < sizes.min() < sizes.max() < 0.11
  kernel, sizes = step_sizes("mamba(layers=1, width=256, steps='normal')")
  assert abs(kernel.std() - 0.02) < 1e-3
  np.testing.assert_allclose(sizes, np.log(2))


def test_initial_weights_are_as_published():
  model = registry.make('model', 'mamba2(layers=3, width=128)')
  shape = network.NetworkSpec(model, 500, 50, 20)
  net = nnx.merge(shape.graph, network.init(shape, 0))
  assert abs(values(net.embedding.table).std() - 0.02) < 1e-3
  assert (values(net.head.bias) == 0).all()
  block, third = net.blocks[0], 3**-0.5
  uniform = {
    block.mixer.up: 128**-0.5,
    block.mlp.up: 128**-0.5,
    block.mixer.down: (256 * 6) ** -0.5,
    block.mlp.down: (512 * 6) ** -0.5,
    block.mixer.conv: 0.5,
    net.head: 128**-0.5,
  }
  for module, most in uniform.items():
    kernel = values(module.kernel)
    assert 0.97 * most < np.abs(kernel).max() <= 1.0001 * most
    assert abs(kernel.std() / most - third) < 0.03
  rates = np.exp(values(block.mixer.log_rate))
  assert 1 <= rates.min() < rates.max() <= 16
  assert (values(block.mixer.skip) == 1).all()
