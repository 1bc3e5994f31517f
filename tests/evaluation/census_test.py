"""Worlds whose states are all drawn: what is left to chance is within them."""

import numpy as np

from wm import core
from wm.core import registry
from wm.evaluation import prefix_pairs, statistics
from wm.metrics import compression, distinction

LINE = 'lattice(size=4)'


def trials(metric, world=LINE, seed=0):
  world = registry.make('world', world)
  predictor = registry.make('model', 'oracle').predictor(world, 0)
  apart = metric.name == 'distinction'
  return prefix_pairs.draw(metric, predictor, world, seed, two_states=apart)


def test_trials_of_a_census_are_clusters_each():
  for metric in (compression.Metric, distinction.Metric):
    drawn = trials(metric(trials=100))
    assert drawn.census
    np.testing.assert_array_equal(drawn.groups, np.arange(100))


def test_of_states_that_were_not_drawn_nothing_is_taken_for_granted():
  for settings in ({'trials': 3}, {'trials': 200, 'support': 'sampler'}):
    drawn = trials(compression.Metric(**settings))
    assert not drawn.census
    states = drawn.world.state_id(drawn.prefixes.first)
    np.testing.assert_array_equal(drawn.groups, states)


def test_worlds_count_the_states_that_they_draw():
  for spec in (LINE, 'lattice(size=4)', 'maps(rows=2, columns=3)'):
    world = registry.make('world', spec)
    drawn = world.state_id(world.sample_states(2000, 1))
    assert len(np.unique(drawn)) == world.num_states(), spec


def test_intervals_of_a_census_hold_the_mean_over_its_states():
  """Four states that a model is right in more or less often."""
  right = np.array([1.0, 0.97, 0.8, 0.3])
  rng, held, widths = np.random.default_rng(0), [], []
  for _ in range(400):
    state = rng.integers(4, size=200)
    value = rng.random(200) < right[state]
    summary = statistics.summarize(core.scores('right', value))
    held.append(summary['low'] <= right.mean() <= summary['high'])
    widths.append(summary['high'] - summary['low'])
  assert np.mean(held) > 0.93
  assert np.mean(widths) < 0.15
