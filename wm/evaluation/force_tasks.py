"""Forces and accelerations of planets, as labels of small data sets.

Vafa et al. 2025, section on force laws. Lengths are in AU, times in years,
masses in solar masses. Shape letters: D data sets, N systems of one, R rows of
positions, P rows among them that are labelled or asked about.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

from wm import core
from wm.core import basics, resources
from wm.evaluation import fewshot, paths
from wm.kernels import orbits

# What labels are; a vector points from the planet to its sun.
TARGETS = tuple(
  pattern.format(what)
  for what in ('acceleration', 'force')
  for pattern in ('log_{}', '{}', '{}_vector')
)
NEIGHBOURS = 2  # As published.
FEWEST = 10  # Systems that a law is fitted to.
# Of a token in `Shown`: itself, and half of what its row has in float64, a
# position [2] and a state [4].
TOKEN_BYTES = 28
# Of a state: position from the sun, and both masses.
X, Y, PLANET, SUN = 0, 1, -2, -1


def quantity(target: str) -> str:
  """'acceleration', of the planet from its sun, or 'force' between them."""
  return 'force' if 'force' in target else 'acceleration'


def columns(target: str, state: np.ndarray) -> dict[str, np.ndarray]:
  """Factors of a target's law, which is a product of their powers, [...]."""
  r = np.hypot(state[..., X], state[..., Y])
  planet, sun = state[..., PLANET], state[..., SUN]
  if quantity(target) == 'force':
    return {'r': r, 'm1': planet, 'm2': sun}
  # Of the planet relative to its sun, which is pulled too: both masses count.
  return {'r': r, 'mass': planet + sun}


def labels(target: str, state: np.ndarray) -> np.ndarray:
  """[..., 1] or [..., 2]: Newton's law at states [..., C].

  Raw ones in AU / year^2, and solar masses AU / year^2.
  """
  r, *masses = columns(target, state).values()
  # G m1 m2 / r^2, or G (m1 + m2) / r^2 for the acceleration.
  size = orbits.GRAVITY * np.prod(masses, axis=0) / r**2
  if target.endswith('_vector'):
    return -state[..., [X, Y]] * (size / r)[..., None]
  return (np.log(size) if target.startswith('log_') else size)[..., None]


def sizes(target: str, forces: np.ndarray) -> np.ndarray:
  """[...] magnitudes of labels [..., d]."""
  if target.endswith('_vector'):
    return np.hypot(forces[..., 0], forces[..., 1])
  force = forces[..., 0]
  return np.exp(force) if target.startswith('log_') else force


class Shown(NamedTuple):
  """Whole sequences of systems, and what they show.

  Attributes:
    tokens: [D, N, L] int32.
    seen: [D, N, R, 2] float64 centres of bins, AU.
    planet: [D, N, R] bool: is the row a planet's?
    bodies: [D, N] int32 rows of a frame.
    step: [D, N] years.
    state: [D, N, R, C] true states; NaN of suns.
    first: tokens before the first row.
    width: of a bin, AU.
  """

  tokens: np.ndarray
  seen: np.ndarray
  planet: np.ndarray
  bodies: np.ndarray
  step: np.ndarray
  state: np.ndarray
  first: int
  width: float

  @classmethod
  def of(
    cls, world: core.Latent, sequences: core.Sequences, sets: int = 1
  ) -> Shown:
    """Sequences of a world's `sample`, D x N of them."""
    motion = world.trajectory(sequences)

    def apart(array: np.ndarray) -> np.ndarray:
      return array.reshape(sets, -1, *array.shape[1:])

    return cls(
      tokens=apart(sequences.tokens),
      seen=apart(paths.seen(world, sequences)),
      planet=apart(motion.body < motion.bodies[:, None] - 1),
      bodies=apart(motion.bodies),
      step=apart(motion.step),
      state=apart(motion.state),
      first=world.prompt_len,
      width=world.width,
    )

  @property
  def travel(self) -> np.ndarray:
    """[D, N] how far the sun is seen to move, bins along either axis."""
    sun = np.where(self.planet[..., None], np.nan, self.seen)
    range_ = np.nanmax(sun, axis=2) - np.nanmin(sun, axis=2)
    return range_.max(-1) / self.width


def shown(
  world: core.Latent, sets: int, num: int, seed: int, split: str
) -> Shown:
  """`num` systems for each of D data sets.

  Raises:
    InputError: the world has fewer, or memory cannot hold them.
  """
  size = TOKEN_BYTES * sets * num * world.max_len
  resources.require_memory(size, f'{sets:,} data sets of {num:,} systems')
  drawn = fewshot.sequences(world, sets * num, seed, split, whole=True)
  return Shown.of(world, drawn, sets)


def late(systems: Shown) -> np.ndarray:
  """[D, N, R] bool: planets' rows in the second half of the sequence."""
  rows = systems.planet.shape[2]
  return systems.planet & (np.arange(rows) >= rows // 2)


def chosen(mask: np.ndarray, num: int, seed: int) -> np.ndarray:
  """[D, N, num] int32 rows, random ones of a mask [D, N, R], ascending.

  DEAD, last, where there are no more.
  """
  words = np.arange(mask.size, dtype=np.int64).reshape(mask.shape)
  selected = basics.lowest(mask, basics.hash64(seed, words), num)
  return basics.listed(selected, min(num, mask.shape[2]))


class OrbitPoints(NamedTuple):
  """Rows of systems that are labelled, or asked about.

  Attributes:
    rows: [D, N, P] int32; DEAD is none.
    places: [D, N, P] int32: of the row's last token; DEAD is none.
    state: [D, N, P, C] true states; NaN where there is no row.
  """

  rows: np.ndarray
  places: np.ndarray
  state: np.ndarray

  @classmethod
  def of(cls, systems: Shown, rows: np.ndarray) -> OrbitPoints:
    """The given rows [D, N, P]."""
    mask = rows != core.DEAD
    at = np.maximum(rows, 0)[..., None]
    state = np.take_along_axis(systems.state, at, axis=2)
    places = np.where(mask, systems.first + 2 * rows + 1, core.DEAD)
    return cls(
      rows, places.astype(np.int32), np.where(mask[..., None], state, np.nan)
    )


def neighbours(
  states: np.ndarray, values: np.ndarray, queries: np.ndarray
) -> np.ndarray:
  """[..., d] means of the labels of the two nearest states, as published.

  Args:
    states: [T, C], which set the scale of each column.
    values: [T, d] their labels.
    queries: [..., C] states; NaN where there is none.
  """
  level, spread = states.mean(0), states.std(0)
  scale = np.where(spread > 0, spread, 1)
  tree = scipy.spatial.cKDTree((states - level) / scale)
  flat = (queries.reshape(-1, queries.shape[-1]) - level) / scale
  finite = np.isfinite(flat).all(1)
  means = np.full((len(flat), values.shape[-1]), np.nan)
  # Columns have other units (AU, solar masses): in standard deviations.
  near = tree.query(flat[finite], min(NEIGHBOURS, len(states)))[1]
  means[finite] = values[near.reshape(int(finite.sum()), -1)].mean(1)
  return means.reshape(*queries.shape[:-1], values.shape[-1])
