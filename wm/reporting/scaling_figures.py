"""Draws scores against the number of parameters, and what less expressive
variants lose, as PNG bytes.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from wm.reporting import figures, scaling, tables
from wm.reporting.scaling import Panel, Point

_MARKERS = 'osD^v<>Pp*'
_PALE = 0.45  # Of what papers print.
_FRONT = {'color': 'black', 'linewidth': 1, 'zorder': 1}
_WIDE = 44  # Characters of a title's line.


def pareto(panels: Sequence[Panel]) -> bytes:
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
      best = scaling.front(points)
      name = "the paper's Pareto front" if theirs else 'Pareto front'
      axis.plot(
        [point.parameters for point in best],
        [point.value for point in best],
        **_FRONT | {'alpha': _PALE if theirs else 1},
        linestyle=':' if theirs else '--',
        label=figures.literal(name) if best else '',
      )
    title = textwrap.fill(titles[panel.spec], _WIDE)
    axis.set(xscale='log', xlabel='parameters', ylabel=panel.quantity)
    axis.set_title('' if len(panels) == 1 else title, fontsize=9)
    axis.set_ylim(bottom=min(0, axis.get_ylim()[0]))
  figures.draw_legend(figure, axes, 5)
  return figures.to_png(figure)


def _looks(panels: Sequence[Panel]) -> dict[str, dict[str, Any]]:
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


def arrows(panels: Sequence[Panel]) -> bytes | None:
  """Draws an arrow from each model to its less expressive variant, what papers
  print pale beside it; None if no model was measured with a variant.
  """
  shown = [panel for panel in panels if scaling.arrows(panel, panel.points)]
  if not shown:
    return None
  looks = _looks(panels)
  most = max(len(scaling.arrows(panel, panel.points)) for panel in shown)
  size = max(4.6, 1.0 * most), 3.8
  across = 2 if most <= _MANY else 1
  figure, axes = figures.new_axes(len(shown), across=across, size=size)
  titles = tables.differing([panel.spec for panel in shown])
  for axis, panel in zip(axes, shown, strict=True):
    pairs = sorted(
      scaling.arrows(panel, panel.points), key=lambda pair: pair[0][1:3]
    )
    theirs = scaling.beside(panel)
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
    title = textwrap.fill(titles[panel.spec], _WIDE)
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
