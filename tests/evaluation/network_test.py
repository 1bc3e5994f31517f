"""Sampled metrics on a real network: any batch, any number of devices."""

import jax
import numpy as np
import pytest

from tests import tiny
from tests.evaluation import loops
from tests.marks import few
from wm import core
from wm.core import accept as rules
from wm.core import registry
from wm.core.measure import lacks
from wm.evaluation import context, engine, prefix_pairs
from wm.metrics import compression, distinction, next_token, probe
from wm.models.nn import network
from wm.models.serving import networks, reasked

WORLD = tiny.World()
SPEC = 'transformer(layers=1, width=16)'
METRICS = (
  compression.Metric(trials=9, samples=5, accept='epsilon(0.05)', graded=True),
  distinction.Metric(trials=9, samples=5, accept='top_p(0.8)'),
)


@pytest.mark.parametrize('metric', few(1, METRICS), ids=lambda m: m.name)
def test_batch_and_devices_do_not_matter(metric, monkeypatch):
  first = None
  for devices, batch in ((1, 1), (1, 4), (2, 16)):
    predictor = loops.predictor(SPEC, devices=min(devices, jax.device_count()))
    monkeypatch.setattr(engine, 'BATCH', batch)
    results = metric(predictor, WORLD, 0)
    first = first or results
    for item, other in zip(first, results, strict=True):
      np.testing.assert_array_equal(item.value, other.value)
      np.testing.assert_array_equal(item.reason, other.reason)


@pytest.mark.parametrize(
  'spec',
  [
    SPEC,
    'lstm(layers=1, width=16)',
    'mamba2(layers=1, width=16, state=8, channels=16)',
    'transformer(layers=1, width=16, patch=2)',
  ],
)
def test_lanes_that_are_used_again_change_no_continuation(spec):
  predictor, accept = loops.predictor(spec), rules.epsilon(0.02)
  states = WORLD.sample_states(20, 0)
  pairs = prefix_pairs.prefix_pairs(WORLD, states, states, seed=0, attempts=32)
  trials = context.Trials(predictor, WORLD, pairs, accept, accept, 0)
  outcomes = []
  for lanes in (0, 3):
    predictor.session_lanes = lanes
    sampled = engine.sample_and_check(trials, 7)
    asked = trials.tokens, trials.lengths, sampled.tokens, sampled.lengths
    outcomes.append((*sampled, engine.teacher_force(predictor, *asked, accept)))
  assert len(np.unique(outcomes[0][1])) > 2, 'lengths differ'
  for first, *others in zip(*outcomes, strict=True):
    for other in others:
      np.testing.assert_array_equal(first, other)


def test_a_network_that_is_asked_again_is_scored_alike():
  metric = distinction.Metric(trials=12, samples=12)
  predictor = loops.predictor(SPEC)
  plain = metric(predictor, WORLD, 0)
  again = metric(reasked.recorded(predictor), WORLD, 0)
  for first, other in zip(plain, again, strict=True):
    np.testing.assert_array_equal(first.value, other.value)


def test_a_model_of_states_has_activations_and_no_next_token():
  world = registry.make('world', 'lattice(length=16)')
  model = registry.make('model', 'rnn(layers=1, width=16)')
  shape = network.NetworkSpec(
    model, len(world.vocab), world.max_len, sum(world.heads.sizes)
  )
  predictor = networks.NetworkStatePredictor(
    model, network.init(shape, 0), world, world.max_len
  )
  accuracy = probe.Metric(num=20)(predictor, world, 0)[0]
  assert accuracy.measured.all()
  for metric in (
    compression.Metric(trials=3),
    distinction.Metric(trials=3),
    next_token.Metric(num=3),
  ):
    missing = lacks(metric, type(predictor), type(world))
    assert missing == [core.Predictor]
