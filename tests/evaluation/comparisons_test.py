"""Differences: known answers, peers of SciPy, and rates by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

from wm import core
from wm.evaluation import comparisons


def of_seeds(first, second, within=((), ())):
  """The difference of means over training seeds."""
  means = (
    comparisons.mean(x, y) for x, y in zip((first, second), within, strict=True)
  )
  return comparisons.of_means(*means)


def test_seeds_are_compared_by_welch():
  first, second = [0.91, 0.94, 0.9], [0.7, 0.8, 0.75, 0.72]
  result = of_seeds(first, second)
  peer = stats.ttest_ind(first, second, equal_var=False)
  assert result.p == pytest.approx(peer.pvalue)
  ends = peer.confidence_interval()
  assert (result.low, result.high) == pytest.approx((ends.low, ends.high))
  assert (result.n, result.clusters) == (7, 3)


def test_seeds_that_agree_are_no_surer_than_their_trials():
  alike = [0.5, 0.5], [0.4, 0.4]
  assert of_seeds(*alike).p is None
  surer = of_seeds(*alike, within=([0.01, 0.03], [0.02, 0.02]))
  assert surer.error == pytest.approx(math.sqrt(0.02))
  assert surer.degrees == pytest.approx(2)
  # A floor below what seeds show changes nothing.
  apart = [0.5, 0.9], [0.4, 0.1]
  tiny = ([1e-6, 1e-6], [1e-6, 1e-6])
  assert of_seeds(*apart, tiny) == of_seeds(*apart)


@pytest.mark.parametrize('sides', [([0.5], [0.1, 0.2])])
def test_one_seed_has_no_interval(sides):
  result = of_seeds(*sides)
  assert result.low is result.high is result.p is None
  assert comparisons.beyond(result, 0.0, 1) == 1
  assert comparisons.absent(result, 9.0) == 1


def test_a_mean_is_compared_with_a_number_by_the_one_sample_t():
  values = [0.91, 0.94, 0.9, 0.99]
  number = comparisons.number(0.9)
  result = comparisons.of_means(comparisons.mean(values), number)
  peer = stats.ttest_1samp(values, 0.9)
  assert result.p == pytest.approx(peer.pvalue)
  ends = peer.confidence_interval()
  assert (result.low + 0.9, result.high + 0.9) == pytest.approx(ends)
  assert (result.n, result.clusters, result.degrees) == (4, 4, 3)
  alike = comparisons.mean([0.95] * 3, [0.0003] * 3)
  result = comparisons.of_means(alike, number)
  assert (result.error, result.degrees) == pytest.approx((0.01, 2))
  assert comparisons.of_means(comparisons.mean([0.95] * 3), number).p is None


def test_one_seed_has_its_own_interval_where_nothing_is_trained():
  for clusters in (5, 100):
    of = comparisons.variance(0.6, 0.5, 0.68, clusters)
    alone = comparisons.mean([0.6], [of], clusters - 1)
    result = comparisons.of_means(alone, comparisons.number(0.0))
    assert (result.low, result.high) == pytest.approx((0.5, 0.7))
    assert comparisons.mean([0.6], [of]).variance is None
  assert comparisons.variance(0.6, None, None, 5) is None
  exact = comparisons.mean([0.6], [0.0], 4)
  assert comparisons.of_means(exact, comparisons.number(0.5)).low is None


def _scores(value, group=None, **fields):
  return core.scores('recall', value, group=group, **fields)


def test_independent_trials_are_compared_by_the_paired_t():
  rng = np.random.default_rng(0)
  first, second = rng.normal(size=(2, 60))
  result = comparisons.paired(
    _scores(first, bounds=None), _scores(second, bounds=None)
  )
  peer = stats.ttest_rel(first, second)
  assert result.value == pytest.approx((first - second).mean())
  assert result.error == pytest.approx((first - second).std(ddof=1) / 60**0.5)
  # Fewer degrees of freedom than 59, as few clusters make up the error.
  assert result.p == pytest.approx(peer.pvalue, abs=0.01)


def test_only_trials_measured_in_both_count_by_weight():
  group = np.repeat(np.arange(8), 2)
  rng = np.random.default_rng(1)
  first, second = rng.random((2, 16))
  weight = rng.random(16) + 0.5
  reasons = np.full((2, 16), '', dtype=object)
  reasons[0, 3] = reasons[1, 8] = 'no_answer'
  both = (reasons == '').all(0)
  result = comparisons.paired(
    _scores(first, group, weight=weight, reason=reasons[0]),
    _scores(second, group, weight=weight, reason=reasons[1]),
  )
  expected = np.average((first - second)[both], weights=weight[both])
  assert result.value == pytest.approx(expected)
  assert (result.n, result.clusters) == (14, 8)


def test_a_cluster_repeated_tells_no_more():
  rng = np.random.default_rng(2)
  first, second = rng.random((2, 12))
  once = comparisons.paired(_scores(first), _scores(second))
  group = np.repeat(np.arange(12), 5)
  often = comparisons.paired(
    _scores(np.repeat(first, 5), group), _scores(np.repeat(second, 5), group)
  )
  assert often.error == pytest.approx(once.error)
  assert often.p == pytest.approx(once.p)


def test_equal_models_are_shown_to_be_equal_within_a_margin():
  same = _scores(np.ones(200))
  result = comparisons.paired(same, same)
  assert (result.value, result.p) == (0, 1)
  # No cluster of 200 differs: 3.3 / n.
  assert result.high == pytest.approx(3.3 / 200, rel=0.02)
  assert comparisons.absent(result, 0.05) < 0.05
  assert comparisons.absent(result, 0.005) > 0.05
  assert comparisons.beyond(result, 0.0, 1) == pytest.approx(0.5)
  free = _scores(np.ones(200), bounds=None)
  assert comparisons.paired(free, free).low is None


def test_too_few_clusters_have_no_interval():
  first = _scores([0.1, 0.2, 0.3, 0.4])
  second = _scores([0.3, 0.2, 0.1, 0.2])
  result = comparisons.paired(first, second)
  assert result.value == pytest.approx(0.05)
  assert (result.low, result.high, result.p) == (None, None, None)
  nothing = _scores(np.zeros(4), reason=['no_answer'] * 4)
  assert comparisons.paired(first, nothing).value is None


def test_other_trials_are_refused():
  with pytest.raises(core.InputError, match='the same trials'):
    comparisons.paired(_scores(np.ones(5)), _scores(np.ones(6)))


def test_one_sided_tests_agree_with_the_interval():
  result = of_seeds([0.9, 0.95, 0.93], [0.7, 0.74, 0.69])
  tail = (1 - 0.95) / 2
  assert comparisons.beyond(result, result.low, 1) == pytest.approx(tail)
  assert comparisons.beyond(result, 0, 1) == pytest.approx(result.p / 2)
  assert comparisons.beyond(result, 0, -1) == pytest.approx(1 - result.p / 2)
  widest = max(abs(result.low), abs(result.high))
  assert comparisons.absent(result, widest) == pytest.approx(tail)
  opposite = of_seeds([0.7, 0.74, 0.69], [0.9, 0.95, 0.93])
  assert comparisons.beyond(opposite, 0.1, -1) == pytest.approx(
    comparisons.beyond(result, 0.1, 1)
  )


def test_holm():
  assert comparisons.holm([]) == []
  assert comparisons.holm([0.01, 0.04, 0.03]) == pytest.approx(
    [0.03, 0.06, 0.06]
  )
  assert comparisons.holm([0.5, 0.9]) == [1.0, 1.0]


@pytest.mark.parametrize('num', [20, 100])
@pytest.mark.parametrize('share', [0.05, 0.3])
def test_no_difference_is_seldom_found(num, share):
  """Of 2,000 pairs of equal models that part in a share of clusters of 4."""
  rng = np.random.default_rng(3)
  group = np.repeat(np.arange(num), 4)
  false = 0
  for _ in range(2000):
    base = rng.random(num) < 0.5
    other = np.where(rng.random(num) < share, rng.random(num) < 0.5, base)
    result = comparisons.paired(
      _scores(np.repeat(base, 4), group), _scores(np.repeat(other, 4), group)
    )
    false += result.p < 0.05
  assert false <= 2000 * 0.05 + 3 * math.sqrt(2000 * 0.05 * 0.95)
