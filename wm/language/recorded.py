"""Recorded answers of language models, scored again: a page for each paper."""

from __future__ import annotations

import importlib
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.language import pages
from wm.language.rescored import Rescored, Row
from wm.runtime import files, locks


class Paper(NamedTuple):
  """Where a paper's recorded answers are scored.

  Attributes:
    module: has `rescore(folder) -> Rescored`.
    logs: module that has `logs(folder)`, which yields logs of Inspect; or ''.
    errors: module that has `errors(folder)`, rows of wrong answer keys; or ''.
  """

  module: str
  logs: str = ''
  errors: str = ''


PAPERS: Mapping[str, Paper] = {
  'cogeval': Paper(
    'wm.language.cogeval.recorded',
    logs='wm.language.cogeval.converted',
    errors='wm.language.cogeval.recorded',
  ),
  'forces': Paper(
    'wm.language.forces.recorded', logs='wm.language.forces.converted'
  ),
  'mango': Paper(
    'wm.language.mango.recorded', logs='wm.language.mango.converted'
  ),
}


def paper(name: str) -> Paper:
  """A paper by its name; raises InputError."""
  if name not in PAPERS:
    raise core.InputError(
      f'no recorded answers of {name!r}; available: {", ".join(PAPERS)}'
    )
  return PAPERS[name]


def rescore(name: str, data: str | pathlib.Path) -> Rescored:
  """Scores a paper's recorded answers again.

  Raises:
    InputError: no such paper, or its files are missing or damaged.
  """
  if not pathlib.Path(data).is_dir():
    raise core.InputError(f'no folder of recorded answers at {data}')
  found: Rescored = importlib.import_module(paper(name).module).rescore(data)
  return found


def errors(name: str, data: str | pathlib.Path) -> Sequence[Row]:
  """Answer keys of a paper that are wrong, a row each.

  Raises:
    InputError: no such paper, none of its keys are known to be wrong, or its
      files are missing or damaged.
  """
  place = paper(name).errors
  if not place:
    having = [one for one in PAPERS if PAPERS[one].errors]
    raise core.InputError(
      f'no answer keys of {name} are checked; available: {", ".join(having)}'
    )
  found: Sequence[Row] = importlib.import_module(place).errors(data)
  return found


def converted(
  name: str, data: str | pathlib.Path, out: str | pathlib.Path
) -> list[pathlib.Path]:
  """Writes a paper's recorded answers as logs of Inspect into `out`.

  Raises:
    InputError: no such paper, its answers are not converted, or its files are
      missing or damaged.
  """
  place = paper(name).logs
  if not place:
    having = [one for one in PAPERS if PAPERS[one].logs]
    raise core.InputError(
      f'answers of {name} are not converted; available: {", ".join(having)}'
    )
  from inspect_ai.log import write_eval_log

  folder = pathlib.Path(out)
  written = []
  with locks.writer(folder, 'logs'):
    for log in importlib.import_module(place).logs(data):
      path = folder / f'{_plain(log.eval.task_id)}.eval'
      with files.replacing(path) as temporary:
        write_eval_log(log, str(temporary), format='eval')
      written.append(path)
  return written


def _plain(text: str) -> str:
  return ''.join(c if c.isalnum() or c in '.-' else '_' for c in text)


def save(found: Rescored, out: str | pathlib.Path) -> pathlib.Path:
  """Writes report.html, report.md, CSV files, pictures, and scores.json.

  Returns:
    Path of report.html, one page that needs no network.
  """
  page = pages.save(found, out)
  files.write_json(page.with_name('scores.json'), _plain_rows(found.rows))
  return page


def _plain_rows(value: Any) -> Any:
  """The same as JSON has it: no NaN, no infinity, no numbers of NumPy."""
  if isinstance(value, Mapping):
    return {str(key): _plain_rows(one) for key, one in value.items()}
  if isinstance(value, list | tuple):
    return [_plain_rows(one) for one in value]
  if isinstance(value, np.generic):
    value = value.item()
  if isinstance(value, float) and not math.isfinite(value):
    return None
  return value
