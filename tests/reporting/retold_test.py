"""Spread of results over tellings of one world."""

import math

import pytest

from wm.reporting import collect, retold


def entry(model, value, width=0.4):
  half = None if value is None else width / 2
  return {
    **{'metric': 'compression', 'quantity': 'precision', 'world': 'lattice()'},
    **{
      'model': 'given',
      'model_spec': model,
      'value': value,
      'n': 9,
      'unmeasured': {},
      'seed': 0,
    },
    'low': half and value - half,
    'high': half and value + half,
  }


def run(tmp_path, model, value):
  return collect.Run(tmp_path, [entry(model, value)], [], [], None)


def test_a_spread_is_over_all_tellings_and_by_each_field():
  results = [
    retold.Told((wording, names), value, 0.1)
    for wording, names, value in (
      ('a', 0, 0.5),
      ('a', 1, 0.7),
      ('b', 0, 0.1),
      ('b', 1, 0.3),
    )
  ]
  found = retold.spread(results)
  assert (found.tellings, found.least, found.greatest) == (4, 0.1, 0.7)
  assert found.mean == pytest.approx(0.4)
  assert found.deviation == pytest.approx(math.sqrt(0.2 / 3))
  # Means are .6 and .2 by wording, .3 and .5 by names.
  assert found.by == pytest.approx((math.sqrt(0.08), math.sqrt(0.02)))
  assert found.chance == pytest.approx(0.1)


def test_tellings_of_one_model_are_one_row(tmp_path):
  values = {
    "language(model='wm/random')": 0.2,
    "language(model='wm/random', wording='places')": 0.4,
    "language(model='wm/random', names=3, wording='places')": 0.6,
    "language(model='wm/solver', names=3)": 1.0,
    'uniform()': 0.5,
    'no such model': 0.5,
    "language(model='wm/yes', names=2)": None,
  }
  runs = [run(tmp_path, *pair) for pair in values.items()]
  frame = retold.table(runs).frame
  (row,) = frame.to_dict('records')
  assert row['model'] == "language(model='wm/random')"
  assert row['measure'] == 'compression: precision'
  assert (row['tellings'], row['mean'], row['deviation']) == (
    *('3', '0.400', '0.200'),
  )
  assert row['least to greatest'] == '0.200 to 0.600'
  assert row['by wording'] == '0.212'
  assert row['by chance'] == '0.102'
  assert retold.table(runs[:1]) is None
