"""Verdicts on findings: their rules, on units made up for the purpose."""

import dataclasses

import numpy as np
import pytest

from tests.reporting.units_made_up import (
  FAR,
  NEAR,
  WALKS,
  entry,
  finding,
  rows,
  unit,
)
from wm import core
from wm.evaluation import seeds as seeds_lib
from wm.reporting import findings, units
from wm.reporting.findings import NOT_SHOWN, SHOWN, UNTESTED


def verdict(claim: dict, **values) -> str:
  return findings.judge(finding(claim), rows(**values)).verdict


@pytest.mark.parametrize(
  ('values', 'expected'),
  [
    ({'walks': FAR, 'paths': NEAR}, SHOWN),
    ({'walks': NEAR, 'paths': FAR}, NOT_SHOWN),
    ({'walks': FAR, 'paths': FAR}, NOT_SHOWN),
    # Greater by far in every seed, but seeds differ as much.
    ({'walks': (0.9, 0.6, 0.95), 'paths': NEAR}, NOT_SHOWN),
    ({'walks': FAR[:2], 'paths': NEAR}, UNTESTED),
    ({'walks': FAR}, UNTESTED),
    ({'walks': FAR, 'paths': (0.5, 0.5, None)}, UNTESTED),
    ({}, UNTESTED),
  ],
)
def test_a_row_is_above_another_beyond_intervals(values, expected):
  assert verdict(WALKS, **values) == expected
  turned = {'rows': ['paths'], 'relation': 'below', 'than': ['walks']}
  assert verdict(turned, **values) == expected


@pytest.mark.parametrize(
  ('more', 'expected'),
  [
    ({'than': 0.8}, SHOWN),
    ({'than': 0.88}, NOT_SHOWN),
    ({'than': 0.88, 'beyond': False}, SHOWN),
    ({'than': 0.9, 'beyond': False}, SHOWN),
    ({'than': 0.91, 'beyond': False}, NOT_SHOWN),
    ({'than': ['paths'], 'times': 1.5}, SHOWN),
    ({'than': ['paths'], 'times': 1.8}, NOT_SHOWN),
    ({'than': ['paths', 'none']}, UNTESTED),
    ({'rows': ['walks', 'paths'], 'than': 0.8}, NOT_SHOWN),
    ({'rows': ['walks', 'paths'], 'than': 0.8, 'some': True}, SHOWN),
    ({'rows': ['none', 'walks'], 'than': 0.8, 'some': True}, SHOWN),
    ({'rows': ['none', 'paths'], 'than': 0.8, 'some': True}, UNTESTED),
    ({'rows': ['none', 'paths'], 'than': 0.8}, NOT_SHOWN),
    ({'rows': ['walks', 'paths'], 'than': 0.95, 'some': True}, NOT_SHOWN),
    ({'relation': 'below', 'than': 0.95}, SHOWN),
    ({'relation': 'below', 'than': 0.9, 'beyond': False}, SHOWN),
  ],
)
def test_numbers_factors_and_some(more, expected):
  assert verdict({**WALKS, **more}, walks=FAR, paths=NEAR) == expected


@pytest.mark.parametrize(
  ('order', 'expected'),
  [
    (('walks', 'paths', 'least'), SHOWN),
    (('walks', 'least'), SHOWN),
    (('paths', 'walks', 'least'), NOT_SHOWN),
    (('walks', 'none', 'least'), UNTESTED),
    (('least', 'walks', 'none'), NOT_SHOWN),
  ],
)
def test_an_order_holds_for_each_two_neighbours(order, expected):
  claim = {'rows': list(order), 'relation': 'ordered'}
  found = {'walks': FAR, 'paths': NEAR, 'least': (0.1, 0.11, 0.09)}
  assert verdict(claim, **found) == expected


def test_a_finding_is_all_of_its_claims_and_fewer_seeds_may_do():
  good, bad = WALKS, {**WALKS, 'than': 0.95}
  lacks = {**WALKS, 'than': ['none']}
  found = rows(walks=FAR, paths=NEAR)
  for claims, expected in (
    ((good, good), SHOWN),
    ((good, bad), NOT_SHOWN),
    ((good, lacks), UNTESTED),
    ((lacks, bad, good), NOT_SHOWN),
  ):
    assert findings.judge(finding(*claims), found).verdict == expected
  one = rows(walks=FAR[:1], paths=NEAR)
  assert findings.judge(finding(good), one).verdict == UNTESTED
  judged = findings.judge(finding(good, seeds=1), one)
  assert judged.verdict == SHOWN
  assert judged.amounts[0]['walks'].low == pytest.approx(0.88)  # Its own.
  judged = findings.judge(finding(lacks), one)
  assert judged.claims == (
    (UNTESTED, 'walks: 1 of 3 seeds; none: 0 of 3 seeds'),
  )
  assert judged.amounts[0].keys() == {'walks'}


def test_the_shortest_spec_that_has_the_fields_is_meant():
  found = unit(
    'a',
    0,
    entry(0.1, spec='compression(trials=300, k=1)'),
    entry(0.2),
    entry(0.3, where={'two_way': 2}),
    entry(0.4, quantity='precision_published'),
  )

  def value(metric: str, **where) -> float | None:
    one = findings.entries_of(found, metric, 'precision', where)
    return one and one['value']

  assert value('compression') == 0.2
  assert value('compression(k=1)') == 0.1
  assert value('compression(k=0)') == 0.2
  assert value('compression', two_way=2) == 0.3
  assert value('compression(k=2)') is None
  assert value('detour') is None


def test_counts_of_maps_have_intervals_over_seeds_alone():
  found = {}
  for row, counts in (('walks', (50, 56, 53)), ('paths', (2, 0, 4))):
    counted = [{'new_edges': n, 'sequences': 1000} for n in counts]
    found[row] = [
      dataclasses.replace(unit(row, seed), map=of)
      for seed, of in enumerate(counted)
    ]
  base = {'metric': 'map', 'quantity': 'new_edges', 'relation': 'above'}
  for rows_, than, expected in (
    (['walks'], ['paths'], SHOWN),
    (['walks'], 0, SHOWN),
    (['paths'], 0, NOT_SHOWN),
    (['walks'], ['none'], UNTESTED),
  ):
    claim = {**base, 'rows': rows_, 'than': than}
    judged = findings.judge(finding(claim), found)
    assert judged.verdict == expected
  one = findings.amount(found['paths'], 'map', 'new_edges', {})
  assert one.value == 2
  assert one.high - 2 == pytest.approx(4.303 * 2 / 3**0.5, rel=1e-3)
  bare = {**found, 'paths': [unit('paths', 0)]}
  assert findings.amount(bare['paths'], 'map', 'new_edges', {}) is None


def test_units_of_another_recipe_are_left_out(tmp_path):
  for seed, steps in enumerate((10, 20, 20)):
    units.write(tmp_path, unit('a', seed, entry(0.5), steps=steps))
  found = findings.read_units(tmp_path)
  assert [one.seed for one in found['a']] == [1, 2]
  assert findings.read_units(tmp_path / 'none') == {}


# Intervals over seeds.


def covered(between: float, within: float, seeds: int, runs: int) -> float:
  """Share of intervals that hold the mean over all seeds, 10."""
  rng = np.random.default_rng(1)
  truth = 10 + between * rng.standard_normal((runs, seeds))
  value = truth + within * rng.standard_normal((runs, seeds))
  half = 1.96 * within
  hits = 0
  for row in value:
    _, low, high = seeds_lib.over_seeds(row, row - half, row + half)
    hits += low <= 10 <= high
  return hits / runs


@pytest.mark.parametrize('seeds', [2, 3, 5])
@pytest.mark.parametrize(('between', 'within'), [(0, 1), (1, 0.01), (1, 1)])
def test_intervals_over_seeds_hold_the_mean(between, within, seeds):
  """Of 2,000 intervals of coverage .95, fewer than .937 is 3 errors away."""
  assert covered(between, within, seeds, 2000) > 0.937


def test_an_interval_over_seeds_has_clusters_inside():
  assert seeds_lib.over_seeds([0.5], [0.4], [0.7]) == (0.5, 0.4, 0.7)
  mean, low, high = seeds_lib.over_seeds([0.5] * 4, [0.4] * 4, [0.7] * 4)
  assert (mean, low, high) == pytest.approx((0.5, 0.45, 0.6))
  _, low, high = seeds_lib.over_seeds([0.99, 0.8], [0.9, 0.7], [1.0, 0.9])
  assert (low, high) == (0.0, 1.0)  # Within bounds.
  _, low, high = seeds_lib.over_seeds([9.9, 8], [9, 7], [10, 9])
  assert low < 0
  assert high > 10
  assert seeds_lib.over_seeds([1, 2], [None, 1], [1, 3]) == (1.5, None, None)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'titel': 'x'}, "unknown 'titel'"),
    ({'claims': []}, 'has no claims'),
    ({'seeds': 'three'}, "seeds is 'three'; expected int"),
    ({'title': None}, 'title is None'),
  ],
)
def test_bad_findings_are_one_line(change, message):
  with pytest.raises(core.InputError, match=message):
    finding(WALKS, **change)


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'relation': 'over'}, "no relation 'over'; available: above"),
    ({'than': []}, 'expected rows or a number'),
    ({'rows': []}, 'expected two rows or more'),
    ({'relation': 'ordered'}, 'expected two rows or more and no `than`'),
    ({'metric': 'compresion'}, 'compresion'),
    ({'tan': 1}, "unknown 'tan'"),
    ({'than': 'paths'}, "than is 'paths'"),
  ],
)
def test_bad_claims_are_one_line(change, message):
  with pytest.raises(core.InputError, match=message):
    finding({**WALKS, **change})
