"""A family's spec: fields, their checks, and the predictors that it gives.

A family of networks is one file: a `Model` (a `NetworkModel`: fields and
`build`) and a `Network` (a Flax NNX module, see `nn.network`).
"""

from __future__ import annotations

from typing import Any, ClassVar

from wm import core
from wm.models.nn import network
from wm.models.serving import networks

LARGEST = 2**31 - 1  # An array's index, and what sums of sizes may be.
OBJECTS = 20_000  # Bytes of a layer's modules and of its part of a program.


class NetworkModel(core.Trainable):
  """A family's spec; subclasses are frozen dataclasses."""

  gives: ClassVar[tuple[type, ...]] = (
    networks.NetworkPredictor,
    networks.StateNamer,
  )

  def predictor(
    self, world: core.World, seed: int
  ) -> networks.NetworkPredictor:
    """A predictor with random weights."""
    self.check_world(world)
    spec = network.NetworkSpec(self, len(world.vocab), world.max_len)
    params = network.init(spec, seed)
    return networks.NetworkPredictor(
      self, params, len(world.vocab), world.end, world.max_len
    )

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded: its weights, which a world's tokens decide.

    Without a world, a dense map and the objects of each layer, at least, of a
    family that has these fields.
    """
    sizes = {k: x for k, x in vars(self).items() if k in ('layers', 'width')}
    layers, width = sizes.get('layers', 1), sizes.get('width', 1)
    # A lower bound: enough to refuse sizes that no machine has.
    memory = layers * (4 * width**2 + OBJECTS)
    if world is not None:
      spec = network.NetworkSpec(self, len(world.vocab), world.max_len)
      memory = 4 * spec.num_params
    return core.Cost(memory, 0, tuple(sizes))

  # Checks of fields, for `__post_init__`.

  def __post_init__(self) -> None:
    """Raises InputError for sizes that no array has."""
    for field, value in vars(self).items():
      # Checked first: products of such sizes overflow in what checks them.
      if isinstance(value, int) and value > LARGEST:
        raise self.error(f'{field}={value}; expected at most {LARGEST}')
    super().__post_init__()

  def choose(self, field: str, choices: tuple[Any, ...]) -> None:
    """Raises InputError unless the field's value is one of the choices."""
    value = getattr(self, field)
    if value not in choices:
      listed = ', '.join(map(str, choices))
      raise self.error(f'{field}={value!r}; available: {listed}')

  def at_least(self, least: int, *fields: str) -> None:
    """Raises InputError where a field's value is smaller."""
    for field in fields:
      value = getattr(self, field)
      if value < least:
        raise self.error(f'{field}={value}; expected at least {least}')

  def below_one(self, *fields: str) -> None:
    """Raises InputError where a rate is not within [0, 1)."""
    for field in fields:
      value = getattr(self, field)
      if not 0 <= value < 1:
        raise self.error(f'{field}={value}; expected 0 <= {field} < 1')

  def error(self, text: str) -> core.InputError:
    """An InputError about the model's fields."""
    return core.InputError(f'{self.name}: {text}')
