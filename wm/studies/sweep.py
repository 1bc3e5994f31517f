"""Many training runs, each in a process of its own, and a table of them.

Every run is trained and, where that is asked for, scored.

    OUT/sweep.json, sweep.md    how every run stands, rewritten as runs end
    OUT/runs/NAME/              a run: what `train` writes, and
      sweep.run.json            what it is, so that another is refused
      train.log, score.log      what its processes printed
      sweep.scored.json         what it has been scored by
      failed.json               how it ended, if it failed
      .lock                     held by the process that works on it

A sweep that was stopped is started again, and several sweeps share the work,
see `wm.studies.jobs`.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from wm import core
from wm.core import inputs, plugins, registry
from wm.library import calls, report
from wm.library.calls import Log
from wm.options import check, takes
from wm.options.calls import Path, Scoring, Sweeping
from wm.options.training import Training
from wm.runtime import files, provenance
from wm.studies import grid as grids
from wm.studies import jobs as pools
from wm.studies import rows

Command = Callable[[grids.GridRun, pathlib.Path], list[str]]


class _Stage(NamedTuple):
  """One thing that is done to every run: training or scoring.

  Attributes:
    name: 'train' or 'score'.
    command: (run, its folder) -> command line of the process that does it.
    mark: (run) -> content of the file that says it is done, written by the
      sweep; None where the process itself writes that file.
  """

  name: str
  command: Command
  mark: Callable[[grids.GridRun], Any] | None = None

  def path(self, place: pathlib.Path) -> pathlib.Path:
    """The file that says it is done."""
    return place / ('sweep.scored.json' if self.mark else 'train.json')

  def done(self, run: grids.GridRun, place: pathlib.Path) -> bool:
    """Whether it has been done, and with the same mark."""
    path = self.path(place)
    if not (self.mark and path.exists()):
      return path.exists()
    return files.read_json(path) == self.mark(run)

  def end(self, run: grids.GridRun, place: pathlib.Path) -> None:
    """Says that it is done, where the process itself does not."""
    if self.mark:
      files.write_json(self.path(place), self.mark(run))


class Sweep:
  """The runs of a sweep in a folder.

  Attributes:
    runs: what to do, in this order.
    per: axes; there is a best run for each of their values.
    command: (run, its folder) -> command line of the process that trains it.
    keep: how many of the best candidates, for each value of `per`, keep their
      checkpoints; 0 is all.
    pool: where its processes run; None is this machine.
  """

  def __init__(
    self,
    out: pathlib.Path,
    runs: Sequence[grids.GridRun],
    per: Sequence[str],
    command: Command,
    keep: int = 0,
    pool: pools.JobPool | None = None,
  ) -> None:
    self.out, self.runs, self.per = out, runs, per
    self.command, self.keep = command, keep
    self._pool = pool or pools.JobPool()

  def check(self) -> None:
    """Raises InputError where a run lacks a setting or a folder is taken."""
    for run in self.runs:
      for name in ('world', 'model'):
        if not run.flags[name]:
          raise core.InputError(f'{run.name} has no --{name}')
    grids.groups(grids.read(self.out, self.runs), self.per)
    for run in self.runs:
      path = grids.folder(self.out, run)
      if (path / 'sweep.run.json').exists():
        files.claim(path, 'sweep', run.identity, grids.USUAL)

  def work(self, jobs: int, log: Log) -> list[grids.Standing]:
    """Trains the runs that are not done, `jobs` at a time.

    A run that failed before is tried again. A failure is recorded, and stops
    no other run. `log` gets a line on each run that ends.

    Raises:
      Stopped: this process was told to stop, and has told its runs; or one of
        its runs was told, and the others have been done.
    """
    self.check()
    self._all(_Stage(grids.TRAIN, self.command), self.runs, jobs, log)
    return self.table()

  def score(
    self,
    command: Command,
    mark: Callable[[grids.GridRun], Any],
    jobs: int,
    log: Log,
  ) -> list[pathlib.Path]:
    """Scores the runs that are trained, have a checkpoint and are not scored.

    Args:
      command: (run, its folder) -> command line of the process that scores it.
      mark: (run) -> JSON value of all that its scores depend on; a run whose
        mark is the one it was scored by is not scored again.
      jobs: runs at a time.
      log: gets a line on each run that ends.

    Returns:
      Folders of the runs that are scored, in order. Failures and signals are
      as in `work`.
    """
    stage = _Stage(grids.SCORE, command, mark)
    trained = self._with_checkpoints()
    todo = [run for run in self.runs if run.name in trained]
    self._all(stage, todo, jobs, log)
    places = {run.name: grids.folder(self.out, run) for run in todo}
    return [places[r.name] for r in todo if stage.done(r, places[r.name])]

  def _with_checkpoints(self) -> set[str]:
    ranked = grids.groups(self.table(), self.per).values()
    best = [group[: self.keep or None] for group in ranked]
    members = [m for group in best for c in group for m in c.members]
    return {member.run.name for member in members if member.summary}

  def _all(
    self, stage: _Stage, runs: Sequence[grids.GridRun], jobs: int, log: Log
  ) -> None:
    self.table()
    by_name = {run.name: run for run in runs}
    self._pool.work(
      [self._job(stage, run) for run in runs],
      jobs,
      lambda job: self._line(stage, by_name[job.name]),
      log,
    )

  def _job(self, stage: _Stage, run: grids.GridRun) -> pools.Job:
    place, usual = grids.folder(self.out, run), grids.USUAL
    return pools.Job(
      run.name,
      stage.name,
      place,
      command=functools.partial(stage.command, run, place),
      done=functools.partial(stage.done, run, place),
      begin=lambda: files.claim(place, 'sweep', run.identity, usual),
      end=functools.partial(stage.end, run, place),
    )

  def table(self) -> list[grids.Standing]:
    """Reads how all runs stand, writes the table, and deletes checkpoints that
    `keep` does not keep."""
    now = grids.read(self.out, self.runs, self._pool.running)
    grids.write(self.out, now, self.per)
    if self.keep:
      for candidates in grids.groups(now, self.per).values():
        ended = [c for c in candidates if c.ended]
        for candidate in ended[self.keep :]:
          for member in candidate.members:
            place = grids.folder(self.out, member.run)
            shutil.rmtree(place / 'checkpoints', ignore_errors=True)
    return now

  def _line(self, stage: _Stage, run: grids.GridRun) -> str:
    row = next(s for s in self.table() if s.run.name == run.name)
    if row.error:
      return f'{run.name}: {row.status}, {row.error}'
    if not stage.done(run, grids.folder(self.out, run)):
      return f'{run.name}: was told to stop'
    if stage.name == grids.SCORE:
      return f'{run.name}: scored'
    return f'{run.name}: {row.status}, loss {row.loss:.6g}'


Grid = Mapping[str, Mapping[str, Any] | Sequence[Any]]


def settings() -> dict[str, Any]:
  """Every setting of a run, at its default: world, model, and of Training."""
  fields = dataclasses.asdict(Training())
  del fields['log_every']
  return {'seed': fields.pop('seed'), 'world': None, 'model': None, **fields}


def runs_of(
  grid: Grid | Sequence[grids.Axis],
  out: Path,
  fixed: Mapping[str, Any],
  options: Sweeping,
) -> list[grids.GridRun]:
  """The runs that `sweep` does; see there."""
  if isinstance(grid, Mapping):
    grid = [grids.axis(name, values) for name, values in grid.items()]
  data = pathlib.Path(fixed.get('data') or pathlib.Path(out) / 'data')
  defaults = settings()
  for name in {**fixed, **{axis.name: None for axis in grid}}:
    if name != grids.FILE:
      text = f'no setting of a run is called {name!r}'
      inputs.check_known(name, defaults, text)
  plugins.allow(*registry.files([dict(fixed), *map(_values, grid)]))
  before = (
    grids.winners(options.winners_of, options.top)
    if options.winners_of
    else None
  )
  for run in before or ():
    for kind in ('world', 'model'):
      registry.make(kind, str(run.flags[kind]))
  whole = {**fixed, 'data': str(data.resolve())}
  return grids.runs(grid, whole, defaults, before)


def _values(axis: grids.Axis) -> list[Any]:
  return [{**choice.weak, **choice.strong} for choice in axis.choices]


@takes(options=Sweeping)
def sweep(
  grid: Grid | Sequence[grids.Axis],
  out: Path,
  fixed: Mapping[str, Any],
  *,
  options: Sweeping,
  scoring: Scoring | None = None,
  log: Log = calls.silent,
) -> list[grids.Standing]:
  """Trains every run of a grid, each in a process of its own, and tables them.

  Args:
    grid: what varies, each with each: setting -> values, or label -> value.
      Settings are 'world', 'model', and the fields of `Training`.
    out: folder; OUT/sweep.md fills as runs end, OUT/runs/NAME is a run.
    fixed: settings of every run; its data are by default in OUT/data.
    options: axes that each have a best run, jobs, devices, and where to start
      from.
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
  todo = runs_of(grid, place, fixed, options)
  if not todo:
    raise core.InputError(
      'there is no run: the grid, or --winners_of, has none'
    )
  cluster = None if options.dry_run else options.cluster
  pool = pools.JobPool(options.devices, cluster)
  sweeping = Sweep(place, todo, options.per, _train, options.keep, pool)
  sweeping.check()
  _check(todo)
  if scoring:  # What is bad of it shows here, not after the training.
    calls.metrics_of(
      scoring.metrics, scoring.accept, scoring.loop, scoring.metric_overrides
    )
    registry.make('world', _asked(scoring, todo[0])['world'])
  if options.dry_run:
    for line in (*(run.name for run in todo), f'{len(todo)} runs'):
      log(line)
    return grids.read(place, todo)
  log(f'{out}/sweep.md: {len(sweeping.work(options.jobs, log))} runs')
  if scoring:
    scored = sweeping.score(
      lambda run, folder: _score(_asked(scoring, run), folder),
      _marked(scoring, place),
      options.jobs,
      log,
    )
    if folders := [*scored, *options.beside]:
      # Another process that shares the sweep may be writing the report.
      report.report(folders, place, wait=True, log=log)
  return sweeping.table()


def _check(runs: Sequence[grids.GridRun]) -> None:
  """Raises InputError where a run's settings are no options or no specs."""
  for kind in ('world', 'model'):
    for text in dict.fromkeys(run.flags[kind] for run in runs):
      registry.make(kind, text)
  for run in runs:
    check(run.training)


def _train(run: grids.GridRun, folder: pathlib.Path) -> list[str]:
  return pools.command(
    'train',
    world=run.flags['world'],
    model=run.flags['model'],
    out=str(folder),
    training=dataclasses.asdict(run.training),
  )


def _asked(scoring: Scoring, run: grids.GridRun) -> dict[str, Any]:
  """What a run is scored by, as JSON values; kept in sweep.scored.json."""
  metrics = scoring.metrics
  several = [metrics] if isinstance(metrics, str | core.Metric) else metrics
  options = {
    'loop': scoring.loop,
    'metric_overrides': scoring.metric_overrides,
  }
  return {
    'world': rows.spec_of(scoring.world or run.flags['world']),
    'name': run.title,
    'seed': scoring.seed,
    'checkpoint': scoring.checkpoint,
    'metric': [*map(rows.spec_of, several)],
    'accept': scoring.accept and rows.spec_of(scoring.accept),
    **{name: value for name, value in options.items() if value is not None},
  }


def _score(asked: dict[str, Any], folder: pathlib.Path) -> list[str]:
  asked = {**asked, 'metrics': asked['metric']}
  del asked['metric']
  return pools.command('score', source=str(folder), out=str(folder), **asked)


def _marked(
  scoring: Scoring, out: pathlib.Path
) -> Callable[[grids.GridRun], dict[str, Any]]:
  """(run) -> what it is scored by, and the hash of all that this depends on.

  What its training said at its end stands for its checkpoint.
  """
  reader, alone = provenance.Reader(), threading.Lock()
  code = 'wm.evaluation.scoring', 'wm.training.checkpoints'

  def mark(run: grids.GridRun) -> dict[str, Any]:
    """JSON values that are the same as long as the run's scores stand."""
    asked, path = (
      _asked(scoring, run),
      grids.folder(out, run) / 'train.json',
    )
    world = registry.make('world', asked['world'])
    metrics = calls.metrics_of(asked['metric'], asked['accept'])
    model = registry.make('model', run.flags['model'])
    with alone:  # Jobs are threads; a reader is for one, and so is ast.parse.
      origin = reader.of(world, *metrics, model, *code, [str(path)])
    return {
      **asked,
      'origin': files.hash_of([sorted(origin.inputs.items())]),
    }

  return mark
