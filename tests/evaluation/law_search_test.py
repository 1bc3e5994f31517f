"""The search that can say none: planted laws, chance, few systems."""

import json
import pathlib

import numpy as np
import pytest

from tests import planted_laws
from tests.marks import few
from wm import core
from wm.evaluation import law_search
from wm.kernels import symbolic


@pytest.mark.parametrize(
  'noise', [0.1, pytest.param(0.0, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize('kind', few(4, planted_laws.LAWS))
def test_a_planted_law_is_named(kind, noise):
  outcome, text = planted_laws.outcome(kind, noise, seed=0)
  assert outcome == planted_laws.NAMED, text


@pytest.mark.parametrize(
  ('kind', 'reason', 'size'),
  [
    ('m1 m2 / r^2.5', 'misfit', 8),
    pytest.param('sqrt(m1 m2) / r', 'misfit', 8, marks=pytest.mark.slow),
    pytest.param(
      *('m1 m2 / r^2 (1 + 0.2 sin 3r)', 'misfit', 8), marks=pytest.mark.slow
    ),
    *((kind, 'chance', 6) for kind in planted_laws.WITHOUT_LAW),
  ],
)
def test_there_is_no_law_where_none_is_in_reach(kind, reason, size):
  assert planted_laws.outcome(kind, 0.01, 0, size) == (
    planted_laws.NONE,
    f'none ({reason})',
  )


@pytest.mark.parametrize(
  'kind',
  ['m2 / r^2', 'm1 r', pytest.param('m1 m2 / r^2.5', marks=pytest.mark.slow)],
)
def test_the_recorded_table_is_that_of_the_search(kind):
  """A seed of a cell in which all seeds have one outcome."""
  table = json.loads(
    pathlib.Path(planted_laws.__file__[:-2] + 'json').read_text()
  )
  ((outcome, seeds),) = table['cells'][kind]['0.05'].items()
  assert seeds == 10
  assert planted_laws.outcome(kind, 0.05, seed=200)[0] == outcome


def test_constants_are_those_planted():
  columns, system = planted_laws.systems(0)
  target = planted_laws.LAWS['m1 m2 / (r^2 + 0.3)'](columns)
  law = law_search.find_law(columns, 7 * target, system, size=8)
  assert law.name == '7 * m1 * m2 * inv(r * r + 0.3)'
  assert (law.size, law.error < 1e-12) == (10, True)
  np.testing.assert_allclose(law.values, 7 * target, rtol=1e-6)
  shifted = planted_laws.LAWS['m1 / r^2 + 0.5'](columns)
  law = law_search.find_law(columns, shifted - 2, system, size=6)
  assert law.name == '1 * m1 * inv(r * r) + -1.5'


def test_p_values_of_noise_are_uniform():
  """Of 60 searches in noise, at most 6 below .05: the chance is .97."""
  columns, system = planted_laws.systems(0)
  low = 0
  for seed in range(60):
    rng = np.random.default_rng([5, seed])
    noise = np.exp(rng.normal(size=planted_laws.SYSTEMS))[system]
    law = law_search.find_law(columns, noise, system, size=3, seed=seed)
    low += law.p <= 0.05
  assert low <= 6


def test_raw_errors_take_targets_of_both_signs_and_0():
  columns, system = planted_laws.systems(1)
  target = columns['m1'] * columns['r'] - 1
  target[0] = 0
  law = law_search.find_law(columns, target, system, size=3, relative=False)
  factor, formula = law.formula.split(' * ', 1)
  assert float(factor) == pytest.approx(1, abs=0.01)
  assert formula.startswith('r * m1 + -')


def test_rows_may_come_in_any_order():
  columns, system = planted_laws.systems(2)
  target = planted_laws.LAWS['m2 / r^2'](columns)
  order = np.random.default_rng(0).permutation(len(system))
  turned = {name: values[order] for name, values in columns.items()}
  law = law_search.find_law(turned, target[order], system[order], size=6)
  assert law.name == '1 * m2 * inv(r * r)'
  assert law_search.follows(law, target[order])
  assert not law_search.follows(law, target)


def test_few_systems_decide_nothing():
  columns, system = planted_laws.systems(0)
  rows = system < law_search.FEWEST - 1
  few = {name: values[rows] for name, values in columns.items()}
  law = law_search.find_law(few, few['r'], system[rows])
  assert (law.name, law.reason, law.formula) == ('none', 'few_systems', '')
  assert not law_search.follows(law, few['r'])


def test_bad_input_is_refused():
  columns, system = planted_laws.systems(0)
  with pytest.raises(core.InputError, match='is the same on all'):
    law_search.find_law(columns, np.ones(len(system)), system)
  law = law_search.find_law(columns, columns['m1'], system, size=1)
  with pytest.raises(core.InputError, match='the truth has shape'):
    law_search.follows(law, np.ones(3))


@pytest.mark.parametrize('loss', symbolic.LOSSES)
def test_fits_with_an_offset_are_the_best_of_all_formulas(loss):
  """Every formula, one by one, by weighted least squares."""
  from tests.kernels import symbolic_ref as ref

  columns, _ = planted_laws.systems(3)
  columns = {name: values[::10] for name, values in columns.items()}
  x = np.array([*columns.values()])
  rng = np.random.default_rng(0)
  targets = np.array([x[1] / x[0] ** 2 + 0.5, x[0] * x[1] - 3])
  targets *= np.exp(0.1 * rng.normal(size=targets.shape))
  fronts = symbolic.search(columns, targets, 5, loss, offset=True)
  for front, target in zip(fronts, targets, strict=True):
    root = 1 / np.abs(target) if loss == 'log' else np.ones_like(target)
    spread = _left(np.ones((1, len(target))), target, root)
    least = np.inf
    for size, level in enumerate(ref.formulas(3, 5), 1):
      values = [symbolic.values(code, x) for code in level]
      errors = [
        _left(np.array([v, np.ones_like(v)]), target, root) / spread
        for v in values
        if np.isfinite(v).all()
      ]
      best = [law.error for law in front if law.size <= size]
      least = min(least, *errors)
      assert best[-1] == pytest.approx(least, rel=1e-6)


def _left(columns, target, root) -> float:
  a, y = (root * columns).T, root * target
  return float(((y - a @ np.linalg.lstsq(a, y, rcond=None)[0]) ** 2).sum())
