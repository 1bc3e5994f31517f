"""A family's spec: fields, their checks, and the predictors that it gives.

A family of networks is one file: a `Model` (a `NetworkModel`: fields and
`build`) and a `Network` (a Flax NNX module, see `nn.network`).
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar

from flax import nnx

from wm import core
from wm.models.nn import network
from wm.models.serving import networks


class NetworkModel(core.Trainable):
  """A family's spec; subclasses are frozen dataclasses."""

  gives: ClassVar[tuple[type, ...]] = (
    networks.NetworkPredictor,
    networks.StateNamer,
  )

  @abc.abstractmethod
  def build(
    self, vocab_size: int, max_len: int, rngs: nnx.Rngs, outputs: int = 0
  ) -> network.Network:
    """See core.Trainable."""

  def predictor(
    self, world: core.World, seed: int
  ) -> networks.NetworkPredictor:
    """A predictor with random weights."""
    spec = network.NetworkSpec(self, len(world.vocab), world.max_len)
    params = network.init(spec, seed)
    return networks.NetworkPredictor(
      self, params, len(world.vocab), world.end, world.max_len
    )

  # Checks of fields, for `__post_init__`.

  def choose(self, field: str, choices: tuple[Any, ...]) -> None:
    """Raises InputError unless the field's value is one of the choices."""
    value = getattr(self, field)
    if value not in choices:
      known = ', '.join(map(str, choices))
      raise self.error(f'{field}={value!r}; available: {known}')

  def at_least(self, least: int, *fields: str) -> None:
    """Raises InputError where a field's value is smaller."""
    for field in fields:
      value = getattr(self, field)
      if value < least:
        raise self.error(f'{field}={value}; expected at least {least}')

  def error(self, text: str) -> core.InputError:
    """An InputError about the model's fields."""
    return core.InputError(f'{self.name}: {text}')
