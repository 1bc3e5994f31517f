"""Forces on the planets of a film, as a model tells them that was tuned."""

from __future__ import annotations

import pathlib
import zipfile

import numpy as np

from wm import core
from wm.core import registry
from wm.evaluation.fewshot import force_tasks
from wm.library.loading import Loaded
from wm.metrics import force_law
from wm.runtime import files, partial_results, provenance

FILE = 'film_forces.npz'
VECTORS = 'acceleration_vector', 'force_vector'


def asked(forces: core.Metric | str, loaded: Loaded) -> force_law.Metric:
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


def told(
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
    found: the model, and the world of the systems.
    shown: N systems that the world has sampled.
    metric: see `asked`.
    seed: of what it is tuned on.
    out: folder of the film.
  """
  world, predictor = loaded.world, loaded.predictor
  assert core.can(world, core.Latent.trajectory)  # By the film itself.
  assert isinstance(predictor, core.Adaptable)  # By `asked`.
  origin = provenance.Reader().of(metric, world, loaded.origin.inputs)
  cached = not (origin.unknown or loaded.origin.unknown)
  mark = partial_results.digest(
    [
      *(registry.spec(metric), registry.spec(world), seed, shown.tokens),
      sorted(origin.inputs.items()),
    ]
  )
  forces = _kept(out / FILE, mark) if cached else None
  if forces is None:
    forces = _tuned(predictor, world, shown, metric, seed)
    if cached:
      _keep(out / FILE, mark, forces)
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
    tested=planets, asked=force_tasks.Points.of(planets, rows)
  )
  predicted = metric.said(task, metric.targets[0], predictor, seed)[-1, 0]
  forces = np.full((*planets.planet.shape[1:], predicted.shape[-1]), np.nan)
  system, place = np.nonzero(rows[0] != core.DEAD)
  forces[system, rows[0, system, place]] = predicted[system, place]
  return forces


def _kept(path: pathlib.Path, mark: str) -> np.ndarray | None:
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


def _keep(path: pathlib.Path, mark: str, forces: np.ndarray) -> None:
  path.parent.mkdir(parents=True, exist_ok=True)
  with files.replacing(path) as temporary, open(temporary, 'wb') as file:
    np.savez(file, mark=np.array(mark), said=forces)
