"""Trains all runs of a grid, each in a process of its own, and scores the best.

A grid, settings and options come in; a folder for each run and a table go out:

    OUT/sweep.json, sweep.md    how every run stands, rewritten as runs end
    OUT/runs/NAME/              a run: what `train` writes, and
      sweep.run.json            what it is, so that another is refused
      train.log, score.log      what its processes printed
      sweep.scored.json         what it has been scored by
      failed.json               how it ended, if it failed
      .lock                     held by the process that works on it

A sweep that was stopped is started again, and several sweeps share the work.
`grid` lists and ranks the runs; `jobs` runs their processes.
"""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

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

_SCORED = 'sweep.scored.json'
# (run, its folder) -> command line; (run) -> what its scores depend on.
Command = Callable[[grids.GridRun, pathlib.Path], list[str]]
Mark = Callable[[grids.GridRun], Any]


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
    self._do(grids.TRAIN, self.runs, self.command, jobs, log)
    return self.table()

  def score(
    self, command: Command, mark: Mark, jobs: int, log: Log
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
    ranked = grids.groups(self.table(), self.per).values()
    best = [c for group in ranked for c in group[: self.keep or None]]
    members = [member for candidate in best for member in candidate.members]
    trained = {member.run.name for member in members if member.summary}
    todo = [run for run in self.runs if run.name in trained]
    self._do(grids.SCORE, todo, command, jobs, log, mark)
    scored = [run for run in todo if self._is_done(run, mark)]
    return [grids.folder(self.out, run) for run in scored]

  def _is_done(self, run: grids.GridRun, mark: Mark | None) -> bool:
    """Is a run trained, or, with a mark, scored by the same?"""
    folder = grids.folder(self.out, run)
    if mark is None:
      return (folder / 'train.json').exists()
    path = folder / _SCORED
    return path.exists() and bool(files.read_json(path) == mark(run))

  def _do(
    self,
    stage: str,
    runs: Sequence[grids.GridRun],
    command: Command,
    jobs: int,
    log: Log,
    mark: Mark | None = None,
  ) -> None:
    """Does a stage of the runs that lack it; `mark` is that of scoring."""
    self.table()
    by_name = {run.name: run for run in runs}

    def job(run: grids.GridRun) -> pools.Job:
      """The process that does the stage of a run."""
      folder, usual = grids.folder(self.out, run), grids.USUAL

      def end() -> None:
        if mark:
          files.write_json(folder / _SCORED, mark(run))

      return pools.Job(
        run.name,
        stage,
        folder,
        command=lambda: command(run, folder),
        done=lambda: self._is_done(run, mark),
        begin=lambda: files.claim(folder, 'sweep', run.identity, usual),
        end=end,
      )

    def line(job: pools.Job) -> str:
      """What is told of a job that has ended; it tables all runs anew."""
      row = next(s for s in self.table() if s.run.name == job.name)
      if row.error:
        return f'{job.name}: {row.status}, {row.error}'
      if not self._is_done(by_name[job.name], mark):
        return f'{job.name}: was told to stop'
      if mark:
        return f'{job.name}: scored'
      return f'{job.name}: {row.status}, loss {row.loss:.6g}'

    self._pool.work([*map(job, runs)], jobs, line, log)

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
            folder = grids.folder(self.out, member.run)
            shutil.rmtree(folder / 'checkpoints', ignore_errors=True)
    return now


def settings() -> dict[str, Any]:
  """Every setting of a run, at its default: world, model, and of Training."""
  fields = dataclasses.asdict(Training())
  del fields['log_every']
  return {'seed': fields.pop('seed'), 'world': None, 'model': None, **fields}


def runs_of(
  grid: grids.Grid | Sequence[grids.Axis],
  out: Path,
  fixed: Mapping[str, Any],
  options: Sweeping,
) -> list[grids.GridRun]:
  """The runs that `sweep` does; see there."""
  fixed = _written(fixed)
  axes = grids.axes_of(_written(grid) if isinstance(grid, Mapping) else grid)
  data = pathlib.Path(fixed.get('data') or pathlib.Path(out) / 'data')
  defaults = settings()
  for name in {**fixed, **{axis.name: None for axis in axes}}:
    if name != grids.FILE:
      text = f'no setting of a run is called {name!r}'
      inputs.check_known(name, defaults, text)
  plugins.allow(*registry.files([dict(fixed), *map(_values, axes)]))
  before = (
    grids.winners(options.winners_of, options.top)
    if options.winners_of
    else None
  )
  for run in before or ():
    for kind in ('world', 'model'):
      registry.make(kind, str(run.flags[kind]))
  whole = {**fixed, 'data': str(data.resolve())}
  return grids.runs(axes, whole, defaults, before)


def _written(value: Any) -> Any:
  """A setting, or several, with specs for worlds and models."""
  if isinstance(value, Mapping):
    return {name: _written(part) for name, part in value.items()}
  if isinstance(value, list | tuple):
    return [*map(_written, value)]
  is_plug_in = isinstance(value, core.World | core.Model)
  return registry.spec(value) if is_plug_in else value


def _values(axis: grids.Axis) -> list[Any]:
  return [{**choice.weak, **choice.strong} for choice in axis.choices]


@takes(options=Sweeping)
def sweep(
  grid: grids.Grid | Sequence[grids.Axis],
  out: Path,
  fixed: Mapping[str, Any],
  *,
  options: Sweeping,
  scoring: Scoring | None = None,
  log: Log = calls.no_log,
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
  folder = pathlib.Path(out)
  todo = runs_of(grid, folder, fixed, options)
  if not todo:
    raise core.InputError(
      'there is no run: the grid, or --winners_of, has none'
    )
  cluster = None if options.dry_run else options.cluster
  pool = pools.JobPool(options.devices, cluster)
  sweeping = Sweep(folder, todo, options.per, _train, options.keep, pool)
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
    return grids.read(folder, todo)
  log(f'{out}/sweep.md: {len(sweeping.work(options.jobs, log))} runs')
  if scoring:

    def score(run: grids.GridRun, folder: pathlib.Path) -> list[str]:
      asked = _asked(scoring, run)
      asked['metrics'] = asked.pop('metric')
      where = {'source': str(folder), 'out': str(folder)}
      return pools.command('score', **where, **asked)

    mark = _marked(scoring, folder)
    scored = sweeping.score(score, mark, options.jobs, log)
    if folders := [*scored, *options.beside]:
      # Another process that shares the sweep may be writing the report.
      report.report(folders, folder, wait=True, log=log)
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
