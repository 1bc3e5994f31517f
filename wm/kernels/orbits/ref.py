"""Orbits in plain Python: what `orbits_numba` computes, one at a time."""

from __future__ import annotations

import math

import numpy as np

from wm.kernels.orbits.motion import Systems


def anomaly(mean: float, e: float) -> float:
  """Eccentric anomaly x of a mean anomaly: x - e sin x = mean, by halving."""
  mean = math.remainder(mean, 2 * math.pi)
  low, high = mean - e, mean + e
  while True:
    middle = 0.5 * (low + high)
    if not low < middle < high:  # No number is between them.
      return middle
    if middle - e * math.sin(middle) > mean:
      high = middle
    else:
      low = middle


def state(systems: Systems, n: int, k: int, years: float) -> list[float]:
  """x, y, vx, vy of planet k of system n from its sun, at a time."""
  a, e = systems.axis[n, k], systems.eccentricity[n, k]
  turn, rate = systems.periapsis[n, k], systems.motion[n, k]
  x = anomaly(systems.mean[n, k] + rate * years, e)
  flat, speed = math.sqrt(1 - e * e), a * rate / (1 - e * math.cos(x))
  place = a * (math.cos(x) - e), a * flat * math.sin(x)
  velocity = -speed * math.sin(x), speed * flat * math.cos(x)
  ct, st = math.cos(turn), math.sin(turn)
  return [
    value
    for along, across in (place, velocity)
    for value in (ct * along - st * across, st * along + ct * across)
  ]


def positions(systems: Systems, rows: int) -> np.ndarray:
  """As `orbits.positions`."""
  out = np.zeros((len(systems.planets), rows, 2))
  for n, planets in enumerate(systems.planets.tolist()):
    total = systems.star[n] + systems.mass[n].sum()
    for row in range(rows):
      frame, body = divmod(row, planets + 1)
      years = frame * systems.step[n]
      seen = [np.array(state(systems, n, k, years)[:2]) for k in range(planets)]
      sun = np.array(systems.centre[n])
      if not systems.pinned[n]:
        for k, place in enumerate(seen):
          sun = sun - systems.mass[n, k] / total * place
      out[n, row] = sun + seen[body] if body < planets else sun
  return out


def states(systems: Systems, rows: int) -> np.ndarray:
  """As `orbits.states`."""
  out = np.full((len(systems.planets), rows, 4), np.nan)
  for n, planets in enumerate(systems.planets.tolist()):
    for row in range(rows):
      frame, body = divmod(row, planets + 1)
      if body < planets:
        out[n, row] = state(systems, n, body, frame * systems.step[n])
  return out
