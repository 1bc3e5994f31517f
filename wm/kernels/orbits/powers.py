"""By which power of the distance does a force fall? No law is assumed.

    theta   0, 1         2    3, 4     5, 6          7        8
            centre, AU   w    R, AU    V, AU / year  log pull power
                              at frame 0             at scale

The pull, in AU / year^2, is exp(theta[7]) (scale / r)^theta[8].
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wm.kernels.base import checks, chunked_calls
from wm.kernels.base.jit import njit
from wm.kernels.orbits import fits

SIZE = 9
SHARE, PLACE, SPEED, PULL, POWER = 2, 3, 5, 7, 8
ANGLE = 0.1  # radians of a step of integration, about
MOST = 200  # steps of a frame
FIRST, GROWTH = 8, 1.5  # frames fitted first, and by what they grow
STEPS = 30  # of a fit, accepted or not
DELTA = 1e-6  # of differences
RETRY = 1.3  # Left over, beside rounding, where another start is tried.
SPREAD = 1.0  # of powers around 2, while few frames are fitted


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
  planet, sun = np.asarray(planet), np.asarray(sun)
  first, noise = slice(FIRST), width / 12**0.5
  whole = fits.fit(planet, sun, step, width)
  part = fits.fit(planet[:, first], sun[:, first], step, width)
  arrays = planet, sun, step, whole.theta, part.theta
  frozen = tuple(checks.frozen(array, np.float64) for array in arrays)
  power, squares, inverse = chunked_calls.run_rows(_powers, frozen, noise)
  seen = np.isfinite(planet).sum((1, 2)) + np.isfinite(sun).sum((1, 2))
  free = np.maximum(seen - SIZE, 1)
  error = np.sqrt(np.maximum(inverse, 0)) * noise
  return Powers(power, error, np.sqrt(squares / free) / noise)


@njit(error_model='numpy')
def _powers(planet, sun, step, whole, part, noise) -> tuple[np.ndarray, ...]:
  """Powers [N], squares left [N], and the powers' parts of inverses [N].

  planet, sun: [N, T, 2], NaN where unseen; whole, part: [N, 8], see
  `fits`, orbits fitted to all frames and to the FIRST ones; noise: of
  coordinates. Where a fit that begins from all leaves more than rounding, more
  and more are fitted from the first ones on, as paths of other laws leave an
  orbit slowly; the better fit counts.
  """
  num, frames = planet.shape[:2]
  powers, squares = np.full(num, np.nan), np.full(num, np.nan)
  inverse, theta = np.full(num, np.nan), np.empty(SIZE)
  enough = (RETRY * noise) ** 2 * (4 * frames - SIZE)
  for n in range(num):
    for start in range(2):
      if squares[n] < enough:
        break
      orbit = whole[n] if start == 0 else part[n]
      if math.isnan(orbit[fits.RATE]):
        continue
      steps, scale = _steps(orbit, step[n]), _begin(orbit, theta)
      size = frames if start == 0 else min(FIRST, frames)
      while True:
        prior = 0.0 if size == frames else (noise / SPREAD) ** 2
        args = planet[n, :size], sun[n, :size], theta, scale, step[n], steps
        left, variance = _fit(*args, prior)
        if size == frames:
          break
        size = min(int(GROWTH * size), frames)
      if not left >= squares[n]:
        powers[n], squares[n], inverse[n] = theta[POWER], left, variance
  return powers, squares, inverse


@njit(error_model='numpy')
def _steps(theta, step) -> int:
  # Steps of a frame, by how fast the fitted orbit turns where it is nearest.
  e = math.sqrt(theta[fits.H] ** 2 + theta[fits.K] ** 2)
  angle = step * theta[fits.RATE] / (1 - e) ** 1.5
  return min(max(int(angle / ANGLE) + 1, 2), MOST)


@njit(error_model='numpy')
def path(theta, scale, step, steps, out) -> None:
  """R at each frame into out [T, 2], by Runge and Kutta's fourth order.

  theta: see above; scale: AU; steps: of integration in a frame.
  """
  x, y, u, v = theta[PLACE], theta[PLACE + 1], theta[SPEED], theta[SPEED + 1]
  pull, half, square = math.exp(theta[PULL]), theta[POWER] / 2, scale * scale
  h = step / steps
  for t in range(len(out)):
    out[t, 0], out[t, 1] = x, y
    for _ in range(steps if t + 1 < len(out) else 0):
      sx = sy = su = sv = 0.0
      x1, y1, u1, v1 = x, y, u, v
      for k in range(4):
        r = x1 * x1 + y1 * y1
        f = -pull * (square / r) ** half / math.sqrt(r)
        a, b = f * x1, f * y1
        weight = 1.0 if k in (0, 3) else 2.0
        sx, sy = sx + weight * u1, sy + weight * v1
        su, sv = su + weight * a, sv + weight * b
        part = h if k == 2 else 0.5 * h
        x1, y1, u1, v1 = (
          x + part * u1,
          y + part * v1,
          u + part * a,
          v + part * b,
        )
      x, y = x + h / 6 * sx, y + h / 6 * sy
      u, v = u + h / 6 * su, v + h / 6 * sv


@njit(error_model='numpy')
def _squares(
  planet, sun, theta, scale, step, steps, prior, room, work
) -> float:
  # Squares of what is left, and J'J, J'r into work. room: [7, T, 2] paths.
  # prior: weight of the power's distance from 2.
  normal, gradient, row = work
  path(theta, scale, step, steps, room[0])
  for k in range(PLACE, SIZE):
    value = theta[k]
    theta[k] = value + DELTA
    path(theta, scale, step, steps, room[1 + k - PLACE])
    theta[k] = value
  for i in range(SIZE):
    gradient[i] = 0.0
    for j in range(SIZE):
      normal[i, j] = 0.0
  far, w = theta[POWER] - 2, theta[SHARE]
  total = prior * far * far
  gradient[POWER], normal[POWER, POWER] = -prior * far, prior
  for t in range(len(planet)):
    for body in range(2):
      seen, part = (planet, 1 - w) if body == 0 else (sun, -w)
      if math.isnan(seen[t, 0]):
        continue
      for axis in range(2):
        place = room[0, t, axis]
        left = seen[t, axis] - theta[axis] - part * place
        total += left * left
        row[0], row[1], row[SHARE] = 1.0 - axis, 1.0 * axis, -place
        for k in range(PLACE, SIZE):
          row[k] = part * (room[1 + k - PLACE, t, axis] - place) / DELTA
        for i in range(SIZE):
          gradient[i] += row[i] * left
          for j in range(i + 1):
            normal[i, j] += row[i] * row[j]
  return total


@njit(error_model='numpy')
def _fit(planet, sun, theta, scale, step, steps, prior) -> tuple[float, float]:
  # Fits theta from what is there: squares left, and the power's own part of
  # the inverse of J'J; NaN where it is not fixed.
  room = np.empty((1 + SIZE - PLACE, len(planet), 2))
  lower, move, trial = np.zeros((SIZE, SIZE)), np.zeros(SIZE), np.zeros(SIZE)
  work = np.zeros((SIZE, SIZE)), np.zeros(SIZE), np.zeros(SIZE)
  other = np.zeros((SIZE, SIZE)), np.zeros(SIZE), np.zeros(SIZE)
  damping = fits.DAMPING
  best = _squares(planet, sun, theta, scale, step, steps, prior, room, work)
  for _ in range(STEPS):
    if fits.damped(work[0], work[1], damping, lower, move):
      for i in range(SIZE):
        trial[i] = theta[i] + move[i]
      squares = _squares(
        planet, sun, trial, scale, step, steps, prior, room, other
      )
      if squares <= best:
        gain, best = best - squares, squares
        for i in range(SIZE):
          theta[i] = trial[i]
        work, other = other, work
        damping = max(damping / 10, fits.LEAST_DAMPING)
        if gain <= fits.DONE * best + 1e-30:
          break
        continue
    damping *= 10
    if damping > fits.MOST_DAMPING:
      break
  if not fits.factor(work[0], lower):
    return best, math.nan
  for i in range(SIZE):
    move[i] = 1.0 if i == POWER else 0.0
  fits.solve(lower, move)
  return best, move[POWER]


@njit(error_model='numpy')
def _begin(orbit, theta) -> float:
  # Theta of a fitted orbit; its scale.
  slope = np.empty((2, fits.SIZE))
  theta[0], theta[1], theta[SHARE] = orbit[0], orbit[1], orbit[fits.SHARE]
  fits.orbit(orbit, 0.0, theta[PLACE : PLACE + 2], slope)
  for axis in range(2):
    theta[SPEED + axis] = orbit[fits.RATE] * slope[axis, fits.LONGITUDE]
  scale = math.exp(orbit[fits.AXIS])
  theta[PULL] = math.log(orbit[fits.RATE] ** 2 * scale)
  theta[POWER] = 2.0
  return scale
