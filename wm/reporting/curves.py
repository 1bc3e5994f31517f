"""Results by a property of trials, by calibration bins and by ablated fields.

A property with few values is rows of a table, with many a line. A metric gives
calibration as pairs of quantities, in as many bins as it likes:

  axis_NAME_MIDDLE    of the oracle NAME, in the bin whose middle is MIDDLE
  curve_NAME_MIDDLE   of the model, in the same bin

A model that does as the oracle does is on the diagonal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from wm.reporting import catalog, collect, figures, tables
from wm.reporting.collect import Entry, Run

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


def _headline(parts: pd.DataFrame) -> pd.DataFrame:
  """Returns the rows of headline quantities that are broken down by one
  column.
  """
  mask = (parts.headline != '') & parts['at'].isna() & (parts.column != '')
  return parts[mask]


def _curve(metric: str, quantity: str, column: str, points: Any) -> Curve:
  axis = catalog.column(column, metric, points.world.iloc[0])
  points = points.sort_values('place', kind='stable')
  return Curve(metric, quantity, column, axis, points, {})


def curves(runs: Sequence[Run], parts: pd.DataFrame) -> list[Curve]:
  """Returns a curve for each column that holds more than a few numbers.

  Args:
    runs: all of a report.
    parts: `tables.results` of their breakdowns.
  """
  frame = _headline(parts)
  numbers = frame.place.map(lambda place: isinstance(place, int | float))
  frame = frame[numbers.astype(bool)]
  result = [
    _curve(metric, quantity, column, points)
    for (metric, quantity, column), points in frame.groupby(
      ['metric', 'quantity', 'column'], sort=False
    )
    if points.place.nunique() > FEW
  ]
  return _correlated(runs, result)


def panel_curves(parts: pd.DataFrame) -> list[list[Curve]]:
  """Returns the curves of one picture, for each metric that has `panels`."""
  plain = parts[parts.plain.astype(bool)]
  result = []
  for metric, of_metric in plain.groupby('metric', sort=False):
    curves = []
    for quantity in catalog.metric_class(metric).panels:
      column = quantity.rpartition('_')[2]
      mine = (of_metric.quantity == quantity) & (of_metric.column == column)
      if mine.any():
        curves.append(_curve(metric, quantity, column, of_metric[mine]))
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


def breakdown_table(
  parts: pd.DataFrame, drawn: Sequence[Curve]
) -> tables.Table | None:
  """Tables headline values by a property of the state (two-way streets: figure
  7), except those that are curves; None if nothing is left.
  """
  frame = _headline(parts)
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


_PANELS = 6


def draw_curves(curve: Curve) -> bytes:
  """Draws a panel per setting, with a line per model over a number.

  Of many settings the plainest alone. Above a panel are the correlations of
  few models.
  """
  settings = list(curve.points.groupby('spec', sort=False))
  if len(settings) > _PANELS:
    settings = [min(settings, key=lambda setting: len(setting[0]))]
  names = list(dict.fromkeys(curve.points.model))
  looks = figures.styles(names)
  titles = tables.differing([text for text, _ in settings])
  figure, axes = figures.new_axes(len(settings), across=3)
  for axis, (text, part) in zip(axes, settings, strict=True):
    correlations = []
    for (run, name), line in part.groupby(['run', 'model'], sort=False):
      place = names.index(name)
      look = looks[name] | figures.told_apart(place, len(names), len(line))
      points = [
        (x, entry['value'], entry['low'], entry['high'])
        for x, entry in zip(line.place, line.entry, strict=True)
        if entry['value'] is not None
      ]
      band = {'lw': 0} if banded(curve) else {'alpha': 0}
      figures.draw_line(axis, name, points, look, **band)
      if (correlation := curve.correlations.get((text, run))) and banded(curve):
        correlations.append(
          figures.literal(f'{name}: {tables.correlation(correlation)}')
        )
    title = (
      []
      if len(settings) == 1
      else [textwrap.fill(figures.literal(titles[text]), 44)]
    )
    axis.set_title('\n'.join([*title, *correlations]), fontsize=9)
    axis.set(xlabel=textwrap.fill(curve.axis, 44), ylabel=curve.quantity)
    axis.margins(x=0)
  low = min(axis.get_ylim()[0] for axis in axes)
  high = max(axis.get_ylim()[1] for axis in axes)
  low = min(low, -0.02 * high) if low < high / 2 else low
  for axis in axes:
    axis.set(ylim=(low, high))
  figures.draw_legend(figure, axes, (2, 5, 7)[min(len(axes), 3) - 1])
  return figures.to_png(figure)


def draw_panels(curves: Sequence[Curve]) -> bytes:
  """Draws a small panel per curve, with a line per model; no intervals."""
  looks = figures.styles(list(dict.fromkeys(curves[0].points.model)))
  figure, axes = figures.new_axes(len(curves), size=(3.2, 2.6))
  for axis, curve in zip(axes, curves, strict=True):
    for number, (name, line) in enumerate(
      curve.points.groupby('model', sort=False)
    ):
      look = looks[name] | figures.told_apart(number, len(looks), len(line))
      points = [
        (x, entry['value'], None, None)
        for x, entry in zip(line.place, line.entry, strict=True)
        if entry['value'] is not None
      ]
      figures.draw_line(axis, name, points, look)
    scale = figures.log_scale(list(curve.points.place), _DECADES)
    if scale:
      axis.set_xscale(**scale)
    axis.set(xlabel=textwrap.fill(curve.axis, 32), ylim=(-0.03, 1.03))
  axes[0].set_ylabel(curves[0].quantity.partition('_')[0])
  figures.draw_legend(figure, axes, 5)
  return figures.to_png(figure)


_DECADES = 100  # Greatest place over the least, from which an axis is in logs.
_BANDS = 8  # Models whose intervals are still told apart.


def banded(curve: Curve) -> bool:
  """Are intervals drawn?"""
  return curve.points.groupby('spec').model.nunique().max() <= _BANDS


_LONGEST = 20  # Characters of a value at an axis.


def ablations(frame: pd.DataFrame) -> dict[str, list[Entry]]:
  """Returns field -> entries of the metrics that were run with several values
  of that field alone. Each entry holds the value as 'x'; the plainest spec is
  one.

  A series over a number is a table instead. Fields whose values are too long
  for an axis are left out.
  """
  plain = tables.plainest(list(frame.entry))
  shown = frame[(frame.headline != '') & frame['at'].isna()]
  points: dict[str, list[Entry]] = {}
  for metric, part in shown.groupby('metric', sort=False):
    if not catalog.metric_fields(metric):
      continue
    base = tables.arguments(plain[metric])
    varied: dict[str, dict[str, Any]] = {}
    for text in dict.fromkeys(part.spec):
      fields = tables.arguments(text)
      changed = [key for key in fields if fields[key] != base[key]]
      if len(changed) > 1:  # A zero beside the field switches a quantity off.
        changed = [key for key in changed if fields[key]]
      if len(changed) == 1:
        varied.setdefault(changed[0], {})[text] = fields[changed[0]]
    for field, places in varied.items():
      places[plain[metric]] = base[field]
      points[field] = points.get(field, []) + [
        {**entry, 'x': places[text]}
        for text, entry in zip(part.spec, part.entry, strict=True)
        if text in places and entry['value'] is not None
      ]
  return {
    field: mine
    for field, mine in points.items()
    if mine and all(len(str(point['x'])) <= _LONGEST for point in mine)
  }


_ASIDE = 0.24  # Of the way to the next value, over which models are spread.


def draw_ablation(field: str, points: Sequence[Entry]) -> bytes:
  """Draws a panel per quantity, with a line per model over a field's values.

  Values ascend from left to right. A 0 comes last, as 'full', where the field's
  docstring says that 0 is all.
  """
  quantities = list(dict.fromkeys((p['metric'], p['quantity']) for p in points))
  models = list(dict.fromkeys(p['model'] for p in points))
  figure, axes = figures.new_axes(len(quantities))
  looks = figures.styles(models)
  for axis, (metric, quantity) in zip(axes, quantities, strict=True):
    mine = [
      p for p in points if (p['metric'], p['quantity']) == (metric, quantity)
    ]
    text = catalog.attributes(catalog.metric_class(metric)).get(field, '')
    places = _ordered({p['x'] for p in points}, '0 is all' in text)
    for number, model in enumerate(models):
      # Beside each other, so that equal values do not hide each other.
      aside = _ASIDE * (number - (len(models) - 1) / 2) / len(models)
      line = sorted(
        (list(places).index(p['x']) + aside, p['value'], p['low'], p['high'])
        for p in mine
        if p['model'] == model
      )
      look = looks[model] | figures.told_apart(number, len(models), 1)
      figures.draw_line(axis, model, line, look)
    axis.set_xticks(range(len(places)), places.values(), fontsize=8)
    words = textwrap.fill(catalog.field(metric, field), 44)
    title = f'{metric}: {quantity}'
    axis.set(title=title, xlabel=words, ylim=(-0.03, 1.03))
  figures.draw_legend(figure, axes, 5)
  return figures.to_png(figure)


def _ordered(values: set[Any], whole: bool) -> dict[Any, str]:
  """Returns values from left to right -> labels; whole: whether 0 means all."""
  if not all(isinstance(value, int | float) for value in values):
    return {value: str(value) for value in sorted(values, key=str)}
  labels = {value: str(value) for value in sorted(values)}
  if whole and 0 in labels:
    del labels[0]
    labels[0] = 'full'
  return labels


_CALIBRATION = r'^(?P<half>axis|curve)_(?P<oracle>\w+)_(?P<middle>[\d.]+)$'
_TITLE_WIDTH = 44  # Characters of a title's line.


class Calibration(NamedTuple):
  """Curves over one oracle.

  Attributes:
    metric, spec: that measured them.
    oracle: its name.
    lines: name of a run -> (oracle's, model's) entries by bin.
  """

  metric: str
  spec: str
  oracle: str
  lines: dict[str, list[tuple[Entry, Entry]]]


def calibrations(frame: pd.DataFrame) -> list[list[Calibration]]:
  """Returns the panels of each metric; bins that lack a value are left out."""
  parts = frame.quantity.astype(str).str.extract(_CALIBRATION)
  rows = frame.join(parts)[parts.half.notna() & frame.value.notna()]
  by_metric: dict[str, list[Calibration]] = {}
  keys = ['metric', 'spec', 'oracle']
  for (metric, spec, oracle), panel in rows.groupby(keys, sort=False):
    lines = {}
    for _, line in panel.groupby('run', sort=False):
      pairs = line.drop_duplicates(['middle', 'half'], keep='last')
      bins = pairs.pivot(index='middle', columns='half', values='entry')
      bins = bins.reindex(columns=['axis', 'curve']).dropna()
      bins = bins.sort_index(key=lambda middle: middle.astype(float))
      if len(bins):
        name = line.entry.iloc[0]['model']
        lines[name] = [*zip(bins['axis'], bins['curve'], strict=True)]
    if lines:
      panels = by_metric.setdefault(metric, [])
      panels.append(Calibration(metric, spec, oracle, lines))
  return [*by_metric.values()]


def draw_calibrations(panels: Sequence[Calibration]) -> bytes:
  """Draws a panel for each oracle and setting, with a line for each model."""
  figure, axes = figures.new_axes(len(panels), across=3, size=(4.4, 4.4))
  names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
  looks = figures.styles(names)
  specs = list(dict.fromkeys(panel.spec for panel in panels))
  titles = tables.differing(specs) if len(specs) > 1 else {}
  for axis, panel in zip(axes, panels, strict=True):
    for name, line in panel.lines.items():
      points = [
        (at['value'], entry['value'], entry['low'], entry['high'])
        for at, entry in line
      ]
      apart = figures.told_apart(names.index(name), len(names), len(line))
      figures.draw_line(axis, name, points, looks[name] | apart, lw=0)
    axis.set(xlabel=f'oracle: {panel.oracle}', ylabel='model')
    axis.set_title(
      textwrap.fill(titles.get(panel.spec, ''), _TITLE_WIDTH), fontsize=9
    )
  # All axes alike: a diagonal is one, and panels can be compared.
  ends = [end for axis in axes for end in (*axis.get_xlim(), *axis.get_ylim())]
  whole = min(ends), max(ends)
  diagonal = {'color': 'black', 'linestyle': '--', 'linewidth': 1}
  for axis in axes:
    axis.plot(whole, whole, **diagonal, label='as the oracle')
    axis.set(xlim=whole, ylim=whole, aspect='equal')
  figures.draw_legend(figure, axes, 5)
  return figures.to_png(figure)
