"""Correlations over models against NumPy's, and how often intervals hold."""

import numpy as np
import pytest

from wm.evaluation import comparisons


def drawn(rng, num):
  """Two-way streets of an intersection, and a score that falls with them."""
  x = rng.choice(5, num, p=[0.6, 0.1, 0.2, 0.05, 0.05]).astype(float)
  return x, (rng.random(num) < 0.5 - 0.1 * x).astype(float)


def test_it_is_pearsons():
  x, y = drawn(np.random.default_rng(0), 300)
  result = comparisons.pearson_over_models(x, y, np.arange(300))
  assert result.value == pytest.approx(np.corrcoef(x, y)[0, 1])
  assert result.low < result.value < result.high
  assert result.clusters == 300


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
  over = comparisons.pearson_over_models
  np.testing.assert_allclose(
    over(x, unit * y, np.arange(40)), over(x, y, np.arange(40))
  )
  # Rounding is no spread.
  assert over(unit * (1 + 1e-15 * x), y, np.arange(40)) is None
