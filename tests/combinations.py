"""Which worlds, models and metrics can be run together, by their types."""

import itertools
from collections.abc import Iterator
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
      Combination(world, model, metric, cls, (*lacks(m, w), *lacks(of, cls, w)))
      for cls in m.gives
    ]
    # Of the predictors that a model may give the first that fits, or the usual.
    yield min(cells, key=lambda cell: bool(cell.missing))


def _plug_ins(kind: str) -> list[tuple[str, Any]]:
  return [(name, registry.find(kind, name)) for name in registry.names(kind)]
