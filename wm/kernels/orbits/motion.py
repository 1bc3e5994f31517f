"""Positions of planets and their suns, at equal steps of time.

Lengths are in astronomical units, times in years, masses in solar masses.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.kernels.base import checks, pieces

GRAVITY = 39.4784176044  # AU^3 / (year^2 solar mass), 4 pi^2.


class Systems(NamedTuple):
  """N systems of up to K planets.

  Attributes:
    planets: [N] int64, how many planets each has, 1..K.
    axis: [N, K] float64 semi-major axis of the orbit around the sun, AU.
    eccentricity: [N, K] float64, 0 <= e < 1.
    periapsis: [N, K] float64 direction of the periapsis, radians.
    mean: [N, K] float64 mean anomaly at frame 0, radians.
    mass: [N, K] float64 of each planet, solar masses; 0 where there is none.
    star: [N] float64 mass of the sun, solar masses.
    centre: [N, 2] float64, AU: where the centre of mass rests, or the sun
      itself where it is pinned.
    step: [N] float64 years from frame to frame.
    pinned: [N] bool: does the sun stand still?
  """

  planets: np.ndarray
  axis: np.ndarray
  eccentricity: np.ndarray
  periapsis: np.ndarray
  mean: np.ndarray
  mass: np.ndarray
  star: np.ndarray
  centre: np.ndarray
  step: np.ndarray
  pinned: np.ndarray

  @property
  def motion(self) -> np.ndarray:
    """[N, K] mean motion of each planet, radians a year (Kepler's third law).

    Planets do not pull each other: mu = G (star + planet).
    """
    mu = GRAVITY * (self.star[:, None] + self.mass)
    return np.sqrt(mu / self.axis**3)

  @property
  def period(self) -> np.ndarray:
    """[N, K] years of each planet's orbit."""
    return 2 * np.pi / self.motion

  def take(self, rows: np.ndarray | slice) -> Systems:
    """The given rows."""
    return Systems(*(array[rows] for array in self))


def _arrays(systems: Systems) -> tuple[np.ndarray, ...]:
  """What compiled code is given; raises InputError for what is no orbit."""
  axis, e = systems.axis, systems.eccentricity
  mass = systems.star[:, None] + systems.mass
  if not ((axis > 0) & (e >= 0) & (e < 1) & (mass > 0)).all():
    raise core.InputError(
      f'orbits with axes from {axis.min():g} AU, eccentricities '
      f'{e.min():g}..{e.max():g} and masses from {mass.min():g}; expected '
      'axes > 0, 0 <= eccentricity < 1, masses > 0'
    )
  one = np.stack(
    [axis, e, systems.periapsis, systems.mean, systems.motion], axis=-1
  )
  total = systems.star + systems.mass.sum(1)
  return (
    checks.frozen(one, np.float64),
    checks.frozen(systems.mass / total[:, None], np.float64),
    checks.frozen(systems.planets, np.int64),
    checks.frozen(systems.centre, np.float64),
    checks.frozen(systems.step, np.float64),
    checks.frozen(systems.pinned, np.bool_),
  )


def positions(systems: Systems, rows: int) -> np.ndarray:
  """[N, rows, 2] float64 positions in AU of planets 1..K, then the sun.

  Frame after frame; the last one may be cut.
  """
  from wm.kernels.orbits import orbits_numba

  return pieces.run_rows(orbits_numba.positions, _arrays(systems), rows)


def states(systems: Systems, rows: int) -> np.ndarray:
  """[N, rows, 4] float64: x, y in AU and velocity in AU / year, from the sun.

  Of planets; NaN in rows of the sun.
  """
  from wm.kernels.orbits import orbits_numba

  orbits, _, planets, _, steps, _ = _arrays(systems)
  given = orbits, planets, steps
  return pieces.run_rows(orbits_numba.states, given, rows)


def bins(
  systems: Systems, rows: int, box: float, num: int
) -> tuple[np.ndarray, np.ndarray]:
  """Positions as bins of equal width along both axes of a square box.

  Args:
    systems: N of them.
    rows: R, positions of each.
    box: half of the width of the box around 0, AU.
    num: bins along an axis.

  Returns:
    bins: [N, R, 2] int32 in 0..num - 1, clipped.
    outside: [N] int64, rows whose position is outside of the box.
  """
  from wm.kernels.orbits import orbits_numba

  rest = rows, float(box), num / (2 * box), num
  return pieces.run_rows(orbits_numba.bins, _arrays(systems), *rest)
