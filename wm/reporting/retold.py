"""How much a language model's results depend on how a world is told.

The same world can be told in other words, with other names and in another
order. What differs between the tellings says nothing of the world; it is noise
of the question, beside that of the trials.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from wm.core import registry
from wm.reporting import tables
from wm.reporting.collect import Entry, Run

NORMAL_95 = 1.96  # Half a 95 % interval, in standard deviations.


class Verbal(NamedTuple):
  """One result by one telling.

  Attributes:
    said: the values of the fields that say how, such as wording and names.
    value: of the quantity.
    error: its standard deviation by its interval; NaN where it has none.
  """

  said: tuple[Any, ...]
  value: float
  error: float


class Spread(NamedTuple):
  """Results over tellings.

  Attributes:
    tellings: how many.
    mean: of their values.
    deviation: standard deviation of the values, of n - 1.
    least, greatest: of the values.
    by: the same deviation of the means over all tellings that share one field's
      value, for each field; NaN where the field has one value.
    chance: root of the mean square of the values' own errors: the deviation
      that trials alone would give, if each telling had its own.
  """

  tellings: int
  mean: float
  deviation: float
  least: float
  greatest: float
  by: tuple[float, ...]
  chance: float


def spread(results: Sequence[Verbal]) -> Spread:
  """The spread of at least two results."""
  values = np.array([result.value for result in results])
  by = []
  for field in zip(*(result.said for result in results), strict=True):
    means = [
      values[[choice == kind for choice in field]].mean()
      for kind in dict.fromkeys(field)
    ]
    by.append(float(np.std(means, ddof=1)) if len(means) > 1 else math.nan)
  errors = np.array([result.error for result in results])
  return Spread(
    len(values),
    float(values.mean()),
    float(values.std(ddof=1)),
    float(values.min()),
    float(values.max()),
    tuple(by),
    float(np.sqrt((errors**2).mean())),
  )


def table(runs: Sequence[Run]) -> tables.Table | None:
  """Tables headline quantities that have several tellings; None without."""
  by_measure: dict[tuple[str, ...], dict[tuple[Any, ...], Verbal]] = {}
  heads: dict[tuple[str, ...], Sequence[str]] = {}
  for entry in (entry for run in runs for entry in run.entries):
    how = _telling(entry)
    if (
      how is None or not tables.headline(entry['metric'], entry['quantity'])[0]
    ):
      continue
    model, fields = how
    measure = f'{tables.spec(entry)}: {entry["quantity"]}'
    # Tellings are compared on the same trials, those of one seed.
    key = entry['world'], model, measure, str(entry['seed'])
    heads[key] = tuple(fields)
    result = Verbal(tuple(fields.values()), entry['value'], _error(entry))
    by_measure.setdefault(key, {})[result.said] = result
  seeds = len({seed for *_, seed in by_measure}) > 1
  rows = [
    _row(key, heads[key], spread(list(results.values())), seeds)
    for key, results in by_measure.items()
    if len(results) > 1
  ]
  if not rows:
    return None
  note = (
    'Standard deviation over tellings of one world, and of the means over '
    'those that share a wording, or names and order. By chance: what trials '
    'alone would give, by the width of the intervals.'
  )
  return tables.Table('In other words', pd.DataFrame(rows).fillna('–'), note)


def _telling(entry: Entry) -> tuple[str, Mapping[str, Any]] | None:
  """The model without the fields that say how, and these with values."""
  spec = entry.get('model_spec') or ''
  name = spec.partition('(')[0]
  if entry['value'] is None or name not in registry.names('model'):
    return None
  cls = registry.find('model', name)
  arguments = registry.parse(spec)[2]
  usual = {field.name: field.default for field in dataclasses.fields(cls)}
  fields = {field: arguments.get(field, usual[field]) for field in cls.retold}
  if not fields:
    return None
  rest = ', '.join(
    f'{key}={value!r}' for key, value in arguments.items() if key not in fields
  )
  return f'{name}({rest})', fields


def _error(entry: Entry) -> float:
  if entry['low'] is None or entry['high'] is None:
    return math.nan
  return float(entry['high'] - entry['low']) / (2 * NORMAL_95)


def _row(
  key: tuple[str, ...], fields: Sequence[str], spread: Spread, seeds: bool
) -> dict[str, str]:
  world, model, measure, seed = key
  row = {
    'world': world,
    'model': model,
    'measure': measure,
    **({'seed': seed} if seeds else {}),
    'tellings': str(spread.tellings),
    'mean': tables.number(spread.mean),
    'least to greatest': f'{tables.number(spread.least)} to '
    f'{tables.number(spread.greatest)}',
    'deviation': tables.number(spread.deviation),
  }
  for field, value in zip(fields, spread.by, strict=True):
    row[f'by {field}'] = '–' if math.isnan(value) else tables.number(value)
  row['by chance'] = (
    '–' if math.isnan(spread.chance) else tables.number(spread.chance)
  )
  return row
