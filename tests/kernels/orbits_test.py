"""Compiled orbits against plain Python, Kepler's laws and shipped states."""

import numpy as np
import pytest

from tests.kernels import orbits_ref as ref
from wm.kernels import orbits

ROWS = 30


def drawn(num: int, most: int, seed: int, e: float = 0.95) -> orbits.Systems:
  rng = np.random.default_rng(seed)
  planets = rng.integers(1, most + 1, num)
  there = np.arange(most) < planets[:, None]
  shape = (num, most)
  return orbits.Systems(
    planets=planets,
    axis=rng.uniform(0.3, 32, shape),
    eccentricity=rng.uniform(0, e, shape),
    periapsis=rng.uniform(0, 7, shape),
    mean=rng.uniform(-9, 9, shape),
    mass=rng.uniform(0.01, 0.5, shape) * there,
    star=rng.uniform(0.5, 2, num),
    centre=rng.normal(size=(num, 2)),
    step=rng.choice([0.0189, 0.486], num),
  )


@pytest.mark.parametrize('most', [1, 3])
def test_positions_and_states_are_those_of_the_reference(most):
  sample = drawn(8, most, most)
  for name in ('positions', 'states'):
    fast = getattr(orbits, name)(sample, ROWS)
    slow = getattr(ref, name)(sample, ROWS)
    np.testing.assert_allclose(fast, slow, rtol=0, atol=2e-12)


def test_bins_are_floors_of_positions():
  sample = drawn(40, 4, 7)
  place = orbits.positions(sample, ROWS)
  result, outside = orbits.bins(sample, ROWS, 20.0, 64)
  raw = np.floor((place + 20) * 1.6)
  np.testing.assert_array_equal(result, np.clip(raw, 0, 63))
  beyond = ((raw < 0) | (raw > 63)).any(-1).sum(1)
  assert 0 < np.count_nonzero(beyond) < 40
  np.testing.assert_array_equal(outside, beyond)


@pytest.mark.parametrize(
  'e', [0.0, 1e-9, 0.3, 0.31, 0.9, 0.97, 0.999, 1 - 1e-9]
)
def test_keplers_equation_holds_at_every_eccentricity(e):
  num, first, rate = 700, -3.7, 0.0317
  x, c, s = np.empty(num), np.empty(num), np.empty(num)
  orbits.anomalies(e, first, rate, x, c, s)
  np.testing.assert_allclose(c * c + s * s, 1, atol=1e-14)
  mean = np.arctan2(s, c) - e * s - (first + rate * np.arange(num))
  off = mean - 2 * np.pi * np.round(mean / (2 * np.pi))
  assert np.abs(off).max() < 2e-13


def elements(state: np.ndarray) -> orbits.Systems:
  """The orbit through one state: x, y, vx, vy, planet, sun."""
  x, y, vx, vy, planet, sun = state.astype(np.float64)
  mu, r = orbits.GRAVITY * (planet + sun), np.hypot(x, y)
  h = x * vy - y * vx
  toward = np.array([vy * h, -vx * h]) / mu - np.array([x, y]) / r
  e = np.hypot(*toward)
  axis = 1 / (2 / r - (vx * vx + vy * vy) / mu)
  turn = np.arctan2(toward[1], toward[0])
  cosine, sine = (1 - r / axis) / e, (x * vx + y * vy) / e / np.sqrt(mu * axis)
  mean = np.arctan2(sine, cosine) - e * sine
  assert h > 0
  columns = axis, e, turn, mean, planet
  item = [np.array([[value]]) for value in columns]
  rest = np.array([sun]), np.zeros((1, 2)), np.ones(1)
  return orbits.Systems(np.ones(1, int), *item, *rest)


GOLDEN = [  # a, e, period, step of the five shipped systems.
  (24.18567, 0.1625478, 111.865, 0.0189),
  (31.89489, 0.0736256, 163.905, 0.0189),
  (5.952613, 0.0981945, 16.4673, 0.0189),
  (21.30767, 0.1451307, 124.699, 0.486),
  (1.900091, 0.0091237, 2.50359, 0.0189),
]


@pytest.mark.parametrize('number', range(5))
def test_shipped_states_lie_on_our_orbits(testdata, number):
  """450 states follow from the first one, its radial velocity set right."""
  folder = testdata / 'orbits' / 'llm-prompts'
  shipped = np.load(folder / f'true_state_{number}.npy')
  first = shipped[0].copy()
  unit = first[:2] / np.hypot(*first[:2])
  first[2:4] -= 2 * (first[2:4] @ unit) * unit
  item = elements(first)
  axis, e, period, step = GOLDEN[number]
  np.testing.assert_allclose(item.axis, axis, rtol=1e-5)
  np.testing.assert_allclose(item.eccentricity, e, rtol=2e-4)
  np.testing.assert_allclose(item.period, period, rtol=1e-5)
  item = item._replace(step=np.array([step]))
  result = orbits.states(item, 900)[0, ::2]
  np.testing.assert_allclose(result[:, :2], shipped[:, :2], atol=3e-4 * axis)
  np.testing.assert_allclose(
    (result[:, :2] * result[:, 2:]).sum(1),
    -(shipped[:, :2] * shipped[:, 2:4]).sum(1),
    atol=2e-3,
  )
