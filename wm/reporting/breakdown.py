"""Breaks results down by a property of trials: few values are rows of a table,
many are a line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from wm.reporting import catalog, collect, declared, tables
from wm.reporting.collect import Run

if TYPE_CHECKING:
  from wm.evaluation.comparisons import Correlation

FEW = 2  # Values of a number that are still told apart by rows of a table.
CORRELATION = "Pearson's over all trials [95 % interval]"
_COLUMNS = 10  # Places that are still columns of a table.


class Curve(NamedTuple):
  """A quantity as a function of a number.

  Attributes:
    metric, quantity: names of what was measured.
    column: name of the number, a side column.
    axis: the column in words.
    points: rows of `tables.results`, by setting, run and place.
    correlations: (spec, place of the run) -> how it goes with the number.
  """

  metric: str
  quantity: str
  column: str
  axis: str
  points: pd.DataFrame
  correlations: Mapping[tuple[str, int], Correlation]

  @property
  def measured(self) -> bool:
    """Has any model a value?"""
    return any(entry['value'] is not None for entry in self.points.entry)


def _headline(runs: Sequence[Run]) -> pd.DataFrame:
  """Returns the rows of headline quantities that are broken down by one
  column.
  """
  found = tables.results(runs, breakdown=True)
  kept = (found.headline != '') & found['at'].isna() & (found.column != '')
  return found[kept]


def curves(runs: Sequence[Run]) -> list[Curve]:
  """Returns a curve for each column that holds more than a few numbers."""
  found = _headline(runs)
  numbers = found.place.map(lambda place: isinstance(place, int | float))
  found = found[numbers.astype(bool)]
  made = []
  by = found.groupby(['metric', 'quantity', 'column'], sort=False)
  for (metric, quantity, column), points in by:
    if points.place.nunique() > FEW:
      axis = catalog.column(column, metric, points.entry.iloc[0]['world'])
      points = points.sort_values('place', kind='stable')
      made.append(Curve(metric, quantity, column, axis, points, {}))
  return _correlated(runs, made)


def panels(runs: Sequence[Run]) -> list[list[Curve]]:
  """Returns the curves of one picture, for each metric that has `panels`."""
  found = tables.results(runs, breakdown=True)
  made = []
  for metric in dict.fromkeys(found.metric):
    curves = []
    for quantity in declared.metric(metric).panels:
      column = quantity.rpartition('_')[2]
      mine = (found.metric == metric) & (found.quantity == quantity)
      points = found[mine & (found.column == column) & found.plain.astype(bool)]
      if len(points):
        world = points.entry.iloc[0]['world']
        axis = catalog.column(column, metric, world)
        points = points.sort_values('place', kind='stable')
        curves.append(Curve(metric, quantity, column, axis, points, {}))
    if curves:
      made.append(curves)
  return made


def _correlated(runs: Sequence[Run], made: Sequence[Curve]) -> list[Curve]:
  """Returns the curves over few places with the correlations of all trials; a
  model of several seeds has none.
  """
  short = [
    k for k, one in enumerate(made) if one.points.place.nunique() <= _COLUMNS
  ]
  several: list[dict] = [{} for _ in made]
  if not short:
    return [*made]
  from wm.evaluation import comparisons  # Few reports need it.

  names = 'metric', 'quantity', 'spec', 'reason', 'value', 'weight', 'group'
  columns = [curve.column for curve in made]
  for place, run in enumerate(runs):
    path = run.folder / 'rows.csv'
    if run.seeds or not path.is_file():
      continue
    trials: dict[tuple[int, str], list[tuple[str, ...]]] = {}
    for row in collect.rows(path, (*names, *columns)):
      for k in short:
        x = row[len(names) + k]
        if row[:2] == made[k][:2] and not row[3] and x:
          trials.setdefault((k, row[2]), []).append((x, *row[4:7]))
    for (k, text), points in trials.items():
      x, y, weight, group = np.array(points, object).T
      x, y, weight = (collect.numbers(run, some) for some in (x, y, weight))
      if found := comparisons.pearson(x, y, weight, group.astype(str)):
        several[k][text, place] = found
  return [
    curve._replace(correlations=found)
    for curve, found in zip(made, several, strict=True)
  ]


def curve_tables(found: Sequence[Curve]) -> list[tables.Table]:
  """Returns a folded table per curve and setting: a row per run, a column per
  place; of many places a row per place, a column per run.
  """
  made = []
  for curve in found:
    places = sorted(set(curve.points.place))
    for text, part in curve.points.groupby('spec', sort=False):
      wide = tables.by_run(part, 'place', 'interval')
      wide = wide.reindex(columns=['model', *places], fill_value='')
      wide.columns = ['model', *(f'{place:g}' for place in places)]
      known = [curve.correlations.get((text, run)) for run in wide.index]
      if len(places) > _COLUMNS:
        wide = wide.set_index('model').T.reset_index(names=curve.column)
      elif any(known):
        cells = [tables.correlation(one) for one in known]
        wide['correlation'] = pd.Series(cells, wide.index, dtype=object)
      title = f'{text}: {curve.quantity} by {curve.axis}'
      note = f'Correlation: {CORRELATION}.' if any(known) else ''
      made.append(tables.Table(title, wide, note, folded=True))
  return made


def table(runs: Sequence[Run], drawn: Sequence[Curve]) -> tables.Table | None:
  """Tables headline values by a property of the state (two-way streets: figure
  7), except those that are curves; None if nothing is left.
  """
  found = _headline(runs)
  curved = {(one.metric, one.quantity, one.column) for one in drawn}
  keys = zip(found.metric, found.quantity, found.column, strict=True)
  left = [number for number, key in enumerate(keys) if key not in curved]
  found = found.iloc[left]
  if found.empty:
    return None
  shown = found[['model', 'metric', 'quantity']].assign(
    metric=found.spec,
    where=[f'{k}={v}' for k, v in zip(found.column, found.place, strict=True)],
    value=found.interval,
    n=[tables.trials(entry) for entry in found.entry],
  )
  words = {
    row.column: catalog.column(row.column, row.metric, row.entry['world'])
    for row in found.itertuples()
  }
  note = '; '.join(f'{k}: {text}' for k, text in words.items() if k != text)
  return tables.Table('Broken down', shown, note, folded=True)
