"""Positions of planets and their suns, at equal steps of time.

Lengths are in astronomical units, times in years, masses in solar masses.

Kepler's equation is solved for all points of an orbit at once, in loops that
compile to vector instructions: no branch, and series instead of calls.

    row      0  1 ... K-1   K   | K+1 ...
    body     planets 1..K  sun  | planets 1..K  sun
    frame    0                  | 1
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wm.kernels.base import calls
from wm.kernels.base.jit import njit

GRAVITY = 39.4784176044  # AU^3 / (year^2 solar mass), 4 pi^2.
TURN = 2 * math.pi
# pi is PI + PI_LOW; the low part matters when many turns are subtracted.
PI, PI_LOW = math.pi, 1.2246467991473532e-16
PER_PI, PER_TURN = 1 / math.pi, 1 / TURN
# Taylor coefficients of sine / x and of cosine in x * x. The truncation error
# is below 1e-17 within a quarter turn of 0.
S1, S2, S3, S4, S5, S6, S7, S8, S9, S10 = (
  (-1) ** k / math.factorial(2 * k + 1) for k in range(1, 11)
)
C1, C2, C3, C4, C5, C6, C7, C8, C9, C10, C11 = (
  (-1) ** k / math.factorial(2 * k) for k in range(1, 12)
)
# After a larger last correction, the error exceeds rounding: such a point, at
# an eccentricity near 1, is solved again by guarded steps.
SMALL = 1e-4
ROUND = 0.3  # Eccentricity up to which one correction less is needed.


class Systems(NamedTuple):
  """N systems of up to K planets.

  Attributes:
    planets: [N] int64, number of planets, 1..K.
    axis: [N, K] float64 semi-major axis of the orbit around the sun, AU.
    eccentricity: [N, K] float64, 0 <= e < 1.
    periapsis: [N, K] float64 direction of the periapsis, radians.
    mean: [N, K] float64 mean anomaly at frame 0, radians.
    mass: [N, K] float64 of each planet, solar masses; 0 where there is none.
    star: [N] float64 mass of the sun, solar masses.
    centre: [N, 2] float64, AU: position of the centre of mass, which rests.
    step: [N] float64 years from frame to frame.
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
  """Arguments of compiled code."""
  axis, e = systems.axis, systems.eccentricity
  elements = np.stack(
    [axis, e, systems.periapsis, systems.mean, systems.motion], axis=-1
  )
  total = systems.star + systems.mass.sum(1)
  return (
    calls.frozen(elements, np.float64),
    calls.frozen(systems.mass / total[:, None], np.float64),
    calls.frozen(systems.planets, np.int64),
    calls.frozen(systems.centre, np.float64),
    calls.frozen(systems.step, np.float64),
  )


def positions(systems: Systems, rows: int) -> np.ndarray:
  """[N, rows, 2] float64 positions in AU of planets 1..K, then the sun.

  Frame after frame; the last one may be cut.
  """
  return calls.run_rows(_positions, _arrays(systems), rows)


@njit
def _positions(orbits, shares, planets, centres, steps, rows) -> np.ndarray:
  """[N, rows, 2] positions; arguments as of `positions`."""
  out = np.empty((orbits.shape[0], rows, 2))
  work, sun = _room(rows)
  for n in range(orbits.shape[0]):
    system = orbits[n], shares[n], planets[n], centres[n], steps[n]
    _system(*system, work, sun, out[n])
  return out


def states(systems: Systems, rows: int) -> np.ndarray:
  """[N, rows, 4] float64: x, y in AU and velocity in AU / year, from the sun.

  Of planets; NaN in rows of the sun.
  """
  orbits, _, planets, _, steps = _arrays(systems)
  arrays = orbits, planets, steps
  return calls.run_rows(_states, arrays, rows)


@njit(error_model='numpy')
def _states(orbits, planets, steps, rows) -> np.ndarray:
  """[N, rows, 4] states of planets; arguments as of `states`."""
  out = np.full((orbits.shape[0], rows, 4), np.nan)
  (x, y, cosines, sines), _ = _room(rows)
  for n in range(orbits.shape[0]):
    bodies = planets[n] + 1
    for k in range(planets[n]):
      num = (rows - k + bodies - 1) // bodies
      at = cosines[:num], sines[:num], x[:num], y[:num]
      _planet(orbits[n, k], steps[n], *at)
      orbit = orbits[n, k]
      a, e, turn, rate = orbit[0], orbit[1], orbit[2], orbit[4]
      flat, ct, st = math.sqrt(1 - e * e), math.cos(turn), math.sin(turn)
      for j in range(num):
        #   dE/dt = n / (1 - e cos E); times -a sin E and b cos E along the axes
        speed = a * rate / (1 - e * cosines[j])
        along, across = -speed * sines[j], speed * flat * cosines[j]
        row = out[n, j * bodies + k]
        row[0], row[1] = x[j], y[j]
        row[2], row[3] = ct * along - st * across, st * along + ct * across
  return out


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
  rest = rows, float(box), num / (2 * box), num
  return calls.run_rows(_bins, _arrays(systems), *rest)


@njit(error_model='numpy')
def _bins(
  orbits, shares, planets, centres, steps, rows, box, per_unit, num
) -> tuple[np.ndarray, np.ndarray]:
  """Bins of positions, and rows outside; arguments as of `bins`."""
  binned = np.empty((orbits.shape[0], rows, 2), np.int32)
  outside = np.zeros(orbits.shape[0], np.int64)
  work, sun = _room(rows)
  places = np.empty((rows, 2))
  for n in range(orbits.shape[0]):
    system = orbits[n], shares[n], planets[n], centres[n], steps[n]
    _system(*system, work, sun, places)
    beyond, out = 0, binned[n]
    for r in range(rows):
      x = math.floor((places[r, 0] + box) * per_unit)
      y = math.floor((places[r, 1] + box) * per_unit)
      # Counted before it is clipped.
      beyond += (x < 0) | (x >= num) | (y < 0) | (y >= num)
      out[r, 0] = min(max(x, 0), num - 1)
      out[r, 1] = min(max(y, 0), num - 1)
    outside[n] = beyond
  return binned, outside


@njit
def solved(mean, e) -> float:
  """Eccentric anomaly of a mean anomaly in -pi..pi, by guarded Newton steps."""
  low, high = mean - e, mean + e
  x = mean
  for _ in range(100):
    f = x - e * math.sin(x) - mean
    if f > 0:
      high = x
    else:
      low = x
    step = f / (1 - e * math.cos(x))
    x -= step
    if not low <= x <= high:
      x = 0.5 * (low + high)
    if abs(step) < 1e-15:
      break
  return x


# inline: a call in a loop would keep it from being compiled to vectors.
# error_model: so would a check for division by zero, which cannot happen.
@njit(inline='always', error_model='numpy')
def _sine_cosine(x) -> tuple[float, float]:
  #   x = k pi + y, |y| <= pi / 2: sine and cosine of y, times (-1)^k
  k = math.floor(x * PER_PI + 0.5)
  y = (x - k * PI) - k * PI_LOW
  sign = 1 - 2 * (k - 2 * math.floor(k * 0.5))
  q = y * y
  s = S7 + q * (S8 + q * (S9 + q * S10))
  s = S2 + q * (S3 + q * (S4 + q * (S5 + q * (S6 + q * s))))
  c = C7 + q * (C8 + q * (C9 + q * (C10 + q * C11)))
  c = C2 + q * (C3 + q * (C4 + q * (C5 + q * (C6 + q * c))))
  return sign * y * (1 + q * (S1 + q * s)), sign * (1 + q * (C1 + q * c))


@njit(inline='always', error_model='numpy')
def _correction(e, mean, x, s, c) -> float:
  # The root of x - e sin x - mean near x: its series, reverted to third order.
  i = 1 / (1 - e * c)
  u = (x - e * s - mean) * i
  g, h = 0.5 * e * s * i, e * c * i * (1 / 6)
  return -u * (1 + u * (g + u * (2 * g * g - h)))


@njit(error_model='numpy')
def anomalies(e, first, rate, x, cosines, sines) -> None:
  """Cosine and sine of the eccentric anomaly at mean anomalies.

  They are first, first + rate, ..., as many as the three arrays are long; x is
  overwritten.
  """
  num = len(x)
  # Until the last correction `sines` holds the mean anomalies.
  for j in range(num):
    mean = first + j * rate
    mean -= TURN * math.floor(mean * PER_TURN + 0.5)
    s, c = _sine_cosine(mean)
    # Right to the second order in e.
    x[j] = mean + e * s / math.sqrt(1 - 2 * e * c + e * e)
    sines[j] = mean
  for _ in range(2 if e > ROUND else 1):
    for j in range(num):
      s, c = _sine_cosine(x[j])
      x[j] += _correction(e, sines[j], x[j], s, c)
  for j in range(num):
    s, c = _sine_cosine(x[j])
    d = _correction(e, sines[j], x[j], s, c)
    # E + d by the sums of angles: of so small a d two terms are exact.
    q = d * d
    sd, cd = d * (1 - q * (1 / 6)), 1 - q * 0.5
    x[j] = d
    sines[j], cosines[j] = s * cd + c * sd, c * cd - s * sd
  for j in range(num):
    if not abs(x[j]) <= SMALL:
      mean = first + j * rate
      y = solved(mean - TURN * math.floor(mean * PER_TURN + 0.5), e)
      sines[j], cosines[j] = math.sin(y), math.cos(y)


@njit(error_model='numpy')
def _planet(orbit, step, cosines, sines, x, y) -> None:
  # Position of a planet from its sun at each frame, into x and y.
  a, e, turn, first, rate = orbit[0], orbit[1], orbit[2], orbit[3], orbit[4]
  anomalies(e, first, rate * step, x, cosines, sines)
  b = a * math.sqrt(1 - e * e)
  xa, xb = a * math.cos(turn), -b * math.sin(turn)
  ya, yb = a * math.sin(turn), b * math.cos(turn)
  for j in range(len(x)):
    along = cosines[j] - e
    x[j] = xa * along + xb * sines[j]
    y[j] = ya * along + yb * sines[j]


@njit(error_model='numpy')
def _system(orbits, shares, planets, centre, step, work, sun, out) -> None:
  # Positions of all bodies of a system at all rows, into out [rows, 2].
  # work: x, y, cosine and sine of a planet; sun: x, y.
  rows, bodies = len(out), planets + 1
  num = (rows + bodies - 1) // bodies  # Frames; the last may be cut.
  x, y, cosines, sines = work
  x, y, cosines, sines = x[:num], y[:num], cosines[:num], sines[:num]
  sun_x, sun_y = sun[0][:num], sun[1][:num]
  sun_x[:], sun_y[:] = centre[0], centre[1]
  for k in range(planets):
    _planet(orbits[k], step, cosines, sines, x, y)
    for j in range((rows - k + bodies - 1) // bodies):
      out[j * bodies + k, 0] = x[j]
      out[j * bodies + k, 1] = y[j]
    share = shares[k]  # The centre of mass rests, and the sun moves.
    for j in range(num):
      sun_x[j] -= share * x[j]
      sun_y[j] -= share * y[j]
  for j in range(num):
    left, right = j * bodies, min(j * bodies + planets, rows)
    for r in range(left, right):
      out[r, 0] += sun_x[j]
      out[r, 1] += sun_y[j]
    if right < rows:
      out[right, 0], out[right, 1] = sun_x[j], sun_y[j]


@njit
def _room(rows) -> tuple:
  # Arrays of their own: slices of one would keep loops from being vectors.
  return (
    (np.empty(rows), np.empty(rows), np.empty(rows), np.empty(rows)),
    (np.empty(rows), np.empty(rows)),
  )
