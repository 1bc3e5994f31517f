"""Power: formulas of books, design effects, and rates by simulation."""

import math

import numpy as np
import pytest
from scipy import stats

import wm
from wm import core
from wm.evaluation import comparisons, statistics


def _share(hits, num, size=1):
  value = (np.arange(num) < hits).astype(float)
  group = np.repeat(np.arange(num), size)
  return core.scores('q', np.repeat(value, size), group=group)


def test_independent_trials_need_what_the_binomial_formula_says():
  sample = comparisons.trials_needed(_share(8000, 10_000), 0.05)
  z = 1.959964 + 0.841621
  expected = z**2 * (0.8 * 0.2 + 0.75 * 0.25) / 0.05**2
  assert sample.trials == pytest.approx(expected, rel=1e-3)
  assert sample.design_effect == pytest.approx(1, rel=1e-3)
  assert (sample.n, sample.clusters) == (10_000, 10_000)


def test_equal_trials_of_a_cluster_tell_no_more_than_one():
  once = comparisons.trials_needed(_share(60, 100), 0.1)
  often = comparisons.trials_needed(_share(60, 100, 5), 0.1)
  assert often.design_effect == pytest.approx(5, rel=0.02)
  assert often.trials == pytest.approx(5 * once.trials, rel=0.01)


def test_a_mean_without_bounds_needs_what_the_normal_formula_says():
  value = np.random.default_rng(0).normal(3, 2, 400)
  sample = comparisons.trials_needed(
    core.scores('q', value, bounds=None), 0.5, 0.9
  )
  z = 1.959964 + 1.281552
  expected = 2 * z**2 * value.var(ddof=1) / 0.5**2
  assert sample.trials == pytest.approx(expected, abs=2)


def test_a_pilot_without_errors_counts_clusters():
  sample = comparisons.trials_needed(_share(50, 50, 4), 0.1)
  z = 1.959964 + 0.841621
  assert sample.design_effect == pytest.approx(4)
  assert sample.trials == math.ceil(z**2 * 4 * 0.9 * 0.1 / 0.1**2)


def test_what_a_pilot_does_not_say():
  assert (
    comparisons.trials_needed(_share(1, 1), 0.1).reason == 'too few clusters'
  )
  nothing = core.scores('q', [0.0], reason=['no_answer'])
  assert comparisons.trials_needed(nothing, 0.1).value is None
  same = core.scores('q', [2.0, 2.0], bounds=None)
  assert comparisons.trials_needed(same, 0.1).reason == 'all trials agree'
  assert (
    comparisons.trials_needed(_share(5, 10), 0.6).reason
    == 'no value is so far away'
  )
  for difference in (0.0, -1.0, math.nan):
    with pytest.raises(core.InputError, match='above 0'):
      comparisons.trials_needed(_share(5, 10), difference)


def test_seeds_have_the_power_of_the_noncentral_t():
  pilot = [0.70, 0.74, 0.81, 0.75]
  number = comparisons.seeds_needed(pilot, 0.1)
  spread = np.std(pilot, ddof=1)

  def reached(num):
    far = 0.1 / spread * math.sqrt(num / 2)
    bar = stats.t.ppf(0.975, 2 * num - 2)
    return 1 - stats.nct.cdf(bar, 2 * num - 2, far)

  assert reached(number) >= 0.8 > reached(number - 1)
  assert comparisons.seeds_needed([0.7], 0.1) is None
  assert comparisons.seeds_needed([0.7, 0.7], 0.1) is None
  assert comparisons.seeds_needed([0.7, 0.71], 0.5) == 2


def test_the_power_is_what_was_asked_for():
  """Clusters of 5 with an intra-cluster correlation; 4,000 studies."""
  rng = np.random.default_rng(1)

  def draw(rate, clusters, studies):
    own = rng.beta(4 * rate, 4 * (1 - rate), (studies, clusters))
    return rng.binomial(5, own) / 5

  pilot = draw(0.7, 20_000, 1)[0]
  hits = np.round(pilot * 5)[:, None] > np.arange(5)
  group = np.repeat(np.arange(20_000), 5)
  sample = comparisons.trials_needed(
    core.scores('q', hits.reshape(-1).astype(float), group=group), 0.1
  )
  assert sample.design_effect == pytest.approx(1 + 4 / 5, rel=0.05)
  clusters = math.ceil(sample.trials / 5)
  first, second = draw(0.7, clusters, 4000), draw(0.6, clusters, 4000)
  shown = np.mean(stats.ttest_ind(first, second, axis=1).pvalue < 0.05)
  assert shown == pytest.approx(0.8, abs=3 * math.sqrt(0.16 / 4000) + 0.01)


def test_the_smallest_difference_that_an_entry_would_show():
  entry = statistics.summarize(_share(1400, 2000))
  detectable = comparisons.detectable(entry)
  z = 1.959964 + 0.841621
  assert detectable == pytest.approx(
    z * math.sqrt(2 * 0.7 * 0.3 / 2000), rel=0.03
  )
  # At this difference, the pilot's own number of trials is what is needed.
  assert comparisons.trials_needed(
    _share(1400, 2000), detectable
  ).trials == pytest.approx(2000, rel=0.1)
  assert (
    comparisons.detectable({'value': 0.5, 'low': None, 'high': None}) is None
  )


def test_a_scored_folder_is_a_pilot(tmp_path):
  lines = []
  for seed in (0, 1):
    wm.score(
      'uniform()',
      'next_token(num=40)',
      'maps(rows=3, columns=3)',
      out=tmp_path / str(seed),
      seed=seed,
    )
  folders = [tmp_path / '0', tmp_path / '1']
  entries = wm.power(folders, 0.05, log=lines.append)
  assert entries
  assert len(lines) == len(entries)
  for entry in entries:
    assert entry['metric'] == 'next_token'
    assert entry['trials'] is None or entry['trials'] >= 2
  with pytest.raises(core.InputError, match='no rows'):
    wm.power(tmp_path / 'empty', 0.05)
