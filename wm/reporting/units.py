"""Units: small files of what one row and seed of a miniature gave.

RESULTS/NAME/ROW-SEED.json holds what a page needs and no checkpoint, so that it
can be committed. Its key says all that decides the result; a unit stands, and
is not run again, as long as its key is the same.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from wm import core
from wm.runtime import files

Entry = dict[str, Any]
Key = dict[str, Any]

FORMAT = 1
_DIGITS = 5  # Significant ones of numbers that are kept.
# What is kept of an entry of scores.json; the rest is the same in all.
_KEPT = 'spec', 'quantity', 'value', 'low', 'high', 'n', 'clusters'
_WHERE_GIVEN = 'where', 'unmeasured', 'counts'
_NEEDED = {
  'miniature': str,
  'row': str,
  'seed': int,
  'key': dict,
  'cost': dict,
  'scores': list,
}


@dataclasses.dataclass(frozen=True)
class Unit:
  """What one row and seed gave.

  Attributes:
    miniature, row: names.
    seed: of data, training and scoring.
    key: all that decides the result, see `key`.
    about: commit, versions of packages, hardware.
    cost: cpu_seconds, wall_seconds, peak_mb (MiB), processes.
    training: of its train.json; {} where nothing was trained.
    scores: entries with spec, quantity, value, low, high, n, clusters, and
      `where` for those of a subset of trials.
    map: counts of the reconstructed map; {} where there is none.
  """

  miniature: str
  row: str
  seed: int
  key: Key
  about: dict[str, Any]
  cost: dict[str, Any]
  training: dict[str, Any]
  scores: list[Entry]
  map: dict[str, Any] = dataclasses.field(default_factory=dict)

  @property
  def name(self) -> str:
    """Of its file."""
    return name(self.row, self.seed)


def name(row: str, seed: int) -> str:
  """A unit's name: 'random_walks-0'."""
  return f'{row}-{seed}'


def path(results: str | pathlib.Path, row: str, seed: int) -> pathlib.Path:
  """A unit's file."""
  return pathlib.Path(results) / f'{name(row, seed)}.json'


def _short(value: Any) -> Any:
  """Numbers with as many digits as are of use."""
  if isinstance(value, float):
    return float(f'{value:.{_DIGITS}g}')
  if isinstance(value, dict):
    return {key: _short(x) for key, x in value.items()}
  return value


def kept(entries: Sequence[Mapping[str, Any]]) -> list[Entry]:
  """What a unit keeps of entries of scores.json and breakdown.json."""
  found = []
  for entry in entries:
    some = {k: entry[k] for k in _WHERE_GIVEN if entry.get(k)}
    found.append(_short({**{k: entry[k] for k in _KEPT}, **some}))
  return found


def write(results: str | pathlib.Path, unit: Unit) -> pathlib.Path:
  """Writes a unit's file: a line for each entry."""
  body = dataclasses.asdict(unit)
  scores = body.pop('scores')

  def line(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)

  parts = [f' "{key}": {line(value)}' for key, value in body.items()]
  listed = ',\n'.join(f'  {line(entry)}' for entry in scores)
  parts = [f' "format": {FORMAT}', *parts, f' "scores": [\n{listed}\n ]']
  text = '{\n' + ',\n'.join(parts) + '\n}\n'
  place = path(results, unit.row, unit.seed)
  files.write_text(place, text)
  return place


def read(path: str | pathlib.Path) -> Unit:
  """The unit that was written; InputError where it is none."""
  body = files.read_record(path, {'format': int, **_NEEDED})
  if body.pop('format') != FORMAT:
    raise core.InputError(f'{path}: expected format {FORMAT}')
  known = {field.name for field in dataclasses.fields(Unit)}
  if unknown := body.keys() - known:
    raise core.InputError(f'{path}: unknown {sorted(unknown)[0]!r}')
  if missing := known - body.keys():
    raise core.InputError(f'{path} lacks {sorted(missing)[0]!r}')
  for number, entry in enumerate(body['scores']):
    needed = {'spec': str, 'quantity': str, 'n': int, 'clusters': int}
    files.record(entry, f'{path}: score {number}', needed)
  return Unit(**body)
