"""Trains all runs of a grid in separate processes, and scores the best runs.

The input is a grid, settings and options; the output is run folders and a
table:

    OUT/sweep.json, sweep.md    status of every run, rewritten as runs end
    OUT/runs/NAME/              a run folder of `train` and `score`

Rerunning a stopped sweep resumes. Several processes can share one sweep.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wm import core
from wm.core import inputs, plugins, registry, schema
from wm.library import calls, report
from wm.library.calls import Log
from wm.options import check, takes
from wm.options.calls import Path, Sampling, Scoring, Stages, Sweeping
from wm.options.training import Training
from wm.runtime import files
from wm.studies import grid as grids
from wm.studies.grid import SEED, Grid, Place
from wm.studies.rows import Row, spec_of
from wm.studies.runs import FAILED as FAILURE
from wm.studies.runs import JobPool, Run

FOLDER = 'runs'  # OUT/runs/NAME is a run folder.
DONE, FAILED, RUNNING, WAITING = 'done', 'failed', 'running', 'waiting'
_KEPT = (
  *('parameters', 'step', 'best_loss', 'best_loss_moves', 'best_step'),
  *('heldout_loss', 'skipped', 'tokens', 'seconds'),
)


class Standing(NamedTuple):
  """A run of a sweep: status, training summary and error.

  Attributes:
    run: its place in the grid.
    status: 'done', 'failed', 'running' or 'waiting'.
    summary: values of the run's train.json; empty until the run is trained.
      The values stay during scoring, and if scoring fails.
    error: reason of a failure in one line, else ''.
  """

  run: Place
  status: str
  summary: dict[str, Any]
  error: str = ''

  @property
  def loss(self) -> float:
    """Best held-out loss after the prompt; infinite if the run has none.

    Runs of earlier versions give the loss of all tokens instead.
    """
    losses = map(self.summary.get, ('best_loss_moves', 'best_loss'))
    return next((loss for loss in losses if loss is not None), math.inf)


Candidate = Sequence[Standing]  # Runs that differ only in their seed.


def has_ended(candidate: Candidate) -> bool:
  """Whether every seed is done or has failed."""
  return all(member.status in (DONE, FAILED) for member in candidate)


def mean_loss(candidate: Candidate) -> float:
  """Mean over seeds of the best held-out loss; infinite if a seed has none."""
  return sum(member.loss for member in candidate) / len(candidate)


def _labels(run: Place) -> dict[str, str]:
  """All labels except the seed."""
  return {key: label for key, label in run.labels.items() if key != SEED}


def groups(
  standings: Sequence[Standing], per: Sequence[str]
) -> dict[tuple[str, ...], list[Candidate]]:
  """Groups candidates by their labels on the axes `per`, best first.

  Raises:
    InputError: the grid has no such axis.
  """
  by_labels: dict[tuple, list[Standing]] = {}
  ranked: dict[tuple[str, ...], list[Candidate]] = {}
  for standing in standings:
    labels = standing.run.labels
    for name in per:
      text = f'--per={name}: no axis of the grid is called so'
      inputs.check_known(name, labels, text)
    by_labels.setdefault((*_labels(standing.run).items(),), []).append(standing)
    ranked[tuple(labels[name] for name in per)] = []  # In the grid's order.
  best_first = sorted(
    by_labels.values(), key=lambda c: (not has_ended(c), mean_loss(c))
  )
  for candidate in best_first:
    labels = candidate[0].run.labels
    ranked[tuple(labels[name] for name in per)].append(candidate)
  return ranked


class Sweep:
  """The runs of a sweep in a folder.

  Attributes:
    out: the folder.
    runs: grid points to run, in this order.
    options: `per` (axes; each combination of their values has a best
      candidate), `keep_best` (candidates per combination that keep
      checkpoints; 0 keeps all), and jobs.
    pool: executes the processes.
  """

  def __init__(
    self, out: pathlib.Path, runs: Sequence[Place], options: Sweeping
  ) -> None:
    self.out, self.runs, self.options = out, runs, options
    self.pool = JobPool(options.jobs, options.devices)

  def run_of(self, place: Place) -> Run:
    """The training run of a grid point."""
    flags, folder = place.flags, str(self.out / FOLDER / place.name)
    fields = {field.name for field in dataclasses.fields(Training)}
    training = Training(**{k: x for k, x in flags.items() if k in fields})
    row = Row(place.name, flags['model'], flags['world'], flags['world'])
    return Run(row, Stages(training=training), [], folder, folder)

  def scored(self, place: Place, scoring: Scoring) -> Run:
    """The scoring run of a trained grid point."""
    folder = str(self.out / FOLDER / place.name)
    world = scoring.world or place.flags['world']
    row = Row(place.name, folder, None, world, title=place.title)
    metrics = calls.metrics_of(
      scoring.metrics, scoring.accept, scoring.metric_overrides
    )
    stages = Stages(sampling=Sampling(seed=scoring.seed))
    return Run(row, stages, metrics, folder, folder)

  def check(self, scoring: Scoring | None) -> None:
    """Raises InputError if a run lacks a setting or its folder is taken."""
    groups(self.standings(), self.options.per)
    for kind in ('world', 'model'):
      for place in self.runs:
        if not place.flags[kind]:
          raise core.InputError(f'{place.name} has no --{kind}')
      for text in dict.fromkeys(place.flags[kind] for place in self.runs):
        registry.make(kind, text)
    for run in map(self.run_of, self.runs):
      check(run.stages.training)
      run.done()
    if scoring:  # Bad options fail here, not after the training.
      if scoring.checkpoint != Scoring.checkpoint:
        raise core.InputError(
          f'checkpoint={scoring.checkpoint!r}: a sweep scores the best of each '
          'run; score.py scores others'
        )
      world = self.scored(self.runs[0], scoring).row.scored_in
      registry.resolve('world', world)

  def work(self, runs: Sequence[Run], log: Log) -> None:
    """Executes the runs that are not done; logs a line as each run ends."""

    def line(job: Sequence[Run]) -> str:
      """Log line for a run that has ended; also rewrites the table."""
      run, now = job[0], {x.run.name: x for x in self.table()}
      standing = now[run.name]
      if standing.error:
        return f'{run.name}: {standing.status}, {standing.error}'
      if not run.done():
        return f'{run.name}: was told to stop'
      if run.metrics:
        return f'{run.name}: scored'
      return f'{run.name}: {standing.status}, loss {standing.loss:.6g}'

    self.table()
    self.pool.work([[run] for run in runs], line, log)

  def score(self, scoring: Scoring, log: Log) -> list[str]:
    """Scores candidates whose checkpoints stay; returns their folders."""
    ranked = groups(self.table(), self.options.per).values()
    keep = self.options.keep_best or None
    best = [c for candidates in ranked for c in candidates[:keep]]
    names = {member.run.name for c in best for member in c if member.summary}
    runs = [self.scored(x, scoring) for x in self.runs if x.name in names]
    self.work(runs, log)
    return [run.folder for run in runs if run.done()]

  def standings(self) -> list[Standing]:
    """Reads the status of each run."""
    rows = []
    for place in self.runs:
      folder = self.out / FOLDER / place.name
      summary, failure = folder / 'train.json', folder / FAILURE
      best = _kept(files.read_record(summary, {})) if summary.exists() else {}
      error, status = '', DONE if best else WAITING
      if str(folder) in self.pool.running:
        status = RUNNING
      elif failure.exists():
        error = files.read_record(failure, {'error': str})['error']
        status = FAILED
      rows.append(Standing(place, status, best, error))
    return rows

  def table(self) -> list[Standing]:
    """Reads the status of all runs, writes the table, and deletes the
    checkpoints of candidates beyond `keep_best`."""
    now, options = self.standings(), self.options
    write(self.out, now, options.per)
    for candidates in groups(now, options.per).values():
      ended = [candidate for candidate in candidates if has_ended(candidate)]
      for candidate in ended[options.keep_best :] if options.keep_best else []:
        for member in candidate:
          folder = self.out / FOLDER / member.run.name
          shutil.rmtree(folder / 'checkpoints', ignore_errors=True)
    return now


def _kept(summary: dict[str, Any]) -> dict[str, Any]:
  """The fields of a train.json that the table holds."""
  best = {key: x for key, x in summary.items() if key.startswith('best_')}
  return {**{key: summary.get(key) for key in _KEPT}, **best}


def write(
  out: pathlib.Path, standings: Sequence[Standing], per: Sequence[str]
) -> None:
  """Writes OUT/sweep.json and OUT/sweep.md."""
  rows = []
  for standing in standings:
    about = {'status': standing.status, **standing.summary}
    about |= {'error': standing.error} if standing.error else {}
    run = dataclasses.asdict(standing.run)
    rows.append({'name': standing.run.name, **about, **run})
  files.write_json(out / 'sweep.json', {'per': list(per), 'runs': rows})
  counts = [
    f'{sum(s.status == status for s in standings)} {status}'
    for status in (DONE, FAILED, RUNNING, WAITING)
  ]
  ranked = groups(standings, per).values()
  best = [candidates[0] for candidates in ranked if has_ended(candidates[0])]
  lines = [
    *(f'# Sweep: {len(standings)} runs; {", ".join(counts)}', ''),
    *('Losses are held-out, in nats, at the best evaluation of a run.', ''),
    *(f'## Best{" per " + ", ".join(per) if per else ""}', ''),
    *_table(best, standings),
    *('## All, the best first', ''),
    *_table([*itertools.chain(*ranked)], standings),
  ]
  files.write_text(out / 'sweep.md', '\n'.join(lines))


def _table(
  candidates: Sequence[Candidate], every: Sequence[Standing]
) -> list[str]:
  """Lines of a table; each measure of any run in `every` has a column."""
  keys = {key: None for standing in every for key in standing.summary}
  names = [key.removeprefix('best_') for key in keys if 'best_' in key]
  more = [n for n in names if n != 'step' and not n.startswith('loss')]
  axes = [*_labels(every[0].run)]
  head = [*axes, 'runs', 'loss', 'spread', *more, 'step', 'seconds', 'status']
  lines = [head, ['---'] * len(head), *(_cells(c, more) for c in candidates)]
  cells = [[text.replace('|', r'\|') for text in line] for line in lines]
  return [*('| ' + ' | '.join(line) + ' |' for line in cells), '']


def _cells(candidate: Candidate, more: Sequence[str]) -> list[str]:
  """A candidate's table cells; more: names of measures besides losses."""
  trained = [member for member in candidate if member.summary]
  losses = [member.loss for member in trained]
  errors = [member.error for member in candidate if member.error]
  statuses = ', '.join(sorted({member.status for member in candidate}))
  seconds = sum(member.summary['seconds'] or 0 for member in trained)
  means = []
  for name in more:
    values: list[Any] = [m.summary.get(f'best_{name}') for m in trained]
    complete = bool(values) and None not in values
    means.append(f'{sum(values) / len(values):.4g}' if complete else '')
  return [
    *_labels(candidate[0].run).values(),
    f'{len(trained)}/{len(candidate)}',
    f'{sum(losses) / len(losses):.6g}' if losses else '',
    f'{max(losses) - min(losses):.2g}' if losses[1:] else '',
    *means,
    ', '.join(str(member.summary['best_step']) for member in trained),
    f'{seconds:.0f}' if trained else '',
    statuses + (f': {errors[0]}' if errors else ''),
  ]


_ROW = schema.Object(
  {'labels': dict, 'flags': dict, 'chosen': dict, 'status': str},
  dict.fromkeys(_KEPT, float | None),
)
_BOOK = schema.Object({'runs': schema.List(_ROW), 'per': schema.List(str)})


def winners(path: str | pathlib.Path, top: int) -> list[Place]:
  """The `top` best candidates of each group of a sweep that has ended.

  Returns the grid point of each candidate's first seed, without the seed.

  Raises:
    InputError: no such sweep, some runs have not ended, or all runs of a group
      failed.
  """
  path = pathlib.Path(path) / 'sweep.json'
  book = schema.read(path, _BOOK)
  with inputs.reading(path, 'the table of a sweep'):
    standings = [
      Standing(
        Place(row['labels'], row['flags'], row['chosen']),
        row['status'],
        _kept(row),
      )
      for row in book['runs']
    ]
    per = book['per']
    if not all(set(per) <= s.run.labels.keys() for s in standings):
      raise ValueError(f'per is {per}')
    open_ = sum(s.status not in (DONE, FAILED) for s in standings)
    if open_:
      raise core.InputError(
        f'{path}: {open_} of {len(standings)} runs have not ended; go on with '
        'that sweep first'
      )
    best_runs = []
    for group, candidates in groups(standings, per).items():
      best = [c for c in candidates if math.isfinite(mean_loss(c))][:top]
      if not best:
        raise core.InputError(f'{path}: every run of {", ".join(group)} failed')
      for candidate in best:
        run = candidate[0].run
        chosen = {key: x for key, x in run.chosen.items() if key != SEED}
        best_runs.append(Place(_labels(run), run.flags, chosen))
    return best_runs


def settings() -> dict[str, Any]:
  """Defaults of all settings of a run: world, model, fields of Training."""
  fields = dataclasses.asdict(Training())
  del fields['log_every']
  return {'seed': fields.pop('seed'), 'world': None, 'model': None, **fields}


def runs_of(
  grid: Grid, out: Path, fixed: Mapping[str, Any], options: Sweeping
) -> list[Place]:
  """The grid points that `sweep` runs; see `sweep` for the arguments."""
  fixed, axes = _written(fixed), grids.labelled(_written(grid))
  defaults = settings()
  for name in (*fixed, *axes):
    if name != grids.FILE:
      text = f'no setting of a run is called {name!r}'
      inputs.check_known(name, defaults, text)
  values = [x for axis in axes.values() for x in axis.values()]
  plugins.allow(*registry.files([dict(fixed), values]))
  starts = [Place({}, defaults, {})]
  if options.winners_of:
    starts = winners(options.winners_of, options.top)
    for run in starts:
      for kind in ('world', 'model'):
        registry.make(kind, str(run.flags[kind]))
  data = pathlib.Path(fixed.get('data') or pathlib.Path(out) / 'data')
  return grids.places(axes, {**fixed, 'data': str(data.resolve())}, starts)


def _written(value: Any) -> Any:
  """Replaces worlds and models in a setting, or in several, by their specs."""
  if isinstance(value, Mapping):
    return {name: _written(part) for name, part in value.items()}
  if isinstance(value, list | tuple):
    return [*map(_written, value)]
  is_plug_in = isinstance(value, core.World | core.Model)
  return spec_of(value) if is_plug_in else value


@takes(options=Sweeping)
def sweep(
  grid: Grid,
  out: Path,
  fixed: Mapping[str, Any],
  *,
  options: Sweeping,
  scoring: Scoring | None = None,
  log: Log = calls.no_log,
) -> list[Standing]:
  """Trains every run of a grid in a separate process, and writes a table.

  Args:
    grid: axes to cross: setting -> values, or setting -> {label: value}.
      Settings are 'world', 'model', and the fields of `Training`.
    out: folder; OUT/sweep.md fills as runs end, OUT/runs/NAME is a run.
    fixed: settings of every run; the default data folder is OUT/data.
    options: axes with a best candidate per value, jobs, devices, and an earlier
      sweep to start from.
    scoring: options to score the runs that kept their checkpoints; OUT/report
      reports these runs together. None scores nothing.
    log: gets a line as each run ends.

  Returns:
    Each run's settings, status, losses and error.

  Raises:
    InputError: bad settings, or a folder that holds another run.
    Stopped: a signal came; finished work stays.
  """
  folder = pathlib.Path(out)
  todo = runs_of(grid, folder, fixed, options)
  if not todo:
    raise core.InputError(
      'there is no run: the grid, or --winners_of, has none'
    )
  sweeping = Sweep(folder, todo, options)
  sweeping.check(scoring)
  if options.dry_run:
    for line in (*(run.name for run in todo), f'{len(todo)} runs'):
      log(line)
    return sweeping.standings()
  sweeping.work([*map(sweeping.run_of, todo)], log)
  log(f'{out}/sweep.md: {len(todo)} runs')
  if scoring and (folders := sweeping.score(scoring, log)):
    # Another process that shares the sweep may be writing the report.
    report.report(folders, folder, wait=True, log=log)
  return sweeping.table()
