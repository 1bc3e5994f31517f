"""A baseline of moving bodies: an orbit of two, fitted to the bins so far."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm import core
from wm.models.serving import tracks


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Extrapolates the orbit that is nearest to the bins so far.

  It assumes Kepler's law and a resting centre of mass, and nothing about how
  systems are drawn. The orbit is fitted to whole rows by least squares, anew
  after each row up to the 50th, then after every second, and so on; the y of a
  row is predicted without its x.

  A bin has the mass of a normal distribution around the orbit, whose variance
  follows from rounding to bins. While no orbit can be fitted (fewer than four
  frames were seen, or none goes through them) each body moves straight on, as
  in `ballistic`; before two frames it stays, and before one all bins are
  equally likely. Worlds with several planets are refused: their sun is pulled
  by all.

  Attributes:
    spread: standard deviation of a coordinate around where a straight line
      leads, bins.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Latent.trajectory,)
  gives: ClassVar[tuple[type, ...]] = (tracks.FittedTrack,)

  spread: float = 1.0

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; raises InputError where no planet and its sun are."""
    del seed
    return tracks.FittedTrack(world, self.spread)
