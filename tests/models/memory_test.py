"""The state of a recurrence: read after each token, and edited."""

import functools

import jax
import numpy as np
import pytest

from tests.marks import few
from wm import core
from wm.core import registry
from wm.models.nn import network
from wm.models.serving import networks

FAMILIES = (
  'rnn(layers=2, width=8)',
  'lstm(layers=2, width=8)',
  'mamba2(layers=2, width=8, channels=8)',
  'deltanet(layers=2, width=16)',
  'slice(layers=2, width=8)',
)
LONG = 'mamba(layers=2, width=8)', 'mamba3(layers=2, width=8, channels=8)'
each = pytest.mark.parametrize('spec', few(3, (*FAMILIES, *LONG)))
CUT, LENGTH = 5, 10


@functools.cache
def reader(spec: str) -> networks.NetworkPredictor:
  """With random weights, of a vocabulary of 7."""
  model = registry.make('model', spec)
  params = network.init(network.NetworkSpec(model, 7, 16), 0)
  # Large weights, so that prefixes leave their mark.
  params = jax.tree.map(lambda leaf: 3 * leaf, params)
  return networks.NetworkPredictor(model, params, 7, 1, 16)


def rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
  rng = np.random.default_rng(seed)
  return rng.integers(1, 7, (4, LENGTH)).astype(np.int32), np.full(4, LENGTH)


@each
def test_what_is_not_edited_goes_on_as_before(spec):
  memory, batch = reader(spec).memory(), rows(0)
  same = memory.patched(*batch, -1, memory.hidden(*batch, -1))
  true = reader(spec).log_probs(*batch)
  np.testing.assert_allclose(same, true, rtol=1e-4, atol=1e-4)


@each
def test_the_whole_state_of_another_prefix_gives_its_future(spec):
  """After the edit all that follows is as if the other prefix had been read."""
  memory, (tokens, lengths) = reader(spec).memory(), rows(0)
  other = np.concatenate([rows(1)[0][:, :CUT], tokens[:, CUT:]], axis=1)
  state = memory.hidden(tokens, lengths, -1)
  state[:, CUT - 1] = memory.hidden(other, lengths, -1)[:, CUT - 1]
  edited = memory.patched(tokens, lengths, -1, state)
  true, expected = (reader(spec).log_probs(t, lengths) for t in (tokens, other))
  np.testing.assert_allclose(edited[:, CUT:], expected[:, CUT:], atol=2e-4)
  np.testing.assert_allclose(edited[:, :CUT], true[:, :CUT], atol=2e-4)
  assert np.abs(true[:, CUT:] - expected[:, CUT:]).max() > 1e-2


def test_the_state_of_all_blocks_is_that_of_each():
  memory, batch = reader(FAMILIES[1]).memory(), rows(0)
  first, second, both = (memory.hidden(*batch, k) for k in (1, 2, -1))
  np.testing.assert_array_equal(np.concatenate([first, second], -1), both)
  # An LSTM of width 8 has its output and its cell.
  assert first.shape == (4, LENGTH, 16)


def test_gradients_are_those_of_differences():
  memory, batch = reader(FAMILIES[0]).memory(), rows(0)
  state = memory.hidden(*batch, 1)
  weights = np.zeros((4, LENGTH, 7), np.float32)
  weights[:, -1, 3] = 1
  slope = memory.patched_gradient(*batch, 1, state, weights)
  step = np.zeros_like(state)
  step[:, CUT, 2] = 1e-2
  up, down = (
    memory.patched(*batch, 1, state + sign * step)[:, -1, 3] for sign in (1, -1)
  )
  np.testing.assert_allclose(
    slope[:, CUT, 2], (up - down) / 2e-2, rtol=0.05, atol=1e-5
  )


def test_attention_has_no_memory():
  assert reader('transformer(layers=1, width=8, heads=1)').memory() is None


def test_layer_0_has_no_state():
  with pytest.raises(
    core.InputError, match=r'layer 0 of .* has no state: 1 to'
  ):
    reader(FAMILIES[0]).memory().hidden(*rows(0), 0)
