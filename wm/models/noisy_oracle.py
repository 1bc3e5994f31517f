"""The world with errors of known size, a check of metrics."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from wm import core
from wm.core.fields import field
from wm.models.serving import oracles


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """An oracle that is wrong by a known amount; see oracles.NoisyOracle.

  Attributes:
    illegal: probability of one illegal token, in every state.
    wrong: share of states that are mistaken for another state.
    by: faults are a function of the 'state', or of the whole 'prefix'.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Prefixed,)
  gives: ClassVar[tuple[type, ...]] = (oracles.NoisyOracle,)

  illegal: float = field(0.0, least=0, most=1)
  wrong: float = field(0.1, least=0, most=1)
  by: str = field('state', choices=('state', 'prefix'))

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model."""
    # The model's seed draws the faults: the same ones in every session and
    # batch.
    return oracles.NoisyOracle(
      world, illegal=self.illegal, wrong=self.wrong, by=self.by, seed=seed
    )
