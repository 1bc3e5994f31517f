"""Intervals: known values, clustering, few clusters, never of zero width."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from wm import core
from wm.evaluation import statistics


def _clopper_pearson(hits, num):
  low = special.betaincinv(np.maximum(hits, 1), num - hits + 1, 0.025)
  high = special.betaincinv(hits + 1, np.maximum(num - hits, 1), 0.975)
  return np.where(hits > 0, low, 0), np.where(hits < num, high, 1)


@pytest.mark.parametrize('num', [50, 100, 300, 1000])
def test_independent_trials_are_covered_exactly(num):
  """Every number of hits counts by its probability: nothing is drawn."""
  hits = np.arange(num + 1)
  low, high = statistics.proportion(hits / num, num)
  lower, upper = _clopper_pearson(hits, num)
  assert (lower <= low + 1e-12).all()
  assert (high <= upper + 1e-12).all()
  truth = np.linspace(0.0005, 0.9995, 2001)[:, None]
  log = special.xlogy(hits, truth) + special.xlog1py(num - hits, -truth)
  choose = special.gammaln(num + 1) - special.gammaln(hits + 1)
  chance = np.exp(log + choose - special.gammaln(num - hits + 1))
  covered = (chance * ((low <= truth) & (truth <= high))).sum(1)
  assert covered.min() >= 0.94
  for p in (0.05, 0.1, 0.3, 0.5, 0.9, 0.99):
    if 5 <= num * p <= num - 5:
      near = np.abs(truth[:, 0] - p) <= num**-0.5
      assert covered[near].mean() <= 0.975


@pytest.mark.parametrize('num', [1, 2, 5, 40])
def test_independent_binary_trials_get_the_beta_interval(num):
  for hits in range(num + 1):
    value = np.arange(num) < hits
    result = statistics.summarize(core.scores('q', value))
    assert result['interval'] == 'korn-graubard'
    expected = statistics.proportion(hits / num, num)
    assert (result['low'], result['high']) == pytest.approx(expected)
    assert result['n'] == result['clusters'] == num


def test_proportion_known_values():
  # Clopper-Pearson's are 0.3085, 0.1871, and 0.7351 with 0.9789.
  assert statistics.proportion(0, 10) == pytest.approx((0, 0.28386), abs=1e-5)
  assert statistics.proportion(1, 10) == pytest.approx((0.71614, 1), abs=1e-5)
  low, high = statistics.proportion(0.5, 10)
  assert 0.1871 < low == pytest.approx(1 - high)
  low, high = statistics.proportion(0.9, 30)
  assert 0.7347 < low < 0.76
  assert 0.96 < high < 0.9789


def test_nothing_measured_is_null():
  reason = ['vacuous', 'empty', 'vacuous']
  result = statistics.summarize(core.scores('q', [1, 1, 1], reason=reason))
  assert result['n'] == 0
  assert result['value'] is result['low'] is result['high'] is None
  assert result['unmeasured'] == {'empty': 1, 'vacuous': 2}


def test_ratio_estimator_with_weights():
  scores = core.scores(
    'q', [1.0, 0.5, 0.0, 9.0], weight=np.array([1.0, 2.0, 5.0, 0.0])
  )
  result = statistics.summarize(scores)
  assert result['value'] == pytest.approx(0.25)
  assert result['clusters'] == 3


def test_repeats_within_a_cluster_add_no_certainty():
  values = np.random.default_rng(0).random(40)
  once = statistics.summarize(core.scores('q', values))
  often = statistics.summarize(
    core.scores('q', np.repeat(values, 25), group=np.repeat(np.arange(40), 25))
  )
  assert often['n'] == 1000
  for name in ('value', 'low', 'high'):
    assert often[name] == pytest.approx(once[name])


def _binary(rng, groups, size, level):
  group = np.repeat(np.arange(groups), size)
  value = (rng.random(len(group)) < np.repeat(level, size)).astype(float)
  return core.scores('q', value, group=group)


def test_the_effective_number_is_between_clusters_and_trials():
  rng = np.random.default_rng(1)
  apart = _binary(rng, 400, 25, np.full(400, 0.4))
  whole = _binary(rng, 400, 25, (rng.random(400) < 0.4).astype(float))
  for scores, num in ((apart, 10_000), (whole, 400)):
    result = statistics.summarize(scores)
    low, high = statistics.proportion(result['value'], num)
    assert result['high'] - result['low'] == pytest.approx(high - low, rel=0.1)


def test_effective_numbers_by_hand():
  # Clusters 3 of 4, 2 of 4, 3 of 4, 4 of 4, over and over: errors of 0, -1, 0
  # and 1 quarter; shares of 3 / 4 whose variance is 1 / 32.
  totals = np.tile([3.0, 2, 3, 4], 100)[None]
  result = statistics.effective(totals, np.full((1, 400), 4.0))
  assert result == pytest.approx(400 * (3 / 16) / (1 / 32), rel=0.02)
  assert (result < 400 * 6).all()
  assert result.shape == (2, 1)
  # One cluster that fails tells nothing of others: as many as clusters.
  totals = np.full((1, 50), 20.0)
  totals[0, 7] = 19
  assert statistics.effective(totals, np.full((1, 50), 20.0)) == pytest.approx(
    50
  )
  # Heavy clusters count for more: (1 + 1 + 2) ** 2 / (1 + 1 + 4).
  heavy = np.array([[1.0, 1, 2]])
  assert statistics.effective(heavy, heavy) == pytest.approx(16 / 6)


def test_an_end_allows_for_a_cluster_at_the_bound_beyond_it():
  totals = np.tile([0.88, 0.92], 25)[None]
  lower, upper = statistics.effective(totals, np.ones((1, 50)))
  assert 50 < lower < upper / 4
  # From the other side it is the same.
  mirrored = statistics.effective(1 - totals, np.ones((1, 50)))
  assert mirrored == pytest.approx(np.array([upper, lower]))


def test_strata_vary_within_alone():
  rng = np.random.default_rng(2)
  strata = np.repeat([0, 1, 2], [1, 9, 30])
  totals = (0.2 * strata + 0.1 * rng.random(40))[None]
  weights = np.ones((1, 40))
  plain = statistics.effective(totals, weights)
  within = statistics.effective(totals, weights, strata)
  assert (within > 1.2 * plain).all()
  # A stratum of one cluster is joined to the next.
  joined = np.repeat([1, 2], [10, 30])
  assert within == pytest.approx(statistics.effective(totals, weights, joined))
  item = np.zeros(40)
  assert plain == pytest.approx(statistics.effective(totals, weights, item))
  columns = {'stratum': strata}
  scores = core.scores('q', totals[0], columns=columns)
  summary = statistics.summarize(scores)
  expected = statistics.korn_graubard(totals, weights, strata)
  assert (summary['low'], summary['high']) == pytest.approx(
    tuple(x[0] for x in expected)
  )


def test_medians_and_outliers_by_hand():
  values = np.array([-2.0, -1.9, -2.1, -1.95, -2.05, -2.02, -1.98, 40.0])
  summary = statistics.median(values)
  # Of 8 values the least and greatest hold the median in 1 - 2 / 256.
  assert summary == {
    'median': pytest.approx(-1.99),
    'median_low': -2.1,
    'median_high': 40.0,
    'outliers': 1,
  }
  assert statistics.median(values[:5])['median_low'] is None
  # Of 9 values the second ones still do in 1 - 20 / 512.
  nine = statistics.median(np.arange(9.0))
  assert (nine['median_low'], nine['median_high']) == (1, 7)


@pytest.mark.parametrize(('num', 'any_'), [(299, False), (300, True)])
def test_outliers_refuse_an_interval_of_the_mean_of_few(num, any_):
  values = np.random.default_rng(0).normal(size=num)
  scores = core.scores('q', values, bounds=None)
  scores = dataclasses.replace(scores, outliers=True)
  summary = statistics.summarize(scores)
  assert (summary['low'] is not None) == any_
  assert summary['median_low'] < summary['median'] < summary['median_high']
  if not any_:
    assert summary['interval'] == statistics.TOO_FEW


@pytest.mark.parametrize('value', [0.0, 1.0, 0.1, 0.3])
@pytest.mark.parametrize('groups', [1, 2, 7])
def test_equal_values_count_clusters(value, groups):
  scores = core.scores('q', np.full(42, value), group=np.arange(42) % groups)
  result = statistics.summarize(scores)
  expected = statistics.proportion(value, groups)
  assert (result['low'], result['high']) == pytest.approx(expected)


def test_equal_values_without_bounds_have_no_interval():
  result = statistics.summarize(core.scores('q', [3.0] * 12, bounds=None))
  assert result['value'] == 3
  assert result['low'] is result['high'] is None
  assert result['interval'] == statistics.ALIKE
  assert statistics.ALIKE.endswith('all clusters have the same value')


def test_a_count_is_not_below_none():
  values = np.repeat([0.0, 0.0, 0.0, 9.0], 4)
  free = statistics.summarize(core.scores('q', values, bounds=None))
  count = statistics.summarize(core.scores('q', values, bounds=(0.0, None)))
  assert (free['value'], free['high']) == (count['value'], count['high'])
  rare = np.array([3.0, *[0.0] * 14])
  low = statistics.summarize(core.scores('q', rare, bounds=None))['low']
  assert low < 0
  assert (
    statistics.summarize(core.scores('q', rare, bounds=(0.0, None)))['low'] == 0
  )


def test_other_bounds_scale():
  result = statistics.summarize(core.scores('q', [4.0] * 9, bounds=(0.0, 4.0)))
  low, high = statistics.proportion(1.0, 9)
  assert (result['low'], result['high']) == pytest.approx((4 * low, 4 * high))


@settings(max_examples=60, deadline=None)
@given(
  st.lists(
    st.tuples(
      st.sampled_from([0.0, 1.0, 0.5, 0.1]),
      st.integers(0, 3),
      st.sampled_from([0.0, 1.0, 2.5]),
    ),
    min_size=1,
    max_size=12,
  )
)
def test_never_zero_width_and_always_around_the_value(rows):
  value, group, weight = map(np.array, zip(*rows, strict=True))
  scores = core.scores('q', value, group=group, weight=weight)
  result = statistics.summarize(scores)
  if not weight.any():
    assert result['value'] is None
    return
  assert 0 <= result['low'] <= result['value'] + 1e-12
  assert result['value'] - 1e-12 <= result['high'] <= 1
  assert result['low'] < result['high']


@pytest.mark.parametrize('groups', [1, 2, 5, 9, 10])
def test_few_clusters_say_little_or_nothing(groups):
  value = np.linspace(0.4, 0.6, groups)
  result = statistics.summarize(core.scores('q', value))
  assert result['high'] - result['low'] > 0.15
  free = statistics.summarize(core.scores('q', value, bounds=None))
  if groups < statistics.FEWEST_CLUSTERS:
    assert free['low'] is free['high'] is None
    assert free['interval'] == 'too few clusters for an interval'
  else:
    assert free['low'] < 0.5 < free['high']


def test_same_seed_same_interval():
  values = np.random.default_rng(3).exponential(size=30)
  scores = core.scores('q', values, bounds=None)
  assert statistics.summarize(scores, 5) == statistics.summarize(scores, 5)
  assert statistics.summarize(scores, 5) != statistics.summarize(scores, 6)
  bounded = core.scores('q', values / values.max())
  assert statistics.summarize(bounded, 5) == statistics.summarize(bounded, 6)


def test_resamples_are_draws_with_replacement():
  counts = statistics.resample(31, 1, np.arange(4000))
  assert (counts.sum(1) == 31).all()
  assert counts.mean(0) == pytest.approx(np.ones(31), abs=0.07)
  assert counts.var() == pytest.approx(30 / 31, abs=0.05)
  sample = statistics.resample(31, 1, np.arange(1000, 1010))
  np.testing.assert_array_equal(sample, counts[1000:1010])


def test_bootstrap_t_does_what_it_says():
  rng = np.random.default_rng(5)
  weights = rng.integers(1, 6, 25).astype(float)
  totals = rng.exponential(size=25) * weights
  value = totals.sum() / weights.sum()
  ratios = []
  for row in range(statistics.RESAMPLES):
    count = statistics.resample(25, 7, np.array([row]))[0].astype(int)
    drawn = np.repeat(np.arange(25), count)
    t, w = totals[drawn], weights[drawn]
    again = t.sum() / w.sum()
    error = np.sqrt(((t - again * w) ** 2).sum() * 25 / 24) / w.sum()
    ratios.append((again - value) / error)
  ratios = np.sort(ratios)
  without = [
    (totals.sum() - totals[g]) / (weights.sum() - weights[g]) for g in range(25)
  ]
  jackknife = np.sqrt(24 / 25 * ((np.array(without) - value) ** 2).sum())
  low, high = statistics.bootstrap_t(totals[None], weights[None], 7)
  assert low[0] == pytest.approx(value - ratios[-25] * jackknife)
  assert high[0] == pytest.approx(value - ratios[24] * jackknife)


def test_bootstrap_blocks_do_not_matter(monkeypatch):
  rng = np.random.default_rng(4)
  totals, weights = rng.random((2, 30)), np.ones((2, 30))
  whole = statistics.bootstrap_t(totals, weights, 1)
  monkeypatch.setattr(statistics, '_BLOCK', 100)
  np.testing.assert_allclose(statistics.bootstrap_t(totals, weights, 1), whole)


def test_rows_are_each_as_alone():
  rng = np.random.default_rng(6)
  weights = rng.integers(1, 9, (5, 20)).astype(float)
  totals = rng.binomial(weights.astype(int), 0.8).astype(float)
  for method in (statistics.korn_graubard, statistics.unbounded_interval):
    whole = method(totals, weights)
    for row in range(5):
      alone = method(totals[row, None], weights[row, None])
      for item, all_ in zip(alone, whole, strict=True):
        np.testing.assert_allclose(item[0], all_[row])


def test_hall_solves_its_cubic():
  values = np.random.default_rng(8).exponential(size=(3, 40))
  low, high = statistics.hall(values, np.ones_like(values))
  mean, error = values.mean(1), values.std(1, ddof=1) / np.sqrt(40)
  skew = ((values - mean[:, None]) ** 3).mean(1) / values.std(1) ** 3
  skew /= np.sqrt(40)
  for end, t in ((low, 2.0227), (high, -2.0227)):
    ratio = (mean - end) / error
    cubic = ratio + skew * ratio**2 / 3 + skew**2 * ratio**3 / 27 + skew / 6
    assert cubic == pytest.approx(t, abs=1e-3)
  even = np.array([[1.0, 2, 3, 4]])
  low, high = statistics.hall(even, np.ones_like(even))
  assert low + high == pytest.approx(5)


def test_rare_counts_have_finite_ends():
  result = statistics.summarize(
    core.scores('q', np.arange(50) < 2, bounds=None)
  )
  assert result['interval'] == 'hall'
  assert result['low'] < 0.04 < result['high'] < 10


def test_by_column():
  scores = core.scores(
    'q',
    [1, 1, 0, 0],
    reason=['', '', '', 'empty'],
    columns={'two_way': np.array([2, 0, 2, 4])},
  )
  results = dict(statistics.by_column(scores, 'two_way'))
  assert list(results) == [0, 2, 4]
  assert [results[k]['value'] for k in (0, 2, 4)] == [1.0, 0.5, None]
  assert results[4]['unmeasured'] == {'empty': 1}
  with pytest.raises(core.InputError, match='available: two_way'):
    list(statistics.by_column(scores, 'oneway'))


def test_measured_nonsense_is_an_error():
  with pytest.raises(ValueError, match='not finite'):
    statistics.summarize(core.scores('q', [np.nan]))
  with pytest.raises(ValueError, match='negative'):
    statistics.summarize(core.scores('q', [1.0], weight=np.array([-1.0])))


def test_strata_of_two_clusters_stand_by_themselves():
  """The last one, too: none is joined that has two."""
  errors = np.array([[1.0, 3.0, 10.0, 20.0]])
  strata = np.array([0, 0, 1, 1])
  within = statistics._within(errors, strata)
  share = np.sqrt(2 * (1 - 1 / 4))
  np.testing.assert_allclose(within, share * np.array([[-1, 1, -5, 5]]))


def test_seeds_whose_intervals_pass_1_are_not_cut_there():
  ends = [0.8, 1.1, 0.7], [1.2, 1.5, 1.1]
  mean, low, high = statistics.over_seeds([1.0, 1.3, 0.9], *ends)
  assert low < mean < 1.1 < high
