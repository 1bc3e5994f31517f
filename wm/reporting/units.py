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
# What a line holds of an entry of scores.json, and what an object may after it.
_LINE = 'quantity', 'value', 'low', 'high', 'n', 'clusters'
_MORE = 'where', 'unmeasured', 'counts'
_NUMBER = int | float | None
_TYPES = str, _NUMBER, _NUMBER, _NUMBER, int, int, dict
_NEEDED = {
  'miniature': str,
  'row': str,
  'seed': int,
  'key': dict,
  'cost': dict,
  'scores': dict,
}
_OPTIONAL = {'rules': dict, 'matched': dict}


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
    map: counts of the reconstructed map, or shares as {value, low, high}; {}
      where there is none.
    rules: finding -> hash of its rule when the first data of this row and seed
      were begun, see `wm.reporting.findings`; {} of units that are older than
      rules. No part of the key: a changed rule marks a result, and makes none
      again.
    matched: setting -> what it follows from, of a row that is matched to
      another: 'num' -> 'sequences of paths'. By it seeds with other numbers
      are of one recipe.
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
  rules: dict[str, str] = dataclasses.field(default_factory=dict)
  matched: dict[str, str] = dataclasses.field(default_factory=dict)

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


def described(thing: Mapping[str, Any]) -> str:
  """The spec of a plug-in with all its fields, by what a key has of it."""
  fields = [
    f'{k}={x!r}' for k, x in thing.items() if k not in ('name', 'version')
  ]
  return f'{thing.get("name", "")}({", ".join(fields)})'


def _short(value: Any) -> Any:
  """Numbers with as many digits as are of use."""
  if isinstance(value, float):
    return float(f'{value:.{_DIGITS}g}')
  if isinstance(value, dict):
    return {key: _short(x) for key, x in value.items()}
  return value


def kept(entries: Sequence[Mapping[str, Any]]) -> list[Entry]:
  """What a unit keeps of entries of scores.json and breakdown.json."""
  lines = []
  for entry in entries:
    counts = {k: n for k, n in (entry.get('counts') or {}).items() if n}
    entry = {**entry, 'counts': counts}
    optional = {k: entry[k] for k in _MORE if entry.get(k)}
    line = {k: entry[k] for k in ('spec', *_LINE)}
    lines.append(_short({**line, **optional}))
  return lines


def write(results: str | pathlib.Path, unit: Unit) -> pathlib.Path:
  """Writes a unit's file: a line for each entry, below its metric's spec."""
  body = dataclasses.asdict(unit)
  if not unit.matched:
    del body['matched']
  by_spec: dict[str, list[str]] = {}

  def text(value: Any) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False)

  for entry in body.pop('scores'):
    more = {k: entry[k] for k in _MORE if k in entry}
    line = [*(entry[k] for k in _LINE), *([more] if more else [])]
    by_spec.setdefault(entry['spec'], []).append(f'   {text(line)}')
  parts = [f' {text(key)}: {text(value)}' for key, value in body.items()]
  listed = ',\n'.join(
    f'  {text(spec)}: [\n' + ',\n'.join(rows) + '\n  ]'
    for spec, rows in by_spec.items()
  )
  parts = [f' "format": {FORMAT}', *parts, f' "scores": {{\n{listed}\n }}']
  place = path(results, unit.row, unit.seed)
  files.write_text(place, '{\n' + ',\n'.join(parts) + '\n}\n')
  return place


def read(path: str | pathlib.Path) -> Unit:
  """The unit that was written; InputError where it is none."""
  body = files.read_record(path, {'format': int})
  if body.pop('format') != FORMAT:
    raise core.InputError(f'{path}: expected format {FORMAT}')
  files.record(body, str(path), _NEEDED, _OPTIONAL)
  fields = {field.name for field in dataclasses.fields(Unit)}
  if unknown := body.keys() - fields:
    raise core.InputError(f'{path}: unknown {sorted(unknown)[0]!r}')
  if missing := fields - body.keys() - _OPTIONAL.keys():
    raise core.InputError(f'{path} lacks {sorted(missing)[0]!r}')
  scores = [
    {'spec': spec, **_entry(line, f'{path}: {spec}')}
    for spec, listed in body['scores'].items()
    for line in listed
  ]
  return Unit(**{**body, 'scores': scores})


def _entry(line: Any, where: str) -> Entry:
  """The entry of a line; raises InputError where it is none."""
  size = len(line) if isinstance(line, list) else 0
  if size not in (len(_LINE), len(_LINE) + 1):
    raise core.InputError(f'{where}: {line!r:.60} is no list of {_LINE}')
  names = (*_LINE, 'more')[:size]
  entry = dict(zip(names, line, strict=True))
  files.record(entry, where, dict(zip(names, _TYPES, strict=False)))
  return {**entry, **entry.pop('more', {})}
