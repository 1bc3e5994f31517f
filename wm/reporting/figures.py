"""Draws training curves, and what all figures share, as PNG bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from wm.reporting.collect import Run


def to_png(figure: Any) -> bytes:
  buffer = io.BytesIO()
  figure.savefig(buffer, format='png', dpi=120, bbox_inches='tight')
  return buffer.getvalue()


def literal(text: str) -> str:
  """Returns a text that is drawn as it is, without mathematics."""
  return text.replace('$', r'\$')


def new_axes(
  panels: int, across: int = 4, size: tuple[float, float] = (4.6, 3.4)
) -> tuple[Any, list[Any]]:
  """Makes a figure of panels, at most `across` in a row."""
  from matplotlib.figure import Figure  # No global state, no display.

  columns = min(panels, across)
  rows = -(-panels // columns)
  inches = size[0] * columns, size[1] * rows
  figure = Figure(figsize=inches, layout='constrained')
  axes = [figure.add_subplot(rows, columns, i + 1) for i in range(panels)]
  for axis in axes:
    axis.grid(alpha=0.3)
    axis.spines[['top', 'right']].set_visible(False)
  return figure, axes


_DASHES = ('-', '--', ':', '-.')


def styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
  """Returns how each model is drawn.

  Each has a colour. If names are 'MODEL,VARIANT' with a few variants, each
  model has a colour and each variant a kind of dashes. A setting, as in
  'MODEL,lr=1e-2,VARIANT', is a variant only if names differ in nothing else.
  """
  parts = {name: name.partition(',')[::2] for name in names}
  bare = {
    name: (model, ','.join(x for x in variant.split(',') if '=' not in x))
    for name, (model, variant) in parts.items()
  }
  if len(set(bare.values())) == len(bare):
    parts = bare
  models = list(dict.fromkeys(model for model, _ in parts.values()))
  variants = list(dict.fromkeys(variant for _, variant in parts.values()))
  if not (len(models) > 1 and 1 < len(variants) <= len(_DASHES)):
    models, variants = list(parts), ['']
    parts = {name: (name, '') for name in names}
  return {
    name: {
      'color': _colour(models.index(model), len(models)),
      'linestyle': _DASHES[variants.index(variant)],
    }
    for name, (model, variant) in parts.items()
  }


_MARKERS = 'osD^v<>Pp*'
_MARKED = 8  # Markers along a line.


def told_apart(number: int, num: int, points: int) -> dict[str, Any]:
  """Returns how line `number` of `num` stays visible below and above others.

  Earlier lines are thicker, so that they show on both sides of later ones. Each
  line has a marker of its own, at points of its own.
  """
  every = max(-(-points // _MARKED), 1)
  return {
    'linewidth': 1.2 + 2.4 * (num - 1 - number) / max(num - 1, 1),
    'marker': _MARKERS[number % len(_MARKERS)],
    'markersize': 6,
    'markevery': (number * every // num, every),
  }


def _colour(number: int, num: int) -> Any:
  """Returns colour `number` of `num`: ten distinct ones, twenty, or a
  rainbow.
  """
  from matplotlib import colormaps

  if num <= 20:
    return colormaps['tab10' if num <= 10 else 'tab20'](number)
  return colormaps['turbo'](number / (num - 1))


def draw_legend(figure: Any, axes: Sequence[Any], columns: int) -> None:
  """Draws one legend below all panels, each name once, variants side by side.

  columns: at most.
  """
  handles: dict[str, Any] = {}
  for axis in axes:
    for handle, name in zip(*axis.get_legend_handles_labels(), strict=True):
      handles.setdefault(name, handle)
  if not handles:  # Nothing was measured, or logged.
    return
  variants = len({handle.get_linestyle() for handle in handles.values()})
  rows = variants * -(-len(handles) // (variants * columns))
  columns = -(-len(handles) // rows)
  figure.legend(
    list(handles.values()),
    list(handles),
    loc='outside lower center',
    ncols=columns,
    fontsize=8,
    frameon=False,
    handlelength=3,
  )


_FEW = 4  # Runs whose training loss is drawn beside the held-out one.


def training(runs: Sequence[Run]) -> bytes | None:
  """Draws the held-out loss and other held-out values by step; None if no run
  has a log.

  Runs of one name are seeds of one model and are drawn alike. Of few runs the
  training loss is drawn too, pale.
  """
  trained = [run for run in runs if run.curve]
  if not trained:
    return None
  keys = dict.fromkeys(
    key for run in trained for row in run.curve for key in row
  )
  usual = ('heldout_loss', 'heldout_tokens')
  more = [
    key
    for key in keys
    if key.startswith('heldout_') and not key.startswith(usual)
  ]
  looks = styles(list(dict.fromkeys(run.name for run in trained)))
  figure, axes = new_axes(1 + len(more), size=(5.2, 3.6))
  shown = ['heldout_loss', *more]
  few = len(trained) <= _FEW
  for axis, key in zip(axes, shown, strict=True):
    title = key.removeprefix('heldout_')
    unit = _unit(trained) if title == 'loss' else f'{title}, held out'
    axis.set(xlabel='step', ylabel=unit)
    for run in trained:
      both = few and title == 'loss'
      for name in (title, key) if both else (key,):
        _follow(axis, run, name, looks[run.name], pale=name == title)
  if not few:
    axes[0].set_title('held-out loss', fontsize=10)
  _logarithmic(axes[0])
  draw_legend(figure, axes, 2 if len(axes) == 1 else 4)
  return to_png(figure)


def _unit(runs: Sequence[Run]) -> str:
  """Returns the unit of the logged loss; a loss of states is a mean over
  labels.
  """
  by_state = {run.training.get('objective') == 'state' for run in runs}
  units = {True: 'nats per label', False: 'nats per token'}
  return units[by_state.pop()] if len(by_state) == 1 else 'nats'


def _follow(
  axis: Any, run: Run, key: str, look: dict[str, Any], pale: bool
) -> None:
  """Draws one run's logged values of a key over steps."""
  points = [(row['step'], row[key]) for row in run.curve if key in row]
  if points:
    look = look | {'linewidth': 1.0, 'marker': '.', 'markersize': 4}
    pale_look = {
      'alpha': 0.35,
      'marker': '',
      'label': literal(f'{run.name}, training'),
    }
    look |= pale_look if pale else {'label': literal(run.name)}
    axis.plot(*zip(*points, strict=True), **look)


def _logarithmic(axis: Any) -> None:
  """Makes the scale logarithmic if values span more than a factor of ten."""
  values = [y for line in axis.lines for y in line.get_ydata()]
  scale = log_scale(values, 10)
  if scale:
    from matplotlib import ticker

    axis.set_yscale(**scale)
    if scale['value'] == 'log':
      axis.yaxis.set_minor_locator(ticker.LogLocator(subs=(2, 5)))
    plain = ticker.FuncFormatter(lambda y, _: f'{y:g}')
    axis.yaxis.set_major_formatter(plain)
    axis.yaxis.set_minor_formatter(plain)


def log_scale(values: Sequence[float], factor: float) -> dict[str, Any]:
  """Returns arguments of `set_xscale` for an axis in logs; {} of a plain one.

  Where there is a 0 or less, which has no logarithm, the axis is plain from
  there to the least positive value, so that no point is lost.

  factor: greatest over least positive value, from which an axis is in logs.
  """
  positive = [value for value in values if value > 0]
  if not positive or max(positive) <= factor * min(positive):
    return {}
  if len(positive) == len(values):
    return {'value': 'log'}
  return {'value': 'symlog', 'linthresh': min(positive)}


def draw_line(
  axis: Any,
  name: str,
  points: Sequence[tuple],
  look: dict[str, Any],
  **band: Any,
) -> None:
  """Draws a line through points (x, value, low, high) and a band of
  intervals.
  """
  if points:
    x, value, low, high = zip(*points, strict=True)
    axis.plot(x, value, **look, label=literal(name))
    if None not in low + high:
      band = {'color': look['color'], 'alpha': 0.15, **band}
      axis.fill_between(x, low, high, **band)
