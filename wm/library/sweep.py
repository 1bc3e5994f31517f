"""Many training runs of a grid: trained, tabled, scored and reported."""

from __future__ import annotations

import dataclasses
import pathlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wm import core
from wm.core import registry
from wm.library import calls, job, report
from wm.library.calls import Tell, Things
from wm.options.training import Training
from wm.runtime import provenance
from wm.tasks import grid as grid_lib
from wm.tasks import standings
from wm.tasks import sweep as sweep_lib

Grid = Mapping[str, Mapping[str, Any] | Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class Scoring:
  """How the runs of a sweep are scored.

  Attributes:
    metrics: what to measure.
    world: to score in; None is the one that a run was trained on.
    accept: rule for all metrics that have one; None leaves theirs.
    checkpoint: 'best' or 'last'.
    seed: the same for all runs.
    beside: folders of other scored runs, reported with these.
  """

  metrics: Things
  world: str | None = None
  accept: str | None = None
  checkpoint: str = 'best'
  seed: int = 0
  beside: Sequence[str | pathlib.Path] = ()

  def of(self, run: grid_lib.Run) -> dict[str, Any]:
    """What a run is scored by, as JSON values."""
    several: Sequence[core.Metric | str]
    if isinstance(self.metrics, str) or not isinstance(self.metrics, Sequence):
      several = [self.metrics]
    else:
      several = self.metrics
    return {
      'world': self.world or run.flags['world'],
      'name': run.title,
      'seed': self.seed,
      'checkpoint': self.checkpoint,
      'metric': [
        m if isinstance(m, str) else registry.spec(m) for m in several
      ],
      'accept': self.accept,
    }


def settings() -> dict[str, Any]:
  """Every setting of a run, at its default: world, model, and of Training."""
  fields = dataclasses.asdict(Training())
  del fields['log_every']
  return {'seed': fields.pop('seed'), 'world': None, 'model': None, **fields}


def runs_of(
  grid: Grid | Sequence[grid_lib.Axis],
  out: str | pathlib.Path,
  given: Mapping[str, Any],
  winners_of: str | pathlib.Path | None = None,
  top: int = 1,
) -> list[grid_lib.Run]:
  """The runs that `sweep` does; see there."""
  if isinstance(grid, Mapping):
    grid = [grid_lib.axis(name, values) for name, values in grid.items()]
  data = pathlib.Path(given.get('data') or pathlib.Path(out) / 'data')
  known = settings()
  for name in {**given, **{axis.name: None for axis in grid}}:
    if name not in (*known, grid_lib.FILE):
      raise core.InputError(
        f'no setting of a run is called {name!r}; '
        + registry.suggest(name, [*known])
      )
  before = winners_of and standings.winners(winners_of, top)
  fixed = {**given, 'data': str(data.resolve())}
  return grid_lib.runs(grid, fixed, known, before or None)


def sweep(
  grid: Grid | Sequence[grid_lib.Axis],
  out: str | pathlib.Path,
  given: Mapping[str, Any],
  *,
  per: Sequence[str] = (),
  jobs: int = 1,
  devices: Sequence[str] = (),
  keep: int = 0,
  winners_of: str | pathlib.Path | None = None,
  top: int = 1,
  scoring: Scoring | None = None,
  dry_run: bool = False,
  tell: Tell = calls.silent,
) -> list[standings.Standing]:
  """Trains every run of a grid, each in a process of its own, and tables them.

  Args:
    grid: what varies, each with each: setting -> values, or label -> value.
      Settings are 'world', 'model', and the fields of `Training`.
    out: folder; OUT/sweep.md fills as runs end, OUT/runs/NAME is a run.
    given: settings of every run; its data are by default in OUT/data.
    per: axes for each of whose values there is a best run.
    jobs: runs at a time.
    devices: CUDA_VISIBLE_DEVICES of the jobs, in turn.
    keep: best runs that keep their checkpoints; 0 is all.
    winners_of: folder of an ended sweep, from whose best `top` this one
      starts: their places in its grid, and this grid.
    top: how many of the best.
    scoring: what is then done to the runs that kept their checkpoints; they
      are reported together in OUT/report.
    dry_run: tells the names of the runs and does nothing.
    tell: gets a line on each run that ends.

  Returns:
    How each run stands: its settings, status, losses and error.

  Raises:
    InputError: bad settings, or a folder that holds another run.
    Stopped: a signal came; what is done is kept.
  """
  place = pathlib.Path(out)
  todo = runs_of(grid, place, given, winners_of, top)
  made = sweep_lib.Sweep(place, todo, per, _train, keep, devices)
  made.check()
  if scoring:  # What is bad of it shows here, not after the training.
    calls.metrics_of(scoring.metrics, scoring.accept)
    registry.make('world', scoring.of(todo[0])['world'])
  if dry_run:
    for line in (*(run.name for run in todo), f'{len(todo)} runs'):
      tell(line)
    return standings.read(place, todo)
  tell(f'{out}/sweep.md: {len(made.work(jobs, tell))} runs')
  if scoring:
    scored = made.score(
      lambda run, folder: _score(scoring.of(run), folder),
      _marked(scoring, place),
      jobs,
      tell,
    )
    if folders := [*scored, *scoring.beside]:
      # Another process that shares the sweep may be writing the report.
      report.report(folders, place, wait=True, tell=tell)
  return made.table()


def _train(run: grid_lib.Run, folder: pathlib.Path) -> list[str]:
  return job.command(
    'train',
    world=run.flags['world'],
    model=run.flags['model'],
    out=str(folder),
    training=dataclasses.asdict(run.training),
  )


def _score(asked: dict[str, Any], folder: pathlib.Path) -> list[str]:
  asked = {**asked, 'metrics': asked['metric']}
  del asked['metric']
  return job.command('score', source=str(folder), out=str(folder), **asked)


def _marked(
  scoring: Scoring, out: pathlib.Path
) -> Callable[[grid_lib.Run], dict[str, Any]]:
  """(run) -> what it is scored by, and the hash of all that this depends on.

  What its training said at its end stands for its checkpoint.
  """
  reader, alone = provenance.Reader(), threading.Lock()
  code = 'wm.evaluation.scoring', 'wm.training.restore'

  def mark(run: grid_lib.Run) -> dict[str, Any]:
    asked, path = scoring.of(run), standings.folder(out, run) / 'train.json'
    world = registry.make('world', asked['world'])
    metrics = calls.metrics_of(asked['metric'], asked['accept'])
    model = registry.make('model', run.flags['model'])
    with alone:  # Jobs are threads; a reader is for one, and so is ast.parse.
      origin = reader.of(world, *metrics, model, *code, [str(path)])
    return {**asked, 'origin': provenance.digest(origin)}

  return mark
