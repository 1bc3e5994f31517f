"""A baseline of states: tokens are taken at their word, without the rules."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm import core
from wm.core import registry
from wm.models.serving import oracles


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Names states by the naive reading of the tokens: what is easy in a world.

  In chess a man goes from one square to the other, and the castled rook, the
  pawn taken in passing, promotion and rights are left out. Of next tokens it
  knows none.
  """

  version: ClassVar[str] = '1'
  needs: ClassVar[tuple[core.Need, ...]] = (core.Labelled.surface_labels,)
  gives: ClassVar[tuple[type, ...]] = (oracles.Reader,)

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; raises InputError where the world has no such reading."""
    del seed
    if not core.can(world, core.Labelled.surface_labels):
      raise core.InputError(
        f'{registry.spec(world)} has no reading of tokens without rules '
        "(core.Labelled.surface_labels); available: 'copy_start()'"
      )
    read = world.surface_labels
    return oracles.Reader(world, read)
