"""Acceptance: every rule by brute force, curves and choices by formula."""

import numpy as np
import pytest

from tests import tiny
from tests.marks import few
from tests.metrics import table
from wm.core import accept, registry
from wm.metrics import acceptance, next_token
from wm.models.serving import oracles

X, Y, END = tiny.X, tiny.Y, tiny.END


def _run(predictor, world, num=60, seed=0, **fields):
  metric = acceptance.Metric(num=num, **fields)
  return table.by_name(metric(predictor, world, seed))


def at(scores, column, number):
  """Weighted mean of the rows at one place of a curve."""
  rows = (scores.columns[column] == number) & scores.measured
  return np.average(scores.value[rows], weights=scores.weight[rows])


def test_by_hand(monkeypatch):
  """One sequence: at0 x x end; positions at0, x, x are judged."""
  world = table.Given(rows=((4, X, X, END),))
  predictor = table.Table(
    world,
    {
      0: {X: 0.5, END: 0.3, Y: 0.2},  # Legal x y.
      1: {Y: 0.6, X: 0.4},  # Legal x.
      3: {END: 0.995, X: 0.005},  # Legal x end.
    },
  )
  rules = tuple((x, accept.epsilon(x)) for x in (0.001, 0.01, 0.45))
  monkeypatch.setitem(acceptance.RULES, 'epsilon', rules)
  monkeypatch.setattr(acceptance, 'DECADE', (0.001, 1))
  result = _run(predictor, world)
  exact = result['exact_by_epsilon']
  # 0.001: at0 has end too, x has y too, the last is exact. 0.01: none.
  # 0.45: x, not y; y, not x; end, not x.
  assert [at(exact, 'epsilon', e) for e in (0.001, 0.01, 0.45)] == [
    pytest.approx(1 / 3),
    0,
    0,
  ]
  assert table.mean(result['exact_best']) == pytest.approx(1 / 3)
  assert table.mean(result['exact_range']) == pytest.approx(1 / 3)
  assert result['exact_best'].columns['chosen_epsilon'].tolist() == [0.001]
  precision, recall = result['precision_by_k'], result['recall_by_k']
  # The most likely: x of x y, y of x, end of x end.
  assert at(precision, 'k', 1) == pytest.approx(2 / 3)
  assert at(recall, 'k', 1) == pytest.approx((1 / 2 + 0 + 1 / 2) / 3)
  # The two most likely: x end of x y, y x of x, end x of x end.
  assert at(precision, 'k', 2) == pytest.approx((1 / 2 + 1 / 2 + 1) / 3)
  assert at(recall, 'k', 2) == pytest.approx((1 / 2 + 1 + 1) / 3)
  # A nucleus of 0.99: all; all; end alone.
  assert at(result['exact_by_p'], 'p', 0.99) == 0
  assert at(result['recall_by_p'], 'p', 0.99) == pytest.approx(5 / 6)


@pytest.mark.parametrize('world', few(2, table.WORLDS), ids=repr)
def test_each_place_is_what_next_token_gives_by_that_rule(world):
  """Two paths through the code, with ties and impossible tokens."""
  noisy = oracles.NoisyOracle(
    world, illegal=0.05, wrong=0.3, by='state', seed=0
  )
  result = _run(noisy, world)
  for column, rules in acceptance.RULES.items():
    for number, rule in rules:
      spec = registry.spec(rule)
      first = next_token.Metric(num=60, accept=spec)(noisy, world, 0)
      want = table.by_name(first)
      for name, other in (
        ('exact', 'exact_set'),
        ('precision', 'set_precision'),
        ('recall', 'set_recall'),
      ):
        scores = result[f'{name}_by_{column}']
        rows = scores.columns[column] == number
        np.testing.assert_array_equal(scores.value[rows], want[other].value)
        np.testing.assert_array_equal(scores.weight[rows], want[other].weight)
        np.testing.assert_array_equal(scores.group[rows], want[other].group)


def test_choices_are_those_of_the_curve(monkeypatch):
  monkeypatch.setattr(acceptance, 'DECADE', (0.03, 0.1))
  world = tiny.World()
  # Illegal tokens are accepted below 0.05; right prefixes fall off above.
  noisy = oracles.NoisyOracle(
    world, illegal=0.05, wrong=0.5, by='prefix', seed=0
  )
  result = _run(noisy, world)
  epsilons = [number for number, _ in acceptance.RULES['epsilon']]
  curve = [at(result['exact_by_epsilon'], 'epsilon', e) for e in epsilons]
  assert curve[:7] == [0] * 7
  assert table.mean(result['exact_best']) == pytest.approx(max(curve))
  spread = abs(curve[-2] - curve[-3])
  assert spread > 0.1
  assert table.mean(result['exact_range']) == pytest.approx(spread)
  (chosen,) = set(result['exact_best'].columns['chosen_epsilon'])
  assert chosen == epsilons[int(np.argmax(curve))]
