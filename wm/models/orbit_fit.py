"""A baseline for moving bodies: a two-body orbit fitted to the bins so far."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm import core
from wm.models.serving import tracks


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Extrapolates the orbit that best fits the bins so far.

  The fit assumes Kepler's law and a resting centre of mass, and nothing about
  the distribution of systems. Least squares fits the orbit to whole rows, again
  after each row up to the 50th, then after every second row, and so on. The y
  of a row is predicted without its x.

  A bin has the mass of a normal distribution around the orbit, whose variance
  follows from rounding to bins. Without a fitted orbit (after fewer than four
  frames, or where no orbit fits) each body moves on in a straight line, as in
  `ballistic`; after one frame it stays; before the first frame all bins are
  equally likely. Worlds with several planets are refused, since all planets
  pull the sun.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Latent.trajectory,)
  gives: ClassVar[tuple[type, ...]] = (tracks.FittedTrack,)

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; raises InputError unless there are one planet and sun."""
    del seed
    return tracks.FittedTrack(world)
