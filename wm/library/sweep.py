"""Many training runs of a grid: trained, tabled, scored and reported."""

from __future__ import annotations

import dataclasses
import pathlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wm import core
from wm.core import registry, trust
from wm.library import calls, report
from wm.library.calls import Log
from wm.options import check, takes
from wm.options.calls import Path, Scoring, Sweeping
from wm.options.training import Training
from wm.runtime import provenance
from wm.tasks import grid as grid_lib
from wm.tasks import pool, standings
from wm.tasks import sweep as sweep_lib

Grid = Mapping[str, Mapping[str, Any] | Sequence[Any]]


def settings() -> dict[str, Any]:
  """Every setting of a run, at its default: world, model, and of Training."""
  fields = dataclasses.asdict(Training())
  del fields['log_every']
  return {'seed': fields.pop('seed'), 'world': None, 'model': None, **fields}


def runs_of(
  grid: Grid | Sequence[grid_lib.Axis],
  out: Path,
  given: Mapping[str, Any],
  winners_of: Path | None = Sweeping.winners_of,
  top: int = Sweeping.top,
) -> list[grid_lib.Run]:
  """The runs that `sweep` does; see there."""
  if isinstance(grid, Mapping):
    grid = [grid_lib.axis(name, values) for name, values in grid.items()]
  data = pathlib.Path(given.get('data') or pathlib.Path(out) / 'data')
  defaults = settings()
  for name in {**given, **{axis.name: None for axis in grid}}:
    if name not in (*defaults, grid_lib.FILE):
      raise core.InputError(
        f'no setting of a run is called {name!r}; '
        + registry.suggest(name, [*defaults])
      )
  trust.allow(*registry.files([dict(given), *map(_values, grid)]))
  before = standings.winners(winners_of, top) if winners_of else None
  for run in before or ():
    for kind in ('world', 'model'):
      registry.make(kind, str(run.flags[kind]))
  fixed = {**given, 'data': str(data.resolve())}
  return grid_lib.runs(grid, fixed, defaults, before)


def _values(axis: grid_lib.Axis) -> list[Any]:
  return [{**choice.weak, **choice.strong} for choice in axis.choices]


@takes(Sweeping)
def sweep(
  grid: Grid | Sequence[grid_lib.Axis],
  out: Path,
  given: Mapping[str, Any],
  *,
  per: Sequence[str] = Sweeping.per,
  jobs: int = Sweeping.jobs,
  devices: Sequence[str] = Sweeping.devices,
  keep: int = Sweeping.keep,
  winners_of: Path | None = Sweeping.winners_of,
  top: int = Sweeping.top,
  scoring: Scoring | None = None,
  beside: Sequence[Path] = Sweeping.beside,
  dry_run: bool = Sweeping.dry_run,
  log: Log = calls.silent,
) -> list[standings.Standing]:
  """Trains every run of a grid, each in a process of its own, and tables them.

  Args:
    grid: what varies, each with each: setting -> values, or label -> value.
      Settings are 'world', 'model', and the fields of `Training`.
    out: folder; OUT/sweep.md fills as runs end, OUT/runs/NAME is a run.
    given: settings of every run; its data are by default in OUT/data.
    scoring: what is then done to the runs that kept their checkpoints; they
      are reported together in OUT/report.
    log: gets a line on each run that ends.

  Returns:
    How each run stands: its settings, status, losses and error.

  Raises:
    InputError: bad settings, or a folder that holds another run.
    Stopped: a signal came; what is done is kept.
  """
  place = pathlib.Path(out)
  todo = runs_of(grid, place, given, winners_of, top)
  if not todo:
    raise core.InputError(
      'there is no run: the grid, or --winners_of, has none'
    )
  sweeping = sweep_lib.Sweep(place, todo, per, _train, keep, devices)
  sweeping.check()
  _check(todo)
  if scoring:  # What is bad of it shows here, not after the training.
    calls.metrics_of(
      scoring.metrics, scoring.accept, scoring.loop, scoring.fields
    )
    registry.make('world', _asked(scoring, todo[0])['world'])
  if dry_run:
    for line in (*(run.name for run in todo), f'{len(todo)} runs'):
      log(line)
    return standings.read(place, todo)
  log(f'{out}/sweep.md: {len(sweeping.work(jobs, log))} runs')
  if scoring:
    scored = sweeping.score(
      lambda run, folder: _score(_asked(scoring, run), folder),
      _marked(scoring, place),
      jobs,
      log,
    )
    if folders := [*scored, *beside]:
      # Another process that shares the sweep may be writing the report.
      report.report(folders, place, wait=True, log=log)
  return sweeping.table()


def _check(runs: Sequence[grid_lib.Run]) -> None:
  """Raises InputError where a run's settings are no options or no specs."""
  for kind in ('world', 'model'):
    for text in dict.fromkeys(run.flags[kind] for run in runs):
      registry.make(kind, text)
  for run in runs:
    check(run.training)


def _train(run: grid_lib.Run, folder: pathlib.Path) -> list[str]:
  return pool.command(
    'train',
    world=run.flags['world'],
    model=run.flags['model'],
    out=str(folder),
    training=dataclasses.asdict(run.training),
  )


def _asked(scoring: Scoring, run: grid_lib.Run) -> dict[str, Any]:
  """What a run is scored by, as JSON values; kept in sweep.scored.json."""

  def text(thing: Any) -> str | None:
    return thing if isinstance(thing, str | None) else registry.spec(thing)

  metrics = scoring.metrics
  several = [metrics] if isinstance(metrics, str | core.Metric) else metrics
  options = {'loop': scoring.loop, 'fields': scoring.fields}
  return {
    'world': text(scoring.world) or run.flags['world'],
    'name': run.title,
    'seed': scoring.seed,
    'checkpoint': scoring.checkpoint,
    'metric': [text(metric) for metric in several],
    'accept': text(scoring.accept),
    **{name: value for name, value in options.items() if value is not None},
  }


def _score(asked: dict[str, Any], folder: pathlib.Path) -> list[str]:
  asked = {**asked, 'metrics': asked['metric']}
  del asked['metric']
  return pool.command('score', source=str(folder), out=str(folder), **asked)


def _marked(
  scoring: Scoring, out: pathlib.Path
) -> Callable[[grid_lib.Run], dict[str, Any]]:
  """(run) -> what it is scored by, and the hash of all that this depends on.

  What its training said at its end stands for its checkpoint.
  """
  reader, alone = provenance.Reader(), threading.Lock()
  code = 'wm.evaluation.scoring', 'wm.training.restore'

  def mark(run: grid_lib.Run) -> dict[str, Any]:
    """JSON values that are the same as long as the run's scores stand."""
    asked, path = (
      _asked(scoring, run),
      standings.folder(out, run) / 'train.json',
    )
    world = registry.make('world', asked['world'])
    metrics = calls.metrics_of(asked['metric'], asked['accept'])
    model = registry.make('model', run.flags['model'])
    with alone:  # Jobs are threads; a reader is for one, and so is ast.parse.
      origin = reader.of(world, *metrics, model, *code, [str(path)])
    return {**asked, 'origin': provenance.digest(origin)}

  return mark
