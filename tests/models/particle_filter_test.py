"""The particle filter as a model, and what prefixes fix by its account."""

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.kernels import orbit_particles as particles
from wm.worlds import orbits as orbits_world


def test_a_session_gives_what_whole_sequences_give():
  world = registry.make('world', 'orbits(bins=64, rows=21)')
  model = registry.make('model', 'particle_filter(particles=32, sweeps=2)')
  result = model.predictor(world, 3)
  sequences = world.sample(3, 1)
  tokens = sequences.tokens[:, :16]
  whole = result.log_probs(tokens, np.full(3, 16))
  assert whole.dtype == np.float32
  np.testing.assert_allclose(np.exp(whole).sum(-1), 1, atol=1e-5)
  # The time step is named twice, then every bin is possible.
  assert (whole[:, 0].argmax(-1) == tokens[:, 0]).all()
  assert (np.exp(whole[:, 0]).max(-1) == 1).all()
  assert np.isfinite(whole[:, 5, world.first_bin :]).all()
  session = result.session(tokens[:, :9], np.full(3, 9), 2)
  for t in range(9, 16):
    want = np.repeat(whole[:, t - 1, None], 2, axis=1)
    np.testing.assert_array_equal(session.log_probs(), want)
    session.advance(np.repeat(tokens[:, t, None], 2, axis=1))
  again = model.predictor(world, 3).log_probs(tokens[1:2], np.full(1, 16))
  np.testing.assert_array_equal(again[0], whole[1])


def fixed(world, filtered, states, seen, frames) -> float:
  """Share of particles within tolerance in the next frames.

  seen: [N, 4 F] tokens of the frames before the states; frames: [N] how many of
  these the filter is shown.
  """
  num, size = len(states), seen.shape[1]
  step = world.step_tokens(world.chosen(states).systems.step)
  result = filtered.init(num)
  for _ in range(2):
    result = filtered.advance(result, step[world.chosen(states).place])
  for t in range(size):
    on = np.flatnonzero(t >= size - 4 * frames)
    result[on] = filtered.advance(result[on], seen[on, t])
  clouds, alive = filtered._opened(result), result[:, orbits_world.ALIVE]
  priors = filtered._priors(result[:, orbits_world.STEP_TOKEN])
  lines = world.forecast(states, 16).tokens - world.first_bin
  grid, shares = particles.BinGrid(*world.grid), []
  for k in range(16):
    places = result[:, orbits_world.SEEN_TOKENS].astype(np.int64) - 2 + k
    inputs = clouds, alive.astype(np.int64), places, priors, grid
    near = np.abs(np.arange(world.bins) - lines[:, k, None]) <= 1
    shares.append((particles.counts(*inputs) * near).sum(1) / alive)
  return float(np.mean(shares))


def test_prefixes_fix_the_next_frames():
  """Of the shortest prefixes that the linear error allows, by particles."""
  world = registry.make('world', 'orbits()')
  states, sequences = world.sample_states(16, 5), world.sample(16, 5)
  np.testing.assert_array_equal(states[:, 4], sequences.side['number'])
  least = world.prefix_moves(states)[:, 0]
  inputs = world, world.posterior(128, 4, 0), states
  seen = sequences.tokens[:, 2:82]  # Half of the rows.
  assert fixed(*inputs, seen, least) > 0.9
  assert fixed(*inputs, seen, np.full(16, 2)) < 0.75


def test_a_world_without_hidden_states_has_no_filter():
  world = registry.make('world', 'lattice()')
  with pytest.raises(core.InputError, match='forecast'):
    registry.make('model', 'particle_filter()').predictor(world, 0)
