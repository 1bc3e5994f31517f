"""Verdicts: rates of error and power, by simulation."""

import numpy as np
import pytest

from wm.evaluation import comparisons
from wm.lab import verdicts


def _rates(
  effect: float,
  seeds: int,
  spread: tuple,
  within: float,
  margin: float = 0.0,
  floored: bool = True,
) -> tuple[float, float]:
  """Shares of studies that show 'above', and that show it absent.

  Effects and spreads are in units of the spread of seeds; values have errors
  of trials `within`, and intervals that know of these.
  """
  rng = np.random.default_rng(5)
  runs, counts = 2000, np.zeros(2)
  means = effect, 0.0
  errors = np.hypot(spread, within)
  for _ in range(runs):
    sides = [
      comparisons.mean(
        rng.normal(mean, error, seeds),
        [within**2] * (seeds if within else 0),
        floored=floored,
      )
      for mean, error in zip(means, errors, strict=True)
    ]
    difference = comparisons.of_means(*sides)
    p_values = (
      comparisons.beyond(difference, margin, 1),
      comparisons.beyond(difference, -margin, -1),
    )
    counts += [p <= verdicts.ALPHA for p in p_values]
  shown, absent = counts / runs
  return float(shown), float(absent)


@pytest.mark.parametrize('seeds', [3, 5])
@pytest.mark.parametrize(
  ('spread', 'within'),
  [((1, 1), 0), ((1, 0.1), 0), ((1, 1), 1), ((1, 0.1), 0.5), ((0, 0), 1)],
)
@pytest.mark.parametrize(
  'floored', [True, pytest.param(False, marks=pytest.mark.slow)]
)
def test_a_difference_at_the_margin_is_seldom_decided(
  seeds, spread, within, floored
):
  """Of 2,000 studies; both errors together at .05, within 3 errors."""
  for margin in (0.0, 2.0):
    rates = _rates(margin, seeds, spread, within, margin, floored)
    assert sum(rates) < 0.05 + 3 * (0.05 * 0.95 / 2000) ** 0.5
    assert max(rates) > 0.001  # The test can fail.


@pytest.mark.parametrize(('seeds', 'effect'), [(3, 3.5), (5, 2.1)])
def test_power_is_what_the_documentation_says(seeds, effect):
  shown, absent = _rates(effect, seeds, (1, 1), 0)
  assert abs(shown - 0.8) < 0.04
  assert absent == 0
  # As likely that it is absent, where it is as far below.
  assert abs(_rates(-effect, seeds, (1, 1), 0)[1] - 0.8) < 0.04


def test_intervals_of_trials_that_are_too_wide_cost_power():
  """Trials' errors of .2, which their intervals take for 1."""
  rng = np.random.default_rng(8)
  shown = np.zeros(2)
  for _ in range(500):
    values = rng.normal(1.6, 1, 5)
    for n, floored in enumerate((True, False)):
      mean = comparisons.mean(values, [4.0] * 5, floored=floored)
      difference = comparisons.of_means(mean, comparisons.number(0.0))
      p_value = comparisons.beyond(difference, 0.0, 1)
      shown[n] += p_value <= verdicts.ALPHA
  assert shown[0] / 500 < 0.2
  assert shown[1] / 500 > 0.7


def test_seeds_that_agree_exactly_have_the_variance_of_their_trials():
  alike = comparisons.mean([0.5] * 3, [0.01] * 3, floored=False)
  assert alike == comparisons.mean([0.5] * 3, [0.01] * 3)
  assert alike.variance == pytest.approx(0.01 / 3)


# Shares of 1,000 trials in seeds of a beta distribution, by the ratio of the
# seeds' spread to their distance from 1.
@pytest.mark.parametrize('seeds', [3, 5, 8])
@pytest.mark.parametrize('ratio', [0.2, 0.5, 1.0])
@pytest.mark.parametrize('mean', [0.97, 0.9])
def test_shares_near_1_are_not_found_above_what_they_are(seeds, ratio, mean):
  """At most 1.5 times the nominal .025 of 4,000 studies, within 3 errors."""
  rng = np.random.default_rng(1)
  away, runs = 1 - mean, 4000
  size = mean * away / (ratio * away) ** 2 - 1
  shares = rng.beta(mean * size, away * size, (runs, seeds))
  values = rng.binomial(1000, shares) / 1000
  shown = 0
  for row in values:
    within = row * (1 - row) / 1000
    side = comparisons.mean(row, within, floored=False)
    difference = comparisons.of_means(side, comparisons.number(mean))
    p = comparisons.beyond(difference, 0.0, 1)
    shown += max(p, comparisons.nearer(row, mean, 1.0)) <= verdicts.ALPHA
  limit = 1.5 * verdicts.ALPHA
  assert shown / runs < limit + 3 * (limit / runs) ** 0.5
