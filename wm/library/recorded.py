"""Recorded answers of language models, scored again."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

from wm import core
from wm.options.calls import Path


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
