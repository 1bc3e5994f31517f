"""Correlations of metrics over models."""

import numpy as np
import pytest

from wm.evaluation import comparisons
from wm.reporting import collect, model_comparison, tables

WORLD = 'lattice()'


def entry(metric, quantity, value, model):
  return {
    **{'metric': metric, 'spec': f'{metric}()', 'quantity': quantity, 'n': 9},
    **{'world': WORLD, 'model': model, 'value': value, 'low': None},
    **{'high': None, 'unmeasured': {}, 'seed': 0},
  }


def run_of(tmp_path, number, r, d, loss, accuracy):
  """R, D, loss and accuracy, each trained and not."""
  entries = []
  for end, k in (('', 0), ('_untrained', 1)):
    name = f'model{number}'
    entries += [
      entry('inductive_bias', f'r_ib{end}', r[k], name),
      entry('inductive_bias', f'd_ib{end}', d[k], name),
      entry('transfer', f'loss{end}', loss[k], name),
      entry('transfer', f'accuracy{end}', accuracy[k], name),
    ]
  return collect.Run(tmp_path, entries, [], [], None)


@pytest.fixture
def runs(tmp_path):
  rng = np.random.default_rng(1)
  result = []
  for number in range(5):
    r, d = rng.uniform(0, 1, 2), rng.uniform(0, 0.9, 2)
    ratio = r / (1 - d)
    result.append(
      run_of(tmp_path, number, r, d, 3 - ratio, rng.uniform(0, 1, 2))
    )
  return result


def test_a_ratio_that_decides_the_loss_has_correlation_minus_one(runs):
  frame = model_comparison.correlation_table(
    tables.results(runs)
  ).frame.set_index('measure')
  ratio = 'inductive_bias(): r_ib / (1 - d_ib)'
  assert frame.loc[ratio, 'transfer(): loss'] == '-1.00 [-1.00, -1.00], n=5'
  points = [
    (item['value'], two['value'])
    for run in runs
    for item, two in zip(run.entries[::4], run.entries[3::4], strict=True)
  ]
  wanted = np.corrcoef(np.array(points).T)[0, 1]
  cell = frame.loc['inductive_bias(): r_ib', 'transfer(): accuracy']
  assert cell.startswith(f'{wanted:.2f} [')


def test_few_models_and_one_metric_have_no_table(runs):
  assert model_comparison.correlation_table(tables.results(runs[:3])) is None
  for run in runs:
    run.entries[:] = [e for e in run.entries if e['metric'] == 'transfer']
  assert model_comparison.correlation_table(tables.results(runs)) is None


def test_resamples_are_of_whole_models():
  """Two points of a model that agree are one model's, not two."""
  rng = np.random.default_rng(0)
  x, y = rng.normal(size=(2, 12))
  once = comparisons.pearson_over_models(x, y, np.arange(12))
  twice = comparisons.pearson_over_models(
    np.repeat(x, 2), np.repeat(y, 2), np.repeat(np.arange(12), 2)
  )
  np.testing.assert_allclose(once[:3], twice[:3])
  assert once.value == pytest.approx(np.corrcoef(x, y)[0, 1])
  assert once.low < once.value < once.high
  assert comparisons.pearson_over_models(x, 0 * y, np.arange(12)) is None


def test_intervals_of_twelve_models_hold_the_truth_mostly():
  rng = np.random.default_rng(3)
  held = 0
  for _ in range(100):
    x = rng.normal(size=12)
    y = 0.6 * x + 0.8 * rng.normal(size=12)
    result = comparisons.pearson_over_models(x, y, np.arange(12))
    held += result.low <= 0.6 <= result.high
  assert 82 <= held <= 100
