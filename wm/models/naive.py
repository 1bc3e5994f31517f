"""A baseline of states: tokens are taken at their word, without the rules."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import registry
from wm.models.serving import oracles


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Names states by the world's `naive_labels`: what is easy in a world.

  In chess a man goes from one square to the other, and the castled rook, the
  pawn taken in passing, promotion and rights are left out. Of next tokens it
  knows none.
  """

  version: ClassVar[str] = '1'
  gives: ClassVar[tuple[type, ...]] = (oracles.Reader,)

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; raises InputError where the world has no such reading."""
    del seed
    none = np.zeros((0, 1), np.int32), np.zeros(0, np.int32)
    if world.naive_labels(*none) is None:
      raise core.InputError(
        f'{registry.spec(world)} has no reading of tokens without rules '
        "(`naive_labels`); available: 'copy_start()'"
      )
    return oracles.Reader(world, world.naive_labels)
