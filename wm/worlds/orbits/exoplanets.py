"""Masses of planets and of their stars, as the exoplanets that are known.

A gamma distribution of planets' masses below their 90th percentile, and a
log-normal one of stars' (Vafa et al. 2025, the published program). The numbers
below are fits of scipy 1.17 to 4,956 planets of the NASA Exoplanet Archive, in
the table that the program ships (sha256 891fa57ff658...), of which 4,460 are
light enough.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from scipy import special

from wm import core
from wm.worlds.base import csv_file

PLANET, STAR = 'planet_solar_mass', 'star_solar_mass'
LIGHTEST, HEAVIEST = 1e-9, 1e-3  # Solar masses of planets, clipped.
STARS = 0.1, 5.0  # Solar masses of stars, clipped.
SHARE = 90  # Percentile of planets' masses up to which they are fitted.


class Masses(NamedTuple):
  """Shape, location and scale of both distributions, in solar masses."""

  planet: tuple[float, float, float]
  star: tuple[float, float, float]

  def planets(self, uniform: np.ndarray) -> np.ndarray:
    """Masses of planets by inversion of uniform numbers."""
    shape, start, scale = self.planet
    found = start + scale * special.gammaincinv(shape, uniform)
    return np.clip(found, LIGHTEST, HEAVIEST)

  def stars(self, uniform: np.ndarray) -> np.ndarray:
    """Masses of stars by inversion of uniform numbers."""
    shape, start, scale = self.star
    found = start + scale * np.exp(shape * special.ndtri(uniform))
    return np.clip(found, *STARS)


FITTED = Masses(
  planet=(0.32020164517819, 6.009815e-8, 1.105594954623e-3),
  star=(0.20045013, -0.67936062, 1.62715089),
)


def read(path: str) -> tuple[np.ndarray, np.ndarray]:
  """Masses of planets and stars [N] of a table, solar masses.

  Raises:
    InputError: no such table, no such column, or a field of it that is empty,
      no finite number, or not positive; says which.
  """
  columns = csv_file.read(path, (PLANET, STAR))
  found = []
  for name in (PLANET, STAR):
    values = []
    for row, text in enumerate(columns[name], 1):
      value = _number(text)
      if not 0 < value < np.inf:
        raise core.InputError(
          f'{path}, row {row}: {name} is {text!r}; expected a finite mass > 0'
        )
      values.append(value)
    found.append(np.array(values))
  return found[0], found[1]


def _number(text: str) -> float:
  try:
    return float(text)
  except ValueError:
    return np.nan


@functools.cache
def fitted(path: str) -> Masses:
  """Distributions of a table's masses; '' is the built-in fit.

  Raises:
    InputError: as of `read`, or fewer than 20 different masses.
  """
  if not path:
    return FITTED
  from scipy import stats

  planets, stars = read(path)
  light = planets[planets < np.percentile(planets, SHARE)]
  for name, some in ((PLANET, light), (STAR, stars)):
    if len(np.unique(some)) < 20:
      raise core.InputError(
        f'{path}: {name} has {len(np.unique(some))} different masses to fit; '
        'expected at least 20'
      )
  shape, start, scale = map(float, stats.gamma.fit(light))
  planet = shape, start, scale
  shape, start, scale = map(float, stats.lognorm.fit(stars))
  return Masses(planet, (shape, start, scale))
