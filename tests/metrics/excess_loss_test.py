"""Excess loss: formulas, mixtures, and what cannot be measured."""

import math

import numpy as np
import pytest

from tests.metrics import table
from wm import core
from wm.core import registry
from wm.evaluation import statistics
from wm.metrics import excess_loss

WORLD = 'maps(rows=3, columns=3, max_moves=12)'
PLANNED = "maps(rows=3, columns=3, max_moves=12, traversal='shortest')"


def model(spec: str, world: str = WORLD) -> core.Predictor:
  return registry.make('model', spec).predictor(
    registry.make('world', world), 0
  )


def run(predictor, world=WORLD, **fields) -> dict[str, core.Scores]:
  metric = excess_loss.Metric(**{'num': 60, **fields})
  return table.by_name(metric(predictor, registry.make('world', world), 0))


class Mixture(core.Predictor):
  """A share of one predictor, the rest of another."""

  def __init__(self, first, second, share):
    self.parts, self.share = (first, second), share
    self.vocab_size, self.end = first.vocab_size, first.end
    self.max_len = first.max_len

  def log_probs(self, tokens, lengths):
    first, second = (
      part.log_probs(tokens, lengths).astype(np.float64) for part in self.parts
    )
    with np.errstate(divide='ignore'):
      return np.logaddexp(
        first + np.log(self.share), second + np.log1p(-self.share)
      ).astype(np.float32)

  def session(self, prefixes, lengths, num):
    raise NotImplementedError


@pytest.mark.parametrize('world', [WORLD, PLANNED])
def test_the_bayes_predictor_has_none(world):
  result = run(model('bayes()', world), world)
  assert result['excess_loss'].measured.all()
  assert result['excess_loss'].value.max() < 1e-6
  np.testing.assert_allclose(
    result['loss'].value, result['entropy'].value, atol=1e-6
  )
  if world == PLANNED:  # Once the pair is stated nothing is open.
    assert result['entropy'].value.max() < 1e-9


def test_of_the_uniform_predictor_by_formula():
  predictor = model('uniform()')
  result = run(predictor)
  worst = math.log(predictor.vocab_size - 1)
  np.testing.assert_allclose(result['loss'].value, worst, rtol=1e-6)
  np.testing.assert_allclose(
    result['excess_loss'].value, worst - result['entropy'].value, rtol=1e-5
  )


def test_it_is_the_mean_over_samples_of_what_the_model_loses_more():
  """By the tokens drawn, and by the distribution that they are drawn from."""
  world = registry.make('world', WORLD)
  bayes, other = model('bayes()'), model('oracle()')
  result = run(other, num=3000)
  drawn = world.sample(3000, 0, split='heldout')
  apart = np.zeros(drawn.tokens.shape[1] - 1)
  places, sums = 0, []
  following = drawn.tokens[:, 1:, None]
  used = np.arange(1, drawn.tokens.shape[1]) < drawn.lengths[:, None]
  used[:, :1] = False  # The destination is given.
  for predictor in (other, bayes):
    log_probs = predictor.log_probs(drawn.tokens, drawn.lengths)[:, :-1]
    taken = np.take_along_axis(log_probs, following, 2)[..., 0]
    sums.append(np.where(used, -taken, 0).astype(np.float64))
  apart, places = (sums[0] - sums[1]).sum(1), used.sum(1)
  sampled = apart.sum() / places.sum()
  error = np.std(apart - sampled * places) / math.sqrt(len(apart))
  error /= places.mean()
  assert table.mean(result['excess_loss']) == pytest.approx(
    sampled, abs=4 * error
  )
  assert sampled > 10 * error


def test_no_predictor_is_better_and_mixtures_lie_between():
  bayes, uniform = model('bayes()'), model('uniform()')
  excess = [
    table.mean(run(Mixture(bayes, uniform, share))['excess_loss'])
    for share in (0.999, 0.9, 0.5, 0.1)
  ]
  assert 0 < excess[0] < excess[1] < excess[2] < excess[3]
  # A share is lost where the other has next to nothing.
  assert excess[2] <= math.log(2)


def test_bins_divide_the_same_places(monkeypatch):
  predictor = model('oracle()')
  monkeypatch.setattr(excess_loss, 'BIN', 1000)
  whole = run(predictor)['excess_loss']
  drawn = registry.make('world', WORLD).sample(60, 0, split='heldout')
  np.testing.assert_array_equal(whole.weight, drawn.lengths - 2)
  assert set(whole.columns['step'].tolist()) == {0}
  monkeypatch.setattr(excess_loss, 'BIN', 4)
  parts = run(predictor)['excess_loss']
  assert set(parts.columns['step'].tolist()) == {0, 4, 8, 12}
  assert table.mean(parts) == pytest.approx(table.mean(whole), rel=1e-9)
  assert len(np.unique(parts.group)) == len(np.unique(whole.group))
  assert statistics.summarize(parts)['n'] == len(parts.value)


def test_a_token_without_probability_is_a_row_that_says_so():
  result = run(model('bayes()', PLANNED))  # Knows shortest paths only.
  wrong = result['excess_loss'].reason
  assert (wrong == 'impossible').any()
  np.testing.assert_array_equal(result['loss'].reason, wrong)
  assert result['entropy'].measured.all()
  np.testing.assert_array_equal(result['impossible'].value > 0, wrong != '')
  assert result['impossible'].measured.all()


def test_sequences_longer_than_the_model_are_rows_that_say_so():
  predictor = model('oracle()')
  predictor.max_len = 9
  result = run(predictor)
  lengths = registry.make('world', WORLD).sample(60, 0, split='heldout').lengths
  for scores in result.values():
    long = scores.reason == 'longer_than_model'
    assert long.sum() == (lengths > 9).sum() > 0
    assert scores.measured.sum() == (~long).sum()
