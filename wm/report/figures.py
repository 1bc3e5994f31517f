"""Figures from result files: training curves and ablations, as PNG bytes."""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from wm.report import tables
from wm.report.collect import Entry, Run


def _png(figure: Any) -> bytes:
  buffer = io.BytesIO()
  figure.savefig(buffer, format='png', dpi=120, bbox_inches='tight')
  return buffer.getvalue()


def _axes(columns: int) -> tuple[Any, list[Any]]:
  from matplotlib.figure import Figure  # No global state, no display.

  figure = Figure(figsize=(4.6 * columns, 3.4), layout='constrained')
  axes = [figure.add_subplot(1, columns, i + 1) for i in range(columns)]
  for axis in axes:
    axis.grid(alpha=0.3)
    axis.spines[['top', 'right']].set_visible(False)
  return figure, axes


def training(runs: Sequence[Run]) -> bytes | None:
  """Training and held-out loss by step, a colour per model."""
  trained = [run for run in runs if run.curve]
  if not trained:
    return None
  figure, (axis,) = _axes(1)
  for number, run in enumerate(trained):
    for key, style in (('loss', '-'), ('heldout_loss', 'o--')):
      points = [(r['step'], r[key]) for r in run.curve if key in r]
      if points:
        label = f'{run.name}, {"held out" if "held" in key else "training"}'
        axis.plot(
          *zip(*points, strict=True),
          style,
          color=f'C{number}',
          alpha=0.6 if key == 'loss' else 1.0,
          markersize=3,
          linewidth=1.2,
          label=label,
        )
  axis.set(xlabel='step', ylabel='nats per token')
  axis.legend(fontsize=8, frameon=False)
  return _png(figure)


def ablations(runs: Sequence[Run]) -> dict[str, list[Entry]]:
  """Field -> entries, each with 'x' (the field's value), of all metrics that
  were run with several values of one field; the plainest spec is among them.
  """
  entries = [entry for run in runs for entry in run.entries]
  plain = tables.base_specs(entries)
  shown = set(tables.headline(entries))
  found: dict[str, list[Entry]] = defaultdict(list)
  for name, base in plain.items():
    texts = {tables.spec(e) for e in entries if e['metric'] == name} - {base}
    defaults = tables.arguments(base)
    for text in texts:
      given = tables.arguments(text)
      changed = [key for key in given if given[key] != defaults[key]]
      if len(changed) > 1:  # A zero beside the field switches a quantity off.
        changed = [key for key in changed if given[key]]
      if len(changed) == 1:
        found[changed[0]] += _points(entries, shown, text, given[changed[0]])
    for field in [f for f in found if f in defaults]:
      if any(e['metric'] == name for e in found[field]):
        found[field] += _points(entries, shown, base, defaults[field])
  # A series over a number has no point of its own: it is a table.
  return {field: points for field, points in found.items() if points}


def _points(
  entries: Sequence[Entry], shown: set[tuple[str, str]], text: str, x: Any
) -> list[Entry]:
  return [
    {**entry, 'x': x}
    for entry in entries
    if tables.spec(entry) == text
    and (entry['metric'], entry['quantity']) in shown
    and entry['value'] is not None
  ]


# Fields that bound a length, where 0 means the whole.
_LENGTHS = ('k', 'sample_k')


def _ordered(values: set[Any], field: str) -> list[Any]:
  """Values left to right; 0 of a length means 'the whole', so it is last."""
  if all(isinstance(value, int | float) for value in values):
    return sorted(values, key=lambda x: (field in _LENGTHS and x == 0, x))
  return sorted(values, key=str)


def ablation(field: str, points: Sequence[Entry]) -> bytes:
  """A panel per quantity, a line per model, over one field's values."""
  quantities = list(dict.fromkeys((p['metric'], p['quantity']) for p in points))
  places = _ordered({p['x'] for p in points}, field)
  models = list(dict.fromkeys(p['model'] for p in points))
  figure, axes = _axes(len(quantities))
  for axis, quantity in zip(axes, quantities, strict=True):
    for number, model in enumerate(models):
      line = sorted(
        (places.index(p['x']), p['value'], p['low'], p['high'])
        for p in points
        if (p['metric'], p['quantity']) == quantity and p['model'] == model
      )
      if line:
        x, value, low, high = zip(*line, strict=True)
        axis.plot(x, value, 'o-', color=f'C{number}', label=model, markersize=4)
        axis.fill_between(x, low, high, color=f'C{number}', alpha=0.15)
    labels = [
      'full' if field in _LENGTHS and place == 0 else str(place)
      for place in places
    ]
    axis.set_xticks(range(len(places)), labels, fontsize=8)
    axis.set(title=': '.join(quantity), xlabel=field, ylim=(-0.03, 1.03))
  handles, names = axes[0].get_legend_handles_labels()
  figure.legend(handles, names, loc='outside lower center', ncols=5, fontsize=8)
  return _png(figure)
