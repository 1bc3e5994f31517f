"""States of systems: which system, and which row it shows next.

    word | row | seed, high and low | number | nudge
    -----+-----+--------------------+--------+------
    what comes next, see `world`; the row of it; the system, as `systems.draw`
    numbers it; and how far it was pushed off its course, 0 for not at all

A state without a system, DEAD but for its word, is what tokens alone fix.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from wm import core
from wm.kernels import orbits
from wm.worlds.orbits import systems as random_systems

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
  found = np.zeros((len(numbers), WORDS), np.int32)
  found[:, HIGH], found[:, LOW] = divmod(seed, HALF)
  found[:, NUMBER], found[:, ROW] = numbers, rows
  return found


def chosen(
  options: random_systems.Options, states: np.ndarray, rows: int
) -> Chosen:
  """The systems of states [N, W], of sequences with so many rows."""
  words, place = np.unique(states[:, HIGH:], axis=0, return_inverse=True)
  found = _systems(options, words.astype(np.int64).tobytes(), rows)
  return Chosen(found, place.reshape(-1), states[:, ROW].astype(np.int64))


@functools.lru_cache(64)  # The same are asked for at every token.
def _systems(
  options: random_systems.Options, words: bytes, rows: int
) -> orbits.Systems:
  """The systems of the last words of states [U, 4] int64."""
  high, low, numbers, nudge = np.frombuffer(words, np.int64).reshape(-1, 4).T
  seeds = high * HALF + low
  found = random_systems.draw(options, seeds, numbers)
  some = np.flatnonzero(nudge)
  if some.size:
    word = PUSH, numbers[some], (nudge[some] - 1) // LEVELS
    turn = 2 * np.pi * core.uniforms(seeds[some], *word).astype(np.float64)
    share = STRONGEST * 2.0 ** (-0.5 * ((nudge[some] - 1) % LEVELS))
    part = found.take(some)
    # The last frame that is seen before it.
    frame = pivot(part.planets, rows) // (part.planets + 1) - 1
    pushed, _ = push(part, frame, share, turn)
    for into, array in zip(found, pushed, strict=True):
      into[some] = array
  return found


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
  found = {}
  for name, value in new.items():
    array = getattr(systems, name).copy()
    array[ok, 0] = value[ok]
    found[name] = array
  return systems._replace(**found), ok
