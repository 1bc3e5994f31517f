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
  frame = tables.results(runs, breakdown=True)
  mask = (frame.headline != '') & frame['at'].isna() & (frame.column != '')
  return frame[mask]


def curves(runs: Sequence[Run]) -> list[Curve]:
  """Returns a curve for each column that holds more than a few numbers."""
  frame = _headline(runs)
  numbers = frame.place.map(lambda place: isinstance(place, int | float))
  frame = frame[numbers.astype(bool)]
  result = []
  by = frame.groupby(['metric', 'quantity', 'column'], sort=False)
  for (metric, quantity, column), points in by:
    if points.place.nunique() > FEW:
      axis = catalog.column(column, metric, points.entry.iloc[0]['world'])
      points = points.sort_values('place', kind='stable')
      result.append(Curve(metric, quantity, column, axis, points, {}))
  return _correlated(runs, result)


def panels(runs: Sequence[Run]) -> list[list[Curve]]:
  """Returns the curves of one picture, for each metric that has `panels`."""
  frame = tables.results(runs, breakdown=True)
  result = []
  for metric in dict.fromkeys(frame.metric):
    curves = []
    for quantity in declared.metric(metric).panels:
      column = quantity.rpartition('_')[2]
      mine = (frame.metric == metric) & (frame.quantity == quantity)
      points = frame[mine & (frame.column == column) & frame.plain.astype(bool)]
      if len(points):
        world = points.entry.iloc[0]['world']
        axis = catalog.column(column, metric, world)
        points = points.sort_values('place', kind='stable')
        curves.append(Curve(metric, quantity, column, axis, points, {}))
    if curves:
      result.append(curves)
  return result


def _correlated(runs: Sequence[Run], drawn: Sequence[Curve]) -> list[Curve]:
  """Returns the curves over few places with the correlations of all trials; a
  model of several seeds has none.
  """
  short = [
    k for k, line in enumerate(drawn) if line.points.place.nunique() <= _COLUMNS
  ]
  several: list[dict] = [{} for _ in drawn]
  if not short:
    return [*drawn]
  from wm.evaluation import comparisons  # Few reports need it.

  names = 'metric', 'quantity', 'spec', 'reason', 'value', 'weight', 'group'
  columns = [curve.column for curve in drawn]
  for place, run in enumerate(runs):
    path = run.folder / 'rows.csv'
    if run.seeds or not path.is_file():
      continue
    trials: dict[tuple[int, str], list[tuple[str, ...]]] = {}
    for row in collect.rows(path, (*names, *columns)):
      for k in short:
        x = row[len(names) + k]
        if row[:2] == drawn[k][:2] and not row[3] and x:
          trials.setdefault((k, row[2]), []).append((x, *row[4:7]))
    for (k, text), points in trials.items():
      x, y, weight, group = np.array(points, object).T
      x, y, weight = (collect.numbers(run, column) for column in (x, y, weight))
      if correlation := comparisons.pearson(x, y, weight, group.astype(str)):
        several[k][text, place] = correlation
  return [
    curve._replace(correlations=correlation)
    for curve, correlation in zip(drawn, several, strict=True)
  ]


def curve_tables(curves: Sequence[Curve]) -> list[tables.Table]:
  """Returns a folded table per curve and setting: a row per run, a column per
  place; of many places a row per place, a column per run.
  """
  result = []
  for curve in curves:
    places = sorted(set(curve.points.place))
    for text, part in curve.points.groupby('spec', sort=False):
      wide = tables.by_run(part, 'place', 'interval')
      wide = wide.reindex(columns=['model', *places], fill_value='')
      wide.columns = ['model', *(f'{place:g}' for place in places)]
      correlations = [curve.correlations.get((text, run)) for run in wide.index]
      if len(places) > _COLUMNS:
        wide = wide.set_index('model').T.reset_index(names=curve.column)
      elif any(correlations):
        cells = [
          tables.correlation(correlation) for correlation in correlations
        ]
        wide['correlation'] = pd.Series(cells, wide.index, dtype=object)
      title = f'{text}: {curve.quantity} by {curve.axis}'
      note = f'Correlation: {CORRELATION}.' if any(correlations) else ''
      result.append(tables.Table(title, wide, note, folded=True))
  return result


def table(runs: Sequence[Run], drawn: Sequence[Curve]) -> tables.Table | None:
  """Tables headline values by a property of the state (two-way streets: figure
  7), except those that are curves; None if nothing is left.
  """
  frame = _headline(runs)
  curved = {(curve.metric, curve.quantity, curve.column) for curve in drawn}
  keys = zip(frame.metric, frame.quantity, frame.column, strict=True)
  left = [number for number, key in enumerate(keys) if key not in curved]
  frame = frame.iloc[left]
  if frame.empty:
    return None
  shown = frame[['model', 'metric', 'quantity']].assign(
    metric=frame.spec,
    where=[f'{k}={v}' for k, v in zip(frame.column, frame.place, strict=True)],
    value=frame.interval,
    n=[tables.trials(entry) for entry in frame.entry],
  )
  words = {
    row.column: catalog.column(row.column, row.metric, row.entry['world'])
    for row in frame.itertuples()
  }
  note = '; '.join(f'{k}: {text}' for k, text in words.items() if k != text)
  return tables.Table('Broken down', shown, note, folded=True)
