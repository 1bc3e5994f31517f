"""Random planetary systems, each a function of a seed and its number.

kind         masses                          axes        eccentricities
binaries     sun .3..3, planet .1...5 of it  1.5..3.5    uniform to .6
two_body     both uniform 1e-4..1.01e-2      .3..32      Beta(.867, 3.03)
exoplanets   fitted, see `exoplanets`        .3..32      Beta(.867, 3.03)
summary      planet 1e-7..1e-3, sun .5..5    .3..42      Beta(.867, 3.03)

Masses of 'binaries' and planets of 'summary' are log-uniform; suns of 'summary'
are uniform. The last three are from the inductive-bias probes (Vafa
et al. 2025): 'two_body' and 'exoplanets' of the program, 'summary' of the
paper.

Masses of planets follow a gamma distribution, fitted to exoplanets below the
90th percentile, and those of stars a log-normal one (Vafa et al. 2025, the
published program). The numbers below are fits of scipy 1.17 to 4,956 planets of
the NASA Exoplanet Archive, in the table of that program (sha256
891fa57ff658...), of which 4,460 are light enough.

The number of frames that determine the next ones (`spread`) follows, to first
order, from the information in the bins. Around the true orbit, positions are
linear in its elements, and a bin is a measurement with the variance of a
uniform number, width^2 / 12. The error of later positions follows from the
inverse information of n frames (least squares, with the spread of the drawn
systems as the prior).

A state names a system, and its next row:

    word | row | seed, high and low | number | nudge
    -----+-----+--------------------+--------+------
    the kind of the next token, see `World`; its row; the system's seed and
    number for `systems.draw`; and the index of a push off its course, 0 for
    none

The state after tokens alone has no system: all words but the first are DEAD.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy

from wm.core import basics
from wm.kernels import orbits

if TYPE_CHECKING:
  from wm.worlds.orbits import World

# Streams of uniform numbers.
(COUNT, AXIS, ECCENTRICITY, MASS, STAR, STEP_LENGTH, CENTRE, TURN, MEAN) = (
  range(9)
)
KINDS = ('binaries', 'two_body', 'exoplanets', 'summary')
AXES = {
  'binaries': (1.5, 3.5),
  'two_body': (0.3, 32.0),
  'exoplanets': (0.3, 32.0),
  'summary': (0.3, 42.0),
}
ROUNDEST, BETA = 0.6, (0.867, 3.03)
BOTH = 1e-4, 1.01e-2  # Bounds of both masses of 'two_body', solar masses.
SUNS, RATIOS = (0.3, 3.0), (0.1, 0.5)
LIGHT = 1e-7, 1e-3


def _uniform(*words: np.ndarray | int) -> np.ndarray:
  """Uniform float64 in (0, 1), a function of the words."""
  top = (basics.hash64(*words) >> np.uint64(12)).astype(np.float64)
  return (top + 0.5) * 2.0**-52


def _log_uniform(uniform: np.ndarray, low: float, high: float) -> np.ndarray:
  return low * (high / low) ** uniform


def draw(
  world: World, seed: int | np.ndarray, numbers: np.ndarray
) -> orbits.Systems:
  """The systems with these numbers [N]; each depends only on (seed, number).

  seed: one for all, or [N] int64.
  """
  numbers, seeds = np.asarray(numbers, np.int64), np.asarray(seed, np.int64)
  most = world.planets
  slot = np.arange(most)[None]

  def one(what: int) -> np.ndarray:
    return _uniform(seeds, what, numbers)

  def each(what: int) -> np.ndarray:
    return _uniform(seeds[..., None], what, numbers[:, None], slot)

  count = 1 + (one(COUNT) * most).astype(np.int64)
  axis, e, mass, star = _drawn(world, one, each)
  which = (one(STEP_LENGTH) * len(world.steps)).astype(np.int64)
  words = seeds[..., None], CENTRE, numbers[:, None], np.arange(2)
  normal = scipy.special.ndtri(_uniform(*words))
  return orbits.Systems(
    planets=count,
    axis=axis,
    eccentricity=e,
    periapsis=2 * np.pi * each(TURN),
    mean=2 * np.pi * each(MEAN),
    mass=np.where(slot < count[:, None], mass, 0.0),
    star=star,
    centre=world.centre * normal,
    step=np.array(world.steps)[which],
  )


def _drawn(world: World, uniform, each) -> tuple[np.ndarray, ...]:
  """Axes, eccentricities and masses of planets [N, K]; masses of suns [N]."""
  kind = world.systems
  low, high = AXES[kind]
  if kind == 'binaries':
    axis, e = _log_uniform(each(AXIS), low, high), ROUNDEST * each(ECCENTRICITY)
    star = _log_uniform(uniform(STAR), *SUNS)
    return axis, e, star[:, None] * _log_uniform(each(MASS), *RATIOS), star
  axis = low + (high - low) * each(AXIS)
  e = scipy.special.betaincinv(*BETA, each(ECCENTRICITY))
  if kind == 'two_body':
    low, high = BOTH
    pair = low + (high - low) * np.stack([each(MASS)[:, 0], uniform(STAR)])
    mass, star = pair.min(0)[:, None], pair.max(0)
  elif kind == 'summary':
    mass, star = _log_uniform(each(MASS), *LIGHT), 0.5 + 4.5 * uniform(STAR)
  else:
    # By inversion of uniform numbers.
    shape, start, scale = GAMMA
    mass = start + scale * scipy.special.gammaincinv(shape, each(MASS))
    mass = np.clip(mass, LIGHTEST, HEAVIEST)
    shape, start, scale = LOG_NORMAL
    star = start + scale * np.exp(shape * scipy.special.ndtri(uniform(STAR)))
    star = np.clip(star, *STARS)
  return axis, e, mass, star


LIGHTEST, HEAVIEST = 1e-9, 1e-3  # Solar masses of planets, clipped.
STARS = 0.1, 5.0  # Solar masses of stars, clipped.


# Fits: shape, location and scale, in solar masses.
GAMMA = 0.32020164517819, 6.009815e-8, 1.105594954623e-3
LOG_NORMAL = 0.20045013, -0.67936062, 1.62715089

ENOUGH = 500  # At least one of this many systems must have a prefix.


DIFFERENCE = 1e-5  # Step of central differences.
# Prior standard deviations. Each planet: logarithm of the axis, eccentricity
# along both axes, mean longitude, logarithm of the mass; then the logarithm of
# the sun's mass and the centre, AU.
PLANET, SYSTEM = (0.5, 0.4, 0.4, 2.0, 1.0), (1.0, 2.0, 2.0)


def spread(
  systems: orbits.Systems, frames: int, ahead: int, width: float
) -> np.ndarray:
  """Largest error of a coordinate in the next frames, by observed frames.

  Args:
    systems: N systems, as of the first frame that may be observed.
    frames: F, limit of observed frames; the last ones are observed.
    ahead: number of predicted frames after them.
    width: of a bin, AU.

  Returns:
    [N, F] float64 standard deviation in AU after 1..F frames.
  """
  total = int((frames + ahead) * (systems.planets.max(initial=0) + 1))
  slopes = _slopes(systems, total)  # [N, P, rows, 2].
  size, unknown = slopes.shape[:2]
  bodies = systems.planets + 1
  frame = np.arange(total)[None] // bodies[:, None]  # [N, rows].
  prior = np.tile(PLANET, systems.mass.shape[1])
  information = np.zeros((size, unknown, unknown))
  information[:] = np.diag(np.concatenate([prior, SYSTEM]) ** -2.0)
  coming = (frame >= frames) & (frame < frames + ahead)
  next_ = np.where(coming[:, None, :, None], slopes, 0)
  next_ = next_.reshape(size, unknown, -1)
  errors = np.empty((size, frames))
  for seen in range(1, frames + 1):
    in_frame = (frame == frames - seen)[:, None, :, None]
    part = np.where(in_frame, slopes, 0).reshape(size, unknown, -1)
    information += part @ part.transpose(0, 2, 1) * (12 / width**2)
    error = np.linalg.solve(information, next_)
    square = (next_ * error).sum(1).max(-1)
    errors[:, seen - 1] = np.sqrt(np.maximum(square, 0))
  return errors


def _slopes(systems: orbits.Systems, rows: int) -> np.ndarray:
  """[N, P, rows, 2] derivatives of positions by all P unknowns."""
  pairs = []
  for planet in range(systems.mass.shape[1]):
    for which in range(len(PLANET)):
      pair = (
        _moved(systems, planet, which, sign)
        for sign in (DIFFERENCE, -DIFFERENCE)
      )
      pairs.append([orbits.positions(changed, rows) for changed in pair])
  star = [
    systems._replace(star=systems.star * np.exp(sign))
    for sign in (DIFFERENCE, -DIFFERENCE)
  ]
  pairs.append([orbits.positions(changed, rows) for changed in star])
  for axis in range(2):
    push = DIFFERENCE * np.eye(2)[axis]
    pair = (systems._replace(centre=systems.centre + s * push) for s in (1, -1))
    pairs.append([orbits.positions(changed, rows) for changed in pair])
  both = np.array(pairs)  # [P, 2, N, rows, 2].
  return ((both[:, 0] - both[:, 1]) / (2 * DIFFERENCE)).swapaxes(0, 1)


def _moved(
  systems: orbits.Systems, planet: int, which: int, by: float
) -> orbits.Systems:
  """Systems with one parameter of a planet's orbit changed."""
  axis, mass = systems.axis.copy(), systems.mass.copy()
  e, turn = systems.eccentricity[:, planet], systems.periapsis[:, planet]
  k, h = e * np.cos(turn), e * np.sin(turn)
  longitude = systems.mean[:, planet] + turn
  if which == 0:
    axis[:, planet] *= np.exp(by)
  elif which == 1:
    k = k + by
  elif which == 2:
    h = h + by
  elif which == 3:
    longitude = longitude + by
  else:
    mass[:, planet] *= np.exp(by)
  eccentricity, periapsis = (
    systems.eccentricity.copy(),
    systems.periapsis.copy(),
  )
  mean = systems.mean.copy()
  eccentricity[:, planet] = np.minimum(np.hypot(k, h), 1 - 1e-9)
  periapsis[:, planet] = np.arctan2(h, k)
  mean[:, planet] = longitude - periapsis[:, planet]
  return systems._replace(
    axis=axis,
    mass=mass,
    eccentricity=eccentricity,
    periapsis=periapsis,
    mean=mean,
  )


WORD, ROW, HIGH, LOW, NUMBER, NUDGE = range(6)
WORDS = 6
HALF = 1 << 31  # A seed has a high and a low half.
# A planet is pushed by a share of its speed: .5, .35, .25, ... in turn.
LEVELS, STRONGEST = 24, 0.5
DIRECTIONS = 1 << 20
PUSH = 100  # Stream of uniform numbers for pushes.
# Frames after which a pushed system should differ from the unpushed one.
BANDS = np.array([[1, 1], [2, 5], [6, 20]])
SIGMAS = 2  # Standard deviations that count as determined.


class ChosenSystems(NamedTuple):
  """The distinct systems of N states, and the states' rows.

  Attributes:
    systems: U distinct systems.
    place: [N] index of each state's system.
    row: [N] int64 next row.
  """

  systems: orbits.Systems
  place: np.ndarray
  row: np.ndarray

  @property
  def bodies(self) -> np.ndarray:
    """[N] rows per frame."""
    return (self.systems.planets + 1)[self.place]

  def at(self, frame: np.ndarray) -> orbits.Systems:
    """The system of each state [N], with frame [N] as its frame 0."""
    return moved_systems(self.systems.take(self.place), frame)


def moved_systems(systems: orbits.Systems, frame: np.ndarray) -> orbits.Systems:
  """Systems [N] with another frame [N] as frame 0."""
  years = (systems.step * frame)[:, None]
  return systems._replace(mean=systems.mean + systems.motion * years)


def states_of(numbers: np.ndarray, seed: int, rows: np.ndarray) -> np.ndarray:
  """[N, W] the states of systems at rows, without the word."""
  states = np.zeros((len(numbers), WORDS), np.int32)
  states[:, HIGH], states[:, LOW] = divmod(seed, HALF)
  states[:, NUMBER], states[:, ROW] = numbers, rows
  return states


def chosen_systems(world: World, states: np.ndarray) -> ChosenSystems:
  """The systems of states [N, W]."""
  words, place = np.unique(states[:, HIGH:], axis=0, return_inverse=True)
  systems = _systems(world, words.astype(np.int64).tobytes())
  return ChosenSystems(
    systems, place.reshape(-1), states[:, ROW].astype(np.int64)
  )


@functools.lru_cache(64)  # The same systems are used at every token.
def _systems(world: World, words: bytes) -> orbits.Systems:
  """The systems of the last words of states [U, 4] int64."""
  high, low, numbers, nudge = np.frombuffer(words, np.int64).reshape(-1, 4).T
  seeds = high * HALF + low
  systems = draw(world, seeds, numbers)
  rows_pushed = np.flatnonzero(nudge)
  if rows_pushed.size:
    word = PUSH, numbers[rows_pushed], (nudge[rows_pushed] - 1) // LEVELS
    turn = (
      2 * np.pi * basics.uniforms(seeds[rows_pushed], *word).astype(np.float64)
    )
    share = STRONGEST * 2.0 ** (-0.5 * ((nudge[rows_pushed] - 1) % LEVELS))
    part = systems.take(rows_pushed)
    # The last observed frame before the state.
    frame = pivot(part.planets, world.rows - 1) // (part.planets + 1) - 1
    pushed, _ = pushed_systems(part, frame, share, turn)
    for into, array in zip(systems, pushed, strict=True):
      into[rows_pushed] = array
  return systems


def pivot(planets: np.ndarray, rows: int) -> np.ndarray:
  """[N] row of drawn states: half of the frames precede it."""
  bodies = planets + 1
  return rows // bodies // 2 * bodies


def pushed_systems(
  systems: orbits.Systems,
  frame: np.ndarray,
  share: np.ndarray,
  turn: np.ndarray,
) -> tuple[orbits.Systems, np.ndarray]:
  """Systems whose first planet has another velocity at a frame.

  Args:
    systems: N systems.
    frame: [N] frame of the push; positions at this frame do not change.
    share: [N] added velocity, as a share of the speed.
    turn: [N] direction of the added velocity, radians.

  Returns:
    systems: N; unchanged if the push would not give a valid orbit.
    ok: [N] bool, True if pushed: the orbit is bound and counterclockwise.
  """
  x, y, vx, vy = orbits.states(moved_systems(systems, frame), 1)[:, 0].T
  speed = np.hypot(vx, vy) * share
  vx, vy = vx + speed * np.cos(turn), vy + speed * np.sin(turn)
  mu = orbits.GRAVITY * (systems.star + systems.mass[:, 0])
  r, along = np.hypot(x, y), x * vx + y * vy
  square = vx**2 + vy**2
  inverse = 2 / r - square / mu
  ex = ((square - mu / r) * x - along * vx) / mu
  ey = ((square - mu / r) * y - along * vy) / mu
  e = np.hypot(ex, ey)
  ok = (inverse > 0) & (e < 0.99) & (x * vy - y * vx > 0)
  axis = 1 / np.where(ok, inverse, 1)
  anomaly = np.arctan2(along / np.sqrt(mu * axis), 1 - r / axis)
  mean = anomaly - e * np.sin(anomaly)
  mean -= np.sqrt(mu / axis**3) * systems.step * frame
  new = {
    'axis': axis,
    'eccentricity': e,
    'periapsis': np.arctan2(ey, ex),
    'mean': mean,
  }
  columns = {}
  for name, value in new.items():
    array = getattr(systems, name).copy()
    array[ok, 0] = value[ok]
    columns[name] = array
  return systems._replace(**columns), ok
