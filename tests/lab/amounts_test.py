"""Quantities of rows, from units made up for the purpose."""

import itertools

import numpy as np
import pytest
from scipy import stats

from tests.lab.units_made_up import entry, unit
from wm.evaluation import statistics
from wm.lab import units
from wm.lab.findings import Quantity


def test_the_shortest_spec_that_has_the_fields_is_meant():
  result = unit(
    'a',
    0,
    entry(0.1, spec='compression(trials=300, k=1)'),
    entry(0.2),
    entry(0.3, where={'two_way': 2}),
    entry(0.4, quantity='precision_published'),
  )

  def value(metric: str, **where) -> float | None:
    named = units.entry_of(result, Quantity(metric, 'precision', where))
    return named and named['value']

  assert value('compression') == 0.2
  assert value('compression(k=1)') == 0.1
  assert value('compression(k=0)') == 0.2
  assert value('compression', two_way=2) == 0.3
  assert value('compression(k=2)') is None
  assert value('detour') is None


def test_units_of_another_recipe_are_left_out(tmp_path):
  for seed, steps in enumerate((10, 20, 20)):
    units.write(tmp_path, unit('a', seed, entry(0.5), steps=steps))
  result = units.read_units(tmp_path)
  assert [item.seed for item in result['a']] == [1, 2]
  assert units.read_units(tmp_path / 'none') == {}


def test_seeds_of_a_matched_row_are_of_one_recipe(tmp_path):
  """Whatever number each seed of the other row comes to."""

  def write(row: str, seed: int, num: int, of: str = '') -> None:
    matched = {'num': f'sequences of {of}'} if of else {}
    item = unit(row, seed, entry(0.5), matched=matched)
    item.key['sampling'] = {'num': num, 'seed': seed, 'num_heldout': 9}
    units.write(tmp_path, item)

  for seed, num in enumerate((3943, 3947, 3940)):
    write('walks', seed, num, 'paths')
    write('plain', seed, num)
    write('other', seed, num, 'paths' if seed else 'a')
  known = units.read_units(tmp_path)
  assert [item.seed for item in known['walks']] == [0, 1, 2]
  assert known['walks'][1].matched == {'num': 'sequences of paths'}
  assert [item.seed for item in known['plain']] == [0]
  assert [item.seed for item in known['other']] == [1, 2]


def test_units_of_committed_code_come_before_more_of_changed_code(tmp_path):
  for seed, steps in enumerate((10, 10, 10, 20)):
    commit = 'abc-dirty' if steps == 10 else 'abc'
    units.write(
      tmp_path, unit('a', seed, entry(0.5), steps=steps, commit=commit)
    )
  assert [each.seed for each in units.read_units(tmp_path)['a']] == [3]


def test_the_order_of_result_files_does_not_matter():
  several = [
    unit(row, seed, entry(0.1 * seed), steps=steps)
    for row, steps in (('a', 10), ('b', 10), ('b', 20))
    for seed in range(steps // 10 + 1)
  ]
  expected = units.one_recipe(several)
  assert [each.seed for each in expected['b']] == [0, 1, 2]
  for order in itertools.permutations(several):
    assert units.one_recipe(order) == expected


def test_units_of_changed_or_unknown_code_are_refused():
  """Even where they are the more frequent recipe."""
  of = [
    unit('a', seed, entry(0.5), steps=steps, commit=commit)
    for seed, steps, commit in (
      *((0, 10, 'abc-dirty'), (1, 10, None), (2, 10, 'abc-dirty')),
      *((3, 20, 'abc'), (4, 20, 'def')),
    )
  ]
  results = units.of_committed_code({'a': of, 'b': [unit('b', 0)]})
  assert [each.seed for each in results.rows['a']] == [3, 4]
  assert results.refused == {'a': ['a-0', 'a-1', 'a-2']}
  alone = units.of_committed_code({'a': of[:2]})
  assert alone.rows == {}


def test_counts_and_shares_of_maps():
  counted = {'new_edges': 5, 'sequences': 1000}
  share = {'value': 0.1, 'low': 0.05, 'high': 0.2, 'n': 40, 'clusters': 20}
  result = unit('a', 0, map={**counted, 'failing': share, 'bare': {'value': 2}})
  count = units.amount([result], Quantity('map', 'new_edges'))
  assert (count.value, count.low, count.high, count.n) == (5, 5, 5, 1000)
  assert count.variances == (0,)
  item = units.amount([result], Quantity('map', 'failing'))
  assert (item.value, item.low, item.high, item.clusters) == (
    0.1,
    0.05,
    0.2,
    20,
  )
  assert item.variances[0] == pytest.approx((0.1 / stats.t.ppf(0.975, 19)) ** 2)
  bare = units.amount([result], Quantity('map', 'bare'))
  assert (bare.value, bare.low, bare.variances) == (2, None, ())
  assert units.amount([result], Quantity('map', 'none')) is None


# Intervals over seeds.


def test_an_interval_over_seeds_has_clusters_inside():
  assert statistics.over_seeds([0.5], [0.4], [0.7]) == (0.5, 0.4, 0.7)
  mean, low, high = statistics.over_seeds([0.5] * 4, [0.4] * 4, [0.7] * 4)
  assert (mean, low, high) == pytest.approx((0.5, 0.45, 0.6))
  _, low, high = statistics.over_seeds([0.99, 0.8], [0.9, 0.7], [1.0, 0.9])
  assert (low, high) == (0.0, 1.0)  # Within bounds.
  _, low, high = statistics.over_seeds([9.9, 8], [9, 7], [10, 9])
  assert low < 0
  assert high > 10
  assert statistics.over_seeds([1, 2], [None, 1], [1, 3]) == (1.5, None, None)


def bimodal(*values: float, half=0.01, bounds=(0, 1)) -> bool:
  lows, highs = [x - half for x in values], [x + half for x in values]
  return statistics.bimodal(values, lows, highs, bounds)


def test_seeds_of_two_modes_are_told():
  assert bimodal(0.98, 0.2, 0.97)
  assert bimodal(0.2, 0.25, 0.9, 0.95, 0.97)
  assert bimodal(0.1, 0.12, 0.3, bounds=(0, 1))
  # Of three values the largest gap is always more than the rest.
  assert not bimodal(0.5, 0.55, 0.75)
  assert not bimodal(0.1, 0.5, 0.9)
  assert not bimodal(0.1, 0.9)
  assert not bimodal(*[0.5] * 4)


def test_noise_near_0_is_no_second_mode():
  # Less than a tenth of what is possible, however many trials there are.
  assert not bimodal(0.01, 0.012, 0.09, half=1e-6)
  assert not bimodal(0.1, 0.12, 0.3, bounds=(-1, 1))
  # As far apart as two modes are, and within what their trials leave open.
  assert not bimodal(0.0, 0.01, 0.2, half=0.1)
  assert bimodal(0.0, 0.01, 0.2, half=0.09)


@pytest.mark.parametrize(
  'bounds', [(None, None), (0, None), (-np.inf, 1.0), (0, np.inf)]
)
def test_without_bounds_there_are_no_modes(bounds):
  assert not bimodal(0.98, 0.2, 0.97, bounds=bounds)


def test_seeds_without_intervals_show_no_modes():
  values, ends = [0.98, 0.2, 0.97], [None, 0.2, 0.97]
  assert not statistics.bimodal(values, ends, ends, (0, 1))
