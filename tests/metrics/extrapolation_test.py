"""Extrapolation: learners of states, constants, and closed forms."""

import dataclasses
import tracemalloc

import numpy as np
import pytest

from tests.metrics import table
from wm import core
from wm.core import adapting, basics, registry
from wm.evaluation import statistics
from wm.metrics import extrapolation
from wm.models.serving import oracles

WORLD = registry.make('world', 'orbits(rows=21)')
SMALL = {'num': 40, 'examples': 12, 'points': 30}


@pytest.fixture(autouse=True)
def few(monkeypatch):
  monkeypatch.setattr(extrapolation, 'TRIED', 8)
  monkeypatch.setattr(extrapolation, 'BINS', 5)


class Learner(oracles.Uniform, core.Adaptable):
  """Answers by a function of (states, labels, wanted states)."""

  def __init__(self, answer):
    super().__init__(len(WORLD.vocab), WORLD.end, WORLD.max_len)
    self.answer = answer
    results = [WORLD.sample(2500, seed, split) for seed, split in self.drawn()]
    self.known = {}
    for sequences in results:
      states = WORLD.hidden_states(sequences)
      for tokens, state in zip(sequences.tokens, states, strict=True):
        self.known[tokens.tobytes()] = state

  def drawn(self):
    stream = basics.stream
    return (
      (stream(0, extrapolation.TRAINED), 'train'),
      (stream(0, extrapolation.ASKED), 'heldout'),
    )

  def states(self, tokens, places):
    """[N * P, C]"""
    result = [
      self.known[np.ascontiguousarray(row).tobytes()][at]
      for row, at in zip(tokens, places, strict=True)
    ]
    return np.concatenate(result)

  def adapt(self, sets, asked, kind, steps, seed, tuning=adapting.FINE_TUNE):
    adapting.check_adapting(sets, asked, kind, steps)
    answers = [
      self.answer(
        self.states(sets.tokens[d], sets.places[d]),
        sets.labels[d].reshape(-1),
        self.states(asked.tokens[d], asked.places[d]),
      )
      for d in range(len(sets.tokens))
    ]
    outputs = np.stack(answers).reshape(1, *asked.places.shape, 1)
    return np.repeat(outputs, len(steps), 0)


def linear(states, labels, wanted):
  item = np.ones((len(states), 1))
  scale = np.abs(states).max(0)
  fit = np.linalg.lstsq(np.append(states / scale, item, 1), labels, rcond=None)
  return np.append(wanted / scale, item[:1].repeat(len(wanted), 0), 1) @ fit[0]


def run(answer, **fields):
  metric = extrapolation.Metric(**{**SMALL, **fields})
  return table.by_name(metric(Learner(answer), WORLD, 0))


def test_a_learner_of_the_state_is_calibrated():
  result = run(linear)
  assert table.mean(result['error_linear']) == pytest.approx(0, abs=1e-4)
  assert table.mean(result['slope_linear']) == pytest.approx(1, abs=1e-3)
  assert table.mean(result['rmse']) < 1e-3  # It finds the projection itself.
  assert table.mean(result['rmse_linear']) < 1e-6
  assert table.mean(result['rmse_mlp']) < table.mean(result['rmse_nearest']) < 2
  curve = [table.mean(result[f'curve_linear_{q:g}']) for q in (0.1, 0.5, 0.9)]
  axis = [table.mean(result[f'axis_linear_{q:g}']) for q in (0.1, 0.5, 0.9)]
  np.testing.assert_allclose(curve, axis, atol=1e-4)
  assert axis[0] < axis[1] < axis[2] <= 0.05


def test_an_affine_map_of_answers_changes_nothing():
  bent = lambda *inputs: 5 - 3 * linear(*inputs)  # noqa: E731
  plain, other = run(linear), run(bent)
  for name in ('error_linear', 'slope_mlp', 'curve_nearest_0.3'):
    np.testing.assert_allclose(plain[name].value, other[name].value, atol=1e-3)


def test_a_constant_has_slope_0_and_coins_have_no_curve():
  result = run(lambda states, labels, wanted: np.full(len(wanted), 3.0))
  assert table.mean(result['slope_linear']) == pytest.approx(0, abs=1e-9)
  assert table.mean(result['curve_linear_0.1']) == pytest.approx(0, abs=1e-9)
  rng = np.random.default_rng(0)
  result = run(lambda states, labels, wanted: rng.normal(size=len(wanted)))
  summary = statistics.summarize(result['slope_linear'])
  assert summary['low'] < 0.05
  assert summary['high'] > -0.05
  assert table.mean(result['curve_linear_0.1']) < -0.9


def test_the_affine_minimum_is_that_of_least_squares():
  rng = np.random.default_rng(1)
  answers = rng.normal(size=(30, 4)) @ rng.normal(size=(4, 6))
  answers[:, 5] = 2.0
  first, second = np.triu_indices(6, 1)
  results = extrapolation.affine_bias(answers, first, second)
  for value, i, j in zip(results, first, second, strict=True):
    x = np.stack([answers[:, i], np.ones(30)], 1)
    left = np.linalg.lstsq(x, answers[:, j], rcond=None)
    rest = answers[:, j] - x @ left[0]
    spread = answers[:, j].var()
    expected = -rest.var() / spread if spread > 1e-12 and i != 5 else 0
    assert value == pytest.approx(expected, abs=1e-9)


def test_bins_of_equal_counts():
  value = np.array([0.0, 0.1, 0.2, 0.3, 0.9, 1.0])
  np.testing.assert_array_equal(
    extrapolation.equal_counts(value, 3), [0, 0, 1, 1, 2, 2]
  )


def test_pseudo_values_of_a_mean_are_its_terms():
  values = np.random.default_rng(0).normal(size=12)

  def calibrate(used):
    mean = values[used].mean(keepdims=True)
    return extrapolation.calibration(np.append(mean, 0), np.array([1.0, 2.0]))

  result = extrapolation.jackknife(calibrate, 12, 20)
  np.testing.assert_allclose(result[:, 2], values)


def test_targets_are_projections_that_keep_distances():
  rng = np.random.default_rng(0)
  # One column is all that distances depend on.
  states = rng.normal(size=(3, 40, 2, 4)) * np.array([9, 0.1, 0.1, 0.1])
  shown = extrapolation.LabelledStates(np.zeros(0), np.zeros(0), states)
  asked = rng.normal(size=(1, 5, 4))
  labels, truth = extrapolation.projected_labels(shown, asked, 60, 1)
  np.testing.assert_allclose(labels.mean((1, 2)), 0, atol=1e-12)
  np.testing.assert_allclose(labels.std((1, 2)), 1)
  for d in range(3):
    rho = np.corrcoef(labels[d].reshape(-1), states[d, ..., 0].reshape(-1))
    assert abs(rho[0, 1]) > 0.99
    fit = np.linalg.lstsq(
      np.append(states[d].reshape(-1, 4), np.ones((80, 1)), 1),
      labels[d].reshape(-1),
      rcond=None,
    )[0]
    np.testing.assert_allclose(truth[d], asked[0] @ fit[:4] + fit[4])


def test_places_are_ends_of_planets_rows():
  result = WORLD.sample(5, 0)
  seen = extrapolation._ShownStates.of(WORLD, result)
  expected = np.zeros(result.tokens.shape, bool)
  expected[:, 3:-1:2] = True  # Every y but the last.
  np.testing.assert_array_equal(seen.ends, expected)
  expected[:, 5::4] = False  # Suns.
  np.testing.assert_array_equal(seen.known, expected)


def test_a_network_is_adapted_and_its_random_twin():
  model = registry.make('model', 'rnn(layers=1, width=8)')
  world = dataclasses.replace(WORLD, rows=9)
  metric = extrapolation.Metric(
    **{**SMALL, 'num': 6, 'points': 8, 'examples': 4},
    steps=(1, 4),
    untrained=True,
  )
  result = table.by_name(metric(model.predictor(world, 0), world, 0))
  assert {'slope_linear_1', 'rmse_1', 'error_mlp_untrained'} <= {*result}
  assert result['rmse'].measured.all()
  assert len(result['slope_linear'].value) == 6


def test_memory_does_not_grow_with_data_sets_times_pairs():
  answers = np.random.default_rng(0).normal(size=(400, 100))
  first, second = np.triu_indices(100, 1)
  tracemalloc.start()
  extrapolation.affine_bias(answers, first, second)
  _, peak = tracemalloc.get_traced_memory()
  tracemalloc.stop()
  assert peak < 4 * answers.nbytes, 'all pairs of all data sets: 49 times'
