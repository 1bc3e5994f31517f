"""Orbits in plain Python: what `wm.kernels.orbits` computes, one at a time."""

from __future__ import annotations

import math

import numpy as np

from wm.kernels.orbits import GRAVITY, Systems


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


def seen(theta: np.ndarray, step: float, frames: int) -> np.ndarray:
  """[frames, 2 bodies, 2] positions of a planet and its sun.

  theta: centre x and y, planet's share of the mass, axis, eccentricity,
  periapsis, mean anomaly at frame 0, total mass.
  """
  item = Systems(
    planets=np.array([1]),
    axis=theta[None, 3:4],
    eccentricity=theta[None, 4:5],
    periapsis=theta[None, 5:6],
    mean=theta[None, 6:7],
    mass=theta[None, 2:3] * theta[7],
    star=(1 - theta[2:3]) * theta[7],
    centre=theta[None, :2],
    step=np.array([step]),
  )
  return positions(item, 2 * frames)[0].reshape(frames, 2, 2)


def fit(
  planet: np.ndarray, sun: np.ndarray, step: float, first: np.ndarray
) -> tuple[np.ndarray, float]:
  """Theta of `seen`, and the squares left, by SciPy from a first guess.

  planet, sun: [T, 2], NaN where unseen.
  """
  from scipy import optimize

  places = np.stack([planet, sun], axis=1)

  def left(theta: np.ndarray) -> np.ndarray:
    rest = seen(theta, step, len(planet)) - places
    return rest[np.isfinite(rest)]

  result = optimize.least_squares(
    left, first, x_scale='jac', xtol=1e-12, ftol=1e-12, gtol=1e-12
  )
  return result.x, float(2 * result.cost)


def following(bins: np.ndarray, seen: np.ndarray, num: int) -> np.ndarray:
  """[num] how many of N systems go on with each bin: exact, where N is large.

  What `particles` comes near to with few: of all systems that were drawn, those
  count whose bins begin with the ones seen.

  Args:
    bins: [N, T] int32 of drawn systems.
    seen: [t] int32 of one system, t < T.
    num: bins of an axis.
  """
  agree = [row for row in bins if (row[: len(seen)] == seen).all()]
  return np.bincount([row[len(seen)] for row in agree], minlength=num)


def coordinate(particle: np.ndarray, years: float, which: int) -> float:
  """Coordinate 0..3 of a particle at a time: planet's x, y, sun's x, y."""
  place, sun, velocity = particle[:2], particle[2:4], particle[4:6]
  star, planet = np.exp(particle[6:])
  share = planet / (star + planet)
  centre = sun + share * (place - sun)
  x, y = _moved(place - sun, velocity, star + planet, years)
  body = 1 - share if which < 2 else -share
  return float(centre[which % 2] + body * (x, y)[which % 2])


def _moved(
  place: np.ndarray, velocity: np.ndarray, mass: float, years: float
) -> np.ndarray:
  """Where a planet is some years later: the equation of motion, in steps."""
  steps = 1000
  h, x, v = years / steps, place.astype(float), velocity.astype(float)

  def pull(x: np.ndarray) -> np.ndarray:
    return -GRAVITY * mass * x / np.hypot(*x) ** 3

  for _ in range(steps):  # Runge and Kutta's, of fourth order.
    v1, a1 = v, pull(x)
    v2, a2 = v + h / 2 * a1, pull(x + h / 2 * v1)
    v3, a3 = v + h / 2 * a2, pull(x + h / 2 * v2)
    v4, a4 = v + h * a3, pull(x + h * v3)
    x = x + h / 6 * (v1 + 2 * v2 + 2 * v3 + v4)
    v = v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
  return x


def path(
  place: np.ndarray,
  speed: np.ndarray,
  pull: float,
  power: float,
  years: np.ndarray,
) -> np.ndarray:
  """[T, 2] places at times under a pull `pull` r^-power, by SciPy."""
  from scipy import integrate

  def slope(_: float, state: np.ndarray) -> np.ndarray:
    r = math.hypot(*state[:2])
    return np.concatenate([state[2:], -pull * r ** (-power - 1) * state[:2]])

  first = np.concatenate([place, speed])
  result = integrate.solve_ivp(
    slope, (0, years[-1]), first, t_eval=years, rtol=1e-9, atol=1e-10
  )
  return result.y[:2].T
