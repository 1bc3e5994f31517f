"""What follows from a state of a system, prefixes that reach it, and others.

The number of frames that fix the next ones follows, to first order, from the
information of the bins. Around the true orbit, positions are linear in its
elements, and a bin is a measurement with the variance of a uniform number,
width^2 / 12. The error of positions to come follows from the inverse of the
information that n frames give (least squares, with the spread of the drawn
systems as the prior).

A state names a system, and the row that it shows next:

    word | row | seed, high and low | number | nudge
    -----+-----+--------------------+--------+------
    what comes next, see `world`; the row of it; the system, as `systems.draw`
    numbers it; and how far it was pushed off its course, 0 for not at all

A state without a system, DEAD but for its word, is what tokens alone fix.
"""

from __future__ import annotations

import abc
import functools
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import basics
from wm.kernels import orbits
from wm.worlds.orbits import systems as random_systems

ENOUGH = 500  # Systems of which one is to have a prefix.


class Futures(core.Latent, core.Enumerable):
  """Systems as states: of a drawn state the past and the future are exact.

  A prefix that reaches a state is the system as it was before, seen for some
  frames: at least as many as fix the next `ahead` ones within `tolerance` bins
  (`states.SIGMAS` standard deviations of the linear error, see `known`), and no
  two of one length differ. Another state to tell from it has the same bodies
  at the same places, and one planet with another velocity, so that their
  tokens part after 1, 2 to 5, or 6 to 20 frames, one of the three by chance.
  """

  rows: int
  tolerance: int
  ahead: int

  @property
  def boundary_depth(self) -> int:
    """The x and the y of a row: each token more triples what is listed."""
    return 2

  @property
  @abc.abstractmethod
  def options(self) -> random_systems.Options:
    """What systems are drawn."""

  def chosen(self, states: np.ndarray) -> Chosen:
    """The systems of states [N, W]."""
    return chosen(self.options, states, self.rows - 1)

  def sample_states(self, num: int, seed: int) -> np.ndarray:
    """See core.Prefixed: systems of `sample`, half of whose rows are seen.

    Those that have a prefix.

    Raises:
      InputError: almost none has.
    """
    asked = num
    while True:
      drawn_systems = self.sample(asked, seed)
      rows = pivot(drawn_systems.side['planets'], self.rows - 1)
      drawn = of(drawn_systems.side['number'], seed, rows)
      drawn[:, WORD] = self.first_word
      least, most = self.prefix_moves(drawn).T
      usable = drawn[least <= most]
      if len(usable) >= num:
        return usable[:num]
      if asked > ENOUGH and len(usable) * ENOUGH < asked:
        raise core.InputError(
          f'orbits: of {asked} systems {len(usable)} show in half of '
          f'rows={self.rows} what fixes the next ahead={self.ahead} frames '
          f'within tolerance={self.tolerance}; expected more rows or larger '
          'bins'
        )
      asked += max((num - len(usable)) * asked // max(len(usable), 1), 16)
      asked = min(asked, 4 * len(drawn) + 64)

  @property
  @abc.abstractmethod
  def first_word(self) -> int:
    """The word of a state whose next token is an x."""

  def forecast(self, states: np.ndarray, num: int) -> core.latent.Rollout:
    """See core.Latent.forecast: the bins of positions, exactly."""
    tokens = np.full((len(states), num), core.DEAD, np.int32)
    frame = np.zeros((len(states), num), np.int32)
    mine = np.flatnonzero(states[:, NUMBER] >= 0)
    mine = mine[states[mine, WORD] != core.DEAD]
    if not mine.size or not num:
      return core.latent.Rollout(tokens, frame)
    systems = self.chosen(states[mine])
    second = states[mine, WORD] != self.first_word
    tokens[mine], first = self._shown(systems, systems.row, second, num)
    place = np.arange(num)[None] + first[:, None]
    after = place // (2 * systems.bodies[:, None])
    frame[mine] = after + (systems.row % systems.bodies == 0)[:, None]
    return core.latent.Rollout(tokens, frame)

  def _shown(
    self, systems: Chosen, row: np.ndarray, second: np.ndarray, num: int
  ) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [N, num] from rows [N] on, and places of the first in its frame.

    second: [N] bool, begin with the row's second token.
    """
    bodies = systems.bodies
    first = 2 * (row % bodies) + second
    rows = (num + int(first.max(initial=0)) + 1) // 2
    place = orbits.positions(systems.at(row // bodies), rows)
    tokens = self.coordinate_tokens(place).reshape(len(row), -1)
    at = first[:, None] + np.arange(num)[None]
    return np.take_along_axis(tokens, at, axis=1), first

  def prefix_moves(self, states: np.ndarray) -> np.ndarray:
    """See core.Prefixed: frames. None where too few fix the next ones."""
    bounds = np.zeros((len(states), 2), np.int32)
    bounds[:, 1] = -1
    whole = states[:, WORD] == self.first_word
    mine = np.flatnonzero(whole & (states[:, NUMBER] >= 0))
    if not mine.size:
      return bounds
    systems = self.chosen(states[mine])
    row, bodies = systems.row, systems.bodies
    frames = np.minimum(row // bodies, (self.rows - 1) // bodies - 1)
    frames = np.where(row % bodies == 0, frames, 0)
    limit = (self.tolerance + 0.5) * self.width / SIGMAS
    for most in np.unique(frames[frames > 0]):
      alike = np.flatnonzero(frames == most)
      part = Chosen(systems.systems, systems.place[alike], row[alike])
      seen = part.at(row[alike] // part.bodies - most)
      error = spread(seen, int(most), self.ahead, self.width)
      # More frames never say less: the first that is enough is the least.
      least = (error > limit).sum(1) + 1
      bounds[mine[alike], 0] = least
      bounds[mine[alike], 1] = np.where(least <= most, most, -1)
    return bounds

  def sample_prefixes(
    self, states: np.ndarray, moves: np.ndarray, seeds: np.ndarray
  ) -> core.Prefixes:
    """See core.Prefixed; of the least number of frames up to moves[t]."""
    moves = np.asarray(moves, np.int64)
    bounds = self.prefix_moves(states)
    ok = (bounds[:, 0] <= moves) & (moves <= bounds[:, 1])
    tokens = np.zeros((len(states), self.max_len), np.int32)
    lengths = np.zeros(len(states), np.int32)
    mine = np.flatnonzero(ok)
    if mine.size:
      systems = self.chosen(states[mine])
      least = bounds[mine, 0].astype(np.int64)
      more = basics.uniforms(seeds[mine]) * (moves[mine] - least + 1)
      frames = np.minimum(least + more.astype(np.int64), moves[mine])
      size = 2 * frames * systems.bodies
      shown, _ = self._shown(
        systems,
        systems.row - frames * systems.bodies,
        np.zeros(len(mine), bool),
        int(size.max()),
      )
      shown[np.arange(shown.shape[1]) >= size[:, None]] = core.PAD
      step = self.step_tokens(systems.systems.step[systems.place])
      tokens[mine, :2] = step[:, None]
      tokens[mine, 2 : 2 + shown.shape[1]] = shown
      lengths[mine] = 2 + size
    return core.Prefixes(tokens[:, : lengths.max(initial=0)], lengths, ok)

  @abc.abstractmethod
  def step_tokens(self, years: np.ndarray) -> np.ndarray:
    """int32 tokens of time steps."""

  def sample_others(self, states: np.ndarray, seed: int) -> np.ndarray:
    """See core.Prefixed; where no push is right, the state itself."""
    others, num = states.copy(), len(states)
    if not num:
      return others
    row = np.arange(num)
    turn = (basics.hash64(seed, 1, row) % DIRECTIONS).astype(np.int64)
    low, high = BANDS[basics.hash64(seed, 2, row) % len(BANDS)].T
    level = np.arange(LEVELS)
    tried = np.repeat(states, len(level), axis=0)
    nudge = 1 + turn[:, None] * len(level) + level
    tried[:, NUDGE] = nudge.reshape(-1)
    frames = self.parts_after(np.repeat(states, len(level), 0), tried)
    frames = np.where(self._stays(tried), frames, 0).reshape(num, -1)
    fits = (frames >= low[:, None]) & (frames <= high[:, None])
    # Of the pushes that fit, one by chance.
    order = np.where(fits, basics.uniforms(seed, 3, row[:, None], level), 2)
    some_fit = fits.any(1)
    others[some_fit, NUDGE] = nudge[row, order.argmin(1)][some_fit]
    return others

  def _stays(self, states: np.ndarray) -> np.ndarray:
    """[N] bool: is it a system that `sample` would keep?"""
    chosen = self.chosen(states)
    systems = chosen.systems
    _, outside = orbits.bins(systems, self.rows - 1, *self.grid)
    exists = np.arange(systems.mass.shape[1]) < systems.planets[:, None]
    slow = systems.period >= 2 * systems.step[:, None]
    return ((outside == 0) & (slow | ~exists).all(1))[chosen.place]

  @property
  @abc.abstractmethod
  def years(self) -> tuple[float, ...]:
    """Time steps, in order of their tokens."""

  @property
  @abc.abstractmethod
  def grid(self) -> tuple[float, int]:
    """Half of the box's width in AU, and bins along an axis."""

  def parts_after(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """[N] frames until what follows the first is illegal from the second.

    0 where it is never, to the end of a sequence.
    """
    num = 2 * (self.rows - 1)
    left, right = (self.forecast(side, num) for side in (first, second))
    apart = np.abs(left.tokens - right.tokens) > self.tolerance
    frame = left.frame[np.arange(len(first)), apart.argmax(1)]
    return np.where(apart.any(1), frame, 0)


STEP = 1e-5  # Of a derivative by central differences.
# Spreads of what is unknown before any frame: of each planet the logarithm of
# its axis, eccentricity along both axes, mean longitude, logarithm of its mass;
# then the logarithm of the sun's mass and the centre, AU.
PLANET, SYSTEM = (0.5, 0.4, 0.4, 2.0, 1.0), (1.0, 2.0, 2.0)


def spread(
  systems: orbits.Systems, frames: int, ahead: int, width: float
) -> np.ndarray:
  """Greatest error of a coordinate in the next frames, by frames seen.

  Args:
    systems: N of them, as of the first frame that may be seen.
    frames: F, the most that may be seen; the last ones of these are.
    ahead: frames after them that are judged.
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
  """[N, P, rows, 2] derivatives of positions by all that is unknown."""
  pairs = []
  for planet in range(systems.mass.shape[1]):
    for which in range(len(PLANET)):
      pair = (_moved(systems, planet, which, sign) for sign in (STEP, -STEP))
      pairs.append([orbits.positions(changed, rows) for changed in pair])
  star = [
    systems._replace(star=systems.star * np.exp(sign)) for sign in (STEP, -STEP)
  ]
  pairs.append([orbits.positions(changed, rows) for changed in star])
  for axis in range(2):
    push = STEP * np.eye(2)[axis]
    pair = (systems._replace(centre=systems.centre + s * push) for s in (1, -1))
    pairs.append([orbits.positions(changed, rows) for changed in pair])
  both = np.array(pairs)  # [P, 2, N, rows, 2].
  return ((both[:, 0] - both[:, 1]) / (2 * STEP)).swapaxes(0, 1)


def _moved(
  systems: orbits.Systems, planet: int, which: int, by: float
) -> orbits.Systems:
  """Systems with one number of a planet's orbit changed."""
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
PUSH = 100  # What a uniform number is for; see systems.
# Frames after which a pushed system is to part from the one that was not.
BANDS = np.array([[1, 1], [2, 5], [6, 20]])
SIGMAS = 2  # Standard deviations of what is known of a position.


class Chosen(NamedTuple):
  """The systems of N states, each once, and what a world shows of them.

  Attributes:
    systems: U of them.
    place: [N] which is whose.
    row: [N] int64 row that comes next.
  """

  systems: orbits.Systems
  place: np.ndarray
  row: np.ndarray

  @property
  def bodies(self) -> np.ndarray:
    """[N] rows of a frame."""
    return (self.systems.planets + 1)[self.place]

  def at(self, frame: np.ndarray) -> orbits.Systems:
    """The system of each state [N] as of a frame [N]."""
    return moved(self.systems.take(self.place), frame)


def moved(systems: orbits.Systems, frame: np.ndarray) -> orbits.Systems:
  """Systems [N] whose frame 0 is another one [N]."""
  years = (systems.step * frame)[:, None]
  return systems._replace(mean=systems.mean + systems.motion * years)


def of(numbers: np.ndarray, seed: int, rows: np.ndarray) -> np.ndarray:
  """[N, W] the states of systems at rows, without the word."""
  states = np.zeros((len(numbers), WORDS), np.int32)
  states[:, HIGH], states[:, LOW] = divmod(seed, HALF)
  states[:, NUMBER], states[:, ROW] = numbers, rows
  return states


def chosen(
  options: random_systems.Options, states: np.ndarray, rows: int
) -> Chosen:
  """The systems of states [N, W], of sequences with so many rows."""
  words, place = np.unique(states[:, HIGH:], axis=0, return_inverse=True)
  systems = _systems(options, words.astype(np.int64).tobytes(), rows)
  return Chosen(systems, place.reshape(-1), states[:, ROW].astype(np.int64))


@functools.lru_cache(64)  # The same are asked for at every token.
def _systems(
  options: random_systems.Options, words: bytes, rows: int
) -> orbits.Systems:
  """The systems of the last words of states [U, 4] int64."""
  high, low, numbers, nudge = np.frombuffer(words, np.int64).reshape(-1, 4).T
  seeds = high * HALF + low
  systems = random_systems.draw(options, seeds, numbers)
  rows_pushed = np.flatnonzero(nudge)
  if rows_pushed.size:
    word = PUSH, numbers[rows_pushed], (nudge[rows_pushed] - 1) // LEVELS
    turn = (
      2 * np.pi * basics.uniforms(seeds[rows_pushed], *word).astype(np.float64)
    )
    share = STRONGEST * 2.0 ** (-0.5 * ((nudge[rows_pushed] - 1) % LEVELS))
    part = systems.take(rows_pushed)
    # The last frame that is seen before it.
    frame = pivot(part.planets, rows) // (part.planets + 1) - 1
    pushed, _ = push(part, frame, share, turn)
    for into, array in zip(systems, pushed, strict=True):
      into[rows_pushed] = array
  return systems


def pivot(planets: np.ndarray, rows: int) -> np.ndarray:
  """[N] row of drawn states: half of the frames are seen before it."""
  bodies = planets + 1
  return rows // bodies // 2 * bodies


def push(
  systems: orbits.Systems,
  frame: np.ndarray,
  share: np.ndarray,
  turn: np.ndarray,
) -> tuple[orbits.Systems, np.ndarray]:
  """Systems whose first planet has another velocity at a frame.

  Args:
    systems: N of them.
    frame: [N] where bodies stay in place.
    share: [N] of its speed, which is added,
    turn: [N] in this direction, radians.

  Returns:
    systems: N; what would be no orbit stays as it was.
    ok: [N] bool, which were pushed: bound, and counterclockwise as all are.
  """
  x, y, vx, vy = orbits.states(moved(systems, frame), 1)[:, 0].T
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
