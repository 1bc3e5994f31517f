"""Clouds of two-body orbits that agree with bins: a particle filter.

Orbits do not change: observations only rule orbits out. When few particles
  agree
with a new bin, the bin is first widened until half of them agree, then narrowed
in steps. Between steps particles move within the constraints of all bins
(sequential Monte Carlo; moves along differences of two others, ter Braak 2006).

    coordinates of a particle   0 1        2 3     4 5          6        7
                                x y        x y     vx vy        log      log
                                planet     sun     from sun     sun      planet
                                at frame 0         AU / year    masses

    token            0 1      2 3   | 4 5      6 7
    coordinate       x y      x y   | x y      x y
    of               planet   sun   | planet   sun
    frame            0              | 1
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wm.kernels import orbits
from wm.kernels.base import calls
from wm.kernels.base.bits import put
from wm.kernels.base.jit import njit

NUMBERS = 8  # Coordinates of a particle.
DENSITIES = ('binaries', 'two_body', 'summary')
# A prior, as an array: which density, bounds of the axis, greatest eccentricity
# and the exponents of its Beta density, bounds of the sun's mass and of the
# planet's, standard deviation of the centre, years from frame to frame.
(KIND, NEAR, FAR, FLATTEST, ALPHA, BETA, S_LOW, S_HIGH, P_LOW, P_HIGH) = range(
  10
)
CENTRE, STEP, SIZE = 10, 11, 12
BINARIES, TWO_BODY, SUMMARY = range(3)
# Size of the orbit of a particle, from which positions are computed.
(AXIS, E, PX, PY, FLAT, MEAN, RATE, SHARE, CX, CY) = range(10)
NARROWINGS = 60  # Steps to narrow a bin, before the bin is taken for an error.
LONGEST = 10  # Limit of extra sweeps, as a factor, if few moves are accepted.
LEAST = 8  # One in this many particles suffices to continue.


class Prior(NamedTuple):
  """The distribution of two-body systems, one of `DENSITIES`.

  Attributes:
    density: 'binaries': uniform logarithms of axis, sun's mass and the planet's
      share of the mass, and uniform eccentricity. 'two_body': uniform axis and
      masses, the planet is lighter. 'summary': uniform axis, sun's mass and
      logarithm of the planet's mass. The last two have Beta eccentricities.
    axis: bounds, AU.
    flattest: greatest eccentricity.
    beta: exponents of the eccentricity's density.
    star, planet: bounds of masses, solar masses; for 'binaries' `planet` is a
      share of the sun's mass.
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


def cloud(systems: orbits.Systems) -> np.ndarray:
  """[N, 8] float64 particles of systems of one planet; see above."""
  place, moving = orbits.positions(systems, 2), orbits.states(systems, 1)[:, 0]
  masses = np.log(np.column_stack([systems.star, systems.mass[:, 0]]))
  return np.concatenate([place[:, 0], place[:, 1], moving[:, 2:], masses], 1)


class BinGrid(NamedTuple):
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
  grid: BinGrid,
  seeds: np.ndarray,
) -> None:
  """Removes, in place, particles that disagree with one more bin of each row.

  Args:
    clouds: [R, N, 8] float64.
    alive: [R] int64, number of leading particles that count.
    bins: [R, T] int32 bins so far; a bin that no orbit reaches becomes -1.
    tokens: [R] int64 place of the last bin; frames have four: x and y of the
      planet, and of the sun.
    priors: [R, SIZE], see `Prior.array`.
    sweeps: moves of each particle whenever few remain.
    grid: of the bins.
    seeds: [R] uint32; row r depends on seeds[r] alone.
  """
  for rows in calls.slices(len(clouds), 8):
    args = clouds[rows], alive[rows], bins[rows], tokens[rows], priors[rows]
    _observe_all(*args, sweeps, grid.box, grid.per_unit, seeds[rows])


@njit
def _observe_all(
  clouds, alive, bins, tokens, prior, sweeps, box, per_unit, seeds
) -> None:
  """`observe` for each of R clouds [R, N, 8], in place; arguments by row.

  alive, tokens: [R]; bins: [R, T]; prior: [R, SIZE]; seeds: [R] uint32.
  """
  for r in range(len(clouds)):
    # Seeds Numba's generator; NumPy's, which Python code uses, is separate.
    np.random.seed(seeds[r])
    args = clouds[r], alive[r], bins[r], tokens[r], prior[r]
    alive[r] = _observe(*args, sweeps, box, per_unit)


def counts(
  clouds: np.ndarray,
  alive: np.ndarray,
  tokens: np.ndarray,
  priors: np.ndarray,
  grid: BinGrid,
) -> np.ndarray:
  """[R, bins] int64 particles by the bin of each row's next token.

  tokens: [R] int64 place of the next token. Particles outside the box are not
  counted.
  """
  return calls.run_rows(
    _counts,
    (clouds, alive, tokens, priors),
    *(grid.box, grid.per_unit, grid.bins),
  )


@njit
def _counts(clouds, alive, tokens, prior, box, per_unit, num) -> np.ndarray:
  """[R, num] int64 particles by the bin of each row's next token."""
  out = np.zeros((len(clouds), num), np.int64)
  orbit = np.empty(10)
  for r in range(len(clouds)):
    for i in range(alive[r]):
      density(clouds[r, i], prior[r], orbit)
      place = coordinate(orbit, prior[r, STEP], tokens[r])
      bin_ = math.floor((place + box) * per_unit)
      if 0 <= bin_ < num:
        out[r, bin_] += 1
  return out


@njit
def density(z, prior, orbit) -> float:
  """Log density of coordinates; also fills their orbit. -inf without an orbit.

  With canonical variables dx dy dvx dvy = dL dG dM dw, L = sqrt(mu a) and
  G = L sqrt(1 - e^2), so that of the axis a and the eccentricity e the density
  is divided by mu e / (2 sqrt(1 - e^2)).
  """
  x, y, vx, vy = z[0] - z[2], z[1] - z[3], z[4], z[5]
  star, planet = math.exp(z[6]), math.exp(z[7])
  mu = orbits.GRAVITY * (star + planet)
  r, along, h = math.hypot(x, y), x * vx + y * vy, x * vy - y * vx
  square = vx * vx + vy * vy
  inverse = 2 / max(r, 1e-300) - square / mu
  kind, low = prior[KIND], planet
  if kind == BINARIES:
    low = planet / star
  # Not an orbit of this prior: clockwise, unbound, or masses out of bounds.
  if not (
    h > 0
    and inverse > 0
    and prior[S_LOW] <= star <= prior[S_HIGH]
    and prior[P_LOW] <= low <= prior[P_HIGH]
    and (kind != TWO_BODY or planet <= star)
  ):
    return -math.inf
  a = 1 / inverse
  # The eccentricity vector, towards the periapsis.
  ex = ((square - mu / r) * x - along * vx) / mu
  ey = ((square - mu / r) * y - along * vy) / mu
  e = max(math.hypot(ex, ey), 1e-12)
  rate = math.sqrt(mu / a) / a
  if not (
    prior[NEAR] <= a <= prior[FAR]
    and e < prior[FLATTEST]
    and rate * prior[STEP] <= 0.5 * orbits.TURN
  ):
    return -math.inf
  #   e sin E = r . v / sqrt(mu a)     e cos E = 1 - r / a
  anomaly = math.atan2(along / math.sqrt(mu * a), 1 - r / a)
  share = planet / (star + planet)
  orbit[AXIS], orbit[E], orbit[PX], orbit[PY] = a, e, ex / e, ey / e
  orbit[FLAT] = a * math.sqrt(1 - e * e)
  orbit[MEAN], orbit[RATE] = anomaly - e * math.sin(anomaly), rate
  orbit[SHARE] = share
  orbit[CX], orbit[CY] = z[2] + share * x, z[3] + share * y
  total = 0.5 * math.log(1 - e * e) - math.log(mu * e)
  total -= 0.5 * (orbit[CX] ** 2 + orbit[CY] ** 2) / prior[CENTRE] ** 2
  if kind == BINARIES:
    return total - math.log(a)
  total += (prior[ALPHA] - 1) * math.log(e)
  total += (prior[BETA] - 1) * math.log(1 - e)
  # Masses are uniform, their coordinates logarithms.
  return total + z[6] + (z[7] if kind == TWO_BODY else 0.0)


@njit
def _place(orbit, step, frame) -> tuple[float, float]:
  # The planet from its sun.
  mean = orbit[MEAN] + orbit[RATE] * step * frame
  e = orbit[E]
  x = orbits.solved(
    mean - orbits.TURN * math.floor(mean / orbits.TURN + 0.5), e
  )
  along, across = orbit[AXIS] * (math.cos(x) - e), orbit[FLAT] * math.sin(x)
  return (
    orbit[PX] * along - orbit[PY] * across,
    orbit[PY] * along + orbit[PX] * across,
  )


@njit
def _part(orbit, x, y, which) -> float:
  # Coordinate 0..3 of a frame in which the planet is at x, y from its sun.
  share = -orbit[SHARE] if which > 1 else 1 - orbit[SHARE]
  return orbit[CY] + share * y if which % 2 else orbit[CX] + share * x


@njit
def coordinate(orbit, step, token) -> float:
  """Where the token's coordinate is, AU."""
  x, y = _place(orbit, step, token // 4)
  return _part(orbit, x, y, token % 4)


@njit
def beyond(orbit, step, token, bin_, box, per_unit) -> float:
  """How far outside of its bin a coordinate is, in bins; 0 or less inside."""
  place = (coordinate(orbit, step, token) + box) * per_unit
  return abs(place - bin_ - 0.5) - 0.5


@njit
def _agrees(orbit, step, bins, last, slack, box, per_unit) -> bool:
  # Tests all bins up to `last`, which may be missed by `slack`; last first.
  for frame in range(last // 4, -1, -1):
    x, y = _place(orbit, step, frame)
    for token in range(min(4 * frame + 3, last), 4 * frame - 1, -1):
      if bins[token] >= 0:
        place = (_part(orbit, x, y, token % 4) + box) * per_unit
        off = abs(place - bins[token] - 0.5) - 0.5
        if off > (slack if token == last else 0.0):
          return False
  return True


@njit
def _sweep(cloud, logs, orbit, prior, bins, last, slack, box, per_unit) -> int:
  # One move of each particle; returns the accepted number. Differences are of
  # two particles in the other, fixed half, so that moves are reversible.
  num, accepted = len(cloud), 0
  half, trial = num // 2, np.empty(NUMBERS)
  for i in range(num):
    low, size = (half, num - half) if i < half else (0, half)
    first = low + int(np.random.random() * size)
    second = low + int(np.random.random() * size)
    # One move in ten adds the whole difference: a jump between two modes.
    length = np.random.random()
    length = 1.0 if length < 0.1 else length
    for d in range(NUMBERS):
      trial[d] = cloud[i, d] + length * (cloud[first, d] - cloud[second, d])
    proposed = density(trial, prior, orbit)
    if proposed == -math.inf or first == second:
      continue
    # Metropolis: the proposal is symmetric, as (first, second) is as likely as
    # (second, first).
    if math.log(1 - np.random.random()) < proposed - logs[i] and _agrees(
      orbit, prior[STEP], bins, last, slack, box, per_unit
    ):
      cloud[i], logs[i] = trial, proposed
      accepted += 1
  return accepted


@njit
def _spread(
  cloud, logs, orbit, prior, bins, last, slack, box, per_unit, sweeps
) -> None:
  # Sweeps until each particle has moved once on average, so that copies differ.
  args = bins, last, slack, box, per_unit
  accepted = 0
  for k in range(LONGEST * sweeps):
    if k >= sweeps and accepted >= len(cloud):
      break
    accepted += _sweep(cloud, logs, orbit, prior, *args)


@njit
def _observe(cloud, alive, bins, token, prior, sweeps, box, per_unit) -> int:
  """Removes particles that disagree with a new bin; returns the number alive.

  Args:
    cloud: [N, 8] particles, of which the first `alive` count; overwritten.
    alive: number of leading particles that count.
    bins: [T] int32 bins so far, `token` the last; -1 is ignored. A bin that no
      orbit reaches becomes -1.
    token: place of the last bin.
    prior: see `Prior.array`.
    sweeps: attempted moves of each particle whenever few remain, and more
      until the accepted moves equal the number of particles.
    box, per_unit: half of the box's width, AU, and bins in an AU.
  """
  num, step = len(cloud), prior[STEP]
  off, logs, orbit = np.empty(num), np.empty(num), np.empty(10)
  before, alive_before = cloud.copy(), alive
  for _ in range(NARROWINGS):
    inside = 0
    for i in range(alive):
      logs[i] = density(cloud[i], prior, orbit)
      off[i] = beyond(orbit, step, token, bins[token], box, per_unit)
      inside += off[i] <= 0
    slack = 0.0
    # Too few particles are in the bin: widen the bin until half of them are.
    if inside * LEAST < num:
      slack = max(np.sort(off[:alive])[alive // 2], 0.0)
    survivors = 0
    for i in range(alive):
      if off[i] <= slack:
        cloud[survivors], logs[survivors] = cloud[i], logs[i]
        survivors += 1
    if slack == 0 and 2 * survivors >= num:
      return survivors
    # Copies fill the cloud; `_spread` then moves them apart.
    for i in range(survivors, num):
      cloud[i], logs[i] = cloud[i - survivors], logs[i - survivors]
    alive = num
    args = bins, token, slack, box, per_unit, sweeps
    _spread(cloud, logs, orbit, prior, *args)
    if slack == 0:
      return num
  # No orbit of the prior reaches the bin: ignore the bin from now on.
  bins[token] = -1
  put(cloud.reshape(-1), before.reshape(-1))
  return alive_before
