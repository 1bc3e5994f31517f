"""Fitted orbits: the reference's, true ones, and how far they are off."""

import numpy as np
import pytest

from tests.kernels import orbits_ref as ref
from wm import core
from wm.core import registry
from wm.kernels import orbit_fits


def shown(spec: str, num: int, seed: int = 3):
  """A world's motion, and centres of bins of planets and suns [N, T, 2]."""
  world = registry.make('world', spec)
  sequences = world.sample(num, seed)
  motion = world.trajectory(sequences)
  tokens = sequences.tokens[:, 2:].reshape(motion.position.shape)
  seen = world.coordinates(tokens)
  return motion, seen[:, ::2], seen[:, 1::2], world.width


@pytest.fixture(scope='module')
def pairs():
  motion, planet, sun, width = shown('orbits()', 200)
  return motion, planet, sun, orbit_fits.fit(planet, sun, motion.step, width)


def test_what_is_left_is_rounding(pairs):
  motion, planet, sun, result = pairs
  assert result.good.all()
  assert np.median(result.rounding) == pytest.approx(1, abs=0.02)
  assert result.rounding.max() < 1.3
  true = motion.position.reshape(len(planet), -1, 2, 2)
  off = result.bodies(planet.shape[1]) - true
  seen = np.stack([planet, sun], axis=2) - true
  # Forty frames tell more than one: a third of the error of the bins.
  assert (off**2).mean() < (seen**2).mean() / 8


def test_masses_are_found_within_their_errors(pairs):
  motion, _, _, result = pairs
  true = motion.state[:, 0, 4:]
  off = np.log(result.mass / true)
  assert np.abs(np.median(off, axis=0)).max() < 0.003
  assert np.quantile(np.abs(off), 0.9, axis=0) == pytest.approx(
    [0, 0], abs=0.03
  )
  share = true[:, 0] / true.sum(1)
  score = (result.share - share) / result.errors[:, 2]
  assert 0.9 < score.std() < 1.35
  r = np.hypot(*np.moveaxis(result.places(40), -1, 0))
  assert np.abs(r / np.hypot(*motion.state[:, ::2, :2].T).T - 1).max() < 0.1


def test_unrounded_positions_give_the_elements():
  """Known answers: what was put in, to rounding."""
  theta = np.array([0.3, -0.2, 0.25, 2.0, 0.4, 1.0, 0.5, 1.5])
  places = ref.seen(theta, 0.15, 30)[None]
  sample = places[:, :, 0].copy(), places[:, :, 1].copy()
  sample[1][0, 7] = np.nan  # A row that was not seen.
  result = orbit_fits.fit(*sample, np.array([0.15]), 1e-6)
  np.testing.assert_allclose(result.centre[0], theta[:2], atol=1e-9)
  np.testing.assert_allclose(result.share, 0.25, atol=1e-9)
  np.testing.assert_allclose(result.axis, 2.0, atol=1e-8)
  np.testing.assert_allclose(result.mass[0], [0.375, 1.125], rtol=1e-8)
  np.testing.assert_allclose(
    result.vector[0], 0.4 * np.array([np.cos(1), np.sin(1)]), atol=1e-8
  )
  np.testing.assert_allclose(result.bodies(30), places, atol=1e-8)


def test_no_least_squares_are_lower_than_the_references(pairs):
  motion, planet, sun, result = pairs
  width = 2 * 8.0 / 256
  for n in range(3):
    size, turn = (
      np.hypot(*result.vector[n]),
      np.arctan2(*result.vector[n, ::-1]),
    )
    first = [*result.centre[n], result.share[n], result.axis[n], size, turn]
    first += [result.longitude[n] - turn, result.mass[n].sum()]
    guess = np.array(first) * (1 + 1e-3)
    _, expected = ref.fit(planet[n], sun[n], motion.step[n], guess)
    free = 4 * planet.shape[1] - 8
    mine = (result.rounding[n] * width) ** 2 / 12 * free
    assert mine == pytest.approx(expected, rel=1e-6)


def test_slopes_are_those_of_differences():
  theta = np.array([0.1, 0.2, 0.2, 0.5, 0.3, -0.4, 1.0, 3.0])
  sides, place = np.zeros((2, 2)), np.zeros(2)
  slope, other = np.zeros((2, 8)), np.zeros((2, 8))
  orbit_fits.orbit(theta, 1.3, place, slope)
  for k in range(3, 8):
    for side, sign in zip(sides, (1, -1), strict=True):
      moved = theta + sign * 1e-6 * (np.arange(8) == k)
      orbit_fits.orbit(moved, 1.3, side, other)
    expected = (sides[0] - sides[1]) / 2e-6
    np.testing.assert_allclose(slope[:, k], expected, atol=1e-6)


def test_a_path_that_is_no_orbit_is_told():
  """Back and forth beside the sun, and standing still with it."""
  side = np.stack([np.ones(20), np.arange(20) % 4 - 1.5], axis=1)
  still = np.ones((20, 2))
  planet = np.stack([side, still])
  result = orbit_fits.fit(planet, 0 * planet, np.full(2, 0.1), 0.01)
  assert not result.good.any()


@pytest.mark.parametrize(
  ('frames', 'steps', 'said'),
  [(3, 1, 'is seen in 3 frames'), (9, 2, r'steps \(2,\)')],
)
def test_bad_input_is_told(frames, steps, said):
  planet = np.random.default_rng(0).normal(size=(1, frames, 2))
  with pytest.raises(core.InputError, match=said):
    orbit_fits.fit(planet, 0 * planet, np.ones(steps), 0.1)
