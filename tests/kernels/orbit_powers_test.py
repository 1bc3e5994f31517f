"""Powers of forces, from places alone: of Newton's and of other laws."""

import numpy as np
import pytest

from tests.kernels import orbits_ref as ref
from tests.kernels.orbit_fits_test import shown
from wm.kernels import orbit_fits

STEP, FRAMES = 0.1, 40


def made(power: float, num: int, seed: int = 0) -> np.ndarray:
  """[num, FRAMES, 2] paths of about a turn and a half and more."""
  rng = np.random.default_rng(seed)
  paths = []
  for _ in range(num):
    r, turn = rng.uniform(1.5, 3), rng.uniform(0, 2 * np.pi)
    out = np.array([np.cos(turn), np.sin(turn)])
    pull = 39.5 * rng.uniform(1, 3) * 2.0 ** (power - 2)
    swift = rng.uniform(0.6, 0.85) * np.sqrt(pull * r ** (1 - power))
    side = out[::-1] * (-1, 1) * swift
    years = np.arange(FRAMES) * STEP
    paths.append(ref.path(r * out, side, pull, power, years))
  return np.array(paths)


def seen(paths: np.ndarray, share: float, width: float):
  """Centres of bins of planets and suns whose centre of mass is at .3, .1."""
  both = (1 - share) * paths + (0.3, 0.1), -share * paths + (0.3, 0.1)
  return [(np.floor(place / width) + 0.5) * width for place in both]


def test_paths_are_those_of_the_reference():
  theta = np.array([0, 0, 0.2, 2.0, 0.5, -0.5, 3.0, np.log(12.0), 1.4])
  out = np.empty((FRAMES, 2))
  orbit_fits.path(theta, 1.5, STEP, 20, out)
  pull = 12.0 * 1.5**1.4
  years = np.arange(FRAMES) * STEP
  expected = ref.path(theta[3:5], theta[5:7], pull, 1.4, years)
  np.testing.assert_allclose(out, expected, atol=2e-5)


@pytest.mark.parametrize('power', [1.0, 2.0])
def test_the_power_is_found_without_a_law(power):
  """Within its errors; the power of another law is many errors away."""
  width = 1 / 32
  inputs = seen(made(power, 8), 0.25, width)
  result = orbit_fits.fit_power(*inputs, np.full(8, STEP), width)
  good = result.good
  assert good.sum() >= 6
  score = (result.power - power)[good] / result.error[good]
  assert np.abs(score).max() < 5
  assert result.rounding[good].max() < 1.4
  assert np.median(result.error[good]) < 0.02


def test_the_worlds_orbits_tell_newtons_power():
  motion, planet, sun, width = shown('orbits(bins=100)', 60)
  result = orbit_fits.fit_power(planet, sun, motion.step, width)
  assert result.good.all()
  score = (result.power - 2) / result.error
  assert 0.75 < score.std() < 1.3
  weight = result.error**-2.0
  mean = (weight * result.power).sum() / weight.sum()
  assert mean == pytest.approx(2, abs=0.003)
  # What no orbit goes through has no power.
  none = orbit_fits.fit_power(
    np.ones((1, 9, 2)), np.ones((1, 9, 2)), [0.1], width
  )
  assert not none.good.any()
