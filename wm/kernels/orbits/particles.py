"""Clouds of two-body orbits that agree with bins: a particle filter."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.kernels.base import pieces
from wm.kernels.orbits.motion import Systems, positions, states


class Prior(NamedTuple):
  """How two-body systems are drawn, one density for each of `DENSITIES`.

  Attributes:
    density: 'binaries': logarithms of axis, sun's mass and the planet's share
      of it uniform, and the eccentricity; 'two_body': axis and both masses
      uniform, the planet the lighter one; 'summary': axis, sun's mass and the
      logarithm of the planet's uniform. Of the last two the eccentricity is
      Beta.
    axis: bounds, AU.
    flattest: greatest eccentricity.
    beta: exponents of the eccentricity's density.
    star, planet: bounds of masses, solar masses; of 'binaries' `planet` holds
      shares of the sun's.
    centre: standard deviation of the centre of mass, AU.
  """

  density: str
  axis: tuple[float, float]
  flattest: float
  beta: tuple[float, float]
  star: tuple[float, float]
  planet: tuple[float, float]
  centre: float

  def array(self, step: float) -> np.ndarray:
    """[SIZE] float64 for compiled code; step: years from frame to frame."""
    which = DENSITIES.index(self.density)
    rest = *self.beta, *self.star, *self.planet, self.centre, step
    return np.array([which, *self.axis, self.flattest, *rest], np.float64)


NUMBERS = 8  # Of a particle.
DENSITIES = ('binaries', 'two_body', 'summary')


def cloud(systems: Systems) -> np.ndarray:
  """[N, 8] float64 particles of systems of one planet; see particles_numba."""
  place, moving = positions(systems, 2), states(systems, 1)[:, 0]
  masses = np.log(np.column_stack([systems.star, systems.mass[:, 0]]))
  return np.concatenate([place[:, 0], place[:, 1], moving[:, 2:], masses], 1)


class Grid(NamedTuple):
  """Half of the box's width in AU, and bins along an axis."""

  box: float
  bins: int

  @property
  def per_unit(self) -> float:
    """Bins in an AU."""
    return self.bins / (2 * self.box)


def observe(
  clouds: np.ndarray,
  alive: np.ndarray,
  bins: np.ndarray,
  tokens: np.ndarray,
  priors: np.ndarray,
  sweeps: int,
  grid: Grid,
  seeds: np.ndarray,
) -> None:
  """Rules out, in place, what disagrees with one further bin of each row.

  Args:
    clouds: [R, N, 8] float64.
    alive: [R] int64, the first so many particles count.
    bins: [R, T] int32, all seen so far; one that no orbit reaches becomes -1.
    tokens: [R] int64 place of the last one; frames have four: x and y of the
      planet, and of the sun.
    priors: [R, SIZE], see `Prior.array`.
    sweeps: moves of each particle whenever few are left.
    grid: of the bins.
    seeds: [R] uint32; row r depends on seeds[r] alone.
  """
  if clouds.shape[1] < 16:
    raise core.InputError(
      f'{clouds.shape[1]} particles were given; expected at least 16'
    )
  from wm.kernels.orbits import particles_numba

  for rows in pieces.slices(len(clouds), 8):
    given = clouds[rows], alive[rows], bins[rows], tokens[rows], priors[rows]
    particles_numba.observe_all(
      *given, sweeps, grid.box, grid.per_unit, seeds[rows]
    )


def counts(
  clouds: np.ndarray,
  alive: np.ndarray,
  tokens: np.ndarray,
  priors: np.ndarray,
  grid: Grid,
) -> np.ndarray:
  """[R, bins] int64 particles by the bin of each row's next token.

  tokens: [R] int64 place of the next one; what is outside the box is left out.
  """
  from wm.kernels.orbits import particles_numba

  return pieces.run_rows(
    particles_numba.counts,
    (clouds, alive, tokens, priors),
    *(grid.box, grid.per_unit, grid.bins),
  )
