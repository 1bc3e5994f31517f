"""Which combinations of worlds, models and metrics can be run.

A metric's `needs` are classes: what a world (`wm.core.capabilities`) and a
predictor (`wm.core.predictor`) must be able to do. A model's `needs` are the
world's alone. `core.measure.lacks` says what is missing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from wm import core
from wm.core import registry
from wm.core.measure import lacks


class Combination(NamedTuple):
  """One world, model and metric, at their defaults.

  Attributes:
    world, model, metric: names.
    predictor: the class of what the model gives that fits, or the usual one.
    missing: what is missing; () where the metric can be run.
  """

  world: str
  model: str
  metric: str
  predictor: type[core.TokenReader]
  missing: tuple[core.Need, ...]


def matrix() -> Iterator[Combination]:
  """All combinations of plug-ins and the interfaces they lack; runs nothing."""
  plug_ins = map(_plug_ins, ('world', 'model', 'metric'))
  # Types are compared; no world, model or metric is made.
  for (world, w), (model, m), (metric, of) in itertools.product(*plug_ins):
    cells = [
      Combination(
        world,
        model,
        metric,
        cls,
        (*lacks(m, w), *lacks(of, cls, w)),
      )
      for cls in m.gives
    ]
    # Of the predictors that a model may give the first that fits, or the usual.
    yield min(cells, key=lambda cell: bool(cell.missing))


def _plug_ins(kind: str) -> list[tuple[str, Any]]:
  return [(name, registry.find(kind, name)) for name in registry.names(kind)]


def text() -> str:
  """The matrix for the terminal, folded.

  A combination can be run where its world has what the metric needs, its model
  gives a predictor that has, and the world has what the model needs.
  """
  worlds, models, metrics = map(_plug_ins, ('world', 'model', 'metric'))
  # Counted over all combinations, while the tables below fold them into pairs.
  able = sum(not cell.missing for cell in matrix())
  total = len(worlds) * len(models) * len(metrics)
  lines = [
    f'Supported: {able} of {total} combinations (world, model, metric); +, or '
    'the interface that is missing'
  ]
  kinds = {'world': worlds, 'model': models, 'metric': metrics}
  for (first, second), (title, missing) in _PAIRS.items():
    rows, columns = kinds[first], kinds[second]
    table = [['  ' + title, *(name for name, _ in columns)]]
    for name, thing in rows:
      cells = [missing(thing, other) for _, other in columns]
      table.append([f'    {name}', *map(_cell, cells)])
    # Columns are as wide as their widest cell.
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines.append('')
    for row in table:
      padded = [cell.ljust(n) for cell, n in zip(row, widths, strict=True)]
      lines.append('  '.join(padded).rstrip())
  return '\n'.join(lines)


def _cell(missing: Sequence[core.Need] | str) -> str:
  """A cell of a table: '+' where nothing is missing."""
  if isinstance(missing, str):
    return missing
  return ', '.join(need.__qualname__ for need in missing) or '+'


def _of_model(
  model: type[core.Model], metric: type[core.Metric]
) -> Sequence[core.Need] | str:
  """Missing interfaces, or 'as CLASS' where another predictor has them."""
  # A model may give another kind of predictor on request, such as one with
  # hidden states.
  usual, *others = model.gives
  missing = lacks(metric, usual)
  fits = [predictor for predictor in others if not lacks(metric, predictor)]
  return f'as {fits[0].__name__}' if missing and fits else missing


# Kinds of a pair -> title of its table, and what the first and second lack.
_PAIRS: dict[tuple[str, str], tuple[str, Any]] = {
  ('world', 'metric'): ('Metrics on worlds', lambda w, m: lacks(m, w)),
  ('model', 'metric'): ('Metrics on models', _of_model),
  ('model', 'world'): ('Models on worlds', lacks),
}


def partners(kind: str, cls: type) -> dict[str, dict[str, str]]:
  """Other kind -> its plug-ins and '+', or the interface that is missing.

  kind, cls: of one world, model or metric, as `registry.find` gives it.
  """
  cells: dict[str, dict[str, str]] = {}
  for (first, second), (_, missing) in _PAIRS.items():
    if kind == first:
      pairs = {name: missing(cls, other) for name, other in _plug_ins(second)}
      cells[second] = {name: _cell(cell) for name, cell in pairs.items()}
    elif kind == second:
      pairs = {name: missing(other, cls) for name, other in _plug_ins(first)}
      cells[first] = {name: _cell(cell) for name, cell in pairs.items()}
  return cells
