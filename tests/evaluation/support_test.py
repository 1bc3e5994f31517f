"""The support of samplers: what is judged, and who is right there."""

import json
import math

import numpy as np
import pytest

from tests import small
from tests.models.bayes_replan_test import wandering
from tests.models.bayes_test import NOISY, SHORTEST, WALKS, law
from wm import core
from wm.core import registry
from wm.evaluation import support

BOUND = 0.2
KNOWING = 'bayes()', "bayes(off='replan')", 'oracle()'
METRICS = (
  "compression(trials=60, support='sampler')",
  "distinction(trials=60, support='sampler')",
  "detour(num=40, support='sampler')",
)
ASKED = ('precision', 'recall', 'recall_by_length', 'valid_0.5', 'valid_0.75')


def supported(spec: str) -> support.Support:
  world = registry.make('world', spec)
  accept = registry.make('accept', 'epsilon(0.01)')
  return support.Support.of(world, accept)


def conditional(true, prefix, token) -> float:
  """Probability of a token after a prefix, by all routes."""
  size = len(prefix)
  before = sum(p for route, p in true.items() if route[:size] == prefix)
  after = (*prefix, token)
  both = sum(p for r, p in true.items() if r[: size + 1] == after)
  return both / before if before else 0.0


@pytest.mark.parametrize('spec', [WALKS, SHORTEST, NOISY])
def test_continuations_are_judged_as_all_routes_say(spec, monkeypatch):
  monkeypatch.setattr(support, 'BOUND', BOUND)
  inputs = supported(spec)
  world, true = inputs.world, law(inputs.world)
  routes = wandering(world, 80, 3)
  start = np.full(len(routes), world.prompt_len)
  memory, states = inputs.follow(routes.tokens, start)
  rest = routes.tokens[:, world.prompt_len :].copy()
  lengths = routes.lengths - world.prompt_len
  rest[::7, 1] = world.end  # Illegal nearly everywhere.
  got = inputs.judge(memory, states, rest, lengths)
  judged_some = 0
  for row, length in enumerate(lengths.tolist()):
    prefix = tuple(routes.tokens[row, : world.prompt_len].tolist())
    state = world.init(1)
    for token in prefix:
      state = world.advance(state, np.array([token], np.int32))
    judged = lead = 0
    nats = 0.0
    for token in rest[row, :length].tolist():
      odds = conditional(true, prefix, token)
      legal = world.legal(state)[0, token]
      judged += odds > BOUND or not legal
      if odds <= BOUND:
        break
      lead, nats, prefix = lead + 1, nats + np.log(odds), (*prefix, token)
      state = world.advance(state, np.array([token], np.int32))
    assert (got.judged[row], got.supported[row]) == (judged, lead)
    assert got.log_probs[row] == pytest.approx(nats, abs=1e-5)
    judged_some += judged > 0
  assert judged_some > 3


@pytest.mark.parametrize('spec', [WALKS, SHORTEST, NOISY])
@pytest.mark.parametrize('apart', [False, True])
def test_pairs_are_prefixes_that_the_sampler_draws(spec, apart):
  inputs = supported(spec)
  world, true = inputs.world, law(inputs.world)
  pairs = support.prefix_pairs(inputs, 40, 1, two_states=apart)
  measured = np.flatnonzero(pairs.reason == '')
  assert len(measured) > 20
  for row in measured:
    prefixes = []
    for side, state in enumerate((pairs.first, pairs.second)):
      length = pairs.lengths[row, side]
      prefix = tuple(pairs.tokens[row, side, :length].tolist())
      assert any(r[:length] == prefix and len(r) > length for r in true)
      for k in range(world.prompt_len, length):
        assert conditional(true, prefix[:k], prefix[k]) > 0.01
      reached = world.init(1)
      for token in prefix:
        reached = world.advance(reached, np.array([token], np.int32))
      np.testing.assert_array_equal(reached[0], state[row])
      prefixes.append(prefix)
    assert prefixes[0] != prefixes[1]
    assert pairs.lengths[row, 0] == pairs.lengths[row, 1]
    ids = [world.state_id(x[[row]])[0] for x in (pairs.first, pairs.second)]
    assert (ids[0] != ids[1]) == apart


@pytest.mark.parametrize('model', KNOWING)
@pytest.mark.parametrize('rule', ['epsilon(0.01)', 'top_k(1)', 'top_p(0.9)'])
@pytest.mark.parametrize('spec', [WALKS, SHORTEST, NOISY])
def test_who_knows_rules_and_sampler_is_right(spec, rule, model):
  if model == 'oracle()' and rule != 'epsilon(0.01)':
    pytest.skip('it is uniform over what is legal: others leave some out')
  entries = small.scored(model, list(METRICS), spec, accept=rule)
  asked = [e for e in entries if e['quantity'] in ASKED]
  assert len(asked) == 6
  assert all(e['value'] == 1 or math.isnan(e['value']) for e in asked)
  assert sum(e['value'] == 1 for e in asked) >= 3


def test_the_uniform_model_tells_nothing_apart():
  result = {
    e['metric'] + e['quantity']: e
    for e in small.scored('uniform()', list(METRICS), NOISY)
  }
  assert result['compressionprecision']['value'] == 1
  assert result['distinctionrecall']['value'] == 0
  assert math.isnan(result['distinctionprecision']['value'])
  assert result['detourvalid_0.5']['value'] < 0.5


def test_forgetting_by_prefix_is_seen_on_the_support():
  model = "noisy_oracle(wrong=0.1, by='prefix')"
  result = {
    e['metric'] + e['quantity']: e['value']
    for e in small.scored(model, list(METRICS), WALKS)
  }
  assert result['compressionprecision'] < 0.7
  assert result['distinctionrecall'] < 1


@pytest.mark.parametrize(
  ('metric', 'problem'),
  [
    ("compression(support='it')", 'available: all, sampler|all, sampler'),
    (
      "compression(support='sampler', prefix_filter='model')",
      "expected world='' and",
    ),
    (
      "compression(support='sampler', suffixes='world', k=1)",
      "suffixes='model'",
    ),
  ],
)
def test_bad_fields_are_one_line(metric, problem):
  with pytest.raises(core.InputError, match=problem):
    registry.make('metric', metric)


def test_a_world_of_unknown_samples_is_one_line():
  world = registry.make('world', 'orbits()')
  accept = registry.make('accept', 'epsilon(0.01)')
  with pytest.raises(core.InputError, match='does not say how its samples'):
    support.Support.of(world, accept)


def test_a_world_with_one_way_to_each_state_has_no_pairs(tmp_path):
  edges = {'a': {'x': 'b'}, 'b': {'x': 'c'}, 'c': {}}
  path = tmp_path / 'chain.json'
  path.write_text(json.dumps({'start': 'a', 'transitions': edges}))
  world = registry.make('world', f"automaton(file='{path}', length=5)")
  model = registry.make('model', 'oracle()').predictor(world, 0)
  metric = registry.make('metric', "compression(trials=4, support='sampler')")
  for scores in metric(model, world, 0):
    assert {*scores.reason} == {'no_two_supported_prefixes'}
