"""Scores against the number of parameters, and of less expressive variants.

Figures 3 and 4 of Walker and Lyons 2026, of whatever runs there are, beside
what papers print. A metric says of which quantities, in `scaling_quantities`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
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
    size: layers and width.
    parameters: how many; 0 of a model that has none.
    value, low, high: the score and its interval; None where there is none.
    text: the score as a table has it.
    printed: name of the published model that it is, '' if none.
  """

  name: str
  family: str
  size: tuple[int, int]
  parameters: int
  value: float
  low: float | None
  high: float | None
  text: str
  printed: str


class ScalingPanel(NamedTuple):
  """A quantity in one setting.

  Attributes:
    metric, quantity, spec: what was measured.
    points: scores measured here.
    printed: scores that papers print, in whatever settings of training.
    ablated: family -> its less expressive variants, after the papers.
  """

  metric: str
  quantity: str
  spec: str
  points: tuple[Point, ...]
  printed: tuple[Point, ...]
  ablated: Mapping[str, Sequence[str]]


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
    world = registry.parse(where)[0]
    name = _Names(world, [entry for _, entry in pairs])
    data = _data([run for run, _ in pairs])
    points = tuple(_point(run, entry, name, data) for run, entry in pairs)
    if len({point.parameters for point in points} - {0}) > 1:
      printed = tuple(_printed(metric, quantity, spec, world, name))
      panel = ScalingPanel(
        *(metric, quantity, spec), points, printed, name.ablated()
      )
      result.setdefault((metric, quantity), []).append(panel)
  return [*result.values()]


class _Names:
  """Names of families: those fields tell models apart in which ones of the same
  plug-in differ here, or are set by a paper.
  """

  def __init__(self, world: str, entries: Sequence[Entry]) -> None:
    self.papers = papers.papers().get(world, ())
    telling: dict[str, dict[str, set[str]]] = {}
    for entry in entries:
      name, fields, _ = _fields(entry.get('model_spec'))
      for key, value in fields.items():
        telling.setdefault(name, {}).setdefault(key, set()).add(repr(value))
    self._telling = {
      name: {key for key, values in fields.items() if len(values) > 1}
      for name, fields in telling.items()
    }
    self._models = [m for paper in self.papers for m in paper.models.values()]
    for trained in self._models:
      name = trained.model['family']
      identity = set(trained.model) - {'family', *SIZES}
      self._telling.setdefault(name, set()).update(identity)

  def family(self, name: str, arguments: Mapping[str, Any]) -> str:
    """Returns 'slice block_size=1' of a plug-in's name and given fields."""
    usual = _fields(f'{name}()' if name else '')[1]
    telling = self._telling.get(name, set())
    texts = [
      f'{key}={value!r}'
      for key, value in sorted(arguments.items())
      if key in telling and value != usual.get(key)
    ]
    return ' '.join([name, *texts])

  def printed(self, model: str) -> str:
    """Returns the name of the published model that a model is, '' if none."""
    key = papers.model_key(model)
    names = [paper.names[key] for paper in self.papers if key in paper.names]
    return names[0] if names else ''

  def of_paper(self, trained: papers.Trained) -> str:
    """Returns the family of a published model."""
    return self.family(trained.model['family'], trained.model)

  def ablated(self) -> dict[str, list[str]]:
    """Returns family -> its less expressive variants."""
    variants: dict[str, list[str]] = {}
    for paper in self.papers:
      for trained in paper.models.values():
        if trained.ablates:
          main = self.of_paper(paper.models[trained.ablates])
          variants.setdefault(main, []).append(self.of_paper(trained))
    return {
      main: list(dict.fromkeys(those)) for main, those in variants.items()
    }


def _fields(spec: str | None) -> tuple[str, dict[str, Any], tuple[int, int]]:
  """Returns a model's name, its fields but for those of its size, and its
  layers and width.
  """
  if not spec:
    return '', {}, (0, 0)
  values = papers.filled_fields('model', spec)
  fields = {key: value for key, value in values.items() if key not in SIZES}
  size = values.get('layers', 0), values.get('width', 0)
  return registry.parse(spec)[0], fields, size


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
    ends = itertools.takewhile(
      lambda column: len({*column}) == 1, zip(*names, strict=False)
    )
    same = [column[0] for column in ends]
    endings[mark] = '_'.join(same[::-1]) or f'data {number}'
  return endings


def _point(
  run: Run, entry: Entry, names: _Names, data: Mapping[str, str]
) -> Point:
  name, fields, size = _fields(entry.get('model_spec'))
  variant = [x for x in entry['model'].split(',')[1:] if '=' not in x]
  ending = data.get(run.training.get('data_sha256', ''), '')
  variant = variant or list(filter(None, [ending]))
  family = names.family(name, fields) if name else entry['model']
  return Point(
    entry['model'],
    ','.join([family, *(variant if name else [])]),
    size,
    run.parameters,
    *(entry['value'], entry['low'], entry['high']),
    tables.interval(entry),
    names.printed(entry['model']),
  )


def _printed(
  metric: str, quantity: str, spec: str, world: str, names: _Names
) -> list[Point]:
  """Returns what papers print of models whose parameters they print."""
  result = []
  for paper in papers.papers().get(world, ()):
    for row in paper.rows:
      same = (row.metric, row.quantity) == (metric, quantity)
      if not same or row.where or not papers.has_fields(spec, row.fields):
        continue
      for key, (value, _) in row.values.items():
        trained = paper.models.get(key, papers.Trained())
        name = paper.names[key]
        if papers.model_key(name) == key and trained.parameters:
          size = trained.model['layers'], trained.model['width']
          family = names.of_paper(trained)
          about = name, family, size, trained.parameters
          text = format(value, row.form)
          result.append(Point(*about, value, None, None, text, name))
  return result


def front(points: Sequence[Point]) -> list[Point]:
  """Returns the Pareto front, by ascending parameters: models that score more
  than every other of at most as many parameters. Ties stay.
  """
  sized = sorted(
    (point for point in points if point.parameters),
    key=lambda point: (point.parameters, point.value),
  )
  return [
    point
    for point in sized
    if not any(
      other.parameters <= point.parameters
      and other.value >= point.value
      and (other.parameters, other.value) != (point.parameters, point.value)
      for other in sized
    )
  ]


def variant_pairs(
  panel: ScalingPanel, points: Sequence[Point]
) -> list[tuple[Point, Point]]:
  """Returns pairs of a model and its less expressive variant of equal size,
  trained on the same.
  """
  pairs = []
  for main in points:
    family, comma, variant = main.family.partition(',')
    for other in panel.ablated.get(family, ()):
      target = other + comma + variant
      pairs += [
        (main, point)
        for point in points
        if (point.family, point.size) == (target, main.size)
      ]
  return pairs


def printed_pairs(
  panel: ScalingPanel,
) -> dict[tuple[str, str], tuple[Point, Point]]:
  """Returns (names of a published model and its variant) -> these two."""
  return {
    (main.printed, other.printed): (main, other)
    for main, other in variant_pairs(panel, panel.printed)
  }


def pareto_table(panels: Sequence[ScalingPanel]) -> tables.Table:
  """Tables parameters and scores of one quantity, the Pareto front marked."""
  frame: dict[str, dict[str, str]] = {}
  names = tables.differing([panel.spec for panel in panels])
  for panel in panels:
    best = front(panel.points)
    for point in sorted(panel.points, key=lambda point: point.parameters):
      row = frame.setdefault(point.name, {'model': point.name})
      row['parameters'] = f'{point.parameters:,}' if point.parameters else '–'
      mark = ' *' if point in best else ''
      head = names[panel.spec] if len(names) > 1 else panel.quantity
      row[head] = tables.Cell(*tables.pieces(point.text), mark)
  title = f'{panels[0].metric}: {panels[0].quantity} against parameters'
  return tables.of_rows(title, frame.values(), tables.note('pareto'))


def ablation_table(panels: Sequence[ScalingPanel]) -> tables.Table | None:
  """Tables what is lost by less expressive variants, as the papers have them;
  None if no model was measured with a variant.
  """
  frame: dict[str, dict[str, str]] = {}
  for panel in panels:
    head = panel.spec if len(panels) > 1 else panel.quantity
    theirs = printed_pairs(panel)
    for main, other in variant_pairs(panel, panel.points):
      pair = theirs.get((main.printed, other.printed), ())
      printed = ' → '.join(point.text for point in pair)
      what = f'{main.name} → {other.name}'
      row = frame.setdefault(what, {'': what})
      row[head] = f'{main.text} → {other.text}'
      row[head] += f' ({printed})' if printed else ''
  metric, quantity, note = *panels[0][:2], tables.note('variants')
  title = f'{metric}: {quantity} of less expressive variants'
  return tables.of_rows(title, frame.values(), note) if frame else None


def draw_pareto(panels: Sequence[ScalingPanel]) -> charts.Spec:
  """Draws a panel per setting: a line per family over parameters, what papers
  print pale and hollow, and the Pareto front of each.

  A model without parameters, as the oracle, is a level.
  """
  titles = tables.differing([panel.spec for panel in panels])
  shown = []
  for panel in panels:
    rows = [
      _row(point, point.parameters, pale=theirs)
      for points, theirs in ((panel.points, False), (panel.printed, True))
      for point in sorted(points, key=lambda point: point.parameters)
      if point.parameters
    ]
    ends = min(row['x'] for row in rows), max(row['x'] for row in rows)
    lines = [
      (point.family, [(x, point.value) for x in ends])
      for point in panel.points
      if not point.parameters
    ]
    lines += [
      (name, [(point.parameters, point.value) for point in front(points)])
      for points, name in (
        (panel.points, 'Pareto front'),
        (panel.printed, "the paper's Pareto front"),
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
  return charts.lines(shown, _looks(panels), intervals='bar')


def _row(point: Point, x: Any, **more: Any) -> dict[str, Any]:
  """Returns a row of a chart, in the look of the point's family."""
  texts = {'text': str(point.text), 'about': point.name}
  return charts.mark(point.family, x, point._asdict(), **texts, **more)


def _looks(panels: Sequence[ScalingPanel]) -> dict[str, charts.Look]:
  """Returns the looks of families, those that are only printed last."""
  points = [point for panel in panels for point in panel.points]
  points += [point for panel in panels for point in panel.printed]
  return charts.palette(point.family for point in points)


def draw_variants(panels: Sequence[ScalingPanel]) -> charts.Spec | None:
  """Draws each model beside its less expressive variant, what papers print
  pale; None if no model was measured with a variant.
  """
  titles = tables.differing([panel.spec for panel in panels])
  shown = []
  for panel in panels:
    rows = []
    theirs = printed_pairs(panel)
    for main, other in sorted(
      variant_pairs(panel, panel.points), key=lambda pair: pair[0][1:3]
    ):
      pair = theirs.get((main.printed, other.printed), ())
      tick = _tick(main, other)
      rows += [_row(point, tick) for point in (main, other)]
      rows += [_row(point, tick, pale=True) for point in pair]
    if rows:
      title = titles[panel.spec]
      shown.append(charts.Panel(panel.quantity, '', rows, title))
  return charts.dots(shown, _looks(panels)) if shown else None


def _tick(main: Point, other: Point) -> str:
  """Returns a model, its variant, their data and size."""
  family, _, data = main.family.partition(',')
  variant = other.family.partition(',')[0].removeprefix(f'{family} ')
  layers, width = main.size
  words = [f'{family} → {variant}', data, f'{layers} x {width}']
  return ', '.join(filter(None, words))
