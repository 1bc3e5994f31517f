"""Results by a property of trials, calibration bins, steps and sizes.

A property has rows of a table and, of many values, a line. A metric gives
calibration as pairs of quantities, in as many bins as it likes:

  axis_NAME_MIDDLE    of the oracle NAME, in the bin whose middle is MIDDLE
  curve_NAME_MIDDLE   of the model, in the same bin

A model that agrees with the oracle is on the diagonal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from wm.core import registry
from wm.reporting import catalog, charts, tables
from wm.reporting.charts import Look
from wm.reporting.collect import Entry, Run

FEW = 2  # Values of a number that are still told apart by rows of a table.


class Curve(NamedTuple):
  """A quantity as a function of a number.

  Attributes:
    metric, quantity: names.
    column: name of the number, a side column.
    axis: the column in words.
    points: rows of `tables.results`, by setting, run and place.
  """

  metric: str
  quantity: str
  column: str
  axis: str
  points: pd.DataFrame

  @property
  def measured(self) -> bool:
    """Has any model a value?"""
    return bool(self.points.value.notna().any())


def _headline(parts: pd.DataFrame) -> pd.DataFrame:
  """Returns the rows of headline quantities that are broken down by one
  column.
  """
  mask = (parts.headline != '') & parts['at'].isna() & (parts.column != '')
  return parts[mask]


def _curve(metric: str, quantity: str, column: str, points: Any) -> Curve:
  axis = catalog.column(column, metric, points.world.iloc[0])
  points = points.sort_values('place', kind='stable')
  return Curve(metric, quantity, column, axis, points)


def curves(parts: pd.DataFrame) -> list[Curve]:
  """Returns a curve for each column that holds more than a few numbers.

  parts: `tables.results` of breakdowns.
  """
  frame = _headline(parts)
  numbers = frame.place.map(lambda place: isinstance(place, int | float))
  frame = frame[numbers.astype(bool)]
  return [
    _curve(metric, quantity, column, points)
    for (metric, quantity, column), points in frame.groupby(
      ['metric', 'quantity', 'column'], sort=False
    )
    if points.place.nunique() > FEW
  ]


def panel_curves(parts: pd.DataFrame) -> list[list[Curve]]:
  """Returns the curves of one picture, for each metric with panels.

  If several settings have a curve, that of the shortest spec is taken.
  """
  result = []
  for metric, of_metric in parts.groupby('metric', sort=False):
    curves = []
    for quantity, measure in catalog.metric_class(metric).measures.items():
      if not measure.panel:
        continue
      column = quantity.rpartition('_')[2]
      mask = (of_metric.quantity == quantity) & (of_metric.column == column)
      mine = of_metric[mask]
      if len(mine):
        plain = mine[mine.spec == min(mine.spec, key=len)]
        curves.append(_curve(metric, quantity, column, plain))
    if curves:
      result.append(curves)
  return result


def breakdown_table(parts: pd.DataFrame) -> tables.Table | None:
  """Tables headline values by a property of the state (two-way streets: figure
  7); None if there are none.

  parts: `tables.results` of the breakdowns of a metric.
  """
  frame = _headline(parts)
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
  lines = [f'{k}: {text}' for k, text in words.items() if k != text]
  return tables.Table('Broken down', shown, '; '.join(lines), folded=True)


_PANELS = 6
_PLACES: Mapping[str, Any] = {'zero': False, 'nice': False}
_SHARE: Mapping[str, Any] = {'domain': [0, 1]}


def _point(model: str, x: Any, entry: Entry, **more: Any) -> dict[str, Any]:
  """Returns a row of a chart; see `charts`."""
  texts = {'text': str(tables.interval(entry)), 'about': tables.trials(entry)}
  return charts.mark(model, x, entry, **texts, n=entry['n'], **more)


def _points(frame: pd.DataFrame) -> list[dict[str, Any]]:
  """Returns the rows of a chart over the places of breakdowns."""
  return [
    _point(row.model, row.place, row.entry, series=str(row.run))
    for row in frame[frame.value.notna()].itertuples()
  ]


def _ends(rows: Sequence[Mapping[str, Any]], *keys: str) -> list[float]:
  """Returns the range of the numbers under these keys; [0, 1] without any."""
  ends = [row[key] for row in rows for key in keys if row[key] is not None]
  return [min(ends, default=0), max(ends, default=1)]


def draw_curves(curve: Curve, looks: Mapping[str, Look]) -> charts.Spec:
  """Draws a panel per setting, with a line per model over a number.

  If settings are many, only the plainest is drawn. All panels share the value
  axis.
  """
  settings = list(curve.points.groupby('spec', sort=False))
  if len(settings) > _PANELS:
    settings = [min(settings, key=lambda setting: len(setting[0]))]
  titles = tables.differing([text for text, _ in settings])
  shown = {text: _points(part) for text, part in settings}
  every = [row for rows in shown.values() for row in rows]
  low, high = _ends(every, 'low', 'value', 'high')
  scale = {'domain': [min(low, 0) if low < high / 2 else low, high]}
  panels = []
  for text, _ in settings:
    title = [] if len(settings) == 1 else textwrap.wrap(titles[text], 44)
    panels.append(
      charts.Panel(
        *(curve.axis, curve.quantity, shown[text], title),
        x_scale=_PLACES,
        y_scale=scale,
      )
    )
  return charts.lines(panels, looks, intervals='band' if banded(curve) else '')


def draw_panels(
  curves: Sequence[Curve], looks: Mapping[str, Look]
) -> charts.Spec:
  """Draws a small panel per curve, with a line per model; no intervals."""
  panels = [
    charts.Panel(
      *(curve.axis, curve.quantity.partition('_')[0], _points(curve.points)),
      x_scale=charts.log_scale(curve.points.place, _DECADES) or _PLACES,
      y_scale=_SHARE,
      guides=_usual(curve),
      width=220,
      height=160,
    )
    for curve in curves
  ]
  return charts.lines(panels, looks, intervals='')


_USUAL = 0.01  # Epsilon of the paper, at which other measures are taken.


def _usual(curve: Curve) -> list[dict[str, Any]]:
  """The guide at the usual threshold, of a curve over thresholds."""
  if curve.column != 'epsilon':
    return []
  return [
    {'model': 'usual', 'x': _USUAL, 'value': value, 'label': value == 1}
    for value in (0, 1)
  ]


_DECADES = 50  # Greatest place over the least, from which an axis is in logs.
_BANDS = 8  # Models whose intervals are still told apart.


def banded(curve: Curve) -> bool:
  """Are intervals drawn?"""
  return curve.points.groupby('spec').model.nunique().max() <= _BANDS


_CALIBRATION = r'^(?P<half>axis|curve)_(?P<oracle>\w+)_(?P<middle>[\d.]+)$'


class Calibration(NamedTuple):
  """Curves over one oracle.

  Attributes:
    metric, spec: source of the curves.
    oracle: its name.
    rows: rows of a chart, with the oracle's value as x.
  """

  metric: str
  spec: str
  oracle: str
  rows: list[dict[str, Any]]


def calibrations(frame: pd.DataFrame) -> list[list[Calibration]]:
  """Returns the panels of each metric; bins that lack a value are left out."""
  parts = frame.quantity.astype(str).str.extract(_CALIBRATION)
  halves = frame.join(parts)[parts.half.notna() & frame.value.notna()]
  by_metric: dict[str, list[Calibration]] = {}
  keys = ['metric', 'spec', 'oracle']
  for (metric, spec, oracle), panel in halves.groupby(keys, sort=False):
    rows = []
    for _, line in panel.groupby('run', sort=False):
      pairs = line.drop_duplicates(['middle', 'half'], keep='last')
      bins = pairs.pivot(index='middle', columns='half', values='entry')
      bins = bins.reindex(columns=['axis', 'curve']).dropna()
      bins = bins.sort_index(key=lambda middle: middle.astype(float))
      rows += [
        _point(mine['model'], oracles['value'], mine)
        for oracles, mine in bins.itertuples(index=False)
      ]
    if rows:
      panels = by_metric.setdefault(metric, [])
      panels.append(Calibration(metric, spec, oracle, rows))
  return [*by_metric.values()]


def draw_calibrations(
  panels: Sequence[Calibration], looks: Mapping[str, Look]
) -> charts.Spec:
  """Draws a panel for each oracle and setting, with a line for each model.

  All axes are alike, so that panels can be compared.
  """
  specs = list(dict.fromkeys(panel.spec for panel in panels))
  titles = tables.differing(specs) if len(specs) > 1 else {}
  every = [row for panel in panels for row in panel.rows]
  whole = _ends(every, 'x', 'value', 'low', 'high')
  diagonal = [
    {'model': 'as the oracle', 'x': end, 'value': end, 'label': end == whole[1]}
    for end in whole
  ]
  drawn = [
    charts.Panel(
      *(f'oracle: {panel.oracle}', 'model', panel.rows),
      title=titles.get(panel.spec, ''),
      guides=diagonal,
      x_scale={'domain': whole},
      y_scale={'domain': whole},
      height=270,
    )
    for panel in panels
  ]
  return charts.lines(drawn, looks)


_FEW_LOGS = 4  # Runs whose training loss is drawn beside the held-out one.


def draw_training(
  runs: Sequence[Run], looks: Mapping[str, Look] = {}
) -> charts.Spec:
  """Draws the held-out loss and other held-out values by step; {} if no run
  has a log.

  Runs of one name are seeds of one model and are drawn alike. If runs are few,
  the training loss is drawn too, in a pale colour.
  """
  trained = [run for run in runs if run.curve]
  if not trained:
    return {}
  keys = dict.fromkeys(
    key
    for run in trained
    for row in run.curve
    for key in ('heldout_loss', *row)
    if key.startswith('heldout_')
  )
  parts = ('heldout_loss_', 'heldout_tokens')
  panels = []
  for key in (key for key in keys if not key.startswith(parts)):
    title = key.removeprefix('heldout_')
    both = len(trained) <= _FEW_LOGS and title == 'loss'
    rows = [
      {
        **{'model': run.name, 'series': str(place), 'x': row['step']},
        **{'value': row[name], 'pale': name != key, 'marked': name == key},
        'about': 'training batches' if name != key else 'held-out sequences',
      }
      for place, run in enumerate(trained)
      for name in ((title, key) if both else (key,))
      for row in _thinned([row for row in run.curve if name in row])
    ]
    unit = _unit(trained) if title == 'loss' else f'{title}, held out'
    values = [row['value'] for row in rows]
    scale = charts.log_scale(values, 10) if title == 'loss' else {}
    panels.append(charts.Panel('step', unit, rows, y_scale=scale, width=330))
  return charts.lines(panels, looks)


_LOGGED = 200  # Points of a line, at most.


def _thinned(rows: Sequence[dict]) -> Sequence[dict]:
  return rows[:: -(-len(rows) // _LOGGED) or 1]


def _unit(runs: Sequence[Run]) -> str:
  """Returns the unit of the logged loss; a loss of states is a mean over
  labels.
  """
  by_state = {run.training.get('objective') == 'state' for run in runs}
  units = {True: 'nats per label', False: 'nats per token'}
  return units[by_state.pop()] if len(by_state) == 1 else 'nats'


# Fields of models that say how large one is, not what it is.
SIZES = ('layers', 'width', 'heads', 'key', 'value', 'state', 'ratio')


class Sizes(NamedTuple):
  """A quantity in one setting, of models of two sizes or more.

  Attributes:
    metric, quantity, spec: names.
    points: family ('slice block_size=1'), parameters (0 of a model that has
      none), the entry.
  """

  metric: str
  quantity: str
  spec: str
  points: list[tuple[str, int, Entry]]


def sizes(runs: Sequence[Run]) -> list[list[Sizes]]:
  """Returns, for each quantity, a panel for each setting."""
  by_setting: dict[tuple[str, ...], list[tuple[str, int, Entry]]] = {}
  for run in runs:
    for entry in run.entries:
      measure = catalog.measure(entry['metric'], entry['quantity'])
      if measure and measure.sized and entry['value'] is not None:
        key = entry['metric'], entry['quantity'], tables.spec(entry)
        point = _family(entry), run.parameters, entry
        by_setting.setdefault((*key, entry['world']), []).append(point)
  result: dict[tuple[str, ...], list[Sizes]] = {}
  for (metric, quantity, spec, _), points in by_setting.items():
    if len({parameters for _, parameters, _ in points} - {0}) > 1:
      panel = Sizes(metric, quantity, spec, points)
      result.setdefault((metric, quantity), []).append(panel)
  return [*result.values()]


def _family(entry: Entry) -> str:
  """The family of a model: its spec without the sizes."""
  if not entry.get('model_spec'):
    return str(entry['model'])
  name, _, fields = registry.parse(entry['model_spec'])
  rest = [f'{k}={x!r}' for k, x in sorted(fields.items()) if k not in SIZES]
  return ' '.join([name, *rest])


def draw_sizes(panels: Sequence[Sizes]) -> charts.Spec:
  """Draws a panel per setting: a line per family over parameters.

  A model without parameters, such as the oracle, is a horizontal line.
  """
  titles = tables.differing([panel.spec for panel in panels])
  shown = []
  for panel in panels:
    points = sorted(panel.points, key=lambda point: point[1])
    rows = [
      charts.mark(
        *point, text=str(tables.interval(point[2])), about=point[2]['model']
      )
      for point in points
      if point[1]
    ]
    ends = min(row['x'] for row in rows), max(row['x'] for row in rows)
    levels = [
      {'model': name, 'x': x, 'value': entry['value'], 'label': x == ends[1]}
      for name, parameters, entry in points
      if not parameters
      for x in ends
    ]
    title = '' if len(panels) == 1 else titles[panel.spec]
    scale = {'type': 'log', 'nice': False}
    shown.append(
      charts.Panel(
        *('parameters', panel.quantity, rows, title, levels), x_scale=scale
      )
    )
  looks = charts.palette(x for panel in panels for x, *_ in panel.points)
  return charts.lines(shown, looks, intervals='bar')
