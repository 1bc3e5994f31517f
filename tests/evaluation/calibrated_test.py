"""The calibrated threshold: the best F1, and where it is named."""

import math

import numpy as np
import pytest

import wm
from tests import small
from wm.core import registry
from wm.evaluation import membership

CITY = 'maps(rows=4, columns=4)'


@pytest.mark.parametrize(
  'model',
  ["null(kind='prefix', excess=0.1)", "adversary(kind='leaky')", 'oracle()'],
)
def test_no_threshold_has_a_greater_f1(model):
  world = registry.make('world', CITY)
  predictor = registry.make('model', model).predictor(world, 0)
  best = membership.resolved('calibrated(num=20)', predictor, world)
  sequences = world.sample(20, membership.CALIBRATION, split='train')
  first = membership.prompt_end(world, sequences)
  judged = [*membership.positions(predictor, world, sequences, first)]
  probs = np.exp(np.concatenate([x.log_probs for x in judged]))
  legal = np.concatenate([x.legal for x in judged])

  def f1(threshold):
    accepted = probs > threshold
    return 2 * (accepted & legal).sum() / (accepted.sum() + legal.sum())

  assert f1(best.threshold) >= max(map(f1, np.unique(probs))) - 1e-9


def test_entries_name_the_threshold():
  entries = small.scored(
    "adversary(kind='leaky')",
    ['next_token(num=50)', 'compression(trials=20)', 'probe(num=20)'],
    CITY,
    accept='calibrated()',
  )
  by_metric = {entry['metric']: entry for entry in entries}
  assert 0 < by_metric['next_token']['epsilon'] < 0.1
  same = by_metric['compression']['epsilon']
  assert same == by_metric['next_token']['epsilon']
  assert by_metric['compression']['accept'] == 'calibrated()'
  assert math.isnan(by_metric['probe']['epsilon'])


def test_it_is_refused_where_no_model_is_calibrated():
  with pytest.raises(wm.InputError, match='no threshold is calibrated'):
    wm.reconstruct('oracle()', 'unused', CITY, accept='calibrated()', num=5)
