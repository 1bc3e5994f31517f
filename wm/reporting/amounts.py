"""Quantities of the rows of a miniature, from the result files of its units.

A finding is judged by units of committed code only: what a unit of changed or
unknown code gave cannot be made again.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wm.core import registry
from wm.evaluation import comparisons
from wm.evaluation import seeds as seeds_lib
from wm.reporting import tables, units
from wm.reporting.findings import MAP, Exclusion, Quantity
from wm.reporting.units import Entry, Unit
from wm.runtime import commit

_STAGES = 'sampling', 'training'  # Parts of a key with settings of a row.
_SEEDS = ('seed', 'data')  # Parts of a key in which the seeds of a row differ.
Rows = Mapping[str, Sequence[Unit]]


class Results(NamedTuple):
  """Units of a miniature, by row and in the order of seeds.

  Attributes:
    rows: those that findings are judged by.
    refused: row -> names of units of code that was changed or is unknown.
    first: the first seed that rules are judged by.
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

  @property
  def seeds(self) -> int:
    """How many."""
    return len(self.values)

  def entry(self) -> Entry:
    """As an entry of a table."""
    fields = 'value', 'low', 'high', 'n', 'clusters'
    return {key: x for key, x in self._asdict().items() if key in fields}

  def mean(self, times: float = 1.0) -> comparisons.Mean:
    """As tests compare it, multiplied by a factor.

    The one seed of a row without training has the variance of its trials.
    """
    return comparisons.mean(
      [times * x for x in self.values],
      [times**2 * x for x in self.variances],
      None if self.trained else max(self.clusters - 1, 1),
    )


def read_units(
  results: str | pathlib.Path, first: int = 0
) -> dict[str, list[Unit]]:
  """Row -> its units in the order of seeds, of one recipe.

  first: seeds before it are left out.
  """
  paths = sorted(pathlib.Path(results).glob('*.json'))
  several = [units.read(path) for path in paths]
  return one_recipe([unit for unit in several if unit.seed >= first])


def one_recipe(several: Sequence[Unit]) -> dict[str, list[Unit]]:
  """Row -> its units in the order of seeds.

  Where the units of a row differ in more than their seed, those of the recipe
  with the most units of committed code are taken; of equally many, those with
  the most units, and then that with the first seed.
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
  return commit.is_clean(unit.about.get('commit'))


def _recipe(unit: Unit) -> Any:
  """All of a key that the seeds of a row share.

  A number that follows from another row's data differs from seed to seed; what
  it follows from does not.
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
  """The entry that a quantity means; None where the unit has none."""
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


def excluded(unit: Unit, exclusions: Sequence[Exclusion]) -> bool:
  """Does a claim leave out this unit? Not by what `lacking` names."""
  for exclusion in exclusions:
    entry = entry_of(unit, exclusion.of)
    if entry is None or entry['value'] is None:
      continue
    above = entry['value'] - exclusion.bound
    if above < 0 if exclusion.relation == 'below' else above > 0:
      return True
  return False


def lacking(unit: Unit, exclusions: Sequence[Exclusion]) -> list[Quantity]:
  """Quantities that a unit lacks to tell whether a claim leaves it out."""
  return [
    exclusion.of
    for exclusion in exclusions
    if (entry := entry_of(unit, exclusion.of)) is None or entry['value'] is None
  ]


def amount(row: Sequence[Unit], of: Quantity) -> Amount | None:
  """A quantity over the seeds that have measured it; None where none has."""
  measured = [
    (unit, entry)
    for unit in row
    if (entry := entry_of(unit, of)) and entry['value'] is not None
  ]
  if not measured:
    return None
  entries = [entry for _, entry in measured]
  columns = [[e[k] for e in entries] for k in ('value', 'low', 'high')]
  n, clusters = (sum(e[k] for e in entries) for k in ('n', 'clusters'))
  variances = [
    comparisons.variance(e['value'], e['low'], e['high'], e['clusters'])
    for e in entries
  ]
  return Amount(
    *seeds_lib.over_seeds(*columns),
    *(n, clusters, tuple(columns[0])),
    tuple(x for x in variances if x is not None),
    any('training' in unit.key for unit, _ in measured),
  )
