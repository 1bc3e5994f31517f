"""A baseline of states: reads them from tokens without the rules."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm import core
from wm.core import registry
from wm.models.serving import oracles


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Predicts states from the surface of the tokens, without the rules.

  In chess a piece moves from one square to another; the castling rook, pawns
  captured en passant, promotion and castling rights are ignored. Next tokens
  are uniform.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Labelled.surface_labels,)
  gives: ClassVar[tuple[type, ...]] = (oracles.StateReader,)

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; raises InputError where the world has no such reading."""
    del seed
    # Scoring checks `needs`; a direct call gets the same message here.
    if not core.can(world, core.Labelled.surface_labels):
      raise core.InputError(
        f'{registry.spec(world)} has no reading of tokens without rules '
        "(core.Labelled.surface_labels); available: 'copy_start()'"
      )
    # (tokens [B, L], lengths [B]) -> labels [B, L, K], as `StateReader` calls
    # it.
    read = world.surface_labels
    return oracles.StateReader(world, read)
