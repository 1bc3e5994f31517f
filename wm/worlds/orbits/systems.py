"""Random planetary systems, each a function of a seed and its number.

kind         masses                          axes        eccentricities
binaries     sun .3..3, planet .1...5 of it  1.5..3.5    uniform to .6
two_body     both uniform 1e-4..1.01e-2      .3..32      Beta(.867, 3.03)
exoplanets   fitted, see `exoplanets`        .3..32      Beta(.867, 3.03)
summary      planet 1e-7..1e-3, sun .5..5    .3..42      Beta(.867, 3.03)
solar        the sun and its planets, which start anywhere on their orbits

Masses of 'binaries' and planets' of 'summary' are log-uniform, suns' of
'summary' uniform. The last three are the inductive-bias probes' (Vafa et al.
2025): 'two_body' and 'exoplanets' of the program, 'summary' of the paper.

Masses of planets follow a gamma distribution, fitted to exoplanets below their
90th percentile, and those of stars a log-normal one (Vafa et al. 2025, the
published program). The numbers below are fits of scipy 1.17 to 4,956 planets of
the NASA Exoplanet Archive, in the table that the program ships (sha256
891fa57ff658...), of which 4,460 are light enough.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
from scipy import special

from wm import core
from wm.core import basics
from wm.kernels import orbits
from wm.worlds.base import csv_file

# What a uniform number is for.
(COUNT, AXIS, ECCENTRICITY, MASS, STAR, STEP, CENTRE, TURN, MEAN, SUN) = range(
  10
)
KINDS = ('binaries', 'two_body', 'exoplanets', 'summary', 'solar')
AXES = {
  'binaries': (1.5, 3.5),
  'two_body': (0.3, 32.0),
  'exoplanets': (0.3, 32.0),
  'summary': (0.3, 42.0),
}
ROUNDEST, BETA = 0.6, (0.867, 3.03)
BOTH = 1e-4, 1.01e-2  # Solar masses of two bodies alike.
SUNS, RATIOS = (0.3, 3.0), (0.1, 0.5)
LIGHT = 1e-7, 1e-3
# What a system of the published program shares of its seeds with the next:
# planets 6..10 are planets 1..5 of that one.
SHARED = 5


class SolarPlanet(NamedTuple):
  """One of the sun's planets.

  Attributes:
    name: in English.
    ratio: mass of the sun by that of the planet and its moons (IAU 2009).
    axis, eccentricity, periapsis: of the orbit at J2000, AU and degrees
      (Standish, approximate positions of the planets, JPL).
  """

  name: str
  ratio: float
  axis: float
  eccentricity: float
  periapsis: float


SOLAR = (
  SolarPlanet('Mercury', 6.0236e6, 0.38709927, 0.20563593, 77.45779628),
  SolarPlanet('Venus', 4.08523719e5, 0.72333566, 0.00677672, 131.60246718),
  SolarPlanet('Earth', 3.28900559e5, 1.00000261, 0.01671123, 102.93768193),
  SolarPlanet('Mars', 3.09870359e6, 1.52371034, 0.09339410, -23.94362959),
  SolarPlanet('Jupiter', 1.047348644e3, 5.20288700, 0.04838624, 14.72847983),
  SolarPlanet('Saturn', 3.4979018e3, 9.53667594, 0.05386179, 92.59887831),
  SolarPlanet('Uranus', 2.290298e4, 19.18916464, 0.04725744, 170.95427630),
  SolarPlanet('Neptune', 1.941226e4, 30.06992276, 0.00859048, 44.96476227),
)


class Options(NamedTuple):
  """What systems are drawn; see `orbits.World` for most.

  Attributes:
    shared: do systems share planets, see SHARED?
    pinned: does the sun of several planets stand still?
  """

  systems: str
  planets: int
  steps: tuple[float, ...]
  centre: float
  masses: Masses
  shared: bool
  pinned: bool


def _uniform(*words: np.ndarray | int) -> np.ndarray:
  """Uniform float64 in (0, 1), a function of the words."""
  top = (basics.hash64(*words) >> np.uint64(12)).astype(np.float64)
  return (top + 0.5) * 2.0**-52


def _log_uniform(uniform: np.ndarray, low: float, high: float) -> np.ndarray:
  return low * (high / low) ** uniform


def draw(
  options: Options, seed: int | np.ndarray, numbers: np.ndarray
) -> orbits.Systems:
  """The systems of some numbers [N]; each depends on (seed, number) alone.

  seed: one for all, or [N] int64.
  """
  numbers, seeds = np.asarray(numbers, np.int64), np.asarray(seed, np.int64)
  most, kind = options.planets, options.systems
  slot = np.arange(most)[None]

  def one(what: int) -> np.ndarray:
    return _uniform(seeds, what, numbers)

  def each(what: int) -> np.ndarray:
    key, place = numbers[:, None], slot
    if options.shared and what in (AXIS, ECCENTRICITY, MASS):
      key, place = SHARED * key + slot, 0 * slot
    return _uniform(seeds[..., None], what, key, place)

  count = 1 + (one(COUNT) * most).astype(np.int64)
  if kind == 'solar':
    axis, e, turn, mass, star = _solar(most, one(COUNT))
    count[:] = most
  else:
    axis, e, mass, star = _drawn(options, one, each)
    turn = 2 * np.pi * each(TURN)
  which = (one(STEP) * len(options.steps)).astype(np.int64)
  words = seeds[..., None], CENTRE, numbers[:, None], np.arange(2)
  normal = special.ndtri(_uniform(*words))
  systems = orbits.Systems(
    planets=count,
    axis=axis,
    eccentricity=e,
    periapsis=turn,
    mean=2 * np.pi * each(MEAN),
    mass=np.where(slot < count[:, None], mass, 0.0),
    star=star,
    centre=options.centre * normal,
    step=np.array(options.steps)[which],
    pinned=options.pinned & (count > 1),
  )
  return _pinned(systems, seeds, numbers) if systems.pinned.any() else systems


def _drawn(options, uniform, each) -> tuple[np.ndarray, ...]:
  """Axes, eccentricities and masses of planets [N, K]; masses of suns [N]."""
  kind, masses = options.systems, options.masses
  low, high = AXES[kind]
  if kind == 'binaries':
    axis, e = _log_uniform(each(AXIS), low, high), ROUNDEST * each(ECCENTRICITY)
  else:
    axis = low + (high - low) * each(AXIS)
    e = special.betaincinv(*BETA, each(ECCENTRICITY))
  if kind == 'binaries':
    star = _log_uniform(uniform(STAR), *SUNS)
    mass = star[:, None] * _log_uniform(each(MASS), *RATIOS)
  elif kind == 'two_body':
    low, high = BOTH
    pair = low + (high - low) * np.stack([each(MASS)[:, 0], uniform(STAR)])
    mass, star = pair.min(0)[:, None], pair.max(0)
  elif kind == 'summary':
    mass, star = _log_uniform(each(MASS), *LIGHT), 0.5 + 4.5 * uniform(STAR)
  else:
    mass, star = masses.planets(each(MASS)), masses.stars(uniform(STAR))
  return axis, e, mass, star


def _solar(most: int, uniform: np.ndarray) -> tuple[np.ndarray, ...]:
  """As _drawn, with periapses before masses: all planets, or one of them."""
  table = np.array([planet[1:] for planet in SOLAR])
  rows = np.arange(len(SOLAR))[None]
  if most == 1:
    rows = (uniform * len(SOLAR)).astype(np.int64)[:, None]
  ratio, axis, e, turn = np.moveaxis(
    np.broadcast_to(table[rows], (len(uniform), most, 4)), -1, 0
  )
  star = np.ones(len(uniform))
  return axis, e, np.radians(turn), 1 / ratio, star


def _pinned(
  systems: orbits.Systems, seeds: np.ndarray, numbers: np.ndarray
) -> orbits.Systems:
  """Suns of several planets put where a wobble of one of these takes them."""
  uniform = _uniform(seeds[..., None], SUN, numbers[:, None], np.arange(2))
  chosen = (uniform[:, 0] * systems.planets).astype(np.int64)[:, None]
  alone = [
    np.take_along_axis(array, chosen, axis=1)
    for array in (
      systems.axis,
      systems.eccentricity,
      systems.periapsis,
      systems.mass,
    )
  ]
  axis, e, turn, mass = alone
  mean = 2 * np.pi * uniform[:, 1:]
  pair = systems._replace(
    planets=np.ones_like(systems.planets),
    axis=axis,
    eccentricity=e,
    periapsis=turn,
    mean=mean,
    mass=mass,
    pinned=np.zeros_like(systems.pinned),
  )
  sun = orbits.positions(pair, 2)[:, 1]
  centre = np.where(systems.pinned[:, None], sun, systems.centre)
  return systems._replace(centre=centre)


PLANET_MASS, STAR_MASS = 'planet_solar_mass', 'star_solar_mass'
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
    masses = start + scale * special.gammaincinv(shape, uniform)
    return np.clip(masses, LIGHTEST, HEAVIEST)

  def stars(self, uniform: np.ndarray) -> np.ndarray:
    """Masses of stars by inversion of uniform numbers."""
    shape, start, scale = self.star
    masses = start + scale * np.exp(shape * special.ndtri(uniform))
    return np.clip(masses, *STARS)


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
  columns = csv_file.read(path, (PLANET_MASS, STAR_MASS))
  columns_read = []
  for name in (PLANET_MASS, STAR_MASS):
    values = []
    for row, text in enumerate(columns[name], 1):
      value = _number(text)
      if not 0 < value < np.inf:
        raise core.InputError(
          f'{path}, row {row}: {name} is {text!r}; expected a finite mass > 0'
        )
      values.append(value)
    columns_read.append(np.array(values))
  return columns_read[0], columns_read[1]


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
  for name, masses in ((PLANET_MASS, light), (STAR_MASS, stars)):
    if len(np.unique(masses)) < 20:
      raise core.InputError(
        f'{path}: {name} has {len(np.unique(masses))} different masses to fit; '
        'expected at least 20'
      )
  shape, start, scale = map(float, stats.gamma.fit(light))
  planet = shape, start, scale
  shape, start, scale = map(float, stats.lognorm.fit(stars))
  return Masses(planet, (shape, start, scale))
