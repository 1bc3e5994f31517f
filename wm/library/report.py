"""Reports: the call that needs neither models nor training, and loads none."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from wm import core
from wm.language import logs
from wm.options.calls import Path
from wm.reporting import write

if TYPE_CHECKING:
  from wm.reporting.verdicts import Judged


def report(
  folders: Path | Sequence[Path],
  out: Path | None = None,
  *,
  wait: bool = False,
  notes: Sequence[str] = (),
  log: Callable[[str], None] = lambda line: None,
) -> pathlib.Path:
  """Writes a report of scored runs: tables, curves and maps.

  Args:
    folders: that `score` wrote to, or logs of Inspect, one by one or folders of
      them: each paper's tables have a page of their own.
    out: folder in which to make report/, or one that is called report; None
      is that of the only run. The counts of tokens that `coverage` wrote there,
      or to a run's, are tabled.
    wait: for another process that reports there, instead of refusing.
    notes: lines on what is missing, such as a ceiling.
    log: gets the number of results and the files.

  Returns:
    Path of report.html, one page that needs no network; of logs alone that of
    their first page.

  Raises:
    InputError: a folder without results, or several and no `out`.
  """
  if isinstance(folders, str | pathlib.Path):
    folders = [folders]
  several = list(folders)
  if out is None:
    if len(several) != 1:
      raise core.InputError('out is needed for a report of several runs')
    (out,) = several
  place = _place(out, several)
  log_paths = [logs.paths(path) for path in several]
  if any(log_paths):
    runs = [f for f, of_f in zip(several, log_paths, strict=True) if not of_f]
    paths = [path for group in log_paths for path in group]
    reported = logs.report(paths, place, log, alone=not runs)
    several = [*runs, *reported.results]
    if not several:
      return reported.pages[0]
  summary = write.report(several, place, wait=wait, notes=notes)
  log(f'{summary["results"]} results of {len(several)} runs')
  for line in summary['left_out']:
    log(line)
  log(f'report: {summary["html"]}')
  log(f'        {summary["markdown"]}')
  return pathlib.Path(summary['html'])


def _place(out: Path, sources: Sequence[Path]) -> pathlib.Path:
  """OUT/report; or OUT, if it is called so and holds no results itself."""
  place = pathlib.Path(out)
  is_run = place.resolve() in [pathlib.Path(path).resolve() for path in sources]
  if place.name == 'report' and not (is_run or (place / 'scores').exists()):
    return place
  return place / 'report'


def findings(
  folder: Path,
  out: Path,
  *,
  log: Callable[[str], None] = lambda line: None,
) -> list[Judged]:
  """Judges the findings of papers by units of miniatures, on one page.

  Args:
    folder: of findings.json, flagfiles and results/NAME/ROW-SEED.json, such as
      launch/flags/miniatures.
    out: folder in which to make report/, or one that is called report.
    log: gets the lines of verdicts, and the files.

  Returns:
    Each finding with its verdict and comparisons, see `wm.reporting.verdicts`.

  Raises:
    InputError: findings or results that are damaged or do not fit.
  """
  from wm.reporting import miniatures  # Intervals over seeds load SciPy.

  place = _place(out, [])
  judged = miniatures.write(folder, place)
  for line in miniatures.brief(judged):
    log(line)
  log(f'report: {place}/report.html')
  log(f'        {place}/report.md')
  return judged


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
    paper: 'cogeval', 'forces' or another of `wm.papers` that has a record.
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
  eval_logs = _eval_logs()

  place = pathlib.Path(out)
  rescored = eval_logs.rescore(paper, data)
  page = eval_logs.save(rescored, place / 'report')
  names = ', '.join(f'{name}.csv' for name in rescored.rows)
  log(rescored.lead)
  log(f'report: {page}')
  log(f'        {page.with_suffix(".md").name}, scores.json, {names}')
  if logs:
    for path in eval_logs.convert(paper, data, place / 'logs'):
      log(f'log: {path}')
  return page


def wrong_keys(
  paper: str, data: Path, *, log: Callable[[str], None] = lambda line: None
) -> list[dict[str, object]]:
  """Lists answer keys of a paper that an exact solver contradicts.

  Args:
    paper, data: see `recorded`.
    log: gets a line for each.

  Returns:
    A row for each key.

  Raises:
    InputError: no such paper, its keys are not checked, or its files are
      missing or damaged.
  """
  eval_logs = _eval_logs()

  rows = [dict(row) for row in eval_logs.errors(paper, data)]
  for row in rows:
    log('; '.join(f'{name}: {value}' for name, value in row.items()))
  return rows


def _eval_logs() -> Any:
  """wm.language.eval_logs, which loads Inspect; or InputError."""
  try:
    from wm.language import eval_logs
  except ImportError as error:
    raise core.InputError(
      "recorded answers need inspect_ai: pip install -e '.[language]' "
      f'({error})'
    ) from error
  return eval_logs
