"""Whole families in double precision: sequences are their steps, to 1e-10.

Networks compute in float32 or bfloat16, and states are float32, whatever JAX
allows. Here every place that says float32 says float64 instead, so that what
is left between the two ways of running a block is not rounding.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from tests.marks import few
from wm.core import registry
from wm.models.nn import network

SPECS = (
  'rnn(layers=1, width=8)',
  'lstm(layers=1, width=8)',
  'slice(layers=1, width=8, block_size=4)',
  'deltanet(layers=1, width=8, heads=2, key=4, value=4, hidden=8)',
  'mamba(layers=1, width=8, state=4)',
  'mamba2(layers=1, width=8, state=4, channels=8)',
  'mamba3(layers=1, width=8, state=4, channels=8)',
  'mamba3(layers=1, width=8, state=4, channels=8, rank=2)',
)
V, LENGTH = 7, 11


def tokens() -> np.ndarray:
  return np.random.default_rng(0).integers(1, V, (3, LENGTH))


def by_steps(net: nnx.Module, rows: np.ndarray) -> tuple[np.ndarray, list]:
  """Logits [B, L, V] and states, token by token."""
  states, result = [block.start((len(rows),)) for block in net.blocks], []
  graph, params = nnx.split(net)

  @jax.jit
  def step(params, x, states):
    net, after = nnx.merge(graph, params), []
    x = net.embed(x)
    for block, state in zip(net.blocks, states, strict=True):
      x, state = block.step(x, state)
      after.append(state)
    return net.logits(x), after

  for t in range(rows.shape[1]):
    logits, states = step(params, rows[:, t], states)
    result.append(logits)
  return np.stack(result, 1), states


def by_sequence(net: nnx.Module, rows: np.ndarray) -> tuple[np.ndarray, list]:
  """Logits [B, L, V] and the states after all, block by block."""
  graph, params = nnx.split(net)

  @jax.jit
  def run(params, rows):
    net, states = nnx.merge(graph, params), []
    x = net.embed(rows)
    for block in net.blocks:
      x, state = block(x)
      states.append(state)
    return net.logits(x), states

  return run(params, rows)


@pytest.mark.parametrize('spec', few(3, SPECS))
def test_steps_are_the_sequence_to_the_last_digits(spec, monkeypatch):
  with jax.enable_x64(True):
    monkeypatch.setattr(jnp, 'float32', jnp.float64)
    model = registry.make('model', spec)
    object.__setattr__(model, 'dtype', 'float64')  # Not for users to ask for.
    shape = network.NetworkSpec(model, V, LENGTH)
    # Larger than fresh ones, so that every part shows in the logits.
    params = jax.tree.map(lambda leaf: 3 * leaf, network.init(shape, 0))
    net = nnx.merge(shape.graph, params)
    whole, steps = by_sequence(net, tokens()), by_steps(net, tokens())
    for first, other in zip(*map(jax.tree.leaves, (whole, steps)), strict=True):
      assert first.dtype == other.dtype == jnp.float64
      np.testing.assert_allclose(first, other, atol=1e-10, rtol=1e-10)
    assert np.ptp(whole[0]) > 0.01
