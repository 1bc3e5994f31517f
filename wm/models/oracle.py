"""The world itself as a predictor, which must score perfectly."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm import core
from wm.models.serving import oracles, process


class BeliefOracle(oracles.Oracle, process.BeliefReader):
  """For worlds with a hidden state: activations are the belief about it."""

  def __init__(self, world: core.World, law: core.SequenceProcess) -> None:
    """law: a process with the method `belief`."""
    # The oracle predicts next tokens; only `BeliefReader` uses the law.
    super().__init__(world)
    self.law = law


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Uniform over the legal tokens of the true state."""

  gives: ClassVar[tuple[type, ...]] = (oracles.Oracle, BeliefOracle)

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model."""
    del seed
    # A hidden state can be probed only where its posterior can be computed.
    if isinstance(world, core.Latent) and isinstance(world, core.Generative):
      law = world.data_distribution()
      if core.can(law, core.SequenceProcess.belief):
        return BeliefOracle(world, law)
    return oracles.Oracle(world)
