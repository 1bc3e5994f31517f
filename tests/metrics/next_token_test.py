"""Next-token test: by hand, by formula, in any chunks."""

import numpy as np
import pytest

import wm
from tests import tiny
from tests.metrics import table
from wm import core
from wm.core import registry
from wm.metrics import acceptance, next_token
from wm.models.serving import oracles
from wm.worlds import connect4

X, Y, END = tiny.X, tiny.Y, tiny.END


def _run(predictor, world, num=200, seed=0, **fields):
  metric = next_token.Metric(num=num, **fields)
  return table.by_name(metric(predictor, world, seed))


def test_by_hand():
  """One sequence: at0 x x end; positions at0, x, x are judged."""
  world = table.Given(rows=((4, X, X, END),))
  predictor = table.Table(
    world,
    {
      0: {X: 0.5, END: 0.3, Y: 0.2},  # Legal x y; top legal; 0.7 legal.
      1: {Y: 0.6, X: 0.4},  # Legal x; top illegal; 0.4 legal.
      3: {END: 1.0},  # Legal x end; top legal; all legal.
      tiny.OVER: {X: 1.0},  # Never looked at.
    },
  )
  results = _run(predictor, world, accept='epsilon(0.25)')
  expected = {
    'validity': (2, 3),
    'valid_mass': (0.7 + 0.4 + 1.0, 3),
    'set_precision': (1 / 2 + 1 / 2 + 1, 3),
    'set_recall': (1 / 2 + 1 + 1 / 2, 3),
    'exact_set': (0, 3),
  }
  assert set(results) == set(expected)
  for name, (total, weight) in expected.items():
    assert results[name].value[0] == pytest.approx(total / weight, rel=1e-6)
    assert results[name].weight.tolist() == [weight]
  # The first mistake: after at0 x, whose likeliest next token is y.
  side = results['validity'].columns
  assert side['prefix'].tolist() == ['at0 x']
  assert side['suffix'].tolist() == ['y']
  assert side['wrong_at'].tolist() == [1]


def test_means_weight_positions_not_sequences():
  """at3 end (1 position, right) and at0 x x x x x end (6, of which 2)."""
  world = table.Given(rows=((7, END), (4, X, X, X, X, X, END)))
  predictor = table.Table(
    world, {0: {END: 1}, 1: {X: 1}, 3: {Y: 0.4, END: 0.6}}
  )
  result = _run(predictor, world)['validity']
  # Nodes 0 1 3 0 1 3: wrong right right, twice.
  np.testing.assert_allclose(result.value, [1, 4 / 6])
  assert result.weight.tolist() == [1, 6]
  assert table.mean(result) == pytest.approx(5 / 7)


def test_nothing_accepted_is_no_precision():
  world = table.Given(rows=((4, X, X, END), (7, END)))
  predictor = table.Table(
    world, {0: {X: 0.2}, 1: {X: 0.2}, 3: {X: 0.2, END: 0.2}}
  )
  result = _run(predictor, world, accept='epsilon(0.3)')
  precision = result['set_precision']
  assert precision.reason.tolist() == ['nothing_accepted'] * 2
  assert precision.counts == {'positions_nothing_accepted': 4}
  assert table.mean(result['set_recall']) == 0
  assert table.mean(result['validity']) == 1


def test_no_possible_token_is_wrong():
  world = table.Given(rows=((7, END),))
  result = _run(table.Table(world, {}), world)
  assert table.mean(result['validity']) == 0
  assert table.mean(result['valid_mass']) == 0


@pytest.mark.parametrize('world', table.WORLDS, ids=repr)
def test_uniform_by_formula(world):
  """Its seven tokens are as likely: each has 1/7, and all are accepted."""
  sequences = world.sample(200, 0, split='heldout')
  share, positions = 0.0, 0
  for row, length in zip(sequences.tokens, sequences.lengths, strict=True):
    state = world.init(1)
    for place, token in enumerate(row[:length], 1):
      state = world.advance(state, np.array([token]))
      legal = world.legal(state)[0]
      # Behind the longest sequences nothing is judged.
      if legal.any() and place < world.max_len:
        share += legal.sum() / 7
        positions += 1
  model = registry.make('model', 'uniform')
  result = _run(model.predictor(world, 0), world)
  assert result['validity'].weight.sum() == positions
  assert table.mean(result['validity']) == pytest.approx(share / positions)
  assert table.mean(result['valid_mass']) == pytest.approx(share / positions)
  assert table.mean(result['set_precision']) == pytest.approx(share / positions)
  assert table.mean(result['set_recall']) == 1


def test_illegal_mass_is_measured():
  world = tiny.World()
  predictor = oracles.NoisyOracle(
    world, illegal=0.3, wrong=0, by='state', seed=0
  )
  result = _run(predictor, world)
  assert table.mean(result['valid_mass']) == pytest.approx(0.7, rel=1e-5)
  assert table.mean(result['exact_set']) == 0
  tight = _run(predictor, world, accept='epsilon(0.31)')
  assert table.mean(tight['exact_set']) == pytest.approx(1)


def test_sequences_of_one_task_are_one_cluster():
  world = table.Given(rows=((7, END), (4, X, X, END), (7, END)))
  group = _run(oracles.Oracle(world), world)['validity'].group
  assert group[0] == group[2] != group[1]


def test_drawn_states_are_judged_after_one_prefix_each():
  world = connect4.World(rows=50, columns=3)
  uniform = oracles.Uniform(len(world.vocab), world.end, world.max_len)
  result = _run(uniform, world, num=4000, states='drawn')
  assert result['exact_set'].weight.tolist() == [1] * 4000
  # Right on a state without a full column; 1 of 3 columns is full elsewhere.
  free = (50 / 51) ** 3
  assert table.mean(result['exact_set']) == pytest.approx(free, abs=0.015)
  assert set(result['exact_set'].value) == {0, 1}
  assert table.mean(result['valid_mass']) == pytest.approx(50 / 51, abs=0.006)
  assert table.mean(result['set_recall']) == 1
  wrong = result['validity'].value < 1
  states = result['validity'].columns['state'][wrong]
  assert wrong.any()
  assert all('50' in state for state in states)  # A column is full.


def test_a_world_that_draws_no_states():
  world = tiny.Plain()
  with pytest.raises(core.InputError, match='tiny draws no states'):
    _run(oracles.Oracle(world), world, states='drawn')
  with pytest.raises(core.InputError, match='states'):
    next_token.Metric(states='all')


def test_sequences_that_are_longer_than_the_model_takes_are_not_asked():
  world = registry.make('world', 'connect4(rows=3, columns=3)')
  asked = []

  def logits(tokens):
    asked.append(tokens.shape[1])
    return np.zeros((*tokens.shape, len(world.vocab)))

  spec = 'connect4(rows=3, columns=3)'
  model = wm.wrap(logits, spec, max_len=6).predictor
  for result in (
    _run(model, world, 40),
    _run(model, world, 40, states='drawn'),
    table.by_name(acceptance.Metric(num=40)(model, world, 0)),
  ):
    reasons = {*next(iter(result.values())).reason}
    assert 'longer_than_model' in reasons <= {'', 'longer_than_model'}
  assert max(asked) <= 6
  with pytest.raises(core.InputError, match='7 tokens'):
    model.log_probs(np.ones((1, 7), np.int32), np.array([7]))
