"""Coherence: errors of the state, of the prefix, and of both."""

import numpy as np
import pytest

from tests import tiny
from tests.metrics import table
from wm.core import registry
from wm.evaluation import statistics
from wm.metrics import coherence

CITY = 'maps(rows=4, columns=4)'


def run(model: str, world: str = CITY, **fields):
  fields = {'trials': 1500} | fields
  truth = registry.make('world', world)
  predictor = registry.make('model', model).predictor(truth, 0)
  scores = coherence.Metric(**fields)(predictor, truth, 0)
  return {x.quantity: statistics.summarize(x) for x in scores}


@pytest.mark.parametrize(
  ('model', 'value'),
  [
    ('noisy_oracle(wrong=0.1)', 1),
    ("noisy_oracle(wrong=0.1, by='prefix')", 0),
    ("null(kind='state', excess=0.03)", 1),
    ("null(kind='prefix', excess=0.03)", 0),
  ],
)
def test_errors_of_the_state_recur_and_others_do_not(model, value):
  result = run(model)['false']
  assert result['low'] <= value <= result['high']
  assert result['high'] - result['low'] < 0.2
  if value:
    assert result['value'] == pytest.approx(1)


@pytest.mark.parametrize('share', [0.3, 0.7])
def test_a_mixture_of_both_is_between(share):
  """Errors of which a share is of the state, by hand of 4 x 4000 coins."""
  rng = np.random.default_rng(0)
  num, vocab = 4000, 4
  ids = np.arange(num)
  base = rng.random((num, vocab)) < 0.1 * share
  errors = base[:, None] | (rng.random((num, 2, vocab)) < 0.1 * (1 - share))
  where = np.ones((num, vocab), bool)
  scores = coherence._scores('false', errors, where, np.full(num, ''), ids, {})
  summary = statistics.summarize(scores)
  rate = errors.mean()
  again = (errors.sum(1) == 2).sum() * 2 / errors.sum()
  assert summary['value'] == pytest.approx(
    (again - rate) / (1 - rate), abs=0.01
  )
  assert summary['low'] < summary['value'] < summary['high']


def test_no_error_and_errors_everywhere_are_not_measured():
  assert run('oracle()')['false']['unmeasured'] == {'no_error': 1500}
  assert run('uniform()')['false']['unmeasured'] == {'everywhere': 1500}
  # All refuse the same token everywhere: by the token, not by the state.
  token = run("null(kind='token', excess=0.1)")['false']
  assert token['n'] == 0


def test_by_hand_with_one_error():
  """Node 1 always accepts y: it recurs, and nowhere else is it an error."""
  world = tiny.World()
  predictor = table.Table(
    world,
    {
      0: {tiny.X: 0.5, tiny.Y: 0.5},
      1: {tiny.X: 0.7, tiny.Y: 0.3},
      2: {tiny.X: 0.5, tiny.Y: 0.5},
      3: {tiny.X: 0.5, tiny.END: 0.5},
    },
  )
  false, missing = coherence.Metric(trials=100)(predictor, world, 0)
  states = false.columns['state']
  assert {*states[false.measured]} == {'1'}
  assert (false.value[false.measured] == 1).all()
  assert not missing.measured.any()


def test_chance_leaves_out_the_state_itself():
  errors = np.array([[2], [2], [0]])
  chance = coherence._chance(errors, np.full((3, 1), 2), np.array([0, 0, 1]))
  np.testing.assert_allclose(chance[:, 0], [0, 0, 1])
