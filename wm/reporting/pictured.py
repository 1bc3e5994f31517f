"""Pictures of findings, in the form that papers have them.

The `picture` of a finding has a `kind`, perhaps `rows` in order, and

    bars      a panel for each claim's quantity, a bar for each row, the paper's
              value beside it
    series    a line for each row over the numbers that end the names of a
              `metric`'s quantities (valid_0.5), of which `quantity` is the
              beginning
    curve     a line for each row over the breakdown of `quantity` `by` a column
    grid      a panel for each task, of rows TASK_MODEL: a line for each model
              and a field for each place of the breakdown `by` a column
    map       the map that each row's routes imply, of its first seed

Lines may have `x`, a label, and `published`, row -> {number: value}.
"""

from __future__ import annotations

import pathlib
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wm import core
from wm.core import registry
from wm.reporting import amounts, figures, units
from wm.reporting.amounts import Amount, Rows
from wm.reporting.findings import Claim, Quantity
from wm.reporting.units import Unit
from wm.reporting.verdicts import Judged

KINDS = 'bars', 'series', 'curve', 'grid', 'map'
Points = list[tuple[float, Amount]]


def drawn(judged: Judged, rows: Rows, results: pathlib.Path) -> list[bytes]:
  """PNG images of a finding; [] where there is nothing to draw.

  Args:
    judged: the finding.
    rows: units of its miniature, by row.
    results: folder of their files, which holds the maps.

  Raises:
    InputError: no such kind of picture.
  """
  picture = judged.finding.picture
  if not picture:
    return []
  kind = picture.get('kind', '')
  if kind not in KINDS:
    where = f'finding {judged.finding.name!r}'
    available = registry.suggest(kind, [*KINDS])
    raise core.InputError(f'{where}: no picture {kind!r}; {available}')
  names = picture.get('rows') or list(rows)
  if kind == 'map':
    paths = [
      results / f'{units.name(name, rows[name][0].seed)}.png'
      for name in names
      if name in rows
    ]
    return [path.read_bytes() for path in paths if path.is_file()]
  if kind == 'bars':
    return _bars(judged)
  collect = _series if kind == 'series' else _curve
  lines = {name: collect(rows.get(name, ()), picture) for name in names}
  lines = {name: points for name, points in lines.items() if points}
  if not lines:
    return []
  draw = _grid if kind == 'grid' else _lines
  return [draw(lines, picture)]


def _bars(judged: Judged) -> list[bytes]:
  seen: dict[str, tuple[Claim, dict[str, Amount]]] = {}
  for claim in judged.finding.claims:  # Those of one quantity share a panel.
    if measured := judged.amounts_of(claim):
      before = seen.get(claim.label, (claim, {}))[1]
      seen[claim.label] = claim, {**before, **measured}
  if not seen:
    return []
  figure, axes = figures.new_axes(len(seen))
  for axis, (claim, held) in zip(axes, seen.values(), strict=True):
    for place, (name, amount) in enumerate(held.items()):
      error = None
      if amount.low is not None and amount.high is not None:
        error = [[amount.value - amount.low], [amount.high - amount.value]]
      axis.bar(place, amount.value, 0.6, color='C0', alpha=0.35)
      axis.errorbar(place, amount.value, error, fmt='o', color='C0', capsize=3)
      if name in claim.published:
        axis.plot(place + 0.4, claim.published[name], 'D', mfc='none', c='C3')
    axis.set_xticks(range(len(held)), list(held), rotation=20, ha='right')
    axis.set_xlim(-0.6, len(held) - 0.4)
    axis.set_title(textwrap.fill(claim.label, 40), fontsize=9)
  return [figures.to_png(figure)]


def _series(row: Sequence[Unit], picture: Mapping[str, Any]) -> Points:
  """Amounts of quantities that end in numbers."""
  metric, start = picture['metric'], f'{picture["quantity"]}_'
  tails = {
    entry['quantity'].removeprefix(start)
    for unit in row
    for entry in unit.scores
    if entry['quantity'].startswith(start)
  }
  numbers = sorted(
    (float(tail), tail) for tail in tails if tail.replace('.', '', 1).isdigit()
  )
  points = [
    (at, amounts.amount(row, Quantity(metric, f'{start}{tail}')))
    for at, tail in numbers
  ]
  return [(at, amount) for at, amount in points if amount is not None]


def _curve(row: Sequence[Unit], picture: Mapping[str, Any]) -> Points:
  """Amounts of a breakdown."""
  metric, quantity = picture['metric'], picture['quantity']
  places = {
    entry['where'][picture['by']]
    for unit in row
    for entry in unit.scores
    if list(entry.get('where', ())) == [picture['by']]
  }
  points = [
    (at, amounts.amount(row, Quantity(metric, quantity, {picture['by']: at})))
    for at in sorted(places)
  ]
  return [(at, amount) for at, amount in points if amount is not None]


def _lines(lines: Mapping[str, Points], picture: Mapping[str, Any]) -> bytes:
  figure, (axis,) = figures.new_axes(1, size=(7.0, 4.2))
  looks = figures.styles(list(lines))
  for number, (name, points) in enumerate(lines.items()):
    line = [
      (at, amount.value, amount.low, amount.high) for at, amount in points
    ]
    more = figures.told_apart(number, len(lines), len(line))
    figures.draw_line(axis, name, line, looks[name] | more, lw=0)
    theirs = picture.get('published', {}).get(name, {})
    if theirs:
      at, value = zip(*((float(x), y) for x, y in theirs.items()), strict=True)
      look = {'color': looks[name]['color'], 'mfc': 'none', 'ls': 'none'}
      axis.plot(at, value, marker='D', **look)
  axis.set(xlabel=picture.get('x', ''), ylabel=picture['quantity'])
  figures.draw_legend(figure, [axis], 4)
  return figures.to_png(figure)


def _grid(lines: Mapping[str, Points], picture: Mapping[str, Any]) -> bytes:
  tasks = list(dict.fromkeys(name.partition('_')[0] for name in lines))
  models = list(dict.fromkeys(name.partition('_')[2] for name in lines))
  places = sorted({at for points in lines.values() for at, _ in points})
  size = 1.2 + 0.45 * len(places), 1 + 0.3 * len(models)
  figure, axes = figures.new_axes(len(tasks), across=2, size=size)
  for axis, task in zip(axes, tasks, strict=True):
    axis.grid(False)
    values = [
      [dict(lines.get(f'{task}_{model}', ())).get(at) for at in places]
      for model in models
    ]
    shown = [[amount and amount.value for amount in line] for line in values]
    numbers = np.array(shown, np.float64)  # None is NaN.
    axis.imshow(numbers, vmin=0, vmax=1, cmap='viridis', aspect='auto')
    for (y, x), value in np.ndenumerate(numbers):
      if np.isfinite(value):
        colour = 'black' if value > 0.6 else 'white'
        style = {'ha': 'center', 'va': 'center', 'fontsize': 7}
        axis.text(x, y, f'{value:.2f}', color=colour, **style)
    axis.set_xticks(range(len(places)), [f'{at:g}' for at in places])
    axis.set_yticks(range(len(models)), models, fontsize=8)
    axis.set(title=task, xlabel=picture.get('x', picture['by']))
  return figures.to_png(figure)
