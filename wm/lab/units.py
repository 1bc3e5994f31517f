"""Units: small result files, one for each row and seed of a miniature.

RESULTS/NAME/ROW-SEED.json holds the numbers of a page and no checkpoint, so
that it can be committed. Its key holds everything that decides the result; a
unit is not run again while its key is unchanged.

A finding is judged by units of committed code only: results of changed or
unknown code cannot be reproduced.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wm import core
from wm.core import registry
from wm.evaluation import comparisons, statistics
from wm.lab import findings
from wm.lab.findings import MAP, Quantity
from wm.reporting import tables
from wm.runtime import files, provenance

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
  **dict.fromkeys(('miniature', 'row'), str),
  **dict.fromkeys(('key', 'about', 'cost', 'training'), dict),
  **{'seed': int, 'scores': dict, 'map': dict},
}
_OPTIONAL = {'rules': dict, 'matched': dict}


@dataclasses.dataclass(frozen=True)
class Unit:
  """The result of one row and seed.

  Attributes:
    miniature, row: names.
    seed: of data, training and scoring.
    key: everything that decides the result, see `key`.
    about: commit, versions of packages, hardware.
    cost: cpu_seconds, wall_seconds, peak_mb (MiB), processes.
    training: values of its train.json; {} for a row without training.
    scores: entries with spec, quantity, value, low, high, n, clusters, and
      `where` for those of a subset of trials.
    map: counts of the reconstructed map, or shares as {value, low, high}; {}
      where there is none.
    rules: finding -> hash of its rule when the first data of this row and seed
      were begun, see `wm.lab.findings`; {} of units that are older than
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
  """The spec of a plug-in with all fields, from its entry in a key."""
  fields = [
    f'{k}={x!r}' for k, x in thing.items() if k not in ('name', 'version')
  ]
  return f'{thing.get("name", "")}({", ".join(fields)})'


def _short(value: Any) -> Any:
  """Rounds numbers to _DIGITS significant digits."""
  if isinstance(value, float):
    return float(f'{value:.{_DIGITS}g}')
  if isinstance(value, dict):
    return {key: _short(x) for key, x in value.items()}
  return value


def compact(entries: Sequence[Mapping[str, Any]]) -> list[Entry]:
  """The entries of scores.json and breakdown.json that a unit stores."""
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
  """Reads a unit's file; raises InputError if it is not one."""
  body = files.read_record(path, {'format': int})
  if body.pop('format') != FORMAT:
    raise core.InputError(f'{path}: expected format {FORMAT}')
  findings.check(body, str(path), _NEEDED, _OPTIONAL)
  scores = [
    {'spec': spec, **_entry(line, f'{path}: {spec}')}
    for spec, listed in body['scores'].items()
    for line in listed
  ]
  return Unit(**{**body, 'scores': scores})


def _entry(line: Any, where: str) -> Entry:
  """Reads an entry from a line; raises InputError if it is not one."""
  size = len(line) if isinstance(line, list) else 0
  if size not in (len(_LINE), len(_LINE) + 1):
    raise core.InputError(f'{where}: {line!r:.60} is no list of {_LINE}')
  names = (*_LINE, 'more')[:size]
  entry = dict(zip(names, line, strict=True))
  files.record(entry, where, dict(zip(names, _TYPES, strict=False)))
  return entry | entry.pop('more', {})


_STAGES = 'sampling', 'training'  # Parts of a key with settings of a row.
_SEEDS = ('seed', 'data')  # Parts of a key in which the seeds of a row differ.
Rows = Mapping[str, Sequence[Unit]]


class Results(NamedTuple):
  """Units of a miniature, by row and in the order of seeds.

  Attributes:
    rows: the rows by which findings are judged.
    refused: row -> names of units of code that was changed or is unknown.
    first: the first seed by which findings are judged.
  """

  rows: Rows
  refused: Mapping[str, Sequence[str]] = {}
  first: int = 0


class Amount(NamedTuple):
  """A quantity of a row, over its seeds.

  Attributes:
    value, low, high: mean and interval, see `over_seeds`; low and high None
      where a seed has no interval.
    n, clusters: sums over seeds.
    values: of each seed, in order.
    bimodal: whether these fall in two groups; see `statistics.bimodal`.
    variances: of values by their trials, of seeds that have an interval.
    trained: does the row have training seeds?
  """

  value: float
  low: float | None
  high: float | None
  n: int
  clusters: int
  values: tuple[float, ...]
  variances: tuple[float, ...]
  trained: bool
  bimodal: bool = False

  @property
  def seeds(self) -> int:
    """Number of seeds."""
    return len(self.values)

  def entry(self) -> Entry:
    """The amount in the form of an entry of a table."""
    fields = 'value', 'low', 'high', 'n', 'clusters'
    return {key: x for key, x in self._asdict().items() if key in fields}

  def mean(
    self, times: float = 1.0, variance: str = 'trials'
  ) -> comparisons.Mean:
    """The mean that tests compare, multiplied by a factor.

    The one seed of a row without training has the variance of its trials.

    variance: see the claims of `wm.lab.findings`.
    """
    return comparisons.mean(
      [times * x for x in self.values],
      [times**2 * x for x in self.variances],
      None if self.trained else max(self.clusters - 1, 1),
      floored=variance == 'trials',
    )


def read_all(results: str | pathlib.Path) -> list[Unit]:
  """All units of a folder of results."""
  return [read(path) for path in sorted(pathlib.Path(results).glob('*.json'))]


def read_units(results: str | pathlib.Path) -> dict[str, list[Unit]]:
  """Row -> its units in the order of seeds, of one recipe."""
  return one_recipe(read_all(results))


def one_recipe(several: Sequence[Unit]) -> dict[str, list[Unit]]:
  """Row -> its units in the order of seeds.

  Units of a row may differ in more than their seed. The recipe with the most
  units of committed code is taken; among equals that with the most units, then
  that with the first seed.
  """
  by_row: dict[str, dict[str, list[Unit]]] = {}
  for unit in sorted(several, key=lambda unit: (unit.row, unit.seed)):
    recipe = json.dumps(_recipe(unit), sort_keys=True)
    by_row.setdefault(unit.row, {}).setdefault(recipe, []).append(unit)

  def weight(same: Sequence[Unit]) -> tuple[int, int]:
    return sum(map(is_committed, same)), len(same)

  # The first of equally many.
  return {row: max(of.values(), key=weight) for row, of in by_row.items()}


def of_committed_code(rows: Rows, first: int = 0) -> Results:
  """The units of a miniature that findings may be judged by."""
  refused = {
    row: [unit.name for unit in of if not is_committed(unit)]
    for row, of in rows.items()
  }
  clean = [unit for of in rows.values() for unit in of if is_committed(unit)]
  return Results(
    one_recipe(clean),
    {row: names for row, names in refused.items() if names},
    first,
  )


def is_committed(unit: Unit) -> bool:
  """Was it made by code that was committed?"""
  return provenance.is_clean(unit.about.get('commit'))


def _recipe(unit: Unit) -> Any:
  """The part of a key that all seeds of a row share.

  A number derived from another row's data differs between seeds; its source
  does not.
  """
  recipe = _without_seeds(unit.key)
  for stage in _STAGES:
    if stage in recipe:
      shared = {k: x for k, x in unit.matched.items() if k in recipe[stage]}
      recipe[stage] = {**recipe[stage], **shared}
  return recipe


def _without_seeds(key: Any) -> Any:
  if not isinstance(key, dict):
    return key
  return {k: _without_seeds(x) for k, x in key.items() if k not in _SEEDS}


def entry_of(unit: Unit, of: Quantity) -> Entry | None:
  """The entry of a quantity; None if the unit lacks it."""
  if of.metric == MAP:
    return _map_entry(unit, of.quantity)
  name, _, fields = registry.parse(of.metric)
  suited = [
    entry
    for entry in unit.scores
    if entry['quantity'] == of.quantity
    and entry.get('where', {}) == of.where
    and registry.parse(entry['spec'])[0] == name
    and _has(entry['spec'], fields)
  ]
  return min(suited, key=lambda entry: len(entry['spec']), default=None)


def _map_entry(unit: Unit, quantity: str) -> Entry:
  """A count, which has no interval of its own, or a share with an interval."""
  value = unit.map.get(quantity)
  num = unit.map.get('sequences', 0)
  entry = {'quantity': quantity, 'n': num, 'clusters': num}
  if isinstance(value, dict):
    return {**dict.fromkeys(('value', 'low', 'high')), **entry, **value}
  return {**entry, **dict.fromkeys(('value', 'low', 'high'), value)}


def _has(spec: str, fields: Mapping[str, Any]) -> bool:
  values = tables.arguments(spec)
  return all(values.get(key) == value for key, value in fields.items())


def amount(row: Sequence[Unit], of: Quantity) -> Amount | None:
  """A quantity over the seeds that measured it; None without any."""
  measured = [
    (unit, entry)
    for unit in row
    if (entry := entry_of(unit, of)) and entry['value'] is not None
  ]
  if not measured:
    return None
  entries = [entry for _, entry in measured]
  values, lows, highs = (
    [e[k] for e in entries] for k in ('value', 'low', 'high')
  )
  n, clusters = (sum(e[k] for e in entries) for k in ('n', 'clusters'))
  variances = [
    comparisons.variance(e['value'], e['low'], e['high'], e['clusters'])
    for e in entries
  ]
  return Amount(
    *statistics.over_seeds(values, lows, highs),
    *(n, clusters, tuple(values)),
    tuple(x for x in variances if x is not None),
    any('training' in unit.key for unit, _ in measured),
    # Most quantities are shares; others lie in a range of that size.
    statistics.bimodal(values, lows, highs, (0.0, 1.0)),
  )
