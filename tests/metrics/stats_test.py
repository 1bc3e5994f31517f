"""Intervals: known values, clustering, coverage, and never of zero width."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wm import core
from wm.metrics import stats


@pytest.mark.parametrize(
  ('hits', 'num', 'low', 'high'),
  [
    (0, 10, 0.0, 0.27753),
    (5, 10, 0.23659, 0.76341),
    (10, 10, 0.72247, 1.0),
    (27, 30, 0.74379, 0.96540),
  ],
)
def test_wilson_known_values(hits, num, low, high):
  found = stats.wilson(hits / num, num)
  assert found == pytest.approx((low, high), abs=1e-4)


def test_binary_independent_trials_get_wilson():
  found = stats.summarize(core.scores('q', [0, 1, 1, 1]))
  assert found['interval'] == 'wilson'
  assert (found['low'], found['high']) == stats.wilson(0.75, 4)
  assert found['value'] == 0.75
  assert found['n'] == found['clusters'] == 4


def test_nothing_measured_is_null():
  reason = ['vacuous', 'empty', 'vacuous']
  found = stats.summarize(core.scores('q', [1, 1, 1], reason=reason))
  assert found['n'] == 0
  assert found['value'] is found['low'] is found['high'] is None
  assert found['unmeasured'] == {'empty': 1, 'vacuous': 2}


def test_ratio_estimator_with_weights():
  scores = core.scores(
    'q', [1.0, 0.5, 0.0, 9.0], weight=np.array([1.0, 2.0, 5.0, 0.0])
  )
  found = stats.summarize(scores)
  assert found['value'] == pytest.approx(0.25)
  assert found['clusters'] == 3


def test_repeats_within_a_cluster_add_no_certainty():
  values = np.random.default_rng(0).random(40)
  once = stats.summarize(core.scores('q', values))
  often = stats.summarize(
    core.scores('q', np.repeat(values, 25), group=np.repeat(np.arange(40), 25))
  )
  assert often['n'] == 1000
  for name in ('value', 'low', 'high'):
    assert often[name] == pytest.approx(once[name])


def test_clustered_binary_is_wider_than_wilson():
  hits = np.random.default_rng(1).random(20) < 0.5
  scores = core.scores(
    'q', np.repeat(hits, 50), group=np.repeat(np.arange(20), 50)
  )
  found = stats.summarize(scores)
  low, high = stats.wilson(found['value'], 1000)
  assert found['interval'] == 'bootstrap'
  assert found['high'] - found['low'] > 3 * (high - low)


@pytest.mark.parametrize('value', [0.0, 1.0, 0.1, 0.3])
@pytest.mark.parametrize('groups', [1, 2, 7])
def test_equal_values_fall_back_to_wilson_on_clusters(value, groups):
  scores = core.scores('q', np.full(42, value), group=np.arange(42) % groups)
  found = stats.summarize(scores)
  assert found['interval'] == 'wilson'
  expected = stats.wilson(value, groups)
  assert (found['low'], found['high']) == pytest.approx(expected)


def test_equal_values_without_bounds_have_no_interval():
  found = stats.summarize(core.scores('q', [3.0, 3.0], bounds=None))
  assert found['value'] == 3
  assert found['low'] is found['high'] is None
  assert found['interval'] == 'none'


def test_other_bounds_scale():
  found = stats.summarize(core.scores('q', [4.0] * 9, bounds=(0.0, 4.0)))
  low, high = stats.wilson(1.0, 9)
  assert (found['low'], found['high']) == pytest.approx((4 * low, 4 * high))


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
  found = stats.summarize(scores)
  if not weight.any():
    assert found['value'] is None
    return
  assert 0 <= found['low'] <= found['value'] + 1e-12
  assert found['value'] - 1e-12 <= found['high'] <= 1
  assert found['low'] < found['high']


@pytest.mark.parametrize('groups', [8, 40])
def test_coverage_of_clustered_data(groups):
  rng = np.random.default_rng(2)
  covered = 0
  for trial in range(200):
    level = rng.beta(2, 2, groups)
    size = rng.integers(1, 9, groups)
    group = np.repeat(np.arange(groups), size)
    # Sizes are drawn apart from levels: the ratio's truth is one half.
    value = (rng.random(len(group)) < level[group]).astype(float)
    found = stats.summarize(core.scores('q', value, group=group), trial)
    covered += found['low'] <= 0.5 <= found['high']
  assert 178 <= covered <= 200


def test_same_seed_same_interval():
  scores = core.scores('q', np.random.default_rng(3).random(30))
  assert stats.summarize(scores, 5) == stats.summarize(scores, 5)
  assert stats.summarize(scores, 5) != stats.summarize(scores, 6)


def test_bootstrap_blocks_do_not_matter(monkeypatch):
  rng = np.random.default_rng(4)
  totals, weights = rng.random(30), np.ones(30)
  whole = stats.bootstrap(totals, weights, 1)
  monkeypatch.setattr(stats, '_BLOCK', 100)
  np.testing.assert_array_equal(stats.bootstrap(totals, weights, 1), whole)


def test_by_column():
  scores = core.scores(
    'q',
    [1, 1, 0, 0],
    reason=['', '', '', 'empty'],
    columns={'two_way': np.array([2, 0, 2, 4])},
  )
  found = dict(stats.by_column(scores, 'two_way'))
  assert list(found) == [0, 2, 4]
  assert [found[k]['value'] for k in (0, 2, 4)] == [1.0, 0.5, None]
  assert found[4]['unmeasured'] == {'empty': 1}
  with pytest.raises(core.InputError, match='available: two_way'):
    list(stats.by_column(scores, 'oneway'))


def test_measured_nonsense_is_an_error():
  with pytest.raises(ValueError, match='not finite'):
    stats.summarize(core.scores('q', [np.nan]))
  with pytest.raises(ValueError, match='negative'):
    stats.summarize(core.scores('q', [1.0], weight=np.array([-1.0])))
