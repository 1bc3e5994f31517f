"""Mamba-3: the trapezoidal rule, rotations, and what they make expressible."""

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
