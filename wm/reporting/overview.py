"""The first picture of a page: headline measures of all models, as panels.

A panel has a row for each model: a dot, its interval, the ceiling of its data
as a bar, and both as text. Panels are drawn by the page's template as SVG, so
that they follow its width, its colours and dark mode without a script.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from wm.reporting import catalog, ceilings, charts, sentences, tables
from wm.reporting.collect import Run

MOST = 16  # Models of a panel; the table has the others.
REFERENCES = ceilings.UNTRAINED, ceilings.UNIFORM, ceilings.ORACLE
_DECADES = 30  # Greatest value over the least, from which an axis is in logs.


class MeasurePanel(NamedTuple):
  """One headline measure.

  Attributes:
    metric, title: its metric, and its quantity in words.
    good: the ideal behaviour, in about five words.
    marks: a row of a chart for each model, those of references last; also its
      `look`, whether it is a `reference`, and `top`, the ceiling of the Bayes
      predictor of its data, or None.
    place: value -> part of the width of its axis.
    ticks: (place, text) at the axis.
    more: number of models that are left out.
  """

  metric: str
  title: str
  good: str
  marks: Sequence[charts.Row]
  place: Callable[[float], float]
  ticks: Sequence[tuple[float, str]]
  more: int


def looks(frame: pd.DataFrame) -> dict[str, charts.Look]:
  """Model -> its look in every picture of the page."""
  baselines = frame.role != ceilings.TRAINED
  return charts.palette(frame.model, set(frame.model[baselines]))


def panels(runs: Sequence[Run], frame: pd.DataFrame) -> list[MeasurePanel]:
  """Returns a panel for each headline measure in its plainest setting, and for
  a series its last place.

  Args:
    runs: all of the report.
    frame: their `tables.results`.
  """
  against, colours = ceilings.Against(runs), looks(frame)
  shown = frame[(frame.headline != '') & frame.plain.astype(bool)]
  if (shown.role == ceilings.TRAINED).any():
    # A table puts null models beside the models that they err as much as.
    shown = shown[shown.role != ceilings.NULL]
  shown = shown.assign(at=shown['at'].astype(float))
  last = shown.groupby(['metric', 'headline'])['at'].transform('max')
  shown = shown[shown['at'].isna() | (shown['at'] == last)]
  keys = [*dict.fromkeys(zip(shown.metric, shown.quantity, strict=True))]
  # The metrics that sentences name first come first.
  keys.sort(key=lambda key: _rank(key[0]))
  result = []
  for metric, quantity in keys:
    rows = shown[(shown.metric == metric) & (shown.quantity == quantity)]
    rows = rows[rows.value.notna() & ~rows.role.isin([*ceilings.NAMES])]
    models = rows[~rows.role.isin(REFERENCES)]
    references = rows[rows.role.isin(REFERENCES)]
    drawn = pd.concat([models[:MOST], references.drop_duplicates('role')])
    if len(drawn):
      marks = [_mark(row, against, colours) for row in drawn.itertuples()]
      ends = 'value', 'low', 'high', 'top'
      numbers = [mark[key] for key in ends for mark in marks]
      place, ticks = _axis([x for x in numbers if x is not None])
      at = drawn['at'].iloc[0]
      head = drawn.headline.iloc[0] if at == at else str(quantity)
      title = head.replace('_', ' ') + (f' at {at:g}' if at == at else '')
      good = sentences.ideal(metric, head)[1]
      more = max(len(models) - MOST, 0)
      result.append(
        MeasurePanel(metric, title, good, marks, place, ticks, more)
      )
  return result


def _mark(
  row: Any, against: ceilings.Against, colours: Mapping[str, charts.Look]
) -> dict[str, Any]:
  """The mark of a row of `tables.results`."""
  reference = row.role in REFERENCES
  ceiling = None if reference else against.ceiling(row.run, row.entry)
  low, high = ceilings.ends(row.entry)
  return {
    **{'model': row.model, 'x': row.model, 'value': row.value},
    **{'low': low, 'high': high, 'text': sentences.value(row.entry)},
    **{'look': colours[row.model], 'reference': reference},
    'top': ceiling and ceiling[1]['value'],
  }


NAME = 'overview'


def picture(
  shown: Sequence[MeasurePanel], frame: pd.DataFrame
) -> charts.Picture:
  """Returns the panels as one chart, for papers and for READMEs.

  shown, frame: some of `panels`, at least one; and their `tables.results`.
  """
  of_row = 'model', 'x', 'value', 'low', 'high', 'text'
  pale = {'pale': True, 'about': 'Bayes predictor of the data'}

  def rows(marks: Sequence[charts.Row]) -> list[charts.Row]:
    """Marks of the models, and pale ones of their ceilings."""
    tops = [mark for mark in marks if mark['top'] is not None]
    return [
      *({key: mark[key] for key in of_row} for mark in marks),
      *(
        {'model': x['model'], 'x': x['x'], 'value': x['top'], **pale}
        for x in tops
      ),
    ]

  drawn = [
    charts.Panel(
      *('', '', rows(each.marks)),
      title=[f'{each.metric.replace("_", " ")}: {each.title}', each.good],
      x_scale={'domain': [0, 1]} if each.ticks[-1] == (1, '1') else {},
      width=130,
    )
    for each in shown
  ]
  spec = charts.dots(drawn, looks(frame))
  return charts.picture(NAME, 'Headline measures of all models', spec)


def _axis(
  numbers: Sequence[float],
) -> tuple[Callable[[float], float], list[tuple[float, str]]]:
  """Returns value -> place on an axis, and its ticks; for shares 0 to 1."""
  least, most = min(*numbers, 0.0), max(numbers)
  positive = [x for x in numbers if x > 0]
  if min(numbers) >= 0 and most <= 1 and most > 0.1:
    return (lambda x: x), [(0, '0'), (0.5, '0.5'), (1, '1')]
  if len(positive) == len(numbers) and most > _DECADES * min(positive):
    low, high = math.log10(min(positive)), math.log10(most)
    powers = range(math.ceil(low), math.floor(high) + 1)
    step = max(1, math.ceil(len(powers) / 4))
    ticks = [((n - low) / (high - low), f'{10.0**n:g}') for n in powers[::step]]
    return (lambda x: (math.log10(x) - low) / (high - low)), ticks
  most = max(most, least + 1e-9)
  texts = [least, (least + most) / 2, most]
  return (
    lambda x: (x - least) / (most - least),
    [((x - least) / (most - least), tables.number(x, 2)) for x in texts],
  )


def _rank(metric: str) -> int:
  """Place in `sentences.NEEDED` of the first side that a metric shows."""
  measures, order = catalog.metric_class(metric).measures, sentences.NEEDED
  sides = [x.side for x in measures.values() if x.side in order]
  return min(map(order.index, sides), default=9)
