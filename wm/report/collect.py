"""Reads the result files of runs."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

from wm import core, files

Entry = dict[str, Any]

# What every entry of a scores.json holds.
FIELDS = (
  'metric',
  'quantity',
  'world',
  'model',
  'n',
  'value',
  'low',
  'high',
  'unmeasured',
  'seed',
)


@dataclasses.dataclass(frozen=True)
class Run:
  """Results of one model.

  Attributes:
    folder: where the files are.
    entries: what scores.json lists.
    breakdown: entries of subsets of trials, from breakdown.json.
    curve: training metrics by step, from metrics.jsonl.
    summary: the reconstruction's summary.json, or None.
    training: what the run in the folder was trained by, from train.run.json;
      {} where there was none.
    seeds: training seeds, where several are put together.
  """

  folder: pathlib.Path
  entries: list[Entry]
  breakdown: list[Entry]
  curve: list[dict[str, float]]
  summary: dict[str, Any] | None
  training: dict[str, Any] = dataclasses.field(default_factory=dict)
  seeds: tuple[int, ...] = ()

  @property
  def name(self) -> str:
    """The model's name."""
    return self.entries[0]['model'] if self.entries else self.folder.name

  @property
  def world(self) -> str:
    """Spec of the world that the model was scored on; '' if nothing was."""
    return self.entries[0]['world'] if self.entries else ''


def _entries(path: pathlib.Path) -> list[Entry]:
  entries = files.read_json(path)
  if not isinstance(entries, list):
    raise core.InputError(f'{path}: expected a list of scores')
  for number, entry in enumerate(entries):
    missing = [
      f for f in FIELDS if not isinstance(entry, dict) or f not in entry
    ]
    if missing:
      raise core.InputError(
        f'{path}: entry {number} lacks {", ".join(missing)}'
      )
  return entries


def _lines(path: pathlib.Path) -> list[dict[str, float]]:
  rows = []
  with open(path, encoding='utf-8') as file:
    for number, line in enumerate(file, 1):
      try:
        rows.append(json.loads(line))
      except json.JSONDecodeError as error:
        raise core.InputError(f'{path}, line {number}: not JSON') from error
  return rows


def load(folder: str | pathlib.Path) -> Run:
  """Results in a run's folder; raises InputError where there are none."""
  folder = pathlib.Path(folder)
  if not (folder / 'scores.json').is_file():
    raise core.InputError(
      f'{folder} has no scores.json; run launch/score.py --out={folder} first'
    )
  optional = {
    'breakdown': (folder / 'breakdown.json', _entries, []),
    'curve': (folder / 'metrics.jsonl', _lines, []),
    'summary': (folder / 'summary.json', files.read_json, None),
    'training': (folder / 'train.run.json', files.read_json, {}),
  }
  found = {
    name: read(path) if path.is_file() else absent
    for name, (path, read, absent) in optional.items()
  }
  return Run(folder, _entries(folder / 'scores.json'), **found)
