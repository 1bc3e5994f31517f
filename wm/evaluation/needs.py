"""What metrics and models need, by type, and which pairs can be run.

A metric's `needs` are classes: what a world (`wm.core.capabilities`) and a
predictor (`wm.core.predictor`) must be able to do. A model's `needs` are the
world's alone. What is missing is found here and nowhere else.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.core import registry

# What reasons call a class; others go by its name.
_WORDS: dict[type, str] = {
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
  for world, model, metric in itertools.product(
    *map(_found, ('world', 'model', 'metric'))
  ):
    yield _cell(world, model, metric)


def _found(kind: str) -> list[tuple[str, type]]:
  return [(name, registry.find(kind, name)) for name in registry.names(kind)]


def _cell(
  world: tuple[str, type], model: tuple[str, type], metric: tuple[str, type]
) -> Cell:
  """See matrix; each is a name and a class."""
  without = lacks(model[1], world[1])
  cells = [
    Cell(
      *(world[0], model[0], metric[0], given),
      (*without, *lacks(metric[1], given, world[1])),
    )
    for given in model[1].gives
  ]
  return min(cells, key=lambda cell: bool(cell.missing))  # The first of equals.


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
    ('What metrics need of worlds', worlds, metrics, _of_world),
    ('What metrics need of models', models, metrics, _of_model),
    ('What models need of worlds', models, worlds, _between),
  ):
    table = [['  ' + title, *(name for name, _ in columns)]]
    for name, one in rows:
      cells = [missing(one, other) for _, other in columns]
      table.append([f'    {name}', *(cell or '+' for cell in cells)])
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines += ['', *(_line(row, widths) for row in table)]
  return '\n'.join(lines)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
  padded = [cell.ljust(n) for cell, n in zip(row, widths, strict=True)]
  return '  '.join(padded).rstrip()


def _of_world(world: type[core.World], metric: type[core.Metric]) -> str:
  return _names(lacks(metric, world))


def _of_model(model: type[core.Model], metric: type[core.Metric]) -> str:
  """'as CLASS' where it is not what the model usually gives that fits."""
  missing = {given: lacks(metric, given) for given in model.gives}
  usual = model.gives[0]
  fits = [given for given in model.gives if not missing[given]]
  if usual in fits or not fits:
    return _names(missing[usual])
  return f'as {fits[0].__name__}'


def _between(model: type[core.Model], world: type[core.World]) -> str:
  return _names(lacks(model, world))


def _names(missing: Sequence[type]) -> str:
  return ', '.join(need.__name__ for need in missing)
