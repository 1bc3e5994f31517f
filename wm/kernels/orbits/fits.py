"""Orbits of two bodies, fitted by least squares to where they were seen."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.kernels.base import checks, pieces
from wm.kernels.orbits.motion import GRAVITY

# Squares left that are more than this many times those of rounding to bins.
POOR = 2.0
FEWEST = 4  # Frames in which both bodies are seen.


class Fits(NamedTuple):
  """N fitted orbits, which planets run counterclockwise.

  Attributes:
    centre: [N, 2] float64 where the centre of mass rests, AU.
    share: [N] the planet's share of the mass.
    axis: [N] semi-major axis of the orbit from the sun, AU.
    vector: [N, 2] eccentricity, in the direction of the periapsis.
    longitude: [N] mean longitude at frame 0, radians.
    motion: [N] mean motion, radians a year.
    step: [N] years from frame to frame.
    covariance: [N, 8, 8] of centre, share, log axis, vector, longitude and
      motion, of positions rounded to bins; NaN where they are not fixed.
    rounding: [N] root mean square of what is left, over that of rounding to
      bins; NaN where no orbit goes through what was seen.
  """

  centre: np.ndarray
  share: np.ndarray
  axis: np.ndarray
  vector: np.ndarray
  longitude: np.ndarray
  motion: np.ndarray
  step: np.ndarray
  covariance: np.ndarray
  rounding: np.ndarray

  @property
  def errors(self) -> np.ndarray:
    """[N, 8] standard errors, the roots of the covariance's diagonal."""
    spread = np.diagonal(self.covariance, axis1=1, axis2=2)
    return np.sqrt(np.maximum(spread, 0))

  @property
  def good(self) -> np.ndarray:
    """[N] bool: does the orbit explain what was seen, and is it fixed by it?"""
    return (self.rounding < POOR) & np.isfinite(self.errors).all(-1)

  @property
  def mass(self) -> np.ndarray:
    """[N, 2] planet and sun, solar masses, by Kepler's third law."""
    total = self.motion**2 * self.axis**3 / GRAVITY
    return np.stack([self.share * total, (1 - self.share) * total], axis=-1)

  def places(self, frames: int) -> np.ndarray:
    """[N, frames, 2] positions of planets from their suns, AU."""
    from wm.kernels.orbits import fits_numba

    return fits_numba.places(self.theta, self.step, frames)

  def bodies(self, frames: int) -> np.ndarray:
    """[N, frames, 2 bodies, 2] positions of planet and sun, AU."""
    place = self.places(frames)[:, :, None]
    part = np.stack([1 - self.share, -self.share], axis=-1)
    return self.centre[:, None, None] + part[:, None, :, None] * place

  def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[N, K, 2] AU at rows [N, K], and standard errors; see `foretold`."""
    return foretold(self.theta, self.covariance, self.step, rows)

  @property
  def theta(self) -> np.ndarray:
    """[N, 8] what was fitted, in the order of `errors`."""
    columns = (
      *self.centre.T,
      self.share,
      np.log(self.axis),
      *self.vector.T,
      self.longitude,
      self.motion,
    )
    return np.stack(columns, axis=-1)


def foretold(
  theta: np.ndarray, covariance: np.ndarray, step: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """[N, K, 2] positions at rows [N, K], AU, and their standard errors.

  Rows are planet, sun, planet, ..., one frame after the other. theta,
  covariance, step: as of `Fits`.
  """
  from wm.kernels.orbits import fits_numba

  arrays = (
    checks.frozen(theta, np.float64),
    checks.frozen(covariance, np.float64),
    checks.frozen(step, np.float64),
    checks.frozen(rows, np.int64),
  )
  place, error = pieces.run_rows(fits_numba.foretold, arrays)
  return place, error


def fit(
  planet: np.ndarray, sun: np.ndarray, step: np.ndarray, width: float
) -> Fits:
  """Least squares of all coordinates, by Levenberg and Marquardt.

  The law is Kepler's, the centre of mass rests, and masses follow: their sum
  from the period, the planet's share from how far the sun moves.

  Args:
    planet, sun: [N, T, 2] float64 centres of bins, AU, frame by frame; NaN
      where not seen.
    step: [N] years from frame to frame; less than half of a period.
    width: of a bin, AU.

  Raises:
    InputError: shapes do not fit, or bodies that are seen together in fewer
      than FEWEST frames.
  """
  from wm.kernels.orbits import fits_numba

  planet, sun = np.asarray(planet), np.asarray(sun)
  num = len(planet)
  if (
    planet.shape != sun.shape
    or planet.shape[2:] != (2,)
    or np.shape(step) != (num,)
  ):
    raise core.InputError(
      f'planets have shape {planet.shape}, suns {sun.shape}, steps '
      f'{np.shape(step)}; expected [N, T, 2] twice and [N]'
    )
  both = np.isfinite(planet - sun).all(-1).sum(-1)
  if num and both.min() < FEWEST:
    raise core.InputError(
      f'orbit {int(both.argmin())} is seen in {int(both.min())} frames; '
      f'expected at least {FEWEST}'
    )
  arrays = (
    checks.frozen(planet, np.float64),
    checks.frozen(sun, np.float64),
    checks.frozen(step, np.float64),
  )
  theta, squares, inverse = pieces.run_rows(fits_numba.fits, arrays)
  seen = np.isfinite(planet).sum((1, 2)) + np.isfinite(sun).sum((1, 2))
  free = np.maximum(seen - fits_numba.SIZE, 1)
  noise = width / 12**0.5
  return Fits(
    theta[:, :2],
    theta[:, 2],
    np.exp(theta[:, 3]),
    theta[:, 4:6],
    theta[:, 6],
    theta[:, 7],
    np.asarray(step, np.float64),
    inverse * noise**2,
    np.sqrt(squares / free) / noise,
  )
