"""By which power of the distance does a force fall? No law is assumed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm.kernels.base import checks, pieces
from wm.kernels.orbits import fits


class Powers(NamedTuple):
  """Fits of N paths under a pull that falls as r^-power.

  Attributes:
    power: [N]; 2 is Newton's.
    error: [N] standard error, of positions rounded to bins; NaN where the path
      does not fix it.
    rounding: [N] as of `Fits`.
  """

  power: np.ndarray
  error: np.ndarray
  rounding: np.ndarray

  @property
  def good(self) -> np.ndarray:
    """[N] bool: does the path explain what was seen, and fix the power?"""
    return (self.rounding < fits.POOR) & (self.error < np.inf)


def fit_power(
  planet: np.ndarray, sun: np.ndarray, step: np.ndarray, width: float
) -> Powers:
  """Least squares of place, speed, pull and its power, path by path.

  Two bodies pull each other, the centre of mass rests, and the path is
  integrated; the first guesses are Kepler orbits of
  all frames and of the first ones. A round orbit does
  not tell the power: its error is large. Powers from 1 to 2 are found; paths of
  steeper ones may leave an orbit too fast, and are not good then.

  Args, raises: as of `fit`.
  """
  from wm.kernels.orbits import powers_numba

  planet, sun = np.asarray(planet), np.asarray(sun)
  first, noise = slice(powers_numba.FIRST), width / 12**0.5
  whole = fits.fit(planet, sun, step, width)
  part = fits.fit(planet[:, first], sun[:, first], step, width)
  arrays = planet, sun, step, whole.theta, part.theta
  given = tuple(checks.frozen(array, np.float64) for array in arrays)
  power, squares, inverse = pieces.run_rows(powers_numba.powers, given, noise)
  seen = np.isfinite(planet).sum((1, 2)) + np.isfinite(sun).sum((1, 2))
  free = np.maximum(seen - powers_numba.SIZE, 1)
  error = np.sqrt(np.maximum(inverse, 0)) * noise
  return Powers(power, error, np.sqrt(squares / free) / noise)
