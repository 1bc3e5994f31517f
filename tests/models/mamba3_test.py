"""Mamba-3: the trapezoidal rule, rotations, and what they make expressible."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.models.mamba_test import mixer, rms, run, silu, values
from wm.core import registry
from wm.models.nn import network

SISO = 'mamba3(layers=1, width=32, state=8, channels=16)'
MIMO = 'mamba3(layers=1, width=32, state=8, channels=16, rank=3)'


def turned(b: np.ndarray, angles: np.ndarray, rank: int) -> np.ndarray:
  """[8] with two pairs turned."""
  pairs = [(0, 1), (2, 3)] if rank == 1 else [(0, 4), (1, 5)]
  out = b.copy()
  for (i, j), angle in zip(pairs, angles, strict=True):
    out[i] = b[i] * np.cos(angle) - b[j] * np.sin(angle)
    out[j] = b[j] * np.cos(angle) + b[i] * np.sin(angle)
  return out


def plain(net: nnx.Module, u: np.ndarray, rank: int) -> np.ndarray:
  """Section 7.5's definition: angles in radians, one step after the other."""
  sizes = np.cumsum([64, 64, 8 * rank, 8 * rank, 4, 4, 4])
  parts = np.split(u @ values(net.up.kernel), sizes, axis=-1)
  gate, x, b, c, dt, a, trap, rate = parts
  length = len(u)
  gate, x = gate.reshape(length, 4, 16), x.reshape(length, 4, 16)
  b = rms(b.reshape(length, rank, 8), values(net.norm_b.scale))
  c = rms(c.reshape(length, rank, 8), values(net.norm_c.scale))
  dt = np.log1p(np.exp(dt + values(net.dt_bias)))
  a = np.minimum(-np.log1p(np.exp(a)), -1e-4) * dt
  share = 1 / (1 + np.exp(-trap))
  y = np.zeros((length, 4, 16))
  ones = np.ones((rank, 4, 16))
  spread, gates, collect = (
    ones if part is None else values(part)
    for part in (net.spread, net.gates, net.collect)
  )
  for head in range(4):
    h, angle, before = np.zeros((16, 8)), np.zeros(2), np.zeros((16, 8))
    for t in range(length):
      angle = angle + np.pi * np.tanh(rate[t]) * dt[t, head]
      inputs, decay = np.zeros((16, 8)), np.exp(a[t, head])
      for r in range(rank):
        key = b[t, r] + values(net.bias_b)[r, head]
        value = x[t, head] * spread[r, head]
        inputs += np.outer(value, turned(key, angle, rank))
      now, old = share[t, head], 1 - share[t, head]
      h = decay * (h + old * dt[t, head] * before) + now * dt[t, head] * inputs
      before = inputs
      for r in range(rank):
        query = turned(c[t, r] + values(net.bias_c)[r, head], angle, rank)
        out = h @ query + values(net.skip)[head] * x[t, head] * spread[r, head]
        out *= silu(gate[t, head] * gates[r, head])
        y[t, head] += collect[r, head] * out
  return y.reshape(length, 64) @ values(net.down.kernel)


@pytest.mark.parametrize(('spec', 'rank'), [(SISO, 1), (MIMO, 3)])
def test_mamba3_is_its_recurrence(spec, rank):
  net = mixer(spec)
  u = np.random.default_rng(1).normal(size=(15, 32))
  result = run(net, u)
  expected = plain(net, u, rank)
  # Float32 sums against float64 ones: errors are of the largest term.
  atol = 1e-5 * np.abs(expected).max()
  np.testing.assert_allclose(result, expected, rtol=0, atol=atol)


def test_a_rotation_counts_parity_for_thousands_of_steps():
  """Half a turn for each 1: what no positive decay can do."""
  model = registry.make('model', 'mamba3(layers=1, width=64, state=8)')
  shape = network.NetworkSpec(model, 4, 50)
  params = jax.tree.map(jnp.zeros_like, network.init(shape, 0))
  net = nnx.merge(shape.graph, params).blocks[0].mixer
  ends = np.cumsum(net.sizes)
  kernel = np.zeros(net.up.kernel.shape, np.float32)
  # Inputs: 0 always, 1 where the token is a one, 2 at the first token.
  kernel[0, : ends[0]] = 5  # The gate is open.
  kernel[2, ends[0] : ends[1]] = 1  # Only the first token is written.
  kernel[0, ends[3] : ends[4]] = np.log(np.expm1(1.0))  # Steps of size 1.
  kernel[0, ends[4] : ends[5]] = -20  # Nothing is forgotten.
  kernel[0, ends[5] : ends[6]] = 20  # No trapezoid.
  kernel[1, ends[6] :] = 20  # tanh is 1: half a turn.
  net.up.kernel[...] = jnp.asarray(kernel)
  first = jnp.zeros((1, 2, 8)).at[..., 0].set(1)
  net.bias_b[...] = net.bias_c[...] = first
  net.down.kernel[...] = jnp.eye(128, 64)
  bits = np.random.default_rng(0).integers(0, 2, 3000)
  u = np.zeros((1, 3000, 64), np.float32)
  u[0, :, 0], u[0, :, 1], u[0, 0, 2] = 1, bits, 1
  y, state = jax.jit(lambda u: net(u))(u)
  parity = np.cumsum(bits) % 2
  # The first token is turned before it is written.
  np.testing.assert_array_equal(y[0, :, 0] < 0, parity != parity[0])
  assert float(jnp.abs(y[0, -1, 0])) > 2
  for bit in (1, 0, 1):
    token = jnp.zeros((1, 64)).at[0, 0].set(1).at[0, 1].set(bit)
    out, state = net.step(token, state)
    parity[-1] ^= bit
    assert bool(out[0, 0] < 0) == (parity[-1] != parity[0])


def test_mimo_starts_as_an_average_of_its_ranks():
  shape = network.NetworkSpec(registry.make('model', MIMO), 11, 50)
  net = nnx.merge(shape.graph, network.init(shape, 0)).blocks[0].mixer
  for part, value in (
    (net.spread, 1 / 3),
    (net.gates, 1),
    (net.collect, 1 / 3),
  ):
    np.testing.assert_allclose(part[...], value, rtol=1e-6)
  assert (net.bias_b[...] == 1).all()
  assert (net.bias_c[...] == 1).all()
