"""Curves over the threshold of acceptance, of compression and distinction."""

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.evaluation import prefix_pairs

MAP = 'maps(rows=5, columns=5)'
SPECS = (
  "compression(trials=40, samples=10, accept='epsilon({})'{})",
  "distinction(trials=40, samples=10, accept='epsilon({})'{})",
)


def scored(model, spec, world=MAP, seed=3):
  of = registry.make('world', world)
  predictor = registry.make('model', model).predictor(of, 0)
  rows = registry.make('metric', spec)(predictor, of, seed)
  return {scores.quantity: scores for scores in rows}


@pytest.mark.parametrize('spec', SPECS)
def test_each_point_is_the_metric_at_that_threshold(spec):
  model = "noisy_oracle(wrong=0.05, by='prefix')"
  curve = scored(model, spec.format(0.01, ', curve=True'))
  for threshold in prefix_pairs.CURVE:
    alone = scored(model, spec.format(threshold, ''))
    for name in {'precision', 'recall'} & alone.keys():
      joined = curve[f'{name}_by_epsilon']
      rows = joined.columns['epsilon'] == threshold
      np.testing.assert_array_equal(joined.value[rows], alone[name].value)
      np.testing.assert_array_equal(joined.reason[rows], alone[name].reason)
      np.testing.assert_array_equal(joined.group[rows], alone[name].group)


def test_a_model_that_only_answers_has_no_threshold():
  metric = registry.make('metric', 'distinction(samples=0, curve=True)')
  assert 'no curve' in metric.why_not_static()


@pytest.mark.parametrize(
  'more',
  ["sampler='top_k(2)'", "prefix_filter='model'", "suffixes='world', k=1"],
)
def test_a_curve_has_one_rule(more):
  with pytest.raises(core.InputError, match='curve'):
    registry.make('metric', f'compression(curve=True, {more})')
