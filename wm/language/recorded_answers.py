"""Scores again the recorded answers that papers have published.

A paper's folder of answers comes in; `rescore` of its module `recorded` makes
the page.
"""

from __future__ import annotations

import gzip
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from wm import core
from wm.core import inputs
from wm.language import papers
from wm.language.pages import AnswersPage
from wm.runtime import files


def read_lines(
  path: pathlib.Path, needed: Mapping[str, type]
) -> Iterator[dict[str, Any]]:
  """Objects of a packed JSON-lines file.

  needed: name -> `str` or `float`, what each object's value of it is.

  Raises:
    InputError: it is missing or damaged, or an object lacks such a value.
  """
  with (
    inputs.reading_file(path, 'a file of recorded answers'),
    gzip.open(path, 'rt', encoding='utf-8') as file,
  ):
    for number, line in enumerate(file, 1):
      record = inputs.parse_json(line)
      yield files.record(record, f'{path}, line {number}', dict(needed))


def rescore(paper: str, data: str | pathlib.Path) -> AnswersPage:
  """Scores a paper's recorded answers again.

  Raises:
    InputError: no such paper, or its files are missing or damaged.
  """
  if not pathlib.Path(data).is_dir():
    raise core.InputError(f'no folder of recorded answers at {data}')
  recorded = [name for name in papers.names() if papers.has(name, 'recorded')]
  inputs.check_known(paper, recorded, f'no recorded answers of {paper!r}')
  page: AnswersPage = papers.load(paper, 'recorded').rescore(data)
  return page
