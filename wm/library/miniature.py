"""Miniatures: every row and seed of a study as a unit, whose result is kept."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from wm import core
from wm.core import registry
from wm.core.accept import Accept
from wm.data import exposure
from wm.data import store as stores
from wm.library import baselines as baselines_lib
from wm.library import calls, matching, study
from wm.library import rows as rows_lib
from wm.library.calls import Log
from wm.library.rows import Row
from wm.library.unit import STAGE, Unit
from wm.options import takes
from wm.options.calls import (
  Baselines,
  Path,
  Routes,
  Scoring,
  Sweeping,
  Units,
)
from wm.options.reconstruction import Reconstruction
from wm.options.sampling import Sampling
from wm.options.training import Training
from wm.reporting import findings
from wm.runtime import commit
from wm.tasks import pool


def _text(thing: Any) -> str:
  return thing if isinstance(thing, str) else registry.spec(thing)


def _units(
  rows: Sequence[Row | str],
  world: core.World | str,
  seeds: range,
  only: Sequence[str],
  options: tuple[Sampling | None, Training | None, Reconstruction | None],
  baselines: bool,
  dry_run: bool,
  log: Log,
  **same: Any,
) -> list[Unit]:
  """All units, the first seed of each row first; raises InputError.

  seeds: those of each row that has no number of its own.
  dry_run: sample nothing.
  """
  sampling, training, reconstruction = options
  usual = (
    sampling or Sampling(),
    training or Training(),
    reconstruction or Reconstruction(),
  )
  every = [Row.parse(row) if isinstance(row, str) else row for row in rows]
  # What is bad of one shows before the first.
  checked = rows_lib.rows_of(every, world)
  if baselines:
    asked = calls.metrics_of(same['metrics'])
    more, _ = study.baselines_of(checked, usual[1], asked)
    checked += (more := _possible(more))
    every += more
  names = [row.name for row in every]
  if unknown := [name for name in only if name not in names]:
    available = registry.suggest(unknown[0], names)
    raise core.InputError(f'no row is called {unknown[0]!r}; {available}')
  plain = {row.name: _plain(row, world) for row in every}
  number = {row.name: row.settings.get('seeds', len(seeds)) for row in every}
  units: list[Unit] = []
  for place in range(max(number.values())):
    seed = seeds.start + place
    asked_for = [name for name in only or names if place < number[name]]
    stages = [dataclasses.replace(stage, seed=seed) for stage in usual]
    units += _of_seed(checked, asked_for, stages, plain, dry_run, log, same)
  return units


def _of_seed(
  rows: Sequence[Row],
  only: Sequence[str],
  stages: Sequence[Any],
  plain: Mapping[str, Row],
  dry_run: bool,
  log: Log,
  same: dict[str, Any],
) -> list[Unit]:
  """Units of one seed, of the rows that are named; see `_units`."""
  by_name = {row.name: row for row in rows}
  matched = {
    name: matching.decided(by_name[name], other)
    for name, other in matching.partners(rows).items()
  }

  def unit(row: Row) -> Unit:
    mine = [row.own(stage) for stage in stages]
    more = same | {
      'matched': matched.get(row.name, {}),
      'left_open': matching.open_settings(row),
    }
    return Unit(plain[row.name], mine[0].seed, *mine, **more)

  def counts(row: Row) -> exposure.Counts | None:
    return _at_hand(unit(row)) if dry_run else _counts(unit(row), row)

  resolved = matching.resolve(rows, stages, counts, log, only, draw=not dry_run)
  return [unit(row) for row in resolved]


def _texts(
  metrics: core.Metric | str | Sequence[core.Metric | str],
  accept: Accept | str | None,
  fields: str | None,
) -> tuple[str, ...]:
  """Metrics as text, which may hold fields that no spec has.

  Such fields change no result.
  """
  several = [metrics] if isinstance(metrics, str | core.Metric) else metrics
  changed = calls.metrics_of(several, accept, fields=fields)
  return tuple(
    _text(text if metric == plain else metric)
    for text, plain, metric in zip(
      several, calls.metrics_of(several), changed, strict=True
    )
  )


def _plain(row: Row, world: core.World | str) -> Row:
  """A row as its unit has it: of specs, without settings."""
  scored_in = row.scored_in or row.trained_on or world
  trained_on = row.trained_on and _text(row.trained_on)
  return Row(row.name, _text(row.model), trained_on, _text(scored_in))


def _counts(unit: Unit, row: Row) -> exposure.Counts:
  """Counts the training sequences of a unit, sampled unless they are there."""
  stages = unit.sampling, unit.training, unit.reconstruction
  return study.counts(row, unit.folder, stages, calls.silent, unit.shared)


def _at_hand(unit: Unit) -> exposure.Counts | None:
  """Counts the training sequences of a unit; None where they are not there."""
  place = pathlib.Path(unit.training.data or unit.shared / 'data', 'train')
  if not (place / 'manifest.json').is_file():
    return None
  return exposure.counts(stores.open(place))


def _possible(rows: Sequence[Row]) -> list[Row]:
  """Baselines that their worlds do not refuse."""
  pairs: list[tuple[Row, Any, Any]]
  pairs = [(row, row.model, row.scored_in) for row in rows]
  return [row for row, *pair in pairs if not baselines_lib.refused(*pair)]


@takes(Units)
def miniature(
  rows: Sequence[Row | str],
  world: core.World | str,
  metrics: core.Metric | str | Sequence[core.Metric | str],
  out: Path,
  *,
  results: Path | None = Units.results,
  seeds: int = Units.seeds,
  first_seed: int = Units.first_seed,
  only: Sequence[str] = Units.only,
  fresh: bool = Units.fresh,
  allow_dirty: bool = Units.allow_dirty,
  jobs: int = Sweeping.jobs,
  dry_run: bool = Sweeping.dry_run,
  accept: Accept | str | None = Scoring.accept,
  fields: str | None = Scoring.fields,
  sampling: Sampling | None = None,
  training: Training | None = None,
  reconstruction: Reconstruction | None = None,
  num_samples: int = Routes.num,
  baselines: bool = Baselines.baselines,
  log: Log = calls.silent,
) -> list[str]:
  """Makes the units of a study that are missing: a row and a seed each.

  A unit is sampled for, trained, scored and mapped in a process of its own. Its
  result is a small file, RESULTS/ROW-SEED.json (`wm.reporting.units`); while
  it stands, the unit is not made again. What was stopped goes on.

  Results in FOLDER/results/NAME are judged by the rules of
  FOLDER/findings.json (`wm.reporting.findings`), if there is one: units record
  them when they begin, and start from committed code only. A result of other
  code is refused, and made again. What is made again keeps the rules of the
  first result of its row and seed.

  Args:
    rows: models, as `Row` or as text (see `Row.parse`), all of plug-ins. A
      seed of a row that is matched (see `wm.study`) is matched to the same
      seed of the other row.
    world: that rows are scored in which name none.
    metrics: what to measure.
    out: folder of data and runs.
    jobs: units at a time.
    dry_run: say how each unit stands, and do nothing. Numbers of matched rows
      that follow from data which are not there are not compared.
    accept: rule for all metrics that have one; None leaves theirs.
    fields: other fields of all metrics that have them, as in a spec.
    sampling, training, reconstruction: options of these stages.
    num_samples: routes sampled for a map.
    baselines: are rows as well, see `wm.study`.
    log: gets a line on each unit that ends.

  Returns:
    A line on each unit that has failed, or whose result is refused.

  Raises:
    InputError: bad specs, options or findings, or files that are changed and
      not committed.
    Stopped: a signal came; what is done is kept.
  """
  place = pathlib.Path(results or pathlib.Path(out, 'results'))
  if not (dry_run or allow_dirty):  # Before anything is sampled.
    _check_committed(place, _code(rows, world, _texts(metrics, accept, fields)))
  todo = _units(
    rows,
    world,
    range(first_seed, first_seed + seeds),
    only,
    (sampling, training, reconstruction),
    baselines,
    dry_run,
    log,
    num_samples=num_samples,
    metrics=_texts(metrics, accept, fields),
    out=str(out),
    results=str(place),
    first_seed=first_seed,
    allow_dirty=allow_dirty,
  )
  if fresh and not dry_run:
    for unit in todo:
      if unit.folder.exists() or unit.path.exists():
        unit.clear()
      unit.path.unlink(missing_ok=True)
  by_name = {unit.name: unit for unit in todo}
  standing = [unit for unit in todo if unit.stands()]
  log(f'{place}: {len(standing)} of {len(todo)} units stand{_refused(todo)}')
  if dry_run:
    for unit in todo:
      log(unit.said())
    return []
  for unit in standing:
    unit.renew()
  jobs_of = [_job(unit) for unit in todo]
  pool.Pool().work(jobs_of, jobs, lambda job: by_name[job.name].said(), log)
  return [unit.said() for unit in todo if not unit.stands()]


def _refused(units: Sequence[Unit]) -> str:
  """Says how many units have results that no finding is judged by."""
  num = sum(unit.is_refused() for unit in units)
  return f', {num} of code that was not committed do not' if num else ''


def _code(
  rows: Sequence[Row | str], world: core.World | str, metrics: Sequence[str]
) -> list[str]:
  """Files of code that plug-ins are taken from."""
  parsed = [Row.parse(row) if isinstance(row, str) else row for row in rows]
  named = [
    thing
    for row in parsed
    for thing in (row.model, row.trained_on, row.scored_in)
    if thing is not None
  ]
  return [*registry.files([*map(_text, [*named, world]), *metrics])]


def _check_committed(results: pathlib.Path, code: Sequence[str]) -> None:
  """Raises InputError where results would be of no use to findings.

  code: files that plug-ins are taken from.
  """
  if findings.beside(results) is None:
    return
  findings.rule_hashes(results)  # Bad rules show before the first unit.
  changed = commit.changed(results.parent, code)
  if changed == []:
    return
  what = f'{changed[0]} is not committed' if changed else 'no commit'
  raise core.InputError(
    f'{what}; results that findings are judged by need committed code: commit '
    'it, or give --allow_dirty (allow_dirty=True) for results that no finding '
    'is judged by'
  )


def _job(unit: Unit) -> pool.Job:
  order = dataclasses.asdict(unit)
  return pool.Job(
    unit.name,
    STAGE,
    unit.folder,
    command=lambda: pool.command(STAGE, **order),
    done=unit.stands,
    begin=unit.begin,
  )
