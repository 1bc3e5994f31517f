"""Questions about forces: planets, the steps whose force is told, and prompts.

Lengths are in AU, times in years, masses in solar masses, forces in solar
masses AU / year^2. T is the number of time steps.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import basics, fields, inputs, registry
from wm.core.fields import field
from wm.kernels import orbits
from wm.language.papers import published
from wm.runtime import pages

PROMPTS = 'llm-prompts'
# What the published systems are like, but for the sun, which rests there.
WORLD = (
  "orbits(systems='exoplanets', bins=7000, box=50.0, rows=901, "
  'steps=(0.0189, 0.486), centre=1.0)'
)
STREAM = 71
TEXTS = pages.macros('wm.language.papers.forces', 'prompt.md.j2')


class System(NamedTuple):
  """A planet on its way around a sun.

  Attributes:
    name: of it.
    places: [T, 2] float64 where the planet is seen.
    distance: [T] float64 from the sun, not rounded.
    force: [T] float64 between both, > 0.
    told_steps: [P] ascending steps whose force is told.
    sun: [2] where the sun is.
    planet, star: masses.
  """

  name: str
  places: np.ndarray
  distance: np.ndarray
  force: np.ndarray
  told_steps: np.ndarray
  sun: np.ndarray
  planet: float
  star: float

  @property
  def known(self) -> np.ndarray:
    """[T] bool: is the force told?"""
    return np.isin(np.arange(len(self.force)), self.told_steps)

  def every(self, step: int) -> System:
    """Each `step`-th time step and those that are told, as a system."""
    shown = (np.arange(len(self.force)) % step == 0) | self.known
    return self._replace(
      places=self.places[shown],
      distance=self.distance[shown],
      force=self.force[shown],
      told_steps=np.flatnonzero(self.known[shown]),
    )

  def telling(self, steps: np.ndarray) -> System:
    """The system with other steps told."""
    return self._replace(told_steps=np.asarray(steps, np.int64))


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
  steps_told = _array(folder / f'unmasked_inds_{name}.npy', 'iu', (None,))
  steps_told = np.unique(steps_told.astype(np.int64))
  if (
    not steps_told.size
    or steps_told[0] < 0
    or steps_told[-1] >= num
    or (force <= 0).any()
  ):
    raise core.InputError(
      f'{folder}: system {name} has steps {steps_told[:1]}..{steps_told[-1:]} '
      f'told of {num}, and forces from {force.min():g}; expected some of its '
      'steps, and forces > 0'
    )
  # What one system stores of masses is the same on all rows.
  planet, star = state[0, 4:].tolist()
  sun = (places - state[:, :2]).mean(0)
  away = np.hypot(state[:, 0], state[:, 1])
  return System(str(name), places, away, force, steps_told, sun, planet, star)


def _array(
  path: pathlib.Path, kinds: str, shape: tuple[int | None, ...]
) -> np.ndarray:
  """An array of a shape, None is any; floats as float64 of the same value."""
  with inputs.reading_file(path, 'an array'):
    array = np.load(path, allow_pickle=False)
  if not isinstance(array, np.ndarray):
    raise core.InputError(f'{path} holds several arrays; expected one')
  fits = array.ndim == len(shape)
  fits = fits and array.dtype.kind in kinds
  if not fits or any(
    want not in (None, size)
    for want, size in zip(shape, array.shape, strict=True)
  ):
    raise core.InputError(
      f'{path}: {array.dtype} of shape {array.shape}; expected numbers of '
      f'shape {shape}'
    )
  if array.dtype.kind == 'f':
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
      raise core.InputError(f'{path}: not all numbers are finite')
  return array


def draw(
  num: int, seed: int, *, world: str = WORLD, num_told: int = 10
) -> list[System]:
  """Random systems, the sun at rest, `num_told` steps told over the range.

  world: spec of a world of moving bodies with one planet; its bins and the
    motion of its sun are left out.

  Raises:
    InputError: the world shows no moving bodies, or has too few steps.
  """
  drawn_world: core.World = registry.resolve('world', world)
  if not core.can(drawn_world, core.Latent.trajectory):
    raise core.InputError(
      f'{world} shows no moving bodies (core.Latent.trajectory)'
    )
  motion = drawn_world.trajectory(drawn_world.sample(num, seed))
  if (motion.bodies != 2).any():
    raise core.InputError(f'{world} has systems of several planets')
  planet = motion.body[0] == 0
  systems = []
  for n, (state, place) in enumerate(
    zip(motion.state[:, planet], motion.position[:, planet], strict=True)
  ):
    sun = (place[0] - state[0, :2]).round(2)
    away = np.hypot(state[:, 0], state[:, 1])
    planet_mass, star = state[0, 4:].tolist()
    system = System(
      str(n),
      state[:, :2] + sun,
      away,
      orbits.GRAVITY * planet_mass * star / away**2,
      np.zeros(0, np.int64),
      sun,
      planet_mass,
      star,
    )
    systems.append(spread(system, num_told, seed))
  return systems


def _enough(num_told: int, steps: int, which: str) -> None:
  if not 0 <= num_told <= steps:
    raise core.InputError(
      f'{num_told} steps {which} told; expected 0 to {steps} of them'
    )


def early(system: System, num_told: int, seed: int) -> System:
  """With `num_told` random steps of the first half, as published.

  Raises:
    InputError: there are fewer.
  """
  half = len(system.force) // 2
  _enough(num_told, half, 'of the first half')
  order = np.argsort(
    basics.hash64(seed, STREAM, int(system.name), np.arange(half))
  )
  return system.telling(np.sort(order[:num_told]))


def spread(system: System, num_told: int, seed: int) -> System:
  """With `num_told` steps over the whole range: a random one of each part.

  Raises:
    InputError: there are fewer.
  """
  steps = len(system.force)
  _enough(num_told, steps, 'of a system')
  edges = np.linspace(0, steps, num_told + 1)
  share = basics.uniforms(seed, STREAM, int(system.name), np.arange(num_told))
  at = edges[:-1] + share * np.diff(edges)
  return system.telling(np.unique(at.astype(np.int64)))


# `origin` says of the sun that it is at the origin, where it is not, as the
# published prompts do; `corrected` says where it is and which masses there are.
VARIANTS = ('origin', 'corrected')
# Logs call so what was asked by `origin` in the authors' words.
PUBLISHED = 'published'
AT_ORIGIN = 'origin', PUBLISHED
UNKNOWN = 'Unk'


def _parts(system: System) -> dict[str, Any]:
  """Parts of a prompt about a system."""
  x, y = system.sun
  rows = zip(
    system.places.tolist(), system.force.tolist(), system.known, strict=True
  )
  return {
    'bodies': TEXTS.bodies(
      f'{x:.2f}', f'{y:.2f}', f'{system.star:.6g}', f'{system.planet:.6g}'
    ),
    'lines': ''.join(
      f'Timestep: {step}, Coordinates: ({x:.2f}, {y:.2f}), Outcome: '
      f'{force if is_told else UNKNOWN}\n'
      for step, ((x, y), force, is_told) in enumerate(rows)
    ),
    'last': len(system.force) - 1,
  }


def prompt(
  variant: str, system: System, folder: str = '', names: Sequence[str] = ()
) -> str:
  """The question about a system.

  Args:
    variant: see ForceOptions.
    system: that is asked about.
    folder: of the authors' prompts, NAME.txt for each system; '' is our words.
    names: of all its systems.

  Raises:
    InputError: files are about other systems.
  """
  parts = _parts(system)
  if folder:
    values = {'lines': parts['lines'], 'last': str(parts['last'])}
    return published.render(folder, system.name, names, values, TEXTS)
  if variant == 'origin':
    parts['bodies'] = TEXTS.origin()
  return str(TEXTS.corrected(**parts))


@fields.documented
@dataclasses.dataclass(frozen=True)
class ForceOptions:
  """Systems, and how much of them prompts tell.

  Attributes:
    variant: 'origin', with the sun there, as published, and forces told in the
      first half; or 'corrected', with the sun where it is and forces told
      over the whole range.
    num_told: steps of a system whose force is told; of published systems as
      they are, unless the variant is another.
  """

  variant: str = field('origin', choices=VARIANTS)
  folder: str = field('', "of published systems; '' draws `num` new ones")
  num: int = field(5, 'systems that are asked about', least=1)
  num_told: int = field(10, least=1)
  every: int = field(
    1, 'each which time step is shown, besides those that are told', least=1
  )
  seed: int = field(0, 'of systems, and of the steps that are told')
  world: str = field(WORLD, 'that systems are drawn from')
  prompts: str = field('', published.HELP)

  def __post_init__(self) -> None:
    fields.check(self)
    if self.prompts and self.variant != 'origin':
      raise core.InputError(
        f"variant={self.variant!r} has no published prompts; expected 'origin'"
      )

  def systems(self) -> list[System]:
    """Systems with the forces that they come with.

    Raises:
      InputError: there is no such folder or world, or it has too few systems.
    """
    if not self.folder:
      return draw(self.num, self.seed, world=self.world, num_told=self.num_told)
    return load(pathlib.Path(self.folder))


def questions(options: ForceOptions) -> list[tuple[str, System]]:
  """Prompts, and the systems whose forces they ask for; raises InputError."""
  systems, seed = options.systems(), options.seed
  if options.variant == 'corrected':
    shown = [spread(system, options.num_told, seed) for system in systems]
  elif options.folder:  # These have their told steps already.
    shown = systems
  else:
    shown = [early(system, options.num_told, seed) for system in systems]
  shown = [system.every(options.every) for system in shown]
  about = options.prompts, [system.name for system in shown]
  return [
    (prompt(options.variant, system, *about), system)
    for system in shown[: options.num]
  ]
