"""What baselines of moving bodies share: all but where they guess a body."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm import core
from wm.models.serving import tracks


@dataclasses.dataclass(frozen=True)
class TrackModel(core.Model):
  """Each coordinate is near a weighted sum of those of the last frames.

  Attributes:
    weights: of the frame before and of the one before that, see `Track`.
    spread: standard deviation of a coordinate around the guess, bins.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Latent.trajectory,)
  gives: ClassVar[tuple[type, ...]] = (tracks.Track,)
  weights: ClassVar[tuple[int, ...]]

  spread: float = 1.0

  def predictor(self, world: core.World, seed: int) -> tracks.Track:
    """See core.Model; raises InputError where the world shows no bodies."""
    del seed
    return tracks.Track(world, self.weights, self.spread)
