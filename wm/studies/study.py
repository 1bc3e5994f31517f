"""Runs the rows of a study: each is sampled for, trained, scored and mapped.

Rows, seeds and settings that vary, a world, metrics and the options of all
stages come in; a folder for each row and a report go out. `run_row` has the
stages of one row; `miniature` calls it too, for each seed. With several jobs
rows run in processes, see `jobs`.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from wm import core
from wm.core import registry
from wm.data import exposure
from wm.data import store as stores
from wm.library import calls, report
from wm.library.calls import Log
from wm.options import takes
from wm.options.calls import Crossing, Path, Scoring, Stages
from wm.options.training import Training
from wm.recon.routes import has_streets
from wm.runtime import compute, files
from wm.studies import baselines
from wm.studies import jobs as pools
from wm.studies.grid import SEED, axes_of
from wm.studies.rows import (
  Row,
  crossed,
  partners,
  resolve_matches,
  rows_of,
  spec_of,
)

# Names of models that generate routes untrained; language models would be asked
# for each token.
_MAPPED = 'uniform', 'bayes'
_REPORT = 'report'  # OUT/report is no row.
_STAGE = 'row'  # Of a process that runs rows.
_SEPARATOR = ', '  # Between the names of a process's rows.


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
) -> pathlib.Path:
  """Samples for, trains, scores and maps every row, then reports them.

  Args:
    rows: models, as `Row` or as text (see `Row.parse`). A row may be matched
      to another: 'walks: MODEL on WORLD with match="sequences+steps", to="a"'
      samples as many sequences as row a has distinct ones, and is trained for
      as many steps. match is 'sequences' or 'tokens' of the training data,
      'steps' or 'compute' (FLOPs) of training, or one of each; to is by default
      the first other trained row without a match (`wm.studies.rows`).
    world: that rows are scored in which name none.
    metrics: what to measure.
    out: folder; each row is a run in OUT/NAME.
    scoring: seed of every stage, whatever its options say; accept, the rule for
      all metrics that have one, None leaves theirs; and other fields of all
      metrics that have them, as in a spec.
    stages: options of sampling, training and reconstruction, and num_samples,
      routes sampled for a map.
    workers: seeds by which every trained row is made, and settings that vary,
      each with each; a folder for each, OUT/walks_lr_0_001_seed_0, and a line
      of the report for all seeds. Rows at a time, in processes of their own;
      with one job all is done in this process. Processes are told specs, so
      models, worlds and metrics must have such. With dry_run rows and their
      stages are listed, and nothing is made.
    log: gets a title for each stage, and what the stages say.

  Returns:
    Path of the report, OUT/report/report.html.

  Raises:
    InputError: bad specs, or a folder that holds something else.
  """
  folder, plain = pathlib.Path(out), rows_of(rows, world, runs=True)
  seeds = {SEED: workers.seeds} if workers.seeds else {}
  resolved = crossed(plain, axes_of({**(workers.axes or {}), **seeds}))
  if _REPORT in [row.name for row in resolved]:
    raise core.InputError(
      f'no row can be named {_REPORT!r}: the report is in {folder / _REPORT}'
    )
  partners(resolved)  # What is bad shows before a folder is made.
  asked = calls.metrics_of(
    metrics, scoring.accept, overrides=scoring.metric_overrides
  )
  stages = stages.seeded(scoring.seed)
  added, notes = list[Row](), list[str]()
  if stages.baselines:
    added, notes = baselines.added(plain, stages, asked)
  if workers.dry_run:
    for line in _planned([*resolved, *added], asked, folder, stages):
      log(line)
    return folder / _REPORT / 'report.html'
  pool = pools.JobPool(cluster=workers.cluster)
  with files.stage_lock(folder, 'study'):

    def counted(row: Row) -> exposure.Counts:
      return counts(row, *_folders(row, folder), stages, log)

    resolved = resolve_matches(resolved, stages, counted, log)
    if workers.several:
      num = len(resolved) if workers.cluster else workers.jobs
      todo = _jobs_for([*resolved, *added], asked, folder, stages, log, num)
      where = workers.cluster or f'{workers.jobs} rows at a time'
      log(f'== {where}; each says how far it is in {_STAGE}.log')
      pool.work(todo, workers.jobs, lambda job: f'{folder}/{job.name}', log)
    # Rows that no process has finished: those that failed there are run again,
    # and cached ones are checked, as code may have changed.
    finished = {name for job in pool.finished for name in job.split(_SEPARATOR)}
    for row in [*resolved, *added]:
      try:
        if row.name not in finished:
          _run_here(row, asked, folder, stages, log)
      except core.InputError as error:
        if row in resolved:
          raise
        # The rows are reported without a baseline that cannot be had.
        notes.append(f'No {row.name}: {error}')
        added.remove(row)
    log('== report')
    folders = [folder / row.name for row in [*resolved, *added]]
    return report.report(folders, folder, notes=notes, log=log)


def _planned(
  rows: Sequence[Row],
  metrics: Sequence[core.Metric],
  out: pathlib.Path,
  stages: Stages,
) -> Iterator[str]:
  """A line for each row: whether it is done, and its stages if it is not."""
  for row in rows:
    if _job([row], metrics, out, stages).done():
      yield f'{row.name}: done'
      continue
    mine, steps = row.stages(stages), []
    if row.trained_on is not None:
      if mine.training.data is None:
        num, world = f'{mine.sampling.num:,}', spec_of(row.trained_on)
        steps.append(f'sample {num} sequences of {world}')
      on = f' on {mine.training.data}' * (mine.training.data is not None)
      steps.append(
        f'train {spec_of(row.model)}{on} for {mine.training.steps:,} steps'
      )
      if match := row.settings.get('match'):
        steps[-1] += f', matched by {match}'
    steps.append(f'score {len(metrics)} metrics in {spec_of(row.scored_in)}')
    yield f'{row.name}: {"; ".join(steps)}'


def _jobs_for(
  rows: Sequence[Row],
  metrics: Sequence[core.Metric],
  out: pathlib.Path,
  stages: Stages,
  log: Log,
  num: int,
) -> list[pools.Job]:
  """Jobs of rows, whose data are sampled here.

  Rows that are not trained share `num` processes, as one takes longer to start
  than many a row. What fails in a process is done again by `run_row`, where it
  says why.
  """
  # The longest first: the others fill the processors beside it.
  order = sorted(rows, key=lambda row: -_steps(row, stages))
  for row in order:
    if row.trained_on is not None:  # Rows of the same data wait for nothing.
      _sampled(row, *_folders(row, out), stages, log)
  parts = [[row] for row in order if row.trained_on is not None]
  others = [row for row in order if row.trained_on is None]
  parts += [others[n::num] for n in range(min(num, len(others)))]
  return [_job(part, metrics, out, stages) for part in parts]


def _steps(row: Row, stages: Stages) -> int:
  """Steps that a row is trained for."""
  return 0 if row.trained_on is None else row.stages(stages).training.steps


def _job(
  rows: Sequence[Row],
  metrics: Sequence[core.Metric],
  out: pathlib.Path,
  stages: Stages,
) -> pools.Job:
  """A process that does rows one after the other; its log is in the first's."""
  specs = [registry.spec(metric) for metric in metrics]
  orders = []
  for row in rows:
    assert row.scored_in is not None  # By `rows_of`.
    orders.append(
      {
        'row': dataclasses.asdict(row.specs(row.scored_in)),
        'metrics': specs,
        'folders': [*map(str, _folders(row, out))],
        'stages': dataclasses.asdict(row.stages(stages)),
      }
    )
  folder = out / rows[0].name
  return pools.Job(
    _SEPARATOR.join(row.name for row in rows),
    _STAGE,
    folder,
    command=lambda: pools.command('rows', out=str(folder), orders=orders),
    done=lambda: all(
      _is_done(row, specs, out / row.name, stages) for row in rows
    ),
    begin=lambda: None,  # Each stage claims the folder itself.
  )


def _is_done(
  row: Row, specs: Sequence[str], folder: pathlib.Path, stages: Stages
) -> bool:
  """Is a row trained to its last step, and scored by all metrics?"""
  scores, summary = folder / 'scores.json', folder / 'train.json'
  if not scores.exists():
    return False
  if row.trained_on is not None:
    step = files.read_record(summary, {}).get('step')
    if step not in (0, _steps(row, stages)):  # 0: counted, not trained.
      return False
  return {*specs} <= {e.get('spec') for e in files.read_json(scores)}


def _run_here(
  row: Row,
  metrics: Sequence[core.Metric],
  out: pathlib.Path,
  stages: Stages,
  log: Log,
) -> None:
  """Runs a row in this process, and forgets that another failed at it."""
  run_row(row, metrics, *_folders(row, out), stages, log)
  (out / row.name / 'failed.json').unlink(missing_ok=True)


def _folders(row: Row, out: pathlib.Path) -> tuple[pathlib.Path, pathlib.Path]:
  """Of a row's run, and of its sampled data."""
  return out / row.name, out / (row.data or row.name)


def make_rows(orders: Sequence[dict[str, Any]], log: Log) -> None:
  """Does rows in this process, as `_job` has written them down.

  Raises:
    InputError: of the first that cannot be done, after the others.
  """
  errors = []
  for order in orders:
    row = order['row']
    (parsed,) = rows_of([Row(**row)], row['scored_in'], runs=True)
    metrics, stages = calls.metrics_of(order['metrics']), order['stages']
    out, shared = order['folders']
    try:
      run_row(parsed, metrics, out, shared, Stages.of(stages), log)
    except core.InputError as error:
      errors.append(error)
  if errors:
    raise errors[0]


def counts(
  row: Row, out: Path, shared: Path, stages: Stages, log: Log
) -> exposure.Counts:
  """Counts a row's training sequences, sampled unless they are there.

  out, shared: folders of its run and of its sampled data.
  """
  training = _sampled(row, out, shared, stages, log)
  store = stores.open(pathlib.Path(str(training.data), 'train'))
  return exposure.counts(store)


def _sampled(
  row: Row, out: Path, shared: Path, stages: Stages, log: Log
) -> Training:
  """Samples what a row is trained on; the options of its training."""
  options = row.stages(stages)
  training = options.training
  if training.data is not None:
    return training
  assert isinstance(row.trained_on, core.World)  # By `rows_of`.
  folder = pathlib.Path(shared)
  log(f'== {row.name}: sample')
  with files.stage_lock(folder, 'share', wait=True):
    calls.sample(row.trained_on, folder, options.sampling, log=log)
  return dataclasses.replace(training, data=str(folder / 'data'))


def is_mapped(row: Row) -> bool:
  """Are routes sampled from a row, and the map reconstructed that they imply?

  Where the world has streets, from what is trained, and from what stands beside
  it: untrained models, a uniform guesser, and the Bayes predictors.
  """
  assert row.scored_in is not None  # Of checked rows.
  if not has_streets(registry.resolve('world', row.scored_in)):
    return False
  if row.trained_on is not None:
    return True
  if isinstance(row.model, str) and os.path.isdir(row.model):
    return False  # The folder of a run, which may have a map of its own.
  model = registry.resolve('model', row.model)
  return isinstance(model, core.Trainable) or model.name in _MAPPED


def run_row(
  row: Row,
  metrics: Sequence[core.Metric],
  out: Path,
  shared: Path,
  stages: Stages,
  log: Log,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
  """Samples for, trains, scores and maps a row that `rows_of` has made.

  Args:
    row: what to do; its settings are stronger than the stages'.
    metrics: what to measure.
    out: folder of the run.
    shared: folder of its sampled data, which may be that of several rows; its
      other users are waited for.
    stages: options of one seed.
    log: gets a title for each stage, and what the stages say.

  Returns:
    The entries of the scores, and the summary of the map, {} without one.
  """
  options = row.stages(stages)
  training = options.training
  # Before a row that is not trained starts JAX.
  compute.fix_threads(training.threads)
  assert isinstance(row.scored_in, core.World)  # By `rows_of`.
  source: Any = row.model
  if row.trained_on is not None:
    training = _sampled(row, out, shared, stages, log)
    log(f'== {row.name}: train')
    source = calls.train(row.trained_on, row.model, out, training, log=log)
  log(f'== {row.name}: score')
  where: dict[str, Any] = {'name': row.title or row.name, 'log': log}
  seed = options.sampling.seed
  entries = calls.score(
    source, list(metrics), row.scored_in, out=out, seed=seed, **where
  )
  if not is_mapped(row):
    return entries, {}
  log(f'== {row.name}: reconstruct')
  return entries, calls.reconstruct(
    *(source, out, row.scored_in, options.reconstruction),
    num=options.num_samples,
    **where,
  )
