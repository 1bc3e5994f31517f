"""A baseline of moving bodies: each goes straight on."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm import core
from wm.models.serving import tracks


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Each coordinate is near where the last two frames lead: no force is known.

  Attributes:
    spread: standard deviation of a coordinate around that, bins.
  """

  version: ClassVar[str] = '1'
  needs: ClassVar[tuple[type, ...]] = (core.Moving,)
  gives: ClassVar[tuple[type, ...]] = (tracks.Track,)

  spread: float = 1.0

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; raises InputError where the world shows no bodies."""
    del seed
    return tracks.Track(world, (2, -1), self.spread)
