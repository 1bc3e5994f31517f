"""Compression and distinction on orbits, by predictors with known answers."""

import dataclasses

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.evaluation import prefix_pairs, statistics
from wm.models.serving import oracles, process

SEED, TRIALS = 3, 45
COMPRESSION = f'compression(trials={TRIALS}, samples=3, k=8)'
DISTINCTION = (
  f"distinction(trials={TRIALS}, samples=3, boundary='sampled', "
  "accept='epsilon(0.1)')"
)


class StateOracle(oracles.WorldPredictor):
  """Knows the hidden state of each prefix of a metric's trials."""

  def __init__(self, world: core.World, metric: core.Metric, two_states: bool):
    super().__init__(world)
    blind = oracles.Oracle(world)
    pairs = prefix_pairs.draw(
      metric, blind, world, SEED, two_states=two_states
    ).prefixes
    self.state = {}
    for side, states in enumerate((pairs.first, pairs.second)):
      rows = core.predictor.histories(
        pairs.tokens[:, side], pairs.lengths[:, side]
      )
      self.state |= dict(zip(rows, states, strict=True))

  def read(self, prefixes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    results = core.predictor.histories(prefixes, lengths)
    return np.array([self.state[row] for row in results])

  def support(
    self, states: np.ndarray, history: np.ndarray
  ) -> process.NextTokens:
    return oracles.likely(self.world, states)


@pytest.fixture(scope='module')
def world() -> core.Latent:
  return registry.make('world', 'orbits()')


def summed(metric: core.Metric, model: core.Predictor, world: core.World):
  results = metric(model, world, SEED)
  return {s.quantity: s for s in results}, {
    s.quantity: statistics.summarize(s) for s in results
  }


def test_who_knows_the_state_is_perfect(world):
  metric = registry.make('metric', COMPRESSION)
  _, result = summed(metric, StateOracle(world, metric, False), world)
  assert result['precision']['value'] == 1
  assert result['precision']['n'] > 0.9 * TRIALS
  metric = registry.make('metric', DISTINCTION)
  scores, result = summed(metric, StateOracle(world, metric, True), world)
  assert result['precision']['value'] == 1
  assert result['recall']['value'] == 1
  # The world has one element where two states part before a sequence ends.
  recall = scores['recall']
  bands = recall.columns['parts_after']
  assert {*bands.tolist()} <= {'1', '2-5', '6-20'}
  assert min((bands == b).mean() for b in ('1', '2-5', '6-20')) > 0.15
  assert (recall.columns['elements'] == 1).all()


def test_who_knows_the_format_only_tells_nothing_apart(world):
  metric = registry.make('metric', DISTINCTION)
  metric = dataclasses.replace(metric, accept='epsilon(0.001)')
  _, result = summed(metric, oracles.Oracle(world), world)
  assert result['recall']['value'] == 0
  assert set(result['precision']['unmeasured']) == {'empty'}


def test_states_that_tokens_do_not_fix_are_no_task_of_coins(world):
  metric = registry.make('metric', 'inductive_bias()')
  for scores in metric(oracles.Oracle(world), world, SEED):
    assert scores.reason.tolist() == ['state_is_hidden']


def test_a_prefix_is_the_system_before_the_state(world):
  states = world.sample_states(40, SEED)
  numbers = states[:, 4]
  sequences = world.sample(int(numbers.max()) + 1, SEED)
  rows = np.searchsorted(sequences.side['number'], numbers)
  sequences = sequences.take(rows)
  bounds = world.prefix_moves(states)
  assert (bounds[:, 0] <= bounds[:, 1]).all()
  assert (bounds[:, 1] <= (world.rows - 1) // 4).all()
  most, seeds = bounds[:, 1], np.arange(40)
  result = world.sample_prefixes(states, most, seeds)
  assert result.ok.all()
  frames = (result.lengths - 2) // 4
  assert (frames >= bounds[:, 0]).all()
  assert len(np.unique(frames - bounds[:, 0])) > 3
  end = 2 + 2 * states[0, 1]  # Half of the rows are seen.
  for t, size in enumerate(result.lengths - 2):
    np.testing.assert_array_equal(
      result.tokens[t, 2 : 2 + size], sequences.tokens[t, end - size : end]
    )
  lines = world.forecast(states, world.max_len - end)
  np.testing.assert_array_equal(lines.tokens, sequences.tokens[:, end:])
  assert not world.sample_prefixes(states, most * 0, seeds).ok.any()


def test_other_states_have_the_bodies_where_they_are(world):
  """They part by velocity: bins before, and soon after, are other bins."""
  states = world.sample_states(60, SEED)
  others = world.sample_others(states, 9)
  pushed = (states != others).any(1)
  assert pushed.mean() > 0.8
  systems = [world.chosen(sample[pushed]) for sample in (states, others)]
  seen = []
  for result in systems:
    last = result.row // result.bodies - 1
    sequence = world._in_bins(result.at(last), np.arange(len(last)))
    seen.append(sequence.tokens)
  np.testing.assert_array_equal(seen[0][:, :6], seen[1][:, :6])
  assert (seen[0] != seen[1]).any(1).all()
  after = world.parts_after(states, others)[pushed]
  assert ((after >= 1) & (after <= 20)).all()


def test_suffixes_of_the_world_are_what_follows(world):
  metric = registry.make(
    'metric',
    "compression(trials=12, samples=4, k=6, suffixes='world', "
    "accept='epsilon(0.1)', graded=True)",
  )
  _, result = summed(metric, StateOracle(world, metric, False), world)
  assert result['precision']['value'] == 1
  assert result['accepted_share']['value'] == 1


def test_where_no_prefix_is_long_enough_that_is_told():
  short = registry.make('world', 'orbits(rows=9, bins=2000)')
  with pytest.raises(
    core.InputError, match='expected more rows or larger bins'
  ):
    short.sample_states(3, 1)
