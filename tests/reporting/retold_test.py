"""Spread of results over tellings of one world."""

import math

import pandas as pd

from wm.reporting import collect, model_comparison, tables


def entry(model, value, width=0.4, seed=0):
  half = None if value is None else width / 2
  return {
    **{'metric': 'compression', 'quantity': 'precision', 'world': 'lattice()'},
    **{
      'model': 'given',
      'model_spec': model,
      'value': value,
      'n': 9,
      'unmeasured': {},
      'seed': seed,
    },
    'low': half and value - half,
    'high': half and value + half,
  }


def run(tmp_path, model, value, seed=0):
  return collect.Run(tmp_path, [entry(model, value, seed=seed)], [], [], None)


def test_a_spread_is_over_all_tellings_and_by_each_field():
  half = 0.1 * model_comparison.NORMAL_95
  values = pd.Series([0.5, 0.7, 0.1, 0.3])
  entries = pd.DataFrame(
    {'value': values, 'low': values - half, 'high': values + half}
  )
  fields = pd.DataFrame({'wording': [*'aabb'], 'names': [0, 1, 0, 1]})
  cells = model_comparison.spread(entries, fields)
  assert cells['least to greatest'] == '0.100 to 0.700'
  assert cells['mean'] == '0.400'
  assert cells['deviation'] == f'{math.sqrt(0.2 / 3):.3f}'
  # Means are .6 and .2 by wording, .3 and .5 by names.
  assert cells['by wording'] == f'{math.sqrt(0.08):.3f}'
  assert cells['by names'] == f'{math.sqrt(0.02):.3f}'
  assert cells['by chance'] == '0.100'


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
  frame = model_comparison.wording_table(tables.results(runs)).frame
  (row,) = frame.to_dict('records')
  assert row['model'] == "language(model='wm/random')"
  assert row['measure'] == 'compression: precision'
  assert (row['tellings'], row['mean'], row['deviation']) == (
    *('3', '0.400', '0.200'),
  )
  assert row['least to greatest'] == '0.200 to 0.600'
  assert row['by wording'] == '0.212'
  assert row['by chance'] == '0.102'
  assert model_comparison.wording_table(tables.results(runs[:1])) is None


def test_seeds_are_rows_of_their_own(tmp_path):
  names = "language(model='wm/random')", "language(model='wm/random', names=3)"
  runs = [
    run(tmp_path, name, value + seed / 10, seed)
    for seed in (0, 1)
    for name, value in zip(names, (0.2, 0.4), strict=True)
  ]
  frame = model_comparison.wording_table(tables.results(runs)).frame
  assert list(frame['seed']) == ['0', '1']
  assert list(frame['mean']) == ['0.300', '0.400']
  assert set(frame['tellings']) == {'2'}
  assert (
    'seed' not in model_comparison.wording_table(tables.results(runs[:2])).frame
  )
