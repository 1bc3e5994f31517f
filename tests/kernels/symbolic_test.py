"""The exhaustive search: the reference's fronts, laws of physics."""

import numpy as np
import pytest

from tests.kernels import symbolic_ref as ref
from wm.kernels import symbolic

GRAVITY = 39.4784176044
NEWTON = 'm1 * m2 * inv(r * r)'


def drawn(num: int, seed: int = 0) -> dict[str, np.ndarray]:
  rng = np.random.default_rng(seed)
  return {
    'r': np.exp(rng.uniform(np.log(0.5), np.log(5), num)),
    'm1': np.exp(rng.uniform(np.log(0.03), np.log(1.5), num)),
    'm2': np.exp(rng.uniform(np.log(0.3), np.log(3), num)),
  }


def noise(num: int, size: float) -> np.ndarray:
  return np.exp(size * np.random.default_rng(1).normal(size=num))


def true_laws(c: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
  """Text of the shortest form -> values."""
  return {
    NEWTON: GRAVITY * c['m1'] * c['m2'] / c['r'] ** 2,
    'm1 * m2 * inv(r)': 3 * c['m1'] * c['m2'] / c['r'],
    'r * m1': 0.2 * c['m1'] * c['r'],
    'm2 * exp(cos(r))': 5 * c['m2'] * np.exp(np.cos(c['r'])),
  }


@pytest.mark.parametrize('loss', ['log', 'raw'])
def test_fronts_are_those_of_the_reference(loss):
  """Each formula on each row, without short cuts; more rows than probes."""
  c = drawn(50)
  targets = [y * noise(50, 0.1) for y in true_laws(c).values()]
  targets.append(c['r'] * c['m1'])
  inputs = c, np.array(targets), 5, loss
  results, expected = symbolic.search(*inputs), ref.search(*inputs)
  assert [[law.code for law in front] for front in results] == [
    [law.code for law in front] for front in expected
  ]
  for front, other in zip(results, expected, strict=True):
    for name in ('error', 'factor'):
      np.testing.assert_allclose(
        [getattr(law, name) for law in front],
        [getattr(law, name) for law in other],
        rtol=1e-9,
      )
    assert [law.text for law in front] == [law.text for law in other]


def test_numbers_of_formulas_are_those_listed():
  listed = [len(level) for level in ref.formulas(3, 5)]
  assert listed == symbolic.count(3, 5)[1:] == [3, 12, 60, 312, 1764]


@pytest.mark.parametrize('loss', ['log', 'raw'])
def test_true_laws_end_their_fronts(loss):
  c = drawn(1000)
  laws = true_laws(c)
  fronts = symbolic.search(c, np.array([*laws.values()]), 8, loss)
  for text, front in zip(laws, fronts, strict=True):
    assert front[-1].text == text
    assert front[-1].error == pytest.approx(1e-24)
    assert len(front) == 1 or front[-2].error > 1e-5
    assert [law.size for law in front] == sorted({law.size for law in front})
    assert (np.diff([law.error for law in front]) < 0).all()
  assert fronts[0][-1].factor == pytest.approx(GRAVITY)
  assert str(fronts[0][-1]) == f'39.48 * {NEWTON}'


def test_noise_is_what_is_left():
  """Of a factor of noise the true law leaves its share and no less."""
  c = drawn(400)
  factor = noise(400, 0.05)
  y = true_laws(c)[NEWTON] * factor
  front = symbolic.search(c, y[None], 8)[0]
  (newton,) = (law for law in front if law.text == NEWTON)
  share = np.log(factor).var() / np.log(y).var()
  assert newton.error == pytest.approx(share)
  assert max(law.error for law in front if law.size == 7) > 5 * newton.error


def test_formulas_without_values_are_left_out():
  """Of 0 there is no inverse, and of a huge angle no sine."""
  x = np.linspace(0.0, 3e6, 40)
  target = np.linspace(1, 2, 40)
  front = symbolic.search({'x': x}, target[None], 4)[0]
  assert all('inv(x)' not in law.text for law in front)
  assert all('sin(x)' not in law.text for law in front)
  expected = ref.search({'x': x}, target[None], 4)[0]
  assert [law.code for law in front] == [law.code for law in expected]


def test_values_are_the_formulas():
  columns = np.array([[1.0, 2.0, 4.0], [3.0, 0.0, -2.0]])
  code = (0, 1, -5, 0, -6, -1)
  assert symbolic.written(code, ('a', 'b')) == 'inv((a + b) * a)'
  np.testing.assert_allclose(
    symbolic.values(code, columns), [0.25, 0.25, 0.125]
  )
  assert np.isnan(symbolic.values((1, -1), columns)[1])
