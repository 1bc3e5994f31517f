"""A particle filter over the hidden states of a world.

With many particles, no predictor that sees only tokens is better: its scores
are the ceiling of other models.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm import core
from wm.core import resources
from wm.models.bayes import Bayes


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Predicts by particles (hidden states) that agree with all tokens so far.

  A token that is far from all particles is ignored. Moves of particles depend
  on the tokens and the seed, not on the batch.

  Attributes:
    particles: particles per prefix, an even number; each takes 64 bytes.
    sweeps: moves of each particle whenever few particles agree with the tokens.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Latent.forecast,)
  gives: ClassVar[tuple[type, ...]] = (Bayes,)

  particles: int = 256
  sweeps: int = 6

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded: a microsecond per move of a particle."""
    del world
    # AT_ONCE prefixes are followed at a time.
    moves = resources.AT_ONCE * self.particles * self.sweeps
    memory = resources.AT_ONCE * 64 * self.particles
    return core.Cost(memory, 1e-6 * moves, ('particles', 'sweeps'))

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; raises InputError where the world has no filter."""
    if not core.can(world, core.Latent.forecast):
      raise core.InputError(
        f'particle_filter: {world.name} does not say what follows from hidden '
        "states (core.Latent.forecast); available: 'oracle()'"
      )
    return Bayes(world, world.posterior(self.particles, self.sweeps, seed))
