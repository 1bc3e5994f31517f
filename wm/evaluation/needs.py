"""What metrics and models need, by type, and which pairs can be run.

A metric's `needs` are classes: what a world (`wm.core.capabilities`) and a
predictor (`wm.core.predictor`) must be able to do. A model's `needs` are the
world's alone. What is missing is found here and nowhere else.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import registry

# What reasons call a class; others go by its name.
_WORDS: dict[type, str] = {
  core.Hidden: 'latent_state',
  core.HiddenStates: 'hidden',
  core.Labelled: 'state_heads',
  core.NamesStates: 'states',
  core.Predictor: 'next_tokens',
  core.Quiz: 'questions',
}


def lacks(
  thing: core.Metric | type[core.Metric] | type[core.Model], *types: type
) -> list[type]:
  """The needs of a metric or model that none of some types satisfies.

  types: of a predictor, of a world; only needs of these two kinds are looked
    at, so that a world can be asked about without a model.
  """
  kinds = [kind for kind in (core.TokenReader, core.World) if _any(types, kind)]
  return [
    need
    for need in thing.needs
    if issubclass(need, tuple(kinds)) and not _any(types, need)
  ]


def _any(types: Sequence[type], need: type) -> bool:
  return any(issubclass(one, need) for one in types)


def word(need: type) -> str:
  """What a reason calls what is missing."""
  return _WORDS.get(need, need.__name__.lower())


def row(missing: Sequence[type]) -> core.Scores:
  """A row that says why a metric could not be run at all."""
  reason = f'needs_{word(missing[0])}'
  return core.scores('all', [np.nan], reason=[reason])


class Cell(NamedTuple):
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
  missing: tuple[type, ...]


def matrix() -> Iterator[Cell]:
  """What can be run, and what is missing, of all plug-ins; nothing is run."""
  plug_ins = map(_found, ('world', 'model', 'metric'))
  for (world, w), (model, m), (metric, of) in itertools.product(*plug_ins):
    cells = [
      Cell(world, model, metric, given, (*lacks(m, w), *lacks(of, given, w)))
      for given in m.gives
    ]
    # Of the predictors that a model may give the first that fits, or the usual.
    yield min(cells, key=lambda cell: bool(cell.missing))


def _found(kind: str) -> list[tuple[str, Any]]:
  return [(name, registry.find(kind, name)) for name in registry.names(kind)]


def text() -> str:
  """The matrix for the terminal, folded.

  A combination can be run where its world has what the metric needs, its model
  gives a predictor that has, and the world has what the model needs.
  """
  worlds, models, metrics = map(_found, ('world', 'model', 'metric'))
  able = sum(not cell.missing for cell in matrix())
  total = len(worlds) * len(models) * len(metrics)
  lines = [
    f'What can be run: {able} of {total} (world, model, metric); + or what is '
    'missing'
  ]
  for title, rows, columns, missing in (
    ('What metrics need of worlds', worlds, metrics, lambda w, m: lacks(m, w)),
    ('What metrics need of models', models, metrics, _of_model),
    ('What models need of worlds', models, worlds, lacks),
  ):
    table = [['  ' + title, *(name for name, _ in columns)]]
    for name, one in rows:
      cells = [missing(one, other) for _, other in columns]
      table.append([f'    {name}', *map(_cell, cells)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines.append('')
    for row in table:
      padded = [cell.ljust(n) for cell, n in zip(row, widths, strict=True)]
      lines.append('  '.join(padded).rstrip())
  return '\n'.join(lines)


def _cell(missing: Sequence[type] | str) -> str:
  """Of a table: '+' where nothing is missing."""
  if isinstance(missing, str):
    return missing
  return ', '.join(need.__name__ for need in missing) or '+'


def _of_model(
  model: type[core.Model], metric: type[core.Metric]
) -> Sequence[type] | str:
  """What is missing, or 'as CLASS' of what the model does not usually give."""
  usual, *others = model.gives
  missing = lacks(metric, usual)
  fits = [given for given in others if not lacks(metric, given)]
  return f'as {fits[0].__name__}' if missing and fits else missing
