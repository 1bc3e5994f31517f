"""Predictors without physics: where bodies were, and straight on."""

import numpy as np
import pytest

from wm import core
from wm.core import registry


@pytest.fixture(scope='module')
def world() -> core.Latent:
  return registry.make('world', 'orbits(bins=128, rows=61)')


def made(world: core.World, spec: str) -> core.Predictor:
  return registry.make('model', spec).predictor(world, 0)


def test_what_is_most_likely_is_the_guess(world):
  tokens = world.sample(5, 2).tokens
  previous, straight = (
    made(world, name).log_probs(tokens, np.full(5, 122)).argmax(-1)
    for name in ('previous_position()', 'ballistic()')
  )
  # Row t predicts token t + 1; frames have four tokens.
  np.testing.assert_array_equal(previous[:, 5:-1], tokens[:, 2:-4])
  np.testing.assert_array_equal(straight[:, 5:9], tokens[:, 2:6])
  expected = 2 * tokens[:, 6:-4] - tokens[:, 2:-8]
  np.testing.assert_array_equal(
    straight[:, 9:-1], np.clip(expected, world.first_bin, world.first_bin + 127)
  )
  assert (previous[:, 0] == tokens[:, 0]).all()
  # Before there was a frame all bins are alike.
  first = made(world, 'ballistic()').log_probs(tokens, np.full(5, 122))[:, 1:5]
  np.testing.assert_allclose(np.exp(first[..., world.first_bin :]), 1 / 128)


def test_probabilities_are_normal_around_the_guess(world):
  tokens = world.sample(2, 2).tokens
  result = made(world, 'previous_position()')
  logs = result.log_probs(tokens, np.full(2, 122))
  np.testing.assert_allclose(np.exp(logs).sum(-1), 1, atol=1e-5)
  center = tokens[0, 2]
  row = logs[0, 5]
  np.testing.assert_allclose(row[center] - row[center + 4], 8, atol=1e-5)
  session = result.session(tokens[:, :30], np.full(2, 30), 1)
  np.testing.assert_array_equal(session.log_probs()[:, 0], logs[:, 29])
  session.advance(tokens[:, 30:31])
  np.testing.assert_array_equal(session.log_probs()[:, 0], logs[:, 30])


@pytest.mark.parametrize(
  ('world_spec', 'spec', 'message'),
  [
    (
      "orbits(systems='exoplanets', planets=3, box=50.0)",
      'previous_position()',
      'systems of 2 to 4 bodies',
    ),
    ('lattice()', 'ballistic()', 'shows no moving bodies'),
  ],
)
def test_what_cannot_be_followed_is_told(world_spec, spec, message):
  with pytest.raises(core.InputError, match=message):
    made(registry.make('world', world_spec), spec)
