"""How what metrics say of models goes together, over models.

Vafa et al. 2025 correlate inductive biases with transfer over ten models: five
families, trained and not. A metric says which of its quantities are correlated
with those of all others, in `across`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from wm.reporting import declared, tables
from wm.reporting.collect import Entry, Run

if TYPE_CHECKING:
  from wm.evaluation import comparisons

# Ends of quantities that are of another point of the same model.
POINTS = ('', '_untrained')

# World and metric's spec -> run -> quantity -> value.
Values = dict[tuple[str, str], dict[int, dict[str, float]]]


def table(runs: Sequence[Run]) -> tables.Table | None:
  """Tables correlations; None where there are too few models, or no pair."""
  values, metrics = _values(runs)
  rows = []
  for (world, spec), mine in values.items():
    metric = metrics[spec]
    for (other_world, other_spec), theirs in values.items():
      probe = metrics[other_spec]
      if metric == probe or world != other_world:
        continue
      for quantity in declared.metric(metric).correlated_quantities:
        for name in _numbers(probe):
          correlation = _correlated(mine, theirs, quantity, probe, name)
          if correlation is not None:
            rows.append(
              {
                'world': world,
                'measure': f'{other_spec}: {name}',
                f'{spec}: {quantity}': tables.joined(
                  tables.correlation(correlation), f'n={correlation.clusters}'
                ),
              }
            )
  if not rows:
    return None
  keys = ['world', 'measure']
  frame = pd.DataFrame(rows, dtype=object)
  frame = frame.groupby(keys, sort=False).first().reset_index()
  if frame['world'].nunique() == 1:
    frame = frame.drop(columns='world')
  note = (
    "Pearson's correlation over models, each trained and, where measured, "
    "untrained; in brackets Fisher's 95 % interval, n models."
  )
  return tables.Table('Across models', frame.fillna(''), note)


def _values(runs: Sequence[Run]) -> tuple[Values, dict[str, str]]:
  """All measured values, and the metric of each spec."""
  values: Values = {}
  metrics: dict[str, str] = {}
  for number, run in enumerate(runs):
    for entry in run.entries:
      if entry['value'] is None:
        continue
      spec = tables.spec(entry)
      metrics[spec] = entry['metric']
      mine = values.setdefault(_key(entry, spec), {})
      mine.setdefault(number, {})[entry['quantity']] = entry['value']
  return values, metrics


def _key(entry: Entry, spec: str) -> tuple[str, str]:
  return entry['world'], spec


def _numbers(metric: str) -> list[str]:
  """Names of what a metric's models are compared by."""
  declaration = declared.metric(metric)
  return [*dict.fromkeys([*declaration.headline, *declaration.derived])]


def _correlated(
  mine: Mapping[int, Mapping[str, float]],
  theirs: Mapping[int, Mapping[str, float]],
  quantity: str,
  probe: str,
  name: str,
) -> comparisons.Correlation | None:
  """Of a quantity and a number of another metric, over all runs with both."""
  from wm.evaluation import comparisons  # Few reports need it.

  derived = declared.metric(probe).derived.get(name)
  points = []
  for number, by in mine.items():
    for end in POINTS:
      measured = {
        key.removesuffix(end): value
        for key, value in theirs.get(number, {}).items()
        if key.endswith(end)
      }
      if quantity + end not in by:
        continue
      try:
        x = derived(measured) if derived else measured[name]
      except (KeyError, ZeroDivisionError):
        continue  # Not measured, or no number.
      if math.isfinite(x):
        points.append((x, by[quantity + end], number))
  if not points:
    return None
  columns = [np.array(column) for column in zip(*points, strict=True)]
  return comparisons.pearson_over_models(*columns)
