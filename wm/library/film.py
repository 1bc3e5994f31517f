"""Films of moving bodies, as a model says that they move."""

from __future__ import annotations

import pathlib
import zipfile

import numpy as np

from wm import core
from wm.core import registry, resources
from wm.evaluation import force_tasks, membership, paths
from wm.library.loading import Loaded, Source, load_predictor
from wm.metrics import force_law
from wm.options import takes
from wm.options.calls import Amount, Count, Loading, Path
from wm.reporting import film as films
from wm.runtime import files, provenance

# AU^3 / (year^2 solar mass).
GRAVITY = 4 * np.pi**2


@takes(loading=(Loading, 'checkpoint', 'model', 'seed'))
def film(
  source: Source,
  out: Path,
  world: core.World | str | None = None,
  *,
  systems: Count = 6,
  prefix: Amount = 0,
  forces: core.Metric | str | None = None,
  loading: Loading,
) -> pathlib.Path:
  """Writes OUT/film.html: true paths of bodies, and those that a model says.

  Args:
    source: a run, a model or a predictor, see `wm.load_predictor`.
    out: folder of the page.
    world: of moving bodies; None is the one that a run was trained on. Its
      held-out systems are shown.
    systems: how many of them.
    prefix: frames after which the model goes on from its own positions; 0 is
      half of them.
    forces: also show what the model says of the force on each planet, once it
      is tuned to: 'acceleration_vector', 'force_vector', or a spec of force_law
      with one of these as its target and num=1. What it says is kept in OUT.
    loading: checkpoint and model, see `wm.load_predictor`; and the seed of
      the systems, and of untrained weights.

  Returns:
    Path of the page, which needs no network.

  Raises:
    InputError: a world without moving bodies, a model that gives no next
      tokens, is too short or cannot be tuned, or a prefix that is not within
      the sequences.
  """
  loaded = load_predictor(source, world, loading=loading)
  truth, predictor, seed = loaded.world, loaded.predictor, loading.seed
  if not core.can(truth, core.Latent.trajectory):
    raise core.InputError(f'{truth.name} has no moving bodies to film')
  if not isinstance(predictor, core.Predictor):
    raise core.InputError(f'{loaded.name} names states, and no next tokens')
  if systems < 1:
    raise core.InputError(f'systems={systems}; expected at least 1')
  resources.require_sequences(truth, systems, f'systems={systems}')
  metric = None if forces is None else _force_metric(forces, loaded)
  shown = truth.sample(systems, seed, split='heldout')
  if not membership.fits(predictor, shown.lengths).all():
    raise core.InputError(
      f'{loaded.name} reads up to {predictor.max_len} tokens; expected '
      f'{int(shown.lengths.max())}, as {truth.name} has'
    )
  clips = _clips(predictor, truth, shown, prefix)
  path = pathlib.Path(out) / 'film.html'
  if metric is not None:
    both = _forces(loaded, shown, metric, seed, path.parent)
    clips = [
      take.with_forces(true, predicted)
      for take, true, predicted in zip(clips, *both, strict=True)
    ]
  page = films.render(
    clips,
    title=f'Orbits by {loaded.name}',
    lead=f'{len(clips)} held-out systems of {registry.spec(truth)}',
    forces='' if metric is None else _tuning(metric),
  )
  path.parent.mkdir(parents=True, exist_ok=True)
  files.write_text(path, page)
  return path


def _tuning(metric: force_law.Metric) -> str:
  """What the model was tuned to, and how, for the page."""
  what, steps = metric.targets[0].removesuffix('_vector'), metric.steps[-1]
  return (
    f'{what}, after {steps} steps on {metric.examples} systems of the same '
    f'world with {metric.labels} labels each'
  )


def _clips(
  predictor: core.Predictor,
  world: core.Latent,
  shown: core.Sequences,
  prefix: int,
) -> list[films.Take]:
  """A take of each sequence; systems of equally many bodies go at once."""
  motion = world.trajectory(shown)
  rows = motion.position.shape[1]
  seen = paths.seen(world, shown)
  predicted = paths.forced(predictor, world, shown).likely
  clips: dict[int, films.Take] = {}
  for bodies in np.unique(motion.bodies):
    shown_rows = np.flatnonzero(motion.bodies == bodies)
    frames = rows // bodies
    start = prefix or frames // 2
    if not 2 <= start < frames:
      raise core.InputError(
        f'prefix={start} of {frames} frames; expected 2 to {frames - 1}'
      )
    used = frames * bodies
    alone = np.full((len(shown_rows), used, 2), np.nan)
    first = start * bodies
    alone[:, first:] = paths.rolled(
      *(predictor, world, shown.take(shown_rows), int(first), int(used - first))
    )
    for rolled, n in zip(alone, shown_rows, strict=True):
      four = (motion.position[n], seen[n], predicted[n], rolled)
      cut = [path[:used].reshape(frames, bodies, 2) for path in four]
      step = float(motion.step[n])
      name = _name(motion.state[n], int(bodies), step)
      clips[int(n)] = films.Take(name, step, int(start), world.width, *cut)
  return [clips[n] for n in sorted(clips)]


def _name(state: np.ndarray, bodies: int, step: float) -> str:
  """Which orbits these are, by the first states [R, 6] of the planets."""
  orbits = [_orbit(*state[body]) for body in range(bodies - 1)]
  if bodies > 2:  # Masses of all would not fit in a line.
    orbits = [f'{bodies - 1} planets', *(o.split(' of ')[0] for o in orbits)]
  return f'{", ".join(orbits)}; every {step:.3g} years'


def _orbit(
  x: float, y: float, vx: float, vy: float, planet: float, sun: float
) -> str:
  """'1.00 AU (e .017)' by energy and angular momentum."""
  total = GRAVITY * (planet + sun)
  axis = 1 / (2 / np.hypot(x, y) - (vx**2 + vy**2) / total)
  moment = x * vy - y * vx
  e = np.sqrt(max(1 - moment**2 / (total * axis), 0))
  return f'{axis:.3g} AU (e {e:.2g}) of {planet:.2g} and {sun:.2g} suns'


FORCES_FILE = 'film_forces.npz'
VECTORS = 'acceleration_vector', 'force_vector'


def _force_metric(
  forces: core.Metric | str, loaded: Loaded
) -> force_law.Metric:
  """What the model is tuned by: a metric, its spec, or a target's name.

  Raises:
    InputError: it is none of these, it is not of one data set and one target of
      vectors, or the model cannot be tuned.
  """
  if forces in VECTORS:
    forces = force_law.Metric(num=1, targets=(str(forces),))
  metric = registry.resolve('metric', forces) if '(' in str(forces) else None
  if (
    not isinstance(metric, force_law.Metric)
    or metric.num != 1
    or metric.targets not in [(name,) for name in VECTORS]
  ):
    raise core.InputError(
      f'forces={forces!s} was given; expected {" or ".join(VECTORS)}, or a '
      'force_law(num=1, targets=(..,)) of one of the two'
    )
  if not isinstance(loaded.predictor, core.Adaptable):
    raise core.InputError(
      f'{loaded.name} cannot be tuned to tell forces; expected a model that '
      'can be adapted, such as a network'
    )
  return metric


def _forces(
  loaded: Loaded,
  shown: core.Sequences,
  metric: force_law.Metric,
  seed: int,
  out: pathlib.Path,
) -> tuple[np.ndarray, np.ndarray]:
  """[N, R, 2] true vectors at all rows, and those of the model.

  In AU / year^2, and of forces in solar masses AU / year^2; NaN of suns.

  OUT/film_forces.npz keeps the latter, as long as all that they depend on is as
  it was.

  Args:
    loaded: the model, and the world of the systems.
    shown: N systems that the world has sampled.
    metric: see `_force_metric`.
    seed: of what it is tuned on.
    out: folder of the film.
  """
  world, predictor = loaded.world, loaded.predictor
  assert core.can(world, core.Latent.trajectory)  # By the film itself.
  assert isinstance(predictor, core.Adaptable)  # By `_force_metric`.
  origin = provenance.Reader().of(metric, world, loaded.origin.inputs)
  cached = not (origin.unknown or loaded.origin.unknown)
  mark = files.hash_of(
    [
      *(registry.spec(metric), registry.spec(world), seed, shown.tokens),
      sorted(origin.inputs.items()),
    ]
  )
  forces = _cached(out / FORCES_FILE, mark) if cached else None
  if forces is None:
    forces = _tuned(predictor, world, shown, metric, seed)
    if cached:
      _cache(out / FORCES_FILE, mark, forces)
  true = force_tasks.labels(metric.targets[0], world.trajectory(shown).state)
  return true, forces


def _tuned(
  predictor: core.Adaptable,
  world: core.Latent,
  shown: core.Sequences,
  metric: force_law.Metric,
  seed: int,
) -> np.ndarray:
  """[N, R, 2] what the model says at all rows, tuned as it is to be scored."""
  planets = force_tasks.Shown.of(world, shown)
  rows = force_tasks.chosen(planets.planet, planets.planet.shape[2], seed)
  task = metric.task(world, seed)._replace(
    tested=planets, asked=force_tasks.OrbitPoints.of(planets, rows)
  )
  predicted = metric.told(task, metric.targets[0], predictor, seed)[-1, 0]
  forces = np.full((*planets.planet.shape[1:], predicted.shape[-1]), np.nan)
  system, place = np.nonzero(rows[0] != core.DEAD)
  forces[system, rows[0, system, place]] = predicted[system, place]
  return forces


def _cached(path: pathlib.Path, mark: str) -> np.ndarray | None:
  """What is kept under this mark; None where nothing is."""
  try:
    with np.load(path, allow_pickle=False) as file:
      return file['said'] if str(file['mark']) == mark else None
  except (
    FileNotFoundError,
    zipfile.BadZipFile,
    ValueError,
    KeyError,
    EOFError,
  ):
    return None


def _cache(path: pathlib.Path, mark: str, forces: np.ndarray) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  with files.replacing(path) as temporary, open(temporary, 'wb') as file:
    np.savez(file, mark=np.array(mark), said=forces)
