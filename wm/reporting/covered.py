"""Tables the token coverage of data beside the papers' (see wm.coverage)."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pandas as pd

from wm import core
from wm.core import registry
from wm.reporting import papers, tables
from wm.runtime import files

NAME = 'coverage.json'
_FIELDS = {
  **{'data': str, 'world': str, 'sequences': int, 'tokens': int},
  **{'ids': int, 'seen': int, 'new': int, 'unseen': float | int},
}


def table(folders: Sequence[pathlib.Path]) -> tables.Table | None:
  """Returns a row per folder of data; None if no folder has a coverage.json.

  Raises:
    InputError: such a file is damaged.
  """
  frame = []
  notes: dict[str, None] = {}
  for folder in dict.fromkeys(folders):
    path = folder / NAME
    rows = files.read_json(path) if path.is_file() else []
    if not isinstance(rows, list):
      raise core.InputError(f'{path}: expected a list')
    for place, row in enumerate(rows):
      files.record(row, f'{path}: entry {place}', _FIELDS)
      printed = _printed(row['world'], 'test' if place else 'train')
      notes |= dict.fromkeys(note for _, note in printed)
      frame.append(
        {
          'data': row['data'],
          'sequences': f'{row["sequences"]:,}',
          'tokens': f'{row["tokens"]:,}',
          'different': f'{row["seen"]:,} of {row["ids"]:,}',
          'share': f'{row["seen"] / max(row["ids"], 1):.2%}',
          'not in the first': f'{row["new"]:,}',
          'share of tokens': f'{row["unseen"]:.3g}',
          'paper': ', '.join(text for text, _ in printed),
        }
      )
  if not frame:
    return None
  note = 'Tokens after the prompt. ' + '; '.join(notes)
  return tables.Table('Token coverage', pd.DataFrame(frame), note.strip())


def _printed(world: str, data: str) -> list[tuple[str, str]]:
  """Returns what papers print of such data, and where."""
  result = []
  for paper in papers.papers().get(registry.parse(world)[0], ()):
    if (coverage := paper.coverage) and data in coverage.seen:
      seen = coverage.seen[data]
      text = f'{seen:,} of {coverage.ids:,}, {seen / coverage.ids:.2%}'
      result.append((text, f'Paper: {coverage.table}, {data}.'))
  return result
