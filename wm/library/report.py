"""Reports, and results as data frames: calls that load no model."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from wm import core
from wm.core import inputs
from wm.evaluation import comparisons, results
from wm.language import logs
from wm.options.calls import Path
from wm.reporting import collect, model_comparison, tables, write


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
    several, place, wait=wait, notes=notes, single_file=single_file
  )
  log(f'{summary["results"]} results of {len(several)} runs')
  for line in (*summary['answers'], *summary['left_out']):
    log(line)
  page: pathlib.Path = summary['page']
  log(f'report: {page}')
  return page


def _scored(folder: Path) -> list[Path]:
  """Expands a folder of runs to its scored runs; others stay."""
  place = pathlib.Path(folder)
  with inputs.reading(place, 'a folder that can be read'):
    if (place / 'scores.json').exists() or logs.paths(folder):
      return [folder]
  inner = [path.parent for path in sorted(place.glob('*/scores.json'))]
  return [run for run in inner if run.name != 'report'] or [folder]


def report_folder(out: Path, sources: Sequence[Path]) -> pathlib.Path:
  """OUT if it is new, or holds only a report; else OUT/report."""
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
  log: Callable[[str], None] = lambda line: None,
) -> pathlib.Path:
  """Scores recorded answers of language models again: tables and figures.

  Args:
    paper: 'cogeval', 'forces' or another paper that has a record.
    data: folder of the recorded answers.
    out: folder in which to make report/.
    log: gets the files.

  Returns:
    Path of report.html, one page that needs no network.

  Raises:
    InputError: no such paper, or its files are missing or damaged.
  """
  with inputs.extra('language', 'a report of recorded answers'):
    from wm.language import pages
  rescored = pages.rescore(paper, data)
  page = pages.save(rescored, pathlib.Path(out) / 'report')
  names = ', '.join(f'{name}.csv' for name in rescored.rows)
  log(rescored.lead)
  log(f'report: {page}')
  log(f'        {names}')
  return page


# Results as data frames.

Scored = str | os.PathLike  # A wm.Run is one.


def _folder(run: Scored) -> pathlib.Path:
  """The folder of a run; InputError if it has no results."""
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


_NUMBERS = ('value_a', 'value_b', 'difference', 'low', 'high', 'p', 'p_holm')
_COLUMNS = ('metric', 'spec', 'quantity', *_NUMBERS, 'n', 'clusters', 'note')


def compare(
  a: Scored, b: Scored, *, log: Callable[[str], None] = lambda line: None
) -> pd.DataFrame:
  """Compares two runs on the same trials, as a report compares trained models.

  They are about these two models, not about how they were trained: that takes
  several training seeds.

  Args:
    a, b: scored runs, or their folders.
    log: gets the table.

  Returns:
    A row for each headline quantity that both have: its values, `difference`
    (a - b) with its 95 % interval `low` to `high`, `p` of no difference,
    `p_holm` adjusted for all rows, `n` trials, `clusters`, and `note`, why
    there is no difference.

  Raises:
    InputError: no such run, or one without results.
  """
  pair = [collect.load(_folder(run)) for run in (a, b)]
  mine, theirs = (
    {(e.get('spec', ''), e['quantity']): e for e in run.entries} for run in pair
  )
  lines: list[dict[str, Any]] = []
  for key, first in mine.items():
    second = theirs.get(key)
    if second is None or not tables.headline(first['metric'], key[1])[0]:
      continue
    scores = [
      model_comparison.scores_of(x, first['metric'], key[0]) for x in pair
    ]
    line = dict(zip(_COLUMNS, (first['metric'], *key), strict=False))
    line |= {'value_a': first['value'], 'value_b': second['value']}
    line |= {'n': 0, 'clusters': 0, 'note': ''}
    difference = model_comparison.difference_of(first, second, *scores)
    if isinstance(difference, str):
      line['note'] = difference
    else:
      about = difference._asdict()
      line |= {'difference': about.pop('value')}
      line |= {name: x for name, x in about.items() if name in _COLUMNS}
    lines.append(line)
  table = pd.DataFrame(lines, columns=list(_COLUMNS))
  table[list(_NUMBERS)] = table[list(_NUMBERS)].astype(float)
  tested = table.p.notna()
  table.loc[tested, 'p_holm'] = comparisons.holm(table.p[tested].tolist())
  log(table.drop(columns='metric').round(4).to_string(index=False))
  return table
