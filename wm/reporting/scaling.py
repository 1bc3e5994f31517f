"""Scores against the number of parameters, and of less expressive variants.

Figures 3 and 4 of Walker and Lyons 2026, of whatever runs there are, beside
what papers print. A metric says of which quantities, in `scaling_quantities`.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from wm.core import registry
from wm.reporting import catalog, figures, papers, tables
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
      quantities = catalog.metric_class(metric).scaling_quantities
      if entry['quantity'] in quantities and entry['value'] is not None:
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
      name, fields = _fields(entry.get('model_spec') or '')
      for key, value in fields.items():
        telling.setdefault(name, {}).setdefault(key, set()).add(repr(value))
    self._telling = {
      name: {key for key, values in fields.items() if len(values) > 1}
      for name, fields in telling.items()
    }
    for trained in self._trained():
      name = trained.model['family']
      identity = set(trained.model) - {'family', *SIZES}
      self._telling.setdefault(name, set()).update(identity)

  def _trained(self) -> list[papers.Trained]:
    return [model for paper in self.papers for model in paper.models.values()]

  def family(self, name: str, arguments: Mapping[str, Any]) -> str:
    """Returns 'slice block_size=1' of a plug-in's name and given fields."""
    usual = _fields(f'{name}()')[1] if name else {}
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


def _fields(spec: str) -> tuple[str, dict[str, Any]]:
  """Returns a model's name, and its fields but for those of its size."""
  if not spec:
    return '', {}
  values = papers.filled_fields('model', spec)
  return registry.parse(spec)[0], {
    key: value for key, value in values.items() if key not in SIZES
  }


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
  spec = entry.get('model_spec') or ''
  name, fields = _fields(spec)
  variant = [x for x in entry['model'].split(',')[1:] if '=' not in x]
  ending = data.get(run.training.get('data_sha256', ''), '')
  variant = variant or list(filter(None, [ending]))
  family = names.family(name, fields) if name else entry['model']
  filled = papers.filled_fields('model', spec) if spec else {}
  return Point(
    entry['model'],
    ','.join([family, *(variant if name else [])]),
    (filled.get('layers', 0), filled.get('width', 0)),
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
  sized = [point for point in points if point.parameters]
  best = [
    point
    for point in sized
    if not any(
      other.parameters <= point.parameters
      and other.value >= point.value
      and (other.parameters, other.value) != (point.parameters, point.value)
      for other in sized
    )
  ]
  return sorted(best, key=lambda point: (point.parameters, point.value))


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
  note = (
    '*: on the Pareto front; every other model of at most as many parameters '
    'scores less.'
  )
  cells = pd.DataFrame(frame.values(), dtype=object).fillna('')
  return tables.Table(title, cells, note)


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
  if not frame:
    return None
  note = 'From a model to its less expressive variant (paper, whose training '
  note += 'is its own).'
  cells = pd.DataFrame(frame.values(), dtype=object).fillna('')
  title = (
    f'{panels[0].metric}: {panels[0].quantity} of less expressive variants'
  )
  return tables.Table(title, cells, note)


_MARKERS = 'osD^v<>Pp*'
_PALE = 0.45  # Of what papers print.
_FRONT = {'color': 'black', 'linewidth': 1, 'zorder': 1}
_TITLE_WIDTH = 44  # Characters of a title's line.


def draw_pareto(panels: Sequence[ScalingPanel]) -> bytes:
  """Draws a panel per setting: a line per family over parameters, what papers
  print pale and hollow, and the Pareto front of each.
  """
  figure, axes = figures.new_axes(len(panels), across=3)
  looks = _looks(panels)
  titles = tables.differing([panel.spec for panel in panels])
  for axis, panel in zip(axes, panels, strict=True):
    for points, theirs in ((panel.points, False), (panel.printed, True)):
      for family, look in looks.items():
        _family(axis, [p for p in points if p.family == family], look, theirs)
      best = front(points)
      name = "the paper's Pareto front" if theirs else 'Pareto front'
      axis.plot(
        [point.parameters for point in best],
        [point.value for point in best],
        **_FRONT | {'alpha': _PALE if theirs else 1},
        linestyle=':' if theirs else '--',
        label=figures.literal(name) if best else '',
      )
    title = textwrap.fill(titles[panel.spec], _TITLE_WIDTH)
    axis.set(xscale='log', xlabel='parameters', ylabel=panel.quantity)
    axis.set_title('' if len(panels) == 1 else title, fontsize=9)
    axis.set_ylim(bottom=min(0, axis.get_ylim()[0]))
  figures.draw_legend(figure, axes, 5)
  return figures.to_png(figure)


def _looks(panels: Sequence[ScalingPanel]) -> dict[str, dict[str, Any]]:
  """Returns family -> how it is drawn, those that are only printed last."""
  points = [point for panel in panels for point in panel.points]
  points += [point for panel in panels for point in panel.printed]
  names = list(dict.fromkeys(point.family for point in points))
  drawn = figures.styles(names)
  return {
    name: drawn[name] | {'marker': _MARKERS[number % len(_MARKERS)]}
    for number, name in enumerate(names)
  }


def _family(
  axis: Any, points: Sequence[Point], look: dict[str, Any], theirs: bool
) -> None:
  """Draws the models of a family, one without parameters as a level."""
  points = sorted(points, key=lambda point: point.parameters)
  for point in points:
    if not point.parameters:
      level = {'color': look['color'], 'linewidth': 1, 'label': point.family}
      axis.axhline(point.value, linestyle='-', **level)
  sized = [point for point in points if point.parameters]
  if not sized:
    return
  hollow = {'markerfacecolor': 'none', 'alpha': _PALE, 'linewidth': 1}
  hollow |= {'zorder': 1.5}  # Behind ours.
  axis.plot(
    [point.parameters for point in sized],
    [point.value for point in sized],
    **look | (hollow if theirs else {'linewidth': 1.6}),
    label=figures.literal(sized[0].family),
  )
  for point in sized:
    if point.low is not None and point.high is not None:
      bar = {'color': look['color'], 'linewidth': 1}
      axis.vlines(point.parameters, point.low, point.high, **bar)


_BESIDE = 0.18  # Of the way to the next arrow, for ours and the paper's.

_MANY = 6  # Arrows of a panel that still has another beside it.
_ENDS = 'model', 'less expressive variant'


def draw_variants(panels: Sequence[ScalingPanel]) -> bytes | None:
  """Draws an arrow from each model to its less expressive variant, what papers
  print pale beside it; None if no model was measured with a variant.
  """
  shown = [panel for panel in panels if variant_pairs(panel, panel.points)]
  if not shown:
    return None
  looks = _looks(panels)
  most = max(len(variant_pairs(panel, panel.points)) for panel in shown)
  size = max(4.6, 1.0 * most), 3.8
  across = 2 if most <= _MANY else 1
  figure, axes = figures.new_axes(len(shown), across=across, size=size)
  titles = tables.differing([panel.spec for panel in shown])
  for axis, panel in zip(axes, shown, strict=True):
    pairs = sorted(
      variant_pairs(panel, panel.points), key=lambda pair: pair[0][1:3]
    )
    theirs = printed_pairs(panel)
    for x, (main, other) in enumerate(pairs):
      colour = looks[main.family]['color']
      _arrow(axis, x - _BESIDE, (main, other), colour, pale=False)
      if pair := theirs.get((main.printed, other.printed)):
        _arrow(axis, x + _BESIDE, pair, colour, pale=True)
    ticks = [_tick(*pair) for pair in pairs]
    axis.set_xticks(range(len(pairs)), ticks, fontsize=6.5)
    for marker, name in zip('ov', _ENDS, strict=True):
      for face, where in ((None, 'here'), ('none', 'in the paper')):
        dot = {'linestyle': '', 'color': 'black', 'markerfacecolor': face}
        axis.plot([], [], marker=marker, label=f'{name}, {where}', **dot)
    axis.set(ylabel=panel.quantity, xlim=(-0.6, len(pairs) - 0.4))
    title = textwrap.fill(titles[panel.spec], _TITLE_WIDTH)
    axis.set_title('' if len(shown) == 1 else title, fontsize=9)
    axis.set_ylim(bottom=min(0, axis.get_ylim()[0]))
  figures.draw_legend(figure, axes, 4)
  return figures.to_png(figure)


def _tick(main: Point, other: Point) -> str:
  """Returns a model, its variant and their size, in lines."""
  family, _, data = main.family.partition(',')
  variant = other.family.partition(',')[0].removeprefix(f'{family} ')
  layers, width = main.size
  lines = [family, f'→ {variant}', data, f'{layers} x {width}']
  return '\n'.join(filter(None, lines))


def _arrow(
  axis: Any, x: float, pair: tuple[Point, Point], colour: Any, *, pale: bool
) -> None:
  """Draws an arrow from a model down, or up, to its variant."""
  look = {'color': colour, 'alpha': _PALE if pale else 1.0}
  for point, marker in zip(pair, 'ov', strict=True):
    filled = {'markerfacecolor': 'none'} if pale else {}
    dot = {'linestyle': '', 'marker': marker, 'markersize': 5, **filled}
    axis.plot(x, point.value, **look, **dot)
    if point.low is not None and point.high is not None:
      axis.vlines(x, point.low, point.high, **look, linewidth=1)
  main, other = pair
  arrow = {
    'arrowstyle': '->',
    'lw': 1.4,
    'mutation_scale': 8,
    'shrinkA': 0,
    'shrinkB': 0,
    **look,
  }
  ends = {'xy': (x, other.value), 'xytext': (x, main.value)}
  axis.annotate('', **ends, arrowprops=arrow)
