"""Look-ups from few labels: baselines of what adapts to new tasks."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from wm import core
from wm.models.serving import lookups, oracles


class LookUp(oracles.Uniform, lookups.LooksUp):
  """Adapts by look-up; of next tokens it knows none."""

  def __init__(self, world: core.World, by: str, learned: bool, seed: int):
    """by, learned: see `lookups.LooksUp`; seed: of coins, with the call's."""
    super().__init__(len(world.vocab), world.end, world.max_len)
    self.world, self.by, self.learned, self.seed = world, by, learned, seed

  def coins(self, seed: int) -> int:
    """Of both seeds."""
    return int(core.hash64(self.seed, seed) >> np.uint64(2))


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Answers new tasks by a table of its few labels; a baseline.

  By state it is what an ideal model of the world makes of the same labels; by
  what is legal, what the next token's rule alone would (Vafa et al. 2025).

  Attributes:
    by: what shares an answer: 'state', 'legal' next tokens, the 'last_token',
      the whole 'prefix', or 'nothing', all points.
    learned: from the labels, the commonest class; False is a coin for each
      (by='prefix' then tosses one for each point, by='nothing' is constant).
  """

  version: ClassVar[str] = '1'
  gives: ClassVar[tuple[type, ...]] = (LookUp,)

  by: str = 'state'
  learned: bool = True

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.by not in lookups.KEYS:
      raise core.InputError(
        f'lookup: by={self.by!r} was given; available: '
        + ', '.join(lookups.KEYS)
      )

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model."""
    return LookUp(world, self.by, self.learned, seed)
