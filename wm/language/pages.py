"""Pages of tables and pictures about language models' answers."""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

import wm
from wm.reporting import tables, write
from wm.runtime import files, pages, provenance

Row = Mapping[str, Any]


class AnswersPage(NamedTuple):
  """Tables, pictures and numbers.

  Attributes:
    title: of the page.
    lead: below it, a sentence or two.
    tables: in order.
    pictures: in order, below the tables.
    words: quantity -> what it is.
    rows: name of a CSV file, without its ending -> rows of the same keys.
  """

  title: str
  lead: str
  tables: Sequence[tables.Table]
  pictures: Sequence[write.Picture]
  words: Mapping[str, str]
  rows: Mapping[str, Sequence[Row]]


def unused_name(name: str, taken: Collection[str]) -> str:
  """The name, or 'NAME (2)' and so on where it is known already."""
  unused, number = name, 2
  while unused in taken:
    unused, number = f'{name} ({number})', number + 1
  return unused


def table(
  title: str, rows: Sequence[Row], note: str = '', *, folded: bool = False
) -> tables.Table:
  """A table of rows: text stays, numbers are formatted, None is a dash."""
  frame = pd.DataFrame(
    [{head: _cell(value) for head, value in row.items()} for row in rows],
    dtype=object,
  )
  return tables.Table(title, frame.fillna(''), note, folded)


def _cell(value: Any) -> str:
  if value is None or value != value:  # NaN is not equal to itself.
    return '–'
  if isinstance(value, str):
    return value
  return str(value) if isinstance(value, int) else tables.number(float(value))


def save(page: AnswersPage, out: str | pathlib.Path) -> pathlib.Path:
  """Writes report.html, one page that needs no network, report.md, CSV files.

  Args:
    page: the page's content.
    out: folder; made if need be.

  Returns:
    Path of the page.

  Raises:
    InputError: another process writes there.
  """
  place = pathlib.Path(out)
  made_by = f'wm {wm.__version__}', f'commit {provenance.commit() or "unknown"}'
  values: dict[str, Any] = {
    'title': page.title,
    'lead': f'{page.lead} {", ".join(made_by)}.',
    'tables': page.tables,
    'pictures': page.pictures,
    'words': page.words,
    'notes': (),
    'cautions': (),
    'baselines': (),
    'rules': (),
  }
  with files.stage_lock(place, write.STAGE):
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
      lines=tables.lines,
      breakable=write.breakable,
      **values,
    )
    for picture in page.pictures:
      (place / picture.name).write_bytes(picture.png)
    for title, rows in page.rows.items():
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
