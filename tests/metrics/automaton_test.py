"""Distance of implied automata: known answers, budgets, bad input."""

import numpy as np
import pytest

from tests.metrics import table
from tests.recon.extract_test import MERGED, ROOMS, automaton_of
from wm.core import registry
from wm.metrics import automaton
from wm.models.serving import oracles

WORLDS = (
  *("automaton(preset='tomita7')", "automaton(preset='s3_generators')"),
  *('lattice(length=12)', 'connect4(rows=3, columns=3)', 'mazes(length=12)'),
)
SMALL = {'num': 60}


@pytest.fixture(autouse=True)
def few_walks(monkeypatch):
  monkeypatch.setattr(automaton, 'WALKS', 60)


def rows(model, world, seed=1, **fields):
  truth = registry.resolve('world', world)
  if isinstance(model, str):
    model = registry.make('model', model).predictor(truth, 0)
  metric = automaton.Metric(**SMALL | fields)
  return table.by_name(metric(model, truth, seed))


def values(scores):
  return {
    name: table.mean(each) if each.measured.any() else None
    for name, each in scores.items()
  }


@pytest.mark.parametrize('world', WORLDS)
def test_the_oracle_implies_the_world(world):
  assert values(rows('oracle()', world)) == {
    'wrong_places': 0,
    'unlike_model': 0,
    'merged_places': 0,
    'split_places': 0,
    'distance': 0,
    'told_apart': 1,
    'states_ratio': 1,
    'budget_used_up': 0,
  }


def test_uniform_merges_everything():
  result = values(rows('uniform()', "automaton(preset='s3_generators')"))
  assert result['merged_places'] == 1
  assert result['split_places'] == 0
  assert result['told_apart'] < 0.3  # It is over after the end token.
  assert result['distance'] == 0.5
  assert result['states_ratio'] == pytest.approx(2 / 7)


def test_wrong_places_are_those_of_the_model():
  """From the model's probabilities, place by place."""
  truth = registry.make('world', 'mazes(length=12)')
  noisy = oracles.NoisyOracle(truth, illegal=0, wrong=0.3, by='state', seed=3)
  scores = rows(noisy, truth)
  assert values(scores)['unlike_model'] == 0
  drawn = truth.sample(SMALL['num'], 1, split='heldout')
  accepted = noisy.log_probs(drawn.tokens, drawn.lengths) > np.log(0.01)
  expected, steps = [], []
  for tokens, size, sets in zip(
    drawn.tokens, drawn.lengths, accepted, strict=True
  ):
    state, inside = truth.init(1), True
    for k in range(min(size, truth.max_len - 1)):
      inside &= k == 0 or bool(sets[k - 1, tokens[k]])
      state = truth.advance(state, tokens[k : k + 1])
      legal = truth.legal(state)[0]
      if legal.any():
        expected.append(not inside or bool((sets[k] != legal).any()))
        steps.append(k + 1)
  assert values(scores)['wrong_places'] == pytest.approx(np.mean(expected))
  assert 0.05 < np.mean(expected) < 0.95
  wrong = scores['wrong_places']
  assert sorted(wrong.columns['step'].tolist()) == sorted(steps)
  rejected = scores['merged_places'].reason == 'rejected'
  assert rejected.any()
  assert (wrong.value[rejected] == 1).all()


def test_a_model_that_merged_two_rooms_is_shown_to_have(tmp_path):
  truth = automaton_of(tmp_path, 'rooms', ROOMS)
  model = oracles.Oracle(automaton_of(tmp_path, 'merged', MERGED))
  result = values(rows(model, truth))
  assert result['states_ratio'] == 3 / 4  # With the state after the end.
  assert result['told_apart'] == 5 / 6
  assert result['split_places'] == 0
  assert 0 < result['merged_places'] < 1
  assert result['distance'] == 0.5  # After c, d is accepted.
  # The other way round: one state is two.
  result = values(
    rows(
      oracles.Oracle(automaton_of(tmp_path, 'rooms2', ROOMS)),
      automaton_of(tmp_path, 'merged2', MERGED),
    )
  )
  assert result['merged_places'] == 0
  assert 0 < result['split_places'] < 1
  assert result['states_ratio'] == 4 / 3


def test_a_world_of_too_many_states_is_judged_along_its_sequences(monkeypatch):
  monkeypatch.setattr(automaton, 'WALKS', 20)
  monkeypatch.setattr(automaton, 'MOST', 200)
  result = rows('oracle()', 'othello(size=4)', num=20)
  wrong = result['wrong_places']
  assert table.mean(wrong) == 0
  assert {*wrong.reason.tolist()} <= {'', 'unexplored', 'unlike_model'}
  for name in ('merged_places', 'split_places', 'distance', 'states_ratio'):
    assert {*result[name].reason.tolist()} == {'too_many_states'}


def test_a_budget_that_is_used_up_is_said(monkeypatch):
  monkeypatch.setattr(automaton, 'MOST', 10)
  result = rows('oracle()', 'connect4(rows=3, columns=3)')
  assert values(result)['budget_used_up'] == 1
  assert result['states_ratio'].reason.tolist() == ['budget_used_up']
  wrong = result['wrong_places']
  assert {*wrong.reason.tolist()} == {'', 'unexplored', 'unlike_model'}
