"""Correlations of trials against NumPy's, and how often intervals hold."""

import numpy as np
import pytest

from wm.evaluation import comparisons


def pearson(x, y, weight=None, group=None):
  num = len(x)
  weight = np.ones(num) if weight is None else weight
  group = np.arange(num) if group is None else group
  return comparisons.pearson(x, y, weight, group)


def drawn(rng, num):
  """Two-way streets of an intersection, and a score that falls with them."""
  x = rng.choice(5, num, p=[0.6, 0.1, 0.2, 0.05, 0.05]).astype(float)
  return x, (rng.random(num) < 0.5 - 0.1 * x).astype(float)


def test_it_is_pearsons():
  x, y = drawn(np.random.default_rng(0), 300)
  result = pearson(x, y)
  assert result.value == pytest.approx(np.corrcoef(x, y)[0, 1])
  assert result.low < result.value < result.high
  assert result.clusters == 300
  moved = pearson(10 - 3 * x, y)
  np.testing.assert_allclose(moved[:3], [-result[0], -result[2], -result[1]])


def test_a_trial_of_weight_two_is_two_trials():
  x, y = drawn(np.random.default_rng(1), 200)
  twice = np.arange(200) < 50
  both = np.concatenate([x, x[twice]]), np.concatenate([y, y[twice]])
  result = pearson(x, y, np.where(twice, 2.0, 1.0))
  assert result.value == pytest.approx(np.corrcoef(*both)[0, 1])
  left_out = pearson(x, y, np.where(twice, 0.0, 1.0))
  assert left_out == pearson(x[~twice], y[~twice])


def test_copies_of_a_trial_in_its_cluster_add_nothing():
  x, y = drawn(np.random.default_rng(2), 100)
  copied = pearson(np.tile(x, 7), np.tile(y, 7), group=np.tile(range(100), 7))
  np.testing.assert_allclose(copied, pearson(x, y))


@pytest.mark.parametrize('num', [50, 400])
def test_intervals_hold_the_truth(num):
  """Of 1,500 samples 95 % do; three standard errors of that are 1.7 %."""
  rng = np.random.default_rng(3)
  share = np.array([0.6, 0.1, 0.2, 0.05, 0.05])
  x, p = np.arange(5), 0.5 - 0.1 * np.arange(5)
  mean, truth = share @ x, share @ p
  spread = share @ (x - mean) ** 2 * truth * (1 - truth)
  truth = share @ ((x - mean) * (p - truth)) / np.sqrt(spread)
  held = []
  for _ in range(1500):
    result = pearson(*drawn(rng, num))
    held.append(result.low <= truth <= result.high)
  assert np.mean(held) == pytest.approx(0.95, abs=0.02)


def test_where_there_is_none():
  x, y = drawn(np.random.default_rng(4), 40)
  assert pearson(x, np.ones(40)) is None
  assert pearson(np.ones(40), y) is None
  assert pearson(x, 2 * x + 1) is None
  assert pearson(x[:9], y[:9]) is None
  assert pearson(x, y, group=np.arange(40) % 9) is None


@pytest.mark.parametrize('num', [4, 5, 10, 20])
@pytest.mark.parametrize('truth', [0.0, 0.6, 0.9])
def test_intervals_of_few_models_hold_the_truth(num, truth):
  """Of 2,000 studies; three standard errors of 95 % are 1.5 %."""
  rng = np.random.default_rng(5)
  held = 0
  for _ in range(2000):
    x, noise = rng.normal(size=(2, num))
    y = truth * x + np.sqrt(1 - truth**2) * noise
    result = comparisons.pearson_over_models(x, y, np.arange(num))
    held += result.low <= truth <= result.high
  assert 0.935 <= held / 2000 <= 0.98


def test_three_models_have_no_correlation():
  x = np.array([1.0, 2.0, 4.0])
  assert comparisons.pearson_over_models(x, x[::-1], np.arange(3)) is None


@pytest.mark.parametrize('unit', [1e-9, 1e9])
def test_units_make_no_difference(unit):
  x, y = drawn(np.random.default_rng(5), 40)
  np.testing.assert_allclose(pearson(unit * x, y), pearson(x, y))
  over = comparisons.pearson_over_models
  np.testing.assert_allclose(
    over(x, unit * y, np.arange(40)), over(x, y, np.arange(40))
  )
  # Rounding is no spread.
  assert pearson(unit * (1 + 1e-15 * x), y) is None
