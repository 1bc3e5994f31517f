"""Writes the page of a paper's tables, of answers old or new."""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Sequence
from typing import Any

import wm
from wm.language.rescored import Rescored, Row
from wm.reporting import tables, write
from wm.runtime import commit, files, locks, pages


def save(found: Rescored, out: str | pathlib.Path) -> pathlib.Path:
  """Writes report.html, one page that needs no network, report.md, CSV files.

  Args:
    found: the page's content.
    out: folder; made if need be.

  Returns:
    Path of the page.

  Raises:
    InputError: another process writes there.
  """
  place = pathlib.Path(out)
  made_by = f'wm {wm.__version__}', f'commit {commit.describe() or "unknown"}'
  values: dict[str, Any] = {
    'title': found.title,
    'lead': f'{found.lead} {", ".join(made_by)}.',
    'tables': found.tables,
    'pictures': found.pictures,
    'words': found.words,
    'notes': (),
    'cautions': (),
    'rules': (),
  }
  with locks.writer(place, write.STAGE):
    plain = pages.render(
      *('wm.reporting', 'report.md'), failures=False, **values
    )
    files.write_text(place / 'report.md', plain)
    text = pages.render(
      *('wm.reporting', 'report.html'),
      galleries=(),
      most=0,
      seeds=False,
      number=tables.number,
      lines=write.lines,
      breakable=write.breakable,
      **values,
    )
    for picture in found.pictures:
      (place / picture.name).write_bytes(picture.png)
    for title, rows in found.rows.items():
      _write_rows(place / f'{title}.csv', rows)
    files.write_text(place / 'report.html', text)
  return place / 'report.html'


def _write_rows(path: pathlib.Path, rows: Sequence[Row]) -> None:
  with (
    files.replacing(path) as temporary,
    open(temporary, 'w', encoding='utf-8', newline='') as file,
  ):
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(file, names, lineterminator='\n')
    writer.writeheader()
    writer.writerows(rows)
