"""The uniform predictor: every token but padding equally likely."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm import core
from wm.models.serving import oracles


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Uniform over the world's vocabulary without padding."""

  gives: ClassVar[tuple[type, ...]] = (oracles.Uniform,)

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model."""
    del seed
    return oracles.Uniform(len(world.vocab), world.end, world.max_len)
