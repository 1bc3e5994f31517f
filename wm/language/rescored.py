"""What scoring recorded answers again gives, of any paper: a page's content."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from wm.reporting import tables, write

Row = Mapping[str, Any]


class Rescored(NamedTuple):
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


def unlike(name: str, known: Collection[str]) -> str:
  """The name, or 'NAME (2)' and so on where it is known already."""
  found, number = name, 2
  while found in known:
    found, number = f'{name} ({number})', number + 1
  return found


def table(
  title: str, rows: Sequence[Row], note: str = '', *, folded: bool = False
) -> tables.Table:
  """A table of rows: text stays, numbers are formatted, None is a dash."""
  frame = pd.DataFrame(
    [{head: _cell(value) for head, value in row.items()} for row in rows]
  )
  return tables.Table(title, frame.fillna(''), note, folded)


def _cell(value: Any) -> str:
  if value is None or value != value:  # NaN is not equal to itself.
    return '–'
  if isinstance(value, str):
    return value
  return str(value) if isinstance(value, int) else tables.number(float(value))
