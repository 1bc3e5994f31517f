"""Columns of a CSV file as text."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path

from wm import core
from wm.core import inputs


def read(path: str | Path, required: tuple[str, ...]) -> dict[str, list[str]]:
  """Column name -> its fields; each column has at least one.

  Raises:
    InputError: a missing file, invalid CSV, a missing column of `required`, a
      row that is too short or too long, or no rows.
  """
  with (
    inputs.reading_file(path, 'a CSV file') as table,
    table.open(encoding='utf-8-sig', newline='') as file,
  ):
    reader = csv.reader(file, strict=True)
    header = [name.strip() for name in next(reader, [])]
    missing = [name for name in required if name not in header]
    if missing:
      raise core.InputError(
        f'{path} has no column {missing[0]!r}; expected '
        f'{",".join(required)}, found {",".join(header) or "nothing"}'
      )

    def checked() -> Iterator[list[str]]:
      for row in filter(None, reader):
        if len(row) != len(header):
          raise core.InputError(
            f'{path}, line {reader.line_num}: {len(row)} fields, expected '
            f'{len(header)}'
          )
        yield row

    # Millions of rows as lists would slow down all that is done meanwhile.
    fields = [*itertools.chain.from_iterable(checked())]
  if not fields:
    raise core.InputError(f'{path} has a header but no rows')
  return {name: fields[k :: len(header)] for k, name in enumerate(header)}
