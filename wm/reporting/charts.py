"""Charts: Vega-Lite specifications that contain their data.

A chart is one or several `Panel`s of rows: mappings with the keys

  model          named in the legend; it has one `Look` in all charts of a page
  x, value       place and height; in `dots`, x is a category
  low, high      the interval, None where there is none
  text           the value as tables show it, for tooltips; optional
  series         lines of one model that are not one line, as seeds; optional
  n, about       how many trials, and a word on them; optional
  pale           a value of a paper, or of training data; optional

A page holds the specification itself, and draws it with a script that lies
beside the page (`runtime`). The same specification becomes SVG or PDF without
a browser (`render`). Altair and vl-convert are imported on first use.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import io
import json
import math
import pathlib
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import markupsafe

from wm.core import resources
from wm.runtime import compute, files

Spec = dict[str, Any]
Row = Mapping[str, Any]

# Okabe and Ito 2008 without black, which is text, and yellow, which is too
# pale. The numbers of colours and of marks have no common divisor, so that 56
# models have a pair of their own.
COLOURS = (
  *('#0072B2', '#D55E00', '#009E73', '#CC79A7', '#E69F00', '#56B4E9'),
  '#8C6D31',
)
BASELINE = '#767676'  # 4.5 : 1 on white, 4.6 : 1 on black.
MARKS = (
  *('circle', 'square', 'triangle-up', 'diamond', 'triangle-down', 'cross'),
  *('triangle-right', 'triangle-left'),
)
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3))


@functools.cache
def _altair() -> Any:
  """Altair, which takes a second to import."""
  import altair

  return altair


@functools.cache
def _vl_convert() -> Any:
  resources.require_address_space('the engine that draws charts')
  import vl_convert

  return vl_convert


class Look(NamedTuple):
  """The look of a model in every chart.

  Attributes:
    colour: '#rrggbb'.
    mark: a shape of Vega.
    dash: lengths of dashes and gaps, in pixels.
  """

  colour: str
  mark: str
  dash: tuple[int, ...] = DASHES[0]


def palette(
  names: Iterable[str], baselines: Iterable[str] = ()
) -> dict[str, Look]:
  """Returns the look of each name.

  If names are 'MODEL,VARIANT' with a few variants, each model has a colour and
  each variant a kind of dashes. A setting, as in 'MODEL,lr=1e-2,VARIANT', is a
  variant only if names differ in nothing else.

  Args:
    names: in the order of tables; a name may repeat.
    baselines: names that are grey, as the oracle and uniform guessing.
  """
  grey = set(baselines)
  parts = {
    name: (name, '') if name in grey else name.partition(',')[::2]
    for name in names
  }
  bare = {
    name: (model, ','.join(x for x in variant.split(',') if '=' not in x))
    for name, (model, variant) in parts.items()
  }
  if len(set(bare.values())) == len(bare):
    parts = bare
  models = list(
    dict.fromkeys(m for n, (m, _) in parts.items() if n not in grey)
  )
  variants = list(dict.fromkeys(variant for _, variant in parts.values()))
  if not (len(models) > 1 and 1 < len(variants) <= len(DASHES)):
    models, variants = [name for name in parts if name not in grey], ['']
    parts = {name: (name, '') for name in parts}
  looks, greys = {}, [name for name in parts if name in grey]
  for name, (model, variant) in parts.items():
    if name in grey:
      number = greys.index(name)
      looks[name] = Look(BASELINE, MARKS[number % len(MARKS)])
      continue
    number = models.index(model)
    looks[name] = Look(
      COLOURS[number % len(COLOURS)],
      MARKS[number % len(MARKS)],
      DASHES[variants.index(variant)],
    )
  return looks


class Panel(NamedTuple):
  """One pair of axes.

  Attributes:
    x, y: titles of the axes; of `dots` y is the title of the categories.
    rows: see the module; those with `joined` False are marks without a line.
    title: title above the panel; a list is several lines.
    guides: rows of lines without a model, such as a diagonal; `model` is a
      label.
    x_scale, y_scale: arguments of `altair.Scale`.
    width, height: in pixels.
    clip: lines end at the axes, where a scale leaves values out.
  """

  x: str
  y: str
  rows: Sequence[Row]
  title: str | Sequence[str] = ''
  guides: Sequence[Row] = ()
  x_scale: Mapping[str, Any] = {}
  y_scale: Mapping[str, Any] = {}
  width: int = 270
  height: int = 200
  clip: bool = False


_WRAP = 44  # Characters of a line of a title.
_MANY = 30  # Points of a line from which its marks are small.
_PALE = 0.45
_THIN = 1.2


_FEW = 8  # Numbers of an axis that are all written beside it.


def lines(
  panels: Sequence[Panel],
  looks: Mapping[str, Look],
  *,
  intervals: str = 'band',
  columns: int = 3,
) -> Spec:
  """Returns a chart of lines and marks over a number.

  Args:
    panels: in order.
    looks: model -> look; see `palette`.
    intervals: 'band', 'bar', or '' for none.
    columns: panels in a row, at most; a page has fewer where it is narrow.
  """
  looks = _present(panels, looks)
  drawn = [_lines(panel, looks, intervals) for panel in panels]
  return _chart(drawn, looks, columns)


def _lines(panel: Panel, looks: Mapping[str, Look], intervals: str) -> Any:
  alt = _altair()
  rows = _clean(panel.rows)
  models = [name for name in looks if any(r['model'] == name for r in rows)]
  ticks: dict[str, Any] = {}
  if rows and all(r['x'] % 1 == 0 for r in rows):
    places = {int(r['x']) for r in rows}
    ticks = {'tickMinStep': 1}
    if max(places) - min(places) < _FEW:
      ticks = {'values': sorted(places), 'format': 'd'}
  if panel.x_scale.get('type'):
    ticks['tickCount'] = 4
  scale = alt.Scale(**panel.x_scale)
  x = alt.X('x:Q', scale=scale, title=_wrapped(panel.x), axis=alt.Axis(**ticks))
  axis = {'title': panel.y, 'scale': alt.Scale(**panel.y_scale)}
  color, shape, dash = _legend(looks)
  base = _data(rows).encode(x=x, color=color)
  layers = []
  if intervals and any(row.get('low') is not None for row in rows):
    # A paper's points, without intervals, would cut the band of our own.
    ends = alt.Y('low:Q', **axis), alt.Y2('high:Q')
    span = base.encode(*ends, detail=['series:N', 'pale:N'])
    # Bands of baselines would be one haze.
    clear = [name for name in models if looks[name].colour != BASELINE]
    few = alt.FieldOneOfPredicate('model', clear)
    layers.append(
      span.transform_filter(few).mark_area(opacity=0.15)
      if intervals == 'band'
      else span.mark_rule(strokeWidth=_THIN)
    )
  drawn = base.encode(y=alt.Y('value:Q', **axis), opacity=_pale(_PALE))
  if any(row.get('joined', True) for row in rows):
    joined = drawn.transform_filter('datum.joined !== false')
    several = joined.encode(strokeDash=dash, detail=['series:N', 'pale:N'])
    layers.append(several.mark_line(strokeWidth=1.6, clip=panel.clip))
  marks = drawn.transform_filter('datum.marked !== false').encode(shape=shape)
  size = 45 if len(rows) <= _MANY * len(models) else 12
  layers.append(_points(marks, looks, size, _tips(rows, panel.x, panel.y)))
  if panel.guides:
    base = _data(_clean(panel.guides))
    guide = base.encode(x, alt.Y('value:Q', **axis), detail='model:N')
    layers.append(guide.mark_line(**_GUIDE))
    last = guide.transform_filter('datum.label').encode(text='model:N')
    look = {'align': 'right', 'dx': -4, 'dy': 10, **_GUIDE}
    layers.append(last.mark_text(fontSize=9, **look))
  return alt.layer(*layers).properties(**_frame(panel))


_GUIDE: Mapping[str, Any] = {
  **{'color': 'currentColor', 'opacity': 0.7},
  **{'strokeDash': [5, 4], 'strokeWidth': 1},
}


def _data(rows: list[dict[str, Any]]) -> Any:
  return _altair().Chart(_altair().InlineData(values=rows))


def _pale(value: float) -> Any:
  """An encoding with this value for pale marks, and 1 for others."""
  alt = _altair()
  return alt.condition('datum.pale', alt.value(value), alt.value(1))


def _points(
  chart: Any, looks: Mapping[str, Look], size: int, tips: list[Any]
) -> Any:
  """Marks with an outline; a pale mark is the outline alone."""
  colours = [look.colour for look in looks.values()]
  scale = _altair().Scale(domain=[*looks], range=colours)
  stroke = _altair().Stroke('model:N', legend=None, scale=scale)
  chart = chart.encode(stroke=stroke, fillOpacity=_pale(0), tooltip=tips)
  return chart.mark_point(filled=True, size=size, strokeWidth=_THIN)


def dots(
  panels: Sequence[Panel],
  looks: Mapping[str, Look],
  *,
  columns: int = 3,
  apart: bool = True,
) -> Spec:
  """Returns a chart of a mark and its interval for each category and model.

  Categories go from top to bottom in the order of rows. Guides are vertical
  lines at `value`.

  Args:
    panels: in order; the height of each is by its rows.
    looks: model -> look; see `palette`.
    columns: panels in a row, at most; a page has fewer where it is narrow.
    apart: draw the models of a category below each other, not on one line.
  """
  looks = _present(panels, looks)
  drawn = [_dots(panel, looks, apart) for panel in panels]
  return _chart(drawn, looks, columns)


def _dots(panel: Panel, looks: Mapping[str, Look], apart: bool) -> Any:
  alt = _altair()
  rows = _clean(panel.rows)
  models = [name for name in looks if any(r['model'] == name for r in rows)]
  categories = list(dict.fromkeys(row['x'] for row in rows))
  single = {r['x'] for r in rows} == {r['model'] for r in rows}
  axis = {'title': _wrapped(panel.x), 'scale': alt.Scale(**panel.x_scale)}
  axis['axis'] = alt.Axis(tickCount=5)
  color, shape, _ = _legend(looks, shown=not single)
  y = alt.Y('x:N', title=None, sort=categories)
  base, step = _data(rows).encode(y=y, color=color), 20
  if apart and not single:
    base = base.encode(yOffset=alt.YOffset('model:N', sort=models))
    step = 12 * len(models) + 8
  span = base.encode(alt.X('low:Q', **axis), alt.X2('high:Q'))
  value = alt.X('value:Q', **axis)
  mark = base.encode(value, shape=shape, opacity=_pale(_PALE))
  layers = [
    span.mark_rule(strokeWidth=1.6),
    _points(mark, looks, 60, _tips(rows, panel.y, panel.x)),
  ]
  if panel.guides:
    guide = _data(_clean(panel.guides)).encode(value, tooltip='model:N')
    text = guide.encode(text='model:N', y=alt.value(-4))
    look = {'color': 'currentColor', 'opacity': 0.7}
    layers += [guide.mark_rule(**_GUIDE), text.mark_text(fontSize=9, **look)]
  # Beside a few categories a title would be longer than its axis.
  above = [*(_wrapped(panel.title) or ()), *(_wrapped(panel.y) or ())]
  frame = _frame(panel._replace(title=above, height=step * len(categories)))
  return alt.layer(*layers).properties(**frame)


def heat(panels: Sequence[Panel]) -> Spec:
  """Returns a chart of fields: a row for each model, a column for each x, the
  value written and as a shade from 0 to 1.
  """
  alt = _altair()
  drawn = []
  for panel in panels:
    rows = _clean(panel.rows)
    x = alt.X('x:O', title=_wrapped(panel.x))
    names = list(dict.fromkeys(row['model'] for row in rows))
    y = alt.Y('model:N', title=panel.y or None, sort=names)
    base = _data(rows).encode(x, y)
    shade = alt.Scale(domain=[0, 1], scheme='viridis')
    field = base.mark_rect().encode(
      color=alt.Color('value:Q', scale=shade, legend=None),
      tooltip=_tips(rows, panel.x, 'value'),
    )
    ink = alt.condition(
      'datum.value > .6', alt.value('#000'), alt.value('#fff')
    )
    number = base.mark_text(fontSize=10).encode(
      text=alt.Text('value:Q', format='.2f'), color=ink
    )
    frame = _frame(panel._replace(height=22 * len(names)))
    drawn.append(alt.layer(field, number).properties(**frame))
  return _chart(drawn, {}, 2)


def mark(
  model: str, x: Any, entry: Mapping[str, Any], **more: Any
) -> dict[str, Any]:
  """Returns a row of a panel: the value and the interval of an entry."""
  ends = {key: entry[key] for key in ('value', 'low', 'high')}
  return {'model': model, 'x': x, **ends, **more}


def log_scale(values: Iterable[float], factor: float) -> dict[str, Any]:
  """Returns arguments of `altair.Scale` for a log axis; {} for a linear one.

  If a value is 0 or less, the axis is linear up to the least positive value, so
  that no point is lost.

  factor: ratio of the greatest to the least positive value from which an axis
    is logarithmic.
  """
  numbers = list(values)
  positive = [value for value in numbers if value > 0]
  if not positive or max(positive) <= factor * min(positive):
    return {}
  if len(positive) == len(numbers):
    return {'type': 'log', 'nice': False}
  return {'type': 'symlog', 'constant': min(positive), 'nice': False}


def _present(
  panels: Sequence[Panel], looks: Mapping[str, Look]
) -> dict[str, Look]:
  """Returns the looks of the models that are drawn; those without one get the
  next.
  """
  names = dict.fromkeys(str(r['model']) for p in panels for r in p.rows)
  every = palette([name for name in names if name not in looks]) | {**looks}
  return {name: every[name] for name in names}


def _clean(rows: Iterable[Row]) -> list[dict[str, Any]]:
  """Returns rows of plain values; NaN and infinity become None."""
  result = []
  for row in rows:
    clean = dict(row)
    for key, value in row.items():
      if isinstance(value, bool | str) or value is None:
        continue
      number = float(value)
      clean[key] = number if math.isfinite(number) else None
    result.append(clean)
  return result


def _tips(rows: Sequence[Row], x: str, y: str) -> list[Any]:
  alt = _altair()
  exact = any('text' in row for row in rows)
  shown = alt.Tooltip('text:N' if exact else 'value:Q', title=y or 'value')
  kind = 'N' if any(isinstance(row['x'], str) for row in rows) else 'Q'
  tips = [
    alt.Tooltip('model:N', title='model'),
    alt.Tooltip(f'x:{kind}', title=x or 'x'),
    shown,
  ]
  if any('about' in row for row in rows):
    tips.append(alt.Tooltip('about:N', title='of'))
  return tips


def _legend(looks: Mapping[str, Look], *, shown: bool = True) -> list[Any]:
  """Returns the encodings of colour, mark and dashes, with one legend."""
  alt = _altair()
  names = list(looks)
  legend = alt.Legend(title=None, symbolOpacity=1) if shown else None
  ranges = {
    alt.Color: [look.colour for look in looks.values()],
    alt.Shape: [look.mark for look in looks.values()],
    alt.StrokeDash: [list(look.dash) for look in looks.values()],
  }
  return [
    kind('model:N', legend=legend, scale=alt.Scale(domain=names, range=span))
    for kind, span in ranges.items()
  ]


def _wrapped(text: str | Sequence[str]) -> list[str] | None:
  """Returns a title in lines; None for ''."""
  lines = textwrap.wrap(text, _WRAP) if isinstance(text, str) else [*text]
  return lines or None


def _frame(panel: Panel) -> dict[str, Any]:
  size = {'width': panel.width, 'height': panel.height}
  lines = _wrapped(panel.title)
  return size | ({'title': _altair().Title(lines)} if lines else {})


def _chart(
  drawn: Sequence[Any], looks: Mapping[str, Look], columns: int
) -> Spec:
  """Returns the specification of panels side by side."""
  alt = _altair()
  whole = drawn[0] if len(drawn) == 1 else alt.concat(*drawn, columns=columns)
  spec: Spec = whole.to_dict(validate=False)
  rows = [row for part in spec['datasets'].values() for row in part]
  categories = {row['x'] for row in rows if isinstance(row.get('x'), str)}
  del spec['config'], spec['$schema']  # A page names no other host.
  spec['usermeta'] = {
    'longest': max(map(len, looks), default=0),
    'labels': max((len(str(x)) for x in categories), default=0),
    'grey': any(look.colour == BASELINE for look in looks.values()),
  }
  return spec


# Styles, files and the script.


class Picture(NamedTuple):
  """A picture of a page.

  Attributes:
    name: name of its file in the page's folder.
    caption: text below it.
    image: its content, PNG or, of a chart, SVG.
    chart: the specification that a page draws instead of the image, if any.
    part: key of the section of a report that shows it, or ''.
  """

  name: str
  caption: str
  image: bytes
  chart: Spec | None = None
  part: str = ''

  @property
  def on_page(self) -> Spec:
    """The chart in the style of a page, for `charts.js`."""
    return _styled(self.chart or {}, paper=False)

  @property
  def wide(self) -> bool:
    """Does it have several panels?"""
    if self.chart is not None:
      return 'concat' in self.chart
    if self.name.endswith('.svg'):
      return True
    # A PNG begins with 16 bytes of signature, length and type.
    return int.from_bytes(self.image[16:20], 'big') > 1000


def picture(name: str, caption: str, spec: Spec, part: str = '') -> Picture:
  """Returns a chart as a picture of the file NAME.svg.

  The number of trials of a mark, and the meaning of pale and grey marks, are
  added to the caption.
  """
  rows = [row for part in spec['datasets'].values() for row in part]
  counts = [int(row['n']) for row in rows if row.get('n') is not None]
  pale = {row.get('about') for row in rows if row.get('pale')}
  words = [caption]
  if counts:
    low, high = min(counts), max(counts)
    most = f' to {high:,}' if high > low else ''
    words.append(f'a mark is of n = {low:,}{most} trials')
  if len(pale) == 1:
    words.append(f'pale: {pale.pop()}')
  if spec['usermeta']['grey']:
    words.append('baselines are grey')
  full = '; '.join(words)
  return Picture(f'{name}.svg', full, render(spec), spec, part)


_GREY = '#88888855'


def _styled(spec: Spec, *, paper: bool) -> Spec:
  """Returns the specification with a style.

  On a page text has the colour of the page's text, also in the dark. A paper
  has black text of 8 points, thin black axes and no grid.
  """
  text, line = ('#000', '#000') if paper else ('currentColor', _GREY)
  small, large = (8, 9) if paper else (11, 12)
  font = 'Helvetica, Arial, sans-serif' if paper else 'system-ui, sans-serif'
  axis = {
    **{'labelColor': text, 'titleColor': text, 'titleFontWeight': 'normal'},
    **{'domainColor': line, 'tickColor': line},
    **{'grid': not paper, 'gridColor': _GREY, 'labelLimit': 260},
    **{'labelFontSize': small, 'titleFontSize': large},
  }
  longest = spec.get('usermeta', {}).get('longest', 0)
  config = {
    'background': '#fff' if paper else None,
    'font': font,
    'axis': axis,
    'view': {'stroke': None},
    'title': {
      **{'color': text, 'fontWeight': 'normal', 'anchor': 'start'},
      **{'frame': 'group', 'fontSize': large},
    },
    'legend': {
      **{'orient': 'bottom', 'labelColor': text, 'labelLimit': 0},
      **{'columns': max(1, 600 // (7 * longest + 50)), 'symbolSize': 60},
      'labelFontSize': small,
    },
    'concat': {'spacing': 24},
  }
  return spec | {'config': config}


def render(spec: Spec) -> bytes:
  """Returns a chart as SVG, in a style that journals take."""
  text = json.dumps(_styled(spec, paper=True))
  black = text.replace('"currentColor"', '"#000"')
  image: str = _vl_convert().vegalite_to_svg(black)
  return image.encode()


@functools.cache
def runtime() -> str:
  """Returns the script that draws charts, without any network.

  It is bundled once and lies in the user's cache folder after that, as
  bundling takes ten seconds.
  """
  name = f'vega-{importlib.metadata.version("vl-convert-python")}.js'
  path = compute.cache_folder().parent / name
  if path.is_file():
    return path.read_text(encoding='utf-8')
  script: str = _vl_convert().javascript_bundle()
  with contextlib.suppress(OSError):  # A home that cannot be written.
    files.write_text(path, script)
  return script


SCRIPT = 'vega.js'


def script_tag(
  pictures: Iterable[Picture], folder: pathlib.Path, *, embed: bool = False
) -> markupsafe.Markup:
  """Returns the tag of the script that draws charts; '' without charts.

  The script lies beside the page, in `folder`, and is written there; with
  `embed` it is part of the page.
  """
  if not any(picture.chart for picture in pictures):
    return markupsafe.Markup('')
  if embed:
    # A page's script ends at the first tag that closes one.
    inline = runtime().replace('</script', r'<\/script')
    return markupsafe.Markup(f'<script>{inline}</script>')
  files.write_text(folder / SCRIPT, runtime())
  return markupsafe.Markup(f'<script defer src="{SCRIPT}"></script>')


# Figures of Matplotlib, for what is no chart of marks and lines.


def to_png(figure: Any) -> bytes:
  """Returns a figure as PNG, 120 dots an inch, without margins."""
  buffer = io.BytesIO()
  figure.savefig(buffer, format='png', dpi=120, bbox_inches='tight')
  return buffer.getvalue()


def new_figure() -> Any:
  """An empty figure of matplotlib, without global state or a display."""
  from matplotlib.figure import Figure

  return Figure(figsize=(4.6, 3.4), layout='constrained')
