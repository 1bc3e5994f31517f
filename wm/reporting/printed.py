"""What a paper's printed values are kept as: rows, and their settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# A standard error, the range of several, or None where we have none.
Error = float | tuple[float, float] | None


class _Given:
  """Stands for any value but an empty one."""

  def __repr__(self) -> str:
    return '...'

  def __eq__(self, other: object) -> bool:
    return bool(other)

  __hash__ = None


GIVEN = _Given()


class Row(NamedTuple):
  """What is printed of one quantity.

  Attributes:
    metric, quantity: of ours.
    values: model name, as `model_key` gives it -> value and standard error:
      None where we have none, two numbers where only their range is known.
    fields: of the metric, what they must be to measure the printed quantity,
      or GIVEN. Of several such specs the plainest is shown.
    form: of the printed value, as `format` takes it.
    also: further fields of the metric as in the paper, where they are not at
      default.
    free: fields of the metric that do not bear on the quantity.
    world: fields of the world as in the paper.
  """

  metric: str
  quantity: str
  values: Mapping[str, tuple[float, Error]]
  fields: Mapping[str, Any] = {}
  form: str = '.2f'
  also: Mapping[str, Any] = {}
  free: tuple[str, ...] = ()
  world: Mapping[str, Any] = {}


class Trained(NamedTuple):
  """What a published model was.

  Attributes:
    model: fields of its spec, and its `family`, the name in the spec.
    world: fields of the world that its sequences are from.
    training: of OUT/train.run.json.
  """

  model: Mapping[str, Any] = {}
  world: Mapping[str, Any] = {}
  training: Mapping[str, Any] = {}


class Paper(NamedTuple):
  """What is printed about one world.

  Attributes:
    table: where, and on how many trials.
    setting: on what, and what to know of it.
    rows: quantities.
    models: model name, as in `Row.values` -> what it was; others have no size.
    facts: that the world must have, as `World.facts` counts them.
    place: what a world with these facts is called.
  """

  table: str
  setting: str
  rows: tuple[Row, ...]
  models: Mapping[str, Trained] = {}
  facts: Mapping[str, int] = {}
  place: str = ''


def model_key(name: str) -> str:
  """A model's name without case and signs: 'Llama-2-70B' is 'llama270b'.

  Nor what a sweep adds of its settings: 'slice_d128,lr=1e-2' is 'sliced128'.
  """
  name = re.sub(r',\w+=[^,]*', '', name)
  return ''.join(c for c in name.lower() if c.isalnum())


def columns(
  models: Sequence[str],
  values: Sequence[float | None],
  errors: Sequence[Error] = (),
) -> dict[str, tuple[float, Error]]:
  """`Row.values` of models with these values and errors, but for None."""
  errors = errors or (None,) * len(models)
  found = zip(models, values, errors, strict=True)
  return {
    model_key(model): (value, error)
    for model, value, error in found
    if value is not None
  }
