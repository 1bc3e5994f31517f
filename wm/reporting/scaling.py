"""Scores against the number of parameters.

Figure 3 of Walker and Lyons 2026, of whatever runs there are, beside what
papers print. A metric says of which quantities, as `core.Measure.sized`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wm.core import registry
from wm.reporting import catalog, charts, papers, tables
from wm.reporting.collect import Entry, Run

# Fields of models that say how large one is, not what it is.
SIZES = ('layers', 'width', 'heads', 'key', 'value', 'state', 'ratio')


class Point(NamedTuple):
  """A model's score.

  Attributes:
    name: of the model.
    family: what the model is but for its size, such as 'slice block_size=1';
      behind a comma the variant that the model's name has there, or which data
      it was trained on, where these differ.
    parameters: how many; 0 of a model that has none.
    entry: value, low and high.
    text: the score as a table has it.
  """

  name: str
  family: str
  parameters: int
  entry: Mapping[str, Any]
  text: str


class ScalingPanel(NamedTuple):
  """A quantity in one setting.

  Attributes:
    metric, quantity, spec: what was measured.
    points: scores measured here.
    printed: scores that papers print, in whatever settings of training.
  """

  metric: str
  quantity: str
  spec: str
  points: tuple[Point, ...]
  printed: tuple[Point, ...]


def panels(runs: Sequence[Run]) -> list[list[ScalingPanel]]:
  """Returns, for each quantity, panels of the settings in which models of two
  sizes or more were measured.
  """
  by_quantity: dict[tuple[str, str, str, str], list[tuple[Run, Entry]]] = {}
  for run in runs:
    for entry in run.entries:
      metric = entry['metric']
      measure = catalog.measure(metric, entry['quantity'])
      if measure and measure.sized and entry['value'] is not None:
        key = metric, entry['quantity'], tables.spec(entry), entry['world']
        by_quantity.setdefault(key, []).append((run, entry))
  result: dict[tuple[str, str], list[ScalingPanel]] = {}
  for (metric, quantity, spec, where), pairs in by_quantity.items():
    sources = papers.papers().get(registry.parse(where)[0], ())
    telling = _telling([entry for _, entry in pairs], sources)
    data = _data([run for run, _ in pairs])
    points = tuple(_point(run, entry, telling, data) for run, entry in pairs)
    if len({point.parameters for point in points} - {0}) > 1:
      printed = tuple(_printed(metric, quantity, spec, sources, telling))
      panel = ScalingPanel(metric, quantity, spec, points, printed)
      result.setdefault((metric, quantity), []).append(panel)
  return [*result.values()]


def _telling(
  entries: Sequence[Entry], sources: Sequence[papers.Paper]
) -> dict[str, set[str]]:
  """Returns plug-in -> fields that tell its models apart: they differ here, or
  are set by a paper.
  """
  values: dict[tuple[str, str], set[str]] = {}
  for entry in entries:
    name, fields = _fields(entry.get('model_spec'))
    for key, value in fields.items():
      values.setdefault((name, key), set()).add(repr(value))
  telling: dict[str, set[str]] = {}
  for (name, key), several in values.items():
    telling.setdefault(name, set()).update([key] if len(several) > 1 else [])
  for source in sources:
    for trained in source.models.values():
      identity = set(trained.model) - {'family', *SIZES}
      telling.setdefault(trained.model['family'], set()).update(identity)
  return telling


def _family(
  name: str, fields: Mapping[str, Any], telling: Mapping[str, set[str]]
) -> str:
  """Returns 'slice block_size=1' of a plug-in's name and fields."""
  usual = _fields(f'{name}()' if name else '')[1]
  texts = [
    f'{key}={value!r}'
    for key, value in sorted(fields.items())
    if key in telling.get(name, ()) and value != usual.get(key)
  ]
  return ' '.join([name, *texts])


def _fields(spec: str | None) -> tuple[str, dict[str, Any]]:
  """Returns a model's name, and its fields but for those of its size."""
  if not spec:
    return '', {}
  values = papers.filled_fields('model', spec)
  fields = {key: value for key, value in values.items() if key not in SIZES}
  return registry.parse(spec)[0], fields


def _data(runs: Sequence[Run]) -> dict[str, str]:
  """Returns hashes of training data -> the words that end the names of all runs
  of these data, as in 'slice_human'; {} if all have the same.
  """
  words: dict[str, list[list[str]]] = {}
  for run in runs:
    if mark := run.training.get('data_sha256', ''):
      words.setdefault(mark, []).append(run.name.split('_')[::-1])
  if len(words) < 2:
    return {}
  endings = {}
  for number, (mark, names) in enumerate(words.items(), 1):
    columns = zip(*names, strict=False)
    ends = itertools.takewhile(lambda words: len({*words}) == 1, columns)
    same = [words[0] for words in ends]
    endings[mark] = '_'.join(same[::-1]) or f'data {number}'
  return endings


def _point(
  run: Run,
  entry: Entry,
  telling: Mapping[str, set[str]],
  data: Mapping[str, str],
) -> Point:
  name, fields = _fields(entry.get('model_spec'))
  variant = [x for x in entry['model'].split(',')[1:] if '=' not in x]
  ending = data.get(run.training.get('data_sha256', ''), '')
  variant = variant or list(filter(None, [ending]))
  family = _family(name, fields, telling) if name else entry['model']
  family = ','.join([family, *(variant if name else [])])
  text = str(tables.interval(entry))
  return Point(entry['model'], family, run.parameters, entry, text)


def _printed(
  metric: str,
  quantity: str,
  spec: str,
  sources: Sequence[papers.Paper],
  telling: Mapping[str, set[str]],
) -> Iterator[Point]:
  """Yields what papers print of models whose parameters they print."""
  for paper in sources:
    for row in paper.rows:
      same = (row.metric, row.quantity) == (metric, quantity)
      if not same or row.where or not papers.has_fields(spec, row.fields):
        continue
      for key, (value, _) in row.values.items():
        trained = paper.models.get(key, papers.Trained())
        name = paper.names[key]
        if papers.model_key(name) == key and trained.parameters:
          family = _family(trained.model['family'], trained.model, telling)
          entry = {'value': value, 'low': None, 'high': None}
          text = format(value, row.form)
          yield Point(name, family, trained.parameters, entry, text)


def front(points: Sequence[Point]) -> list[Point]:
  """Returns the Pareto front, by ascending parameters: models that score more
  than every other of at most as many parameters. Ties stay.
  """
  best = -float('inf')
  result: list[Point] = []
  sized = sorted(
    (point for point in points if point.parameters),
    key=lambda point: (point.parameters, -point.entry['value']),
  )
  for point in sized:
    value = point.entry['value']
    tie = result and (point.parameters, value) == (result[-1].parameters, best)
    if value > best or tie:
      best = value
      result.append(point)
  return result


def draw_pareto(panels: Sequence[ScalingPanel]) -> charts.Spec:
  """Draws a panel per setting: a line per family over parameters, what papers
  print pale and hollow, and the Pareto front of each.

  A model without parameters, as the oracle, is a level.
  """
  titles = tables.differing([panel.spec for panel in panels])
  shown = []
  for panel in panels:
    rows = [
      charts.mark(
        *(point.family, point.parameters, point.entry),
        text=point.text,
        about=point.name,
        pale=theirs,
      )
      for points, theirs in ((panel.points, False), (panel.printed, True))
      for point in sorted(points, key=lambda point: point.parameters)
      if point.parameters
    ]
    ends = min(row['x'] for row in rows), max(row['x'] for row in rows)
    lines = [
      (point.family, [(x, point.entry['value']) for x in ends])
      for point in panel.points
      if not point.parameters
    ]
    lines += [
      (name, [(point.parameters, point.entry['value']) for point in best])
      for name, best in (
        ('Pareto front', front(panel.points)),
        ("the paper's Pareto front", front(panel.printed)),
      )
    ]
    guides = [
      {'model': name, 'x': x, 'value': value, 'label': x == line[-1][0]}
      for name, line in lines
      for x, value in line
    ]
    title = '' if len(panels) == 1 else titles[panel.spec]
    scale = {'type': 'log', 'nice': False}
    shown.append(
      charts.Panel(
        *('parameters', panel.quantity, rows, title, guides), x_scale=scale
      )
    )
  # Families that are only printed come last.
  points = [point for panel in panels for point in panel.points]
  points += [point for panel in panels for point in panel.printed]
  looks = charts.palette(point.family for point in points)
  return charts.lines(shown, looks, intervals='bar')
