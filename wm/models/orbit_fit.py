"""A baseline of moving bodies: an orbit of two, fitted to what was seen."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm import core
from wm.models.serving import fitted_tracks


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Goes on along the orbit that is nearest to the bins so far.

  Knows Kepler's law, that the centre of mass rests, and nothing of how systems
  are drawn. The orbit is fitted to whole rows by least squares, anew after each
  row up to the 50th, then after every second, and so on; so y does not know
  the x of its row.

  A bin has the mass of a normal distribution around the orbit, whose variance
  follows from rounding to bins. While no orbit can be fitted (fewer than four
  frames were seen, or none goes through them) each body goes straight on, as
  of `ballistic`; before there are two frames it stays, and before one all bins
  are alike. Of worlds with more than one planet it is not made: their sun is
  pulled by all.

  Attributes:
    spread: standard deviation of a coordinate around where a straight line
      leads, bins.
  """

  version: ClassVar[str] = '1'
  needs: ClassVar[tuple[core.Need, ...]] = (core.Latent.trajectory,)
  gives: ClassVar[tuple[type, ...]] = (fitted_tracks.FittedTrack,)

  spread: float = 1.0

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; raises InputError where no planet and its sun are."""
    del seed
    return fitted_tracks.FittedTrack(world, self.spread)
