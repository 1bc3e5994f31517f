"""Verdicts: rates of error and power, by simulation."""

import numpy as np
import pytest

from tests.lab.units_made_up import WALKS, entry, finding, judged, unit
from wm.evaluation import comparisons
from wm.lab import verdicts
from wm.lab.verdicts import ABSENT, SHOWN


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


def test_whole_verdicts_have_the_size_and_power_that_are_stated():
  """Through result files' entries, as pages judge them; 400 studies each."""
  rng = np.random.default_rng(6)
  claim = finding(WALKS)
  rates = {}
  for effect in (0.0, 4.0):
    seen = [
      judged(
        claim,
        {
          'walks': [
            unit('walks', n, entry(0.5 + 0.02 * x, half=0.004))
            for n, x in enumerate(rng.normal(effect, 1, 3))
          ],
          'paths': [
            unit('paths', n, entry(0.5 + 0.02 * x, half=0.004))
            for n, x in enumerate(rng.normal(0, 1, 3))
          ],
        },
      ).verdict
      for _ in range(400)
    ]
    rates[effect] = seen.count(SHOWN) / 400, seen.count(ABSENT) / 400
  assert sum(rates[0.0]) < 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5
  assert rates[4.0][0] > 0.8
  assert rates[4.0][1] == 0


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


def test_models_that_grok_or_not_are_refused_where_it_shows():
  """Four of five seeds of each row grok; of five seeds, in 1,000 studies."""
  rng = np.random.default_rng(2)
  counts = {}
  for _ in range(1000):
    walks, paths = (
      np.where(rng.random(5) < 0.8, 0.98, 0.3) + rng.normal(0, 0.01, 5)
      for _ in range(2)
    )
    seen = judged(
      finding(WALKS, seeds=5),
      {
        name: [unit(name, n, entry(x)) for n, x in enumerate(of)]
        for name, of in (('walks', walks), ('paths', paths))
      },
    ).verdict
    counts[seen] = counts.get(seen, 0) + 1
  assert counts.get(SHOWN, 0) + counts.get(ABSENT, 0) < 0.05 * 1000
  assert counts['bimodal'] > 0.5 * 1000
