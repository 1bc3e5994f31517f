"""Orbits of two bodies, fitted by least squares to observed positions.

    theta   0, 1        2   3      4, 5                   6          7
            centre, AU  w   log a  e cos, e sin of the    mean long- its rate,
                                   periapsis' direction   itude      a year

Around the centre of mass the planet is at (1 - w) R and the sun at -w R; w is
the planet's share of the mass. R is the orbit, in elements that are regular for
circular orbits (Broucke and Cefola 1972, in the plane).
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from wm import core
from wm.kernels.base import calls
from wm.kernels.base.jit import njit
from wm.kernels.orbits import GRAVITY

# Limit of residual squares, relative to those of rounding to bins.
POOR = 2.0
FEWEST = 4  # Minimum number of frames in which both bodies are seen.
SIZE = 8
(CX, CY, SHARE, AXIS, H, K, LONGITUDE, RATE) = range(SIZE)
TURN = 2 * math.pi
STEPS = 60  # of a fit, accepted or not
FLATTEST = 0.98  # greatest eccentricity
DAMPING, LEAST_DAMPING, MOST_DAMPING = 1e-3, 1e-12, 1e12  # damping
DONE = 1e-10  # relative gain of a step below which a fit ends
FIRST = 2 * FEWEST  # Minimum number of rows for a fit.
# A fit of n rows also serves the next n / SERVES rows.
SERVES = 50


class Fits(NamedTuple):
  """N fitted orbits; planets run counterclockwise.

  Attributes:
    centre: [N, 2] float64 position of the centre of mass, AU.
    share: [N] the planet's share of the mass.
    axis: [N] semi-major axis of the orbit from the sun, AU.
    vector: [N, 2] eccentricity, in the direction of the periapsis.
    longitude: [N] mean longitude at frame 0, radians.
    motion: [N] mean motion, radians a year.
    step: [N] years from frame to frame.
    covariance: [N, 8, 8] of centre, share, log axis, vector, longitude and
      motion, for positions rounded to bins; NaN where undetermined.
    rounding: [N] root mean square residual, relative to that of rounding to
      bins; NaN where no orbit fits.
  """

  centre: np.ndarray
  share: np.ndarray
  axis: np.ndarray
  vector: np.ndarray
  longitude: np.ndarray
  motion: np.ndarray
  step: np.ndarray
  covariance: np.ndarray
  rounding: np.ndarray

  @property
  def errors(self) -> np.ndarray:
    """[N, 8] standard errors, the roots of the covariance's diagonal."""
    spread = np.diagonal(self.covariance, axis1=1, axis2=2)
    return np.sqrt(np.maximum(spread, 0))

  @property
  def good(self) -> np.ndarray:
    """[N] bool: True where the orbit fits the positions and is determined."""
    return (self.rounding < POOR) & np.isfinite(self.errors).all(-1)

  @property
  def mass(self) -> np.ndarray:
    """[N, 2] planet and sun, solar masses, by Kepler's third law."""
    total = self.motion**2 * self.axis**3 / GRAVITY
    return np.stack([self.share * total, (1 - self.share) * total], axis=-1)

  def places(self, frames: int) -> np.ndarray:
    """[N, frames, 2] positions of planets from their suns, AU."""
    return _places(self.theta, self.step, frames)

  def bodies(self, frames: int) -> np.ndarray:
    """[N, frames, 2 bodies, 2] positions of planet and sun, AU."""
    place = self.places(frames)[:, :, None]
    part = np.stack([1 - self.share, -self.share], axis=-1)
    return self.centre[:, None, None] + part[:, None, :, None] * place

  def at(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[N, K, 2] AU at rows [N, K], and standard errors; see `foretold`."""
    return foretold(self.theta, self.covariance, self.step, rows)

  @property
  def theta(self) -> np.ndarray:
    """[N, 8] fitted parameters, in the order of `errors`."""
    columns = (
      *self.centre.T,
      self.share,
      np.log(self.axis),
      *self.vector.T,
      self.longitude,
      self.motion,
    )
    return np.stack(columns, axis=-1)


def foretold(
  theta: np.ndarray, covariance: np.ndarray, step: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """[N, K, 2] positions at rows [N, K], AU, and their standard errors.

  Rows are planet, sun, planet, ..., one frame after the other. theta,
  covariance, step: as of `Fits`.
  """
  arrays = (
    calls.frozen(theta, np.float64),
    calls.frozen(covariance, np.float64),
    calls.frozen(step, np.float64),
    calls.frozen(rows, np.int64),
  )
  place, error = calls.run_rows(_foretold, arrays)
  return place, error


@njit
def _foretold(theta, covariance, step, rows) -> tuple[np.ndarray, np.ndarray]:
  """Positions and their standard errors [N, K, 2] of rows [N, K].

  Rows are planet, sun, planet, ...; covariance: [N, 8, 8] of theta.
  """
  out, error = np.empty((*rows.shape, 2)), np.empty((*rows.shape, 2))
  place, slope, row = np.empty(2), np.empty((2, SIZE)), np.empty(SIZE)
  for n in range(len(theta)):
    w = theta[n, SHARE]
    for k in range(rows.shape[1]):
      frame, body = rows[n, k] // 2, rows[n, k] % 2
      part = 1 - w if body == 0 else -w
      orbit(theta[n], frame * step[n], place, slope)
      for axis in range(2):
        out[n, k, axis] = theta[n, axis] + part * place[axis]
        _by_theta(axis, part, place, slope, row)
        # To first order: with row J, the variance of a coordinate is J C J'.
        square = 0.0
        for i in range(SIZE):
          for j in range(SIZE):
            square += row[i] * covariance[n, i, j] * row[j]
        error[n, k, axis] = math.sqrt(max(square, 0.0))
  return out, error


def fit(
  planet: np.ndarray, sun: np.ndarray, step: np.ndarray, width: float
) -> Fits:
  """Least squares of all coordinates, by Levenberg and Marquardt.

  Orbits follow Kepler's laws with a resting centre of mass. The total mass
  follows from the period, the planet's share from the sun's motion.

  Args:
    planet, sun: [N, T, 2] float64 centres of bins, AU, frame by frame; NaN
      where not seen.
    step: [N] years from frame to frame; less than half of a period.
    width: of a bin, AU.

  Raises:
    InputError: shapes do not match, or both bodies are seen in fewer than
      FEWEST frames.
  """
  planet, sun = np.asarray(planet), np.asarray(sun)
  num = len(planet)
  if (
    planet.shape != sun.shape
    or planet.shape[2:] != (2,)
    or np.shape(step) != (num,)
  ):
    raise core.InputError(
      f'planets have shape {planet.shape}, suns {sun.shape}, steps '
      f'{np.shape(step)}; expected [N, T, 2] twice and [N]'
    )
  both = np.isfinite(planet - sun).all(-1).sum(-1)
  if num and both.min() < FEWEST:
    raise core.InputError(
      f'orbit {int(both.argmin())} is seen in {int(both.min())} frames; '
      f'expected at least {FEWEST}'
    )
  arrays = (
    calls.frozen(planet, np.float64),
    calls.frozen(sun, np.float64),
    calls.frozen(step, np.float64),
  )
  theta, squares, inverse = calls.run_rows(_fits, arrays)
  seen = np.isfinite(planet).sum((1, 2)) + np.isfinite(sun).sum((1, 2))
  # Rounding to bins adds a variance of width^2 / 12 to each coordinate; the
  # residual variance per degree of freedom is compared with it.
  free = np.maximum(seen - SIZE, 1)
  noise = width / 12**0.5
  return Fits(
    theta[:, :2],
    theta[:, 2],
    np.exp(theta[:, 3]),
    theta[:, 4:6],
    theta[:, 6],
    theta[:, 7],
    np.asarray(step, np.float64),
    inverse * noise**2,
    np.sqrt(squares / free) / noise,
  )


@njit
def _fits(planet, sun, step) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Theta [N, 8], residual squares [N] and inverses [N, 8, 8].

  planet, sun: [N, T, 2], NaN where unseen. Squares are NaN where no orbit fits.
  """
  theta = np.zeros((len(step), SIZE))
  squares = np.full(len(step), np.nan)
  inverse = np.full((len(step), SIZE, SIZE), np.nan)
  for n in range(len(step)):
    p, s, first = planet[n], sun[n], theta[n]
    if _conic(p, s, first) and _timing(p, s, step[n], first):
      _centre(p, s, first)
      squares[n] = _fit(p, s, step[n], first, inverse[n])
  return theta, squares, inverse


@njit(error_model='numpy')
def _longitude(mean, h, k) -> float:
  # Eccentric longitude F: F + k cos F - h sin F = mean, by guarded steps.
  e = math.sqrt(h * h + k * k)
  # The root is within e of the mean, as |k cos F - h sin F| <= e; a Newton step
  # that leaves these bounds is replaced by halving them.
  low, high, x = mean - e, mean + e, mean
  for _ in range(60):
    s, c = math.sin(x), math.cos(x)
    f = x + k * c - h * s - mean
    if f > 0:
      high = x
    else:
      low = x
    step = f / (1 - k * s - h * c)
    x -= step
    if not low <= x <= high:
      x = 0.5 * (low + high)
    if abs(step) < 1e-13:
      break
  return x


@njit(error_model='numpy')
def orbit(theta, years, place, slope) -> None:
  """R [2] at a time, and its derivatives [2, 8] by theta."""
  h, k, a = theta[H], theta[K], math.exp(theta[AXIS])
  eta = math.sqrt(1 - h * h - k * k)
  b = 1 / (1 + eta)
  bh, bk = b * b * h / eta, b * b * k / eta
  x = _longitude(theta[LONGITUDE] + theta[RATE] * years, h, k)
  s, c = math.sin(x), math.cos(x)
  rho = 1 - h * c - k * s
  place[0] = a * ((1 - k * k * b) * c + h * k * b * s - h)
  place[1] = a * ((1 - h * h * b) * s + h * k * b * c - k)
  # By F, and from there by the mean longitude, h and k.
  fx = a * (-(1 - k * k * b) * s + h * k * b * c)
  fy = a * ((1 - h * h * b) * c - h * k * b * s)
  for i in range(2):
    slope[i, CX] = slope[i, CY] = slope[i, SHARE] = 0.0
    slope[i, AXIS] = place[i]
  hx = a * (-k * k * bh * c + (k * b + h * k * bh) * s - 1)
  kx = a * (-(2 * k * b + k * k * bk) * c + (h * b + h * k * bk) * s)
  hy = a * (-(2 * h * b + h * h * bh) * s + (k * b + h * k * bh) * c)
  ky = a * (-h * h * bk * s + (h * b + h * k * bk) * c - 1)
  slope[0, H], slope[1, H] = hx + fx * s / rho, hy + fy * s / rho
  slope[0, K], slope[1, K] = kx - fx * c / rho, ky - fy * c / rho
  slope[0, LONGITUDE], slope[1, LONGITUDE] = fx / rho, fy / rho
  for i in range(2):
    slope[i, RATE] = years * slope[i, LONGITUDE]


@njit(error_model='numpy')
def _by_theta(axis, part, place, slope, row) -> None:
  # Derivatives [8] of a body's coordinate, of those of R; part: see above.
  for i in range(AXIS, SIZE):
    row[i] = part * slope[axis, i]
  row[CX], row[CY] = 1.0 - axis, 1.0 * axis
  row[SHARE] = -place[axis]


@njit(error_model='numpy')
def _squares(problem, theta, normal, gradient) -> float:
  # Residual squares of all seen coordinates; and J'J, J'r.
  # problem: planet, sun [T, 2] and years of a frame. NaN beyond the ellipses.
  planet, sun, step = problem
  e = math.sqrt(theta[H] ** 2 + theta[K] ** 2)
  if not (e < FLATTEST and theta[RATE] > 0):
    return math.nan
  place, slope = np.empty(2), np.empty((2, SIZE))
  row, total = np.empty(SIZE), 0.0
  for i in range(SIZE):
    gradient[i] = 0.0
    for j in range(SIZE):
      normal[i, j] = 0.0
  w = theta[SHARE]
  for t in range(len(planet)):
    orbit(theta, t * step, place, slope)
    for body in range(2):
      seen = planet if body == 0 else sun
      part = 1 - w if body == 0 else -w
      if math.isnan(seen[t, 0]):
        continue
      for axis in range(2):
        left = seen[t, axis] - theta[axis] - part * place[axis]
        total += left * left
        _by_theta(axis, part, place, slope, row)
        for i in range(SIZE):
          gradient[i] += row[i] * left
          for j in range(i + 1):
            normal[i, j] += row[i] * row[j]
  return total


@njit(error_model='numpy')
def factor(matrix, out) -> bool:
  """Cholesky factor of a matrix's lower half; False if it has none."""
  for i in range(len(matrix)):
    for j in range(i + 1):
      value = matrix[i, j]
      for k in range(j):
        value -= out[i, k] * out[j, k]
      if i > j:
        out[i, j] = value / out[j, j]
      elif value > 0:
        out[i, i] = math.sqrt(value)
      else:
        return False
  return True


@njit(error_model='numpy')
def solve(lower, right) -> None:
  """Solves in place, of a Cholesky factor."""
  num = len(right)
  for i in range(num):
    for k in range(i):
      right[i] -= lower[i, k] * right[k]
    right[i] /= lower[i, i]
  for i in range(num - 1, -1, -1):
    for k in range(i + 1, num):
      right[i] -= lower[k, i] * right[k]
    right[i] /= lower[i, i]


@njit(error_model='numpy')
def damped(normal, gradient, damping, lower, move) -> bool:
  """The step of Levenberg and Marquardt; False where there is none.

  The diagonal is scaled during the call and restored afterwards.
  """
  for i in range(len(move)):
    move[i] = gradient[i]
    normal[i, i] *= 1 + damping
  solvable = factor(normal, lower)
  for i in range(len(move)):
    normal[i, i] /= 1 + damping
  if solvable:
    solve(lower, move)
  return solvable


@njit(error_model='numpy')
def _conic(planet, sun, first) -> bool:
  # First guess of the orbit's shape: r = p - e . R is linear in p and e.
  normal, right = np.zeros((3, 3)), np.zeros(3)
  row = np.empty(3)
  for t in range(len(planet)):
    x, y = planet[t, 0] - sun[t, 0], planet[t, 1] - sun[t, 1]
    if math.isnan(x):
      continue
    r = math.sqrt(x * x + y * y)
    #   r = p - h x - k y
    row[0], row[1], row[2] = 1, -x, -y
    for i in range(3):
      right[i] += row[i] * r
      for j in range(3):
        normal[i, j] += row[i] * row[j]
  lower = np.zeros((3, 3))
  if not damped(normal, right, 1e-12, lower, row):
    return False
  p, h, k = row[0], row[1], row[2]
  e = math.sqrt(h * h + k * k)
  if e > 0.9:
    h, k = 0.9 * h / e, 0.9 * k / e
  first[H], first[K] = h, k
  first[AXIS] = math.log(max(p, 1e-9) / (1 - h * h - k * k))
  return bool(p > 0)


@njit(error_model='numpy')
def _timing(planet, sun, step, theta) -> bool:
  # First guess of the mean longitude and its rate: a line through the unwrapped
  # longitude of each position.
  h, k, count = theta[H], theta[K], 0.0
  b = 1 / (1 + math.sqrt(1 - h * h - k * k))
  a, last = math.exp(theta[AXIS]), 0.0
  st = sl = stt = stl = 0.0
  for t in range(len(planet)):
    x = (planet[t, 0] - sun[t, 0]) / a + h
    y = (planet[t, 1] - sun[t, 1]) / a + k
    if math.isnan(x):
      continue
    # The inverse of the matrix that takes cos F and sin F to the place.
    xx, xy, yy = 1 - k * k * b, h * k * b, 1 - h * h * b
    f = math.atan2(xx * y - xy * x, yy * x - xy * y)
    # Kepler's equation is explicit from the eccentric to the mean longitude.
    value = f + k * math.cos(f) - h * math.sin(f)
    if count:
      # Forward by up to 3/4 of a turn, or back a little by rounding.
      value = last + (value - last + TURN / 4) % TURN - TURN / 4
    last = value
    count += 1
    st += t
    sl += value
    stt += t * t
    stl += t * value
  spread = stt - st * st / max(count, 1.0)
  if not spread > 0:
    return False
  rate = (stl - st * sl / count) / spread
  theta[LONGITUDE] = (sl - rate * st) / count
  theta[RATE] = max(rate, 1e-6) / step
  return True


@njit(error_model='numpy')
def _centre(planet, sun, theta) -> None:
  # First guess of the centre and w: the sun against the planet from the sun.
  count = sxx = 0.0
  mean_d, mean_s = np.zeros(2), np.zeros(2)
  for t in range(len(planet)):
    if not math.isnan(planet[t, 0] - sun[t, 0]):
      count += 1
      for axis in range(2):
        mean_d[axis] += planet[t, axis] - sun[t, axis]
        mean_s[axis] += sun[t, axis]
  for axis in range(2):
    mean_d[axis] /= count
    mean_s[axis] /= count
  #   sun = centre - w R: minus w is the slope of the sun against R
  across = 0.0
  for t in range(len(planet)):
    if not math.isnan(planet[t, 0] - sun[t, 0]):
      for axis in range(2):
        d = planet[t, axis] - sun[t, axis] - mean_d[axis]
        sxx += d * d
        across += d * (sun[t, axis] - mean_s[axis])
  w = -across / sxx if sxx > 0 else 0.0
  theta[SHARE] = min(max(w, 0.0), 1.0)
  for axis in range(2):
    theta[axis] = mean_s[axis] + theta[SHARE] * mean_d[axis]


@njit(error_model='numpy')
def _fit(planet, sun, step, theta, inverse) -> float:
  """Least squares by Levenberg and Marquardt, from theta, which is overwritten.

  Returns the residual squares. inverse: that of J'J, if it exists.
  """
  problem = planet, sun, step
  lower, move, trial = np.zeros((SIZE, SIZE)), np.zeros(SIZE), np.zeros(SIZE)
  # J'J and J'r at theta, and at the trial: they change places, uncopied.
  work = np.zeros((SIZE, SIZE)), np.zeros(SIZE)
  other = np.zeros((SIZE, SIZE)), np.zeros(SIZE)
  damping, best = DAMPING, _squares(problem, theta, *work)
  for _ in range(STEPS):
    squares = math.nan
    if damped(*work, damping, lower, move):
      for i in range(SIZE):
        trial[i] = theta[i] + move[i]
      squares = _squares(problem, trial, *other)
    if squares <= best:  # Never true of NaN.
      gain, best = best - squares, squares
      for i in range(SIZE):
        theta[i] = trial[i]
      work, other = other, work
      # Towards Gauss-Newton, which ends fast near the minimum.
      damping = max(damping / 10, LEAST_DAMPING)
      if gain <= DONE * best + 1e-30:
        break
    else:  # Towards small steps down the gradient.
      damping *= 10
      if damping > MOST_DAMPING:
        break
  if factor(work[0], lower):
    for i in range(SIZE):
      for j in range(SIZE):
        inverse[i, j] = 1.0 if i == j else 0.0
      solve(lower, inverse[i])
  return best


@njit
def _places(theta, step, frames) -> np.ndarray:
  """[N, frames, 2] R at each frame."""
  out, slope = np.empty((len(theta), frames, 2)), np.empty((2, SIZE))
  for n in range(len(theta)):
    for t in range(frames):
      orbit(theta[n], t * step[n], out[n, t], slope)
  return out


def through(
  seen: np.ndarray, lengths: np.ndarray, step: np.ndarray, width: float
) -> Fits:
  """Orbits through the first rows of systems of two bodies.

  Args:
    seen: [N, R, 2] float64 centres of bins, AU.
    lengths: [N] rows that are read, at least FIRST.
    step: [N] years from frame to frame.
    width: of a bin, AU.
  """
  rows = int(lengths.max(initial=0))
  rows += rows % 2
  mask = np.arange(rows)[:, None] < lengths[:, None, None]
  visible = np.full((len(seen), rows, 2), np.nan)
  size = min(rows, seen.shape[1])
  visible[:, :size] = seen[:, :size]
  visible = np.where(mask, visible, np.nan)
  return fit(visible[:, ::2], visible[:, 1::2], step, width)


def turns(rows: int) -> np.ndarray:
  """Numbers of rows after which an orbit is fitted again, up to `rows`."""
  starts = []
  row = FIRST
  while row <= rows:
    starts.append(row)
    row += 1 + row // SERVES
  return np.array(starts, np.int64)


def ahead(
  seen: np.ndarray, step: np.ndarray, width: float, prefix: int | None = None
) -> np.ndarray:
  """[N, R, 2] predicted positions, AU, by an orbit fitted to the rows before.

  seen, step, width: see `through`. prefix: limit of rows that are read. NaN
  where there are fewer than FIRST rows, or no orbit fits.
  """
  num, rows = seen.shape[:2]
  out = np.full(seen.shape, np.nan)
  most = rows - 1 if prefix is None else min(prefix, rows - 1)
  starts = turns(most)
  if prefix == most and len(starts) and starts[-1] < most:
    starts = np.append(starts, most)
  for start, end in itertools.pairwise([*starts, rows]):
    fit = through(seen, np.full(num, start), step, width)
    next_ = np.broadcast_to(np.arange(start, end), (num, end - start))
    place, _ = fit.at(next_)
    out[:, start:end] = np.where(fit.good[:, None, None], place, np.nan)
  return out
