"""Planets whose forces are asked about, and the steps at which they are told.

Lengths are in AU, times in years, masses in solar masses, forces in solar
masses AU / year^2. T is the number of time steps.
"""

from __future__ import annotations

import pathlib
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import registry
from wm.kernels import orbits

PROMPTS = 'llm-prompts'
# What the published systems are like, but for the sun, which rests there.
WORLD = (
  "orbits(systems='exoplanets', bins=7000, box=50.0, rows=901, "
  'steps=(0.0189, 0.486), centre=1.0)'
)
STREAM = 71


class System(NamedTuple):
  """A planet on its way around a sun.

  Attributes:
    name: of it.
    places: [T, 2] float64 where the planet is seen.
    distance: [T] float64 from the sun, not rounded.
    force: [T] float64 between both, > 0.
    told: [P] ascending steps whose force is told.
    sun: [2] where the sun is.
    planet, star: masses.
  """

  name: str
  places: np.ndarray
  distance: np.ndarray
  force: np.ndarray
  told: np.ndarray
  sun: np.ndarray
  planet: float
  star: float

  @property
  def known(self) -> np.ndarray:
    """[T] bool: is the force told?"""
    return np.isin(np.arange(len(self.force)), self.told)

  def every(self, step: int) -> System:
    """Each `step`-th time step and those that are told, as a system."""
    kept = (np.arange(len(self.force)) % step == 0) | self.known
    return self._replace(
      places=self.places[kept],
      distance=self.distance[kept],
      force=self.force[kept],
      told=np.flatnonzero(self.known[kept]),
    )

  def telling(self, told: np.ndarray) -> System:
    """The same with other steps told."""
    return self._replace(told=np.asarray(told, np.int64))


def load(folder: pathlib.Path) -> list[System]:
  """The published systems: those of `folder`/llm-prompts, in order.

  The sun is where the stored states, which are relative to it, say that it is;
  the published prompt has it at the origin.

  Raises:
    InputError: files are missing or are not what they should be.
  """
  names = sorted(
    int(path.stem.removeprefix('traj_'))
    for path in (folder / PROMPTS).glob('traj_*.npy')
    if path.stem.removeprefix('traj_').isdecimal()
  )
  if not names:
    raise core.InputError(
      f'{folder}: no {PROMPTS}/traj_0.npy; expected the folder of the '
      "published orbits, with 'llm-prompts' and 'llm-predictions'"
    )
  return [_system(folder / PROMPTS, name) for name in names]


def _system(folder: pathlib.Path, name: int) -> System:
  places = _array(folder / f'traj_{name}.npy', 'f', (None, 2))
  num = len(places)
  force = _array(folder / f'true_force_{name}.npy', 'f', (num, 1))[:, 0]
  state = _array(folder / f'true_state_{name}.npy', 'f', (num, 6))
  told = _array(folder / f'unmasked_inds_{name}.npy', 'iu', (None,))
  told = np.unique(told.astype(np.int64))
  if not told.size or told[0] < 0 or told[-1] >= num or (force <= 0).any():
    raise core.InputError(
      f'{folder}: system {name} has steps {told[:1]}..{told[-1:]} told of '
      f'{num}, and forces from {force.min():g}; expected some of its steps, '
      'and forces > 0'
    )
  # What one system stores of masses is the same on all rows.
  planet, star = state[0, 4:].tolist()
  sun = (places - state[:, :2]).mean(0)
  away = np.hypot(state[:, 0], state[:, 1])
  return System(str(name), places, away, force, told, sun, planet, star)


def _array(
  path: pathlib.Path, kinds: str, shape: tuple[int | None, ...]
) -> np.ndarray:
  """An array of a shape, None is any; floats as float64 of the same value."""
  with core.reading_file(path, 'an array'):
    found = np.load(path, allow_pickle=False)
  if not isinstance(found, np.ndarray):
    raise core.InputError(f'{path} holds several arrays; expected one')
  fits = found.ndim == len(shape)
  fits = fits and found.dtype.kind in kinds
  if not fits or any(
    want not in (None, size)
    for want, size in zip(shape, found.shape, strict=True)
  ):
    raise core.InputError(
      f'{path}: {found.dtype} of shape {found.shape}; expected numbers of '
      f'shape {shape}'
    )
  if found.dtype.kind == 'f':
    found = found.astype(np.float64)
    if not np.isfinite(found).all():
      raise core.InputError(f'{path}: not all numbers are finite')
  return found


def draw(
  num: int, seed: int, *, world: str = WORLD, told: int = 10
) -> list[System]:
  """Random systems, the sun at rest, with `told` steps over the whole range.

  world: spec of a world of moving bodies with one planet; its bins and the
    motion of its sun are left out.

  Raises:
    InputError: the world shows no moving bodies, or has too few steps.
  """
  made: core.World = registry.made('world', world)
  if not core.can(made, core.Latent.trajectory):
    raise core.InputError(
      f'{world} shows no moving bodies (core.Latent.trajectory)'
    )
  motion = made.trajectory(made.sample(num, seed))
  if (motion.bodies != 2).any():
    raise core.InputError(f'{world} has systems of several planets')
  planet = motion.body[0] == 0
  found = []
  for n, (state, place) in enumerate(
    zip(motion.state[:, planet], motion.position[:, planet], strict=True)
  ):
    sun = (place[0] - state[0, :2]).round(2)
    away = np.hypot(state[:, 0], state[:, 1])
    planet_mass, star = state[0, 4:].tolist()
    one = System(
      str(n),
      state[:, :2] + sun,
      away,
      orbits.GRAVITY * planet_mass * star / away**2,
      np.zeros(0, np.int64),
      sun,
      planet_mass,
      star,
    )
    found.append(spread(one, told, seed))
  return found


def _enough(told: int, steps: int, which: str) -> None:
  if not 0 <= told <= steps:
    raise core.InputError(
      f'{told} steps {which} told; expected 0 to {steps} of them'
    )


def early(system: System, told: int, seed: int) -> System:
  """With `told` random steps of the first half, as published.

  Raises:
    InputError: there are fewer.
  """
  half = len(system.force) // 2
  _enough(told, half, 'of the first half')
  order = np.argsort(
    core.hash64(seed, STREAM, int(system.name), np.arange(half))
  )
  return system.telling(np.sort(order[:told]))


def spread(system: System, told: int, seed: int) -> System:
  """With `told` steps over the whole range: a random one of each part.

  Raises:
    InputError: there are fewer.
  """
  steps = len(system.force)
  _enough(told, steps, 'of a system')
  edges = np.linspace(0, steps, told + 1)
  share = core.uniforms(seed, STREAM, int(system.name), np.arange(told))
  at = edges[:-1] + share * np.diff(edges)
  return system.telling(np.unique(at.astype(np.int64)))
