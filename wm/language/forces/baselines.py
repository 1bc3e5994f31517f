"""Who could answer: what the told forces say, with and without Newton's law.

Each knows what the published prompt shows, the planet's places and the told
forces; `newton_true` knows the sun's place besides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import optimize

from wm.language.forces.systems import System

SOLVED = 1e-14  # Relative tolerance of the fit.


def constant(system: System) -> np.ndarray:
  """[T] the median of the told forces."""
  told = system.force[system.told]
  return np.full(len(system.force), np.median(told))


def mean(system: System) -> np.ndarray:
  """[T] the mean of the told forces."""
  return np.full(len(system.force), system.force[system.told].mean())


def interpolation(system: System) -> np.ndarray:
  """[T] straight between told steps, level before the first and after the last.

  Steps are the numbers of the rows that are shown.
  """
  at = np.arange(len(system.force))
  return np.interp(at, system.told, system.force[system.told])


def line(system: System) -> np.ndarray:
  """[T] a straight line in time, fitted to the told forces."""
  at, told = np.arange(len(system.force)), system.told
  away = told - told.mean()
  total = float(away @ away)
  force = system.force[told]
  slope = away @ force / total if total else 0.0
  return force.mean() + slope * (at - told.mean())


def newton_at(system: System, sun: np.ndarray) -> np.ndarray:
  """[T] c / r^2 with the mean c of the told forces, for a sun [2]."""
  square = ((system.places - sun) ** 2).sum(1)
  factor = (system.force * square)[system.told].mean()
  return factor / square


def newton_origin(system: System) -> np.ndarray:
  """[T] Newton's law with the sun at the origin, as the prompt has it."""
  return newton_at(system, np.zeros(2))


def newton_true(system: System) -> np.ndarray:
  """[T] Newton's law with the sun where it is."""
  return newton_at(system, system.sun)


def newton_fitted(system: System) -> np.ndarray:
  """[T] Newton's law; the sun and the factor are fitted to the told forces.

  Least squares of logarithms; steps begin at the origin. With fewer than three
  told forces the sun is left there.
  """
  if len(system.told) < 3:
    return newton_origin(system)
  places = system.places[system.told]
  aim = np.log(system.force[system.told])
  size = np.sqrt((places**2).sum(1).mean())

  def square(sun: np.ndarray) -> np.ndarray:
    return np.log(((places - sun) ** 2).sum(1))

  def rest(sun: np.ndarray) -> np.ndarray:
    found = aim + square(sun * size)
    return found - found.mean()

  found = optimize.least_squares(
    rest, np.zeros(2), xtol=SOLVED, ftol=SOLVED, gtol=SOLVED
  )
  sun = found.x * size
  factor = np.exp((aim + square(sun)).mean())
  return factor / ((system.places - sun) ** 2).sum(1)


BASELINES: dict[str, Callable[[System], np.ndarray]] = {
  'constant': constant,
  'mean': mean,
  'interpolation': interpolation,
  'line': line,
  'newton_origin': newton_origin,
  'newton_fitted': newton_fitted,
  'newton_true': newton_true,
}


def said(name: str, system: System) -> np.ndarray:
  """[T] what a baseline says; NaN of a system of which no force is told."""
  if not len(system.told):
    return np.full(len(system.force), np.nan)
  return BASELINES[name](system)
