"""Draws calibration curves: what models do over what an oracle does.

A metric tells them by pairs of quantities, in as many bins as it likes:

  axis_NAME_MIDDLE    of the oracle NAME, in the bin whose middle is MIDDLE
  curve_NAME_MIDDLE   of the model, in the same bin

Whoever does as the oracle does is on the diagonal.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

from wm.reporting import figures, tables
from wm.reporting.collect import Entry, Run

_PAIR = re.compile(r'(axis|curve)_(\w+)_([\d.]+)')
_WIDE = 44  # Characters of a title's line.


class Panel(NamedTuple):
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


def panels(runs: Sequence[Run]) -> list[list[Panel]]:
  """Returns the panels of each metric; bins that lack a value are left out."""
  by_oracle: dict[Any, dict[str, list[tuple[Entry, Entry]]]] = {}
  for run in runs:
    halves: dict[Any, dict[str, dict[str, Entry]]] = {}
    for entry in run.entries:
      match = _PAIR.fullmatch(entry['quantity'])
      if match and entry['value'] is not None:
        half, oracle, middle = match.groups()
        key = entry['metric'], entry.get('spec') or '', oracle
        halves.setdefault(key, {}).setdefault(middle, {})[half] = entry
    for key, bins in halves.items():
      whole = [
        (pair['axis'], pair['curve'])
        for _, pair in sorted(bins.items(), key=lambda item: float(item[0]))
        if len(pair) == 2
      ]
      if whole:
        by_oracle.setdefault(key, {})[run.name] = whole
  by_metric: dict[str, list[Panel]] = {}
  for (metric, spec, oracle), lines in by_oracle.items():
    by_metric.setdefault(metric, []).append(Panel(metric, spec, oracle, lines))
  return [*by_metric.values()]


def drawn(panels: Sequence[Panel]) -> bytes:
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
    axis.set_title(textwrap.fill(titles.get(panel.spec, ''), _WIDE), fontsize=9)
  # All axes alike: a diagonal is one, and panels can be compared.
  ends = [end for axis in axes for end in (*axis.get_xlim(), *axis.get_ylim())]
  whole = min(ends), max(ends)
  diagonal = {'color': 'black', 'linestyle': '--', 'linewidth': 1}
  for axis in axes:
    axis.plot(whole, whole, **diagonal, label='as the oracle')
    axis.set(xlim=whole, ylim=whole, aspect='equal')
  figures.draw_legend(figure, axes, 5)
  return figures.to_png(figure)
