"""Runs a study: for each row, samples data, trains, scores and maps.

The input is rows, seeds, varied settings, a world, metrics and the options of
all stages. The output is a folder for each row and a report. With several jobs,
processes execute the rows, see `runs`.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Sequence

import pandas as pd

from wm import core
from wm.library import calls, report, score_frame
from wm.library.calls import Log
from wm.options import takes
from wm.options.calls import Crossing, Path, Scoring, Stages
from wm.runtime import files
from wm.studies import baselines, runs
from wm.studies.grid import SEED
from wm.studies.rows import (
  Row,
  crossed,
  flat,
  partner_of,
  resolve_matches,
  rows_of,
  spec_of,
)

_REPORT = 'report'  # OUT/report holds the report, so no row has this name.


@takes(
  stages=Stages,
  scoring=(Scoring, 'seed', 'accept', 'metric_overrides'),
  workers=Crossing,
)
def study(
  rows: Sequence[Row | str],
  world: core.World | str,
  metrics: core.Metric | str | Sequence[core.Metric | str],
  out: Path,
  *,
  scoring: Scoring,
  stages: Stages,
  workers: Crossing,
  log: Log = calls.no_log,
) -> pd.DataFrame:
  """Samples data, trains, scores and maps for every row; writes a report.

  Args:
    rows: models, as `Row` or as text (see `Row.parse`). A row may be matched
      to the first trained row without a match: 'walks: MODEL on WORLD with
      match="sequences+steps"' samples as many sequences as that row has
      distinct ones, and trains for as many steps.
    world: for scoring rows that name no world.
    metrics: to measure, each a spec or an object.
    out: folder; each row is a run in OUT/NAME.
    scoring: `seed` overrides the seed of every stage. `accept` overrides the
      rule of all metrics that have one; None leaves their rules.
      `metric_overrides` sets other fields of all metrics that have them.
    stages: options of sampling, training and reconstruction; num_samples is
      the number of routes sampled for a map.
    workers: `seeds` and `axes` cross every trained row; each combination has a
      folder (OUT/walks_lr_0_001_seed_0), and a report line covers all seeds.
      `jobs` rows run at a time, in separate processes; with one job, all run in
      this process. Other processes receive specs, so models, worlds and metrics
      need specs. `dry_run` lists rows and stages, and writes nothing.
    log: gets a title for each stage, and the messages of the stages.

  Returns:
    As `wm.score`, with the folder in `run`. The page is in OUT/report.

  Raises:
    InputError: bad specs, or a folder that holds another run; the first error
      of a row is raised after all other rows ran.
  """
  folder, plain = pathlib.Path(out), rows_of(rows, world, runs=True)
  seeds = {SEED: workers.seeds} if workers.seeds else {}
  places = crossed(plain, {**(workers.axes or {}), **seeds})
  if _REPORT in [row.name for row in flat(places)]:
    raise core.InputError(
      f'no row can be named {_REPORT!r}: the report is in {folder / _REPORT}'
    )
  for place in places:
    partner_of(place)  # Bad matches fail before a folder is made.
  overrides = scoring.metric_overrides
  asked = calls.metrics_of(metrics, scoring.accept, overrides)
  stages = stages.replaced({'seed': scoring.seed})
  more, notes = list[Row](), list[str]()
  if stages.baselines:
    more, notes = baselines.added(plain, stages, asked)

  def run_of(row: Row) -> runs.Run:
    where = str(folder / row.name), str(folder / (row.data or row.name))
    mine = row.stages(stages)
    return runs.Run(row, mine, asked, *where, runs.is_mapped(row))

  def all_runs(dry_run: bool) -> tuple[list[runs.Run], list[runs.Run]]:
    """Runs of the rows, with matches resolved, and runs of the baselines."""

    def distinct(row: Row) -> int | None:
      return run_of(row).distinct(log, dry_run)

    tell = calls.no_log if dry_run else log
    final = [resolve_matches(x, stages, distinct, tell) for x in places]
    return [*map(run_of, flat(final))], [*map(run_of, more)]

  if workers.dry_run:
    for run in itertools.chain(*all_runs(dry_run=True)):
      log(_planned(run, workers.nulls))
    return score_frame.of_runs([])
  pool = runs.JobPool(workers.jobs)
  with files.stage_lock(folder, 'study'):
    resolved, added = all_runs(dry_run=False)
    notes += _done(resolved, added, pool, log)
    if workers.nulls:
      rows_of_nulls, lines = _nulls(resolved)
      beside = [*map(run_of, rows_of_nulls)]
      notes += lines + _done([], beside, pool, log)
      added += beside
    log('== report')
    scored = [run.folder for run in (*resolved, *added)]
    report.report(scored, folder, notes=notes, log=log)
    return score_frame.of_runs(scored)


def _done(
  resolved: Sequence[runs.Run],
  added: list[runs.Run],
  pool: runs.JobPool,
  log: Log,
) -> list[str]:
  """Executes the runs of rows and baselines; raises errors as `study` does.

  Removes unavailable baselines; returns a line for each.
  """
  todo = [*resolved, *added]
  if pool.at_once > 1:
    where = f'{pool.at_once} rows at a time'
    log(f'== {where}; each says how far it is in {runs.LOG}')
    jobs = _divided(todo, pool.at_once, log)
    pool.work(jobs, lambda job: ', '.join(run.folder for run in job), log)
  # Rows that no process has finished: failed rows run again here, and cached
  # rows are checked, as the code may have changed.
  runs.do_all([x for x in resolved if x.name not in pool.finished], log)
  notes = []
  for run in [x for x in added if x.name not in pool.finished]:
    try:
      run.do(log)
    except core.InputError as error:
      # The report omits an unavailable baseline.
      notes.append(f'No {run.name}: {error}')
      added.remove(run)
  return notes


def _nulls(resolved: Sequence[runs.Run]) -> tuple[list[Row], list[str]]:
  """Null models of scored runs, and a line for each run that has none."""
  rows, notes = list[Row](), list[str]()
  for run in resolved:
    try:
      rows += baselines.nulls(run.row, run.folder)
    except core.InputError as error:
      notes.append(f'No null models of {run.name}: {error}')
  return rows, notes


def _planned(run: runs.Run, nulls: bool) -> str:
  """A line on a run: 'done', or the stages to execute."""
  if run.done():
    return f'{run.name}: done'
  row, training, steps = run.row, run.stages.training, []
  if row.trained_on is not None:
    if training.data is None:
      num, world = f'{run.stages.sampling.num:,}', spec_of(row.trained_on)
      steps.append(f'sample {num} sequences of {world}')
    on = '' if training.data is None else f' on {training.data}'
    matched = f', matched by {"+".join(row.kinds)}' if row.kinds else ''
    steps.append(
      f'train {spec_of(row.model)}{on} for {training.steps:,} steps{matched}'
    )
  steps.append(f'score {len(run.metrics)} metrics in {spec_of(row.scored_in)}')
  if nulls and row.trained_on is not None:
    steps.append('then null models that err as much')
  return f'{run.name}: {"; ".join(steps)}'


def _divided(todo: Sequence[runs.Run], num: int, log: Log) -> list[runs.Job]:
  """Samples the data of the runs, and divides the runs into jobs.

  Untrained rows share `num` processes, as starting a process often takes
  longer than scoring a row.
  """
  # The longest run starts first; shorter runs fill the other processors.
  trained = [run for run in todo if run.row.trained_on is not None]
  trained.sort(key=lambda run: -run.steps)
  for run in trained:  # Sampled now, so that no job waits for shared data.
    run.sample(log)
  others = [run for run in todo if run.row.trained_on is None]
  parts = [others[n::num] for n in range(min(num, len(others)))]
  return [*([run] for run in trained), *parts]
