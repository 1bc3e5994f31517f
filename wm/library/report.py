"""Reports, and results as data frames: calls that load no model."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from wm import core
from wm.core import inputs
from wm.evaluation import comparisons, results
from wm.language import logs
from wm.options.calls import Amount, Path
from wm.reporting import collect, tables, write
from wm.runtime import files


def report(
  folders: Path | Sequence[Path],
  out: Path | None = None,
  *,
  wait: bool = False,
  notes: Sequence[str] = (),
  single_file: bool = False,
  log: Callable[[str], None] = lambda line: None,
) -> pathlib.Path:
  """Writes a report of scored runs: tables, curves and maps.

  Args:
    folders: that `score` wrote to, or folders of such, as of a study; or logs
      of Inspect, one by one or folders of them: each paper's tables have a page
      of their own.
    out: folder of the report, if it is new or has one; report/ in a folder that
      holds other things, such as runs. None is that of the only run.
    wait: for another process that reports there, instead of refusing.
    notes: lines on what is missing, such as a ceiling.
    single_file: whether all pictures are part of the page, to be mailed.
    log: gets the number of results, the answer for each model, and the files.

  Returns:
    Path of report.html, one page that needs no network; of logs alone that of
    their first page.

  Raises:
    InputError: a folder without results, or several and no `out`.
  """
  if isinstance(folders, str | pathlib.Path):
    folders = [folders]
  if out is None:
    if len(folders) != 1:
      raise core.InputError('out is needed for a report of several runs')
    (out,) = folders
  several = [run for folder in folders for run in _scored(folder)]
  place = report_folder(out, several)
  log_paths = [logs.paths(path) for path in several]
  if any(log_paths):
    runs = [f for f, of_f in zip(several, log_paths, strict=True) if not of_f]
    paths = [path for group in log_paths for path in group]
    reported = logs.report(paths, place, log, alone=not runs)
    several = [*runs, *reported.results]
    if not several:
      return reported.pages[0]
  summary = write.report(
    several,
    place,
    wait=wait,
    notes=notes,
    single_file=single_file,
  )
  log(f'{summary["results"]} results of {len(several)} runs')
  for line in (*summary['answers'], *summary['left_out']):
    log(line)
  page: pathlib.Path = summary['page']
  log(f'report: {page}')
  return page


def _scored(folder: Path) -> list[Path]:
  """A run or logs as they are; of a folder of runs, those that are scored."""
  place = pathlib.Path(folder)
  with inputs.reading(place, 'a folder that can be read'):
    if (place / 'scores.json').exists() or logs.paths(folder):
      return [folder]
  inner = [path.parent for path in sorted(place.glob('*/scores.json'))]
  return [run for run in inner if run.name != 'report'] or [folder]


def report_folder(out: Path, sources: Sequence[Path]) -> pathlib.Path:
  """OUT if it holds nothing but a report, or is called so; else OUT/report."""
  place = pathlib.Path(out)
  is_run = place.resolve() in [pathlib.Path(path).resolve() for path in sources]
  new = not place.exists() or (place.is_dir() and not any(place.iterdir()))
  if sources and not is_run and (new or (place / 'report.html').exists()):
    return place
  if place.name == 'report' and not (is_run or (place / 'scores').exists()):
    return place
  return place / 'report'


def recorded(
  paper: str,
  data: Path,
  out: Path,
  *,
  logs: bool = False,
  log: Callable[[str], None] = lambda line: None,
) -> pathlib.Path:
  """Scores recorded answers of language models again: tables and figures.

  Args:
    paper: 'cogeval', 'forces' or another paper that has a record.
    data: folder of the recorded answers.
    out: folder in which to make report/, and logs/ where those are wanted.
    logs: also convert the answers to logs of Inspect, for `inspect view` and
      `inspect score`.
    log: gets the files.

  Returns:
    Path of report.html, one page that needs no network.

  Raises:
    InputError: no such paper, or its files are missing or damaged.
  """
  recorded_logs = _recorded_logs()

  place = pathlib.Path(out)
  written = recorded_logs.convert(paper, data, place / 'logs') if logs else ()
  rescored = recorded_logs.rescore(paper, data)
  page = recorded_logs.save(rescored, place / 'report')
  names = ', '.join(f'{name}.csv' for name in rescored.rows)
  log(rescored.lead)
  log(f'report: {page}')
  log(f'        scores.json, {names}')
  for path in written:
    log(f'log: {path}')
  return page


def _recorded_logs() -> Any:
  """wm.language.recorded_logs, which loads Inspect; or InputError."""
  with inputs.extra('language', 'a report of recorded answers'):
    from wm.language import recorded_logs
  return recorded_logs


# Results as data frames.

Scored = str | os.PathLike  # A wm.Run is one.


def _folder(run: Scored) -> pathlib.Path:
  """The folder of a run; InputError where there are no results in it."""
  folder = pathlib.Path(run)
  if not folder.is_dir():
    raise core.InputError(f'{folder}: there is no such run')
  if not (folder / 'scores.json').is_file():
    raise core.InputError(
      f'{folder} has no results; run wm.score or launch/score.py first'
    )
  return folder


def _parts(folder: pathlib.Path) -> list[results.Result]:
  """The trials of a run's metrics, in the order of its results."""
  parts = {}
  for path in results.paths(folder):
    try:
      part = results.read(path)
    except results.Unusable as error:
      raise core.InputError(f'{folder}: {error}') from error
    parts[part.spec] = part
  order = [entry.get('spec', '') for entry in collect.load(folder).entries]
  return [parts[spec] for spec in dict.fromkeys(order) if spec in parts]


def rows(runs: Scored | Sequence[Scored]) -> pd.DataFrame:
  """Every trial of scored runs, a row each, as in rows.parquet, and the run.

  Args:
    runs: a run, or the folder of one; or several.

  Returns:
    Columns run (the folder), model, world, seed, metric, spec, quantity,
    trial_key, row, value (NaN where not measured), reason (why not, else ''),
    group (trials that share it depend on each other), weight, state, prefix,
    and the metric's own. `trial_key` is equal for two models exactly where they
    have the same trial: `a.merge(b, on='trial_key')` pairs them.

  Raises:
    InputError: no such run, or one without results.
  """
  several = [runs] if isinstance(runs, Scored) else runs
  frames = []
  for folder in map(_folder, several):
    with inputs.reading(folder, 'a folder of results'):
      source = results.rows_file(folder)
      if parts := _parts(folder):
        frame = results.rows_table(parts).to_pandas()
      elif source is not None:  # Results that were written by something else.
        frame = results.arrow_rows(source).to_pandas()
      else:
        continue
    columns = [name for name in results.TEXTS if name in frame]
    frame[columns] = frame[columns].astype(object).fillna('')
    frame.insert(0, 'run', str(folder))
    frames.append(frame)
  return pd.concat(frames, ignore_index=True)


@dataclasses.dataclass(frozen=True)
class RunComparison:
  """Two runs on the trials that they share; a notebook shows both tables.

  Attributes:
    a, b: names of the models.
    differences: a row for each quantity that both have: its value in each over
      the shared trials, `difference` (a - b) with its 95 % interval `low` to
      `high`, `p` of no difference, `p_holm` adjusted for all rows, `n` shared
      trials, `clusters`, and `note`, why there is no difference or interval.
    trials: of these quantities the shared trials whose values differ most.
  """

  a: str
  b: str
  differences: pd.DataFrame
  trials: pd.DataFrame

  def __str__(self) -> str:
    head = f'{self.a} (a) less {self.b} (b), on the trials that both have'
    if self.differences.empty:
      return f'{head}: none'
    shown = self.differences.drop(columns='metric').round(4)
    return f'{head}\n{shown.to_string(index=False)}'

  def _repr_html_(self) -> str:
    parts = [self.differences, self.trials]
    return ''.join(part.round(4).to_html(index=False) for part in parts)


_NUMBERS = ('value_a', 'value_b', 'difference', 'low', 'high', 'p', 'p_holm')
_DIFFERENCES = ('metric', 'spec', 'quantity', *_NUMBERS)
DIFFERENCES = (*_DIFFERENCES, 'n', 'clusters', 'note')
_TRIAL = ('trial_key', 'state', 'prefix', 'other_state', 'other_prefix')
TRIALS = ('spec', 'quantity', *_TRIAL, 'a', 'b', 'change')


def compare(
  a: Scored,
  b: Scored,
  *,
  all_quantities: bool = False,
  trials: Amount = 10,
  out: Path | None = None,
  log: Callable[[str], None] = lambda line: None,
) -> RunComparison:
  """Compares two runs trial by trial: differences, and where they arise.

  Differences are of the trials that both have and both measured, in the same
  world with the same seed and settings. They are about these two models, not
  about how they were trained: that takes several training seeds.

  Args:
    a, b: scored runs, or their folders.
    all_quantities: not only the headline quantities of metrics.
    trials: trials to list for each quantity, those that changed most.
    out: folder in which to write both tables as report/compare_*.csv.
    log: gets the table, and the files.

  Raises:
    InputError: no such run, or one without results.
  """
  folders = _folder(a), _folder(b)
  pair = [collect.load(folder) for folder in folders]
  by_quantity = [
    {(entry['spec'], entry['quantity']): (entry, *rest) for entry, *rest in of}
    for of in map(_quantities, folders)
  ]
  lines: list[dict[str, Any]] = []
  changed: list[dict[str, Any]] = []
  for key, first in by_quantity[0].items():
    second = by_quantity[1].get(key)
    headline, _ = tables.headline(first[0]['metric'], key[1])
    if second is None or not (all_quantities or headline):
      continue
    line, pairs = _paired(first, second)
    lines.append(line)
    changed += _changed(first, second, pairs, trials)
  table = pd.DataFrame(lines, columns=list(DIFFERENCES))
  table[list(_NUMBERS)] = table[list(_NUMBERS)].astype(float)
  tested = table.p.notna()
  table.loc[tested, 'p_holm'] = comparisons.holm(table.p[tested].tolist())
  most = pd.DataFrame(changed, columns=list(TRIALS))
  comparison = RunComparison(pair[0].name, pair[1].name, table, most)
  log(str(comparison))
  if out is not None:
    place = pathlib.Path(out) / 'report'
    for name, frame in {'differences': table, 'changed_trials': most}.items():
      path = place / f'compare_{name}.csv'
      with files.replacing(path) as temporary:
        frame.to_csv(temporary, index=False)
      log(f'{name}: {path}')
  return comparison


def _quantities(folder: pathlib.Path) -> Iterator[Any]:
  """Entry, rows, side columns of trials and trial keys of each quantity."""
  for part in _parts(folder):
    for entry, scores in zip(part.entries, part.scores, strict=True):
      shared = results.shared_columns(part, scores)
      yield entry, scores, shared, results.trial_keys(entry, scores, shared)


def _paired(
  first: Any, second: Any
) -> tuple[dict[str, Any], tuple[np.ndarray, np.ndarray]]:
  """A row of differences, and places [P] of the shared trials in a and b."""
  entry, scores, _, keys = first
  _, other, _, other_keys = second
  _, mine, theirs = np.intersect1d(keys, other_keys, return_indices=True)
  order = np.argsort(mine)
  pairs = mine[order], theirs[order]
  line = {name: entry[name] for name in ('metric', 'spec', 'quantity')}
  line |= dict.fromkeys((*_NUMBERS, 'note')) | {'n': 0, 'clusters': 0}
  if not len(mine):
    unlike = [k for k in results.SAME if entry.get(k) != second[0].get(k)]
    why = (
      f'scored with another {", ".join(unlike)}' if unlike else 'none shared'
    )
    return line | {'note': why}, pairs
  score_a, score_b = _take(scores, pairs[0]), _take(other, pairs[1])
  difference = comparisons.paired(score_a, score_b)._asdict()
  both = score_a.measured & score_b.measured
  both &= (score_a.weight > 0) & (score_b.weight > 0)
  for name, side in (('value_a', score_a), ('value_b', score_b)):
    if both.any():
      line[name] = np.average(side.value[both], weights=side.weight[both])
  line['difference'] = difference.pop('value')
  line |= {k: x for k, x in difference.items() if k in line}
  if not both.any():
    line['note'] = 'no shared trial is measured in both'
  elif line['low'] is None:
    few = line['clusters'] < comparisons.FEWEST_PAIRED
    line['note'] = 'too few clusters' if few else 'the same in all clusters'
  return line, pairs


def _take(scores: core.Scores, at: np.ndarray) -> core.Scores:
  names = 'value', 'reason', 'group', 'weight'
  arrays = {name: getattr(scores, name)[at] for name in names}
  return dataclasses.replace(scores, **arrays, columns={})


def _changed(
  first: Any, second: Any, pairs: tuple[np.ndarray, np.ndarray], most: int
) -> Iterator[dict[str, Any]]:
  """Rows of the trials whose values are furthest apart."""
  entry, scores, shared, keys = first
  mine, theirs = pairs
  values = scores.value[mine], second[1].value[theirs]
  change = values[0] - values[1]
  # NaN, where one is not measured, sorts last.
  for at in np.argsort(-np.abs(change), kind='stable')[:most]:
    if not abs(change[at]) > 0:
      break
    yield {
      'spec': entry['spec'],
      'quantity': entry['quantity'],
      'trial_key': keys[mine[at]],
      **{k: shared[k][mine[at]] if k in shared else '' for k in _TRIAL[1:]},
      'a': values[0][at],
      'b': values[1][at],
      'change': change[at],
    }
