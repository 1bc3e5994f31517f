"""Look-up tables from few labels: baselines of models that adapt to tasks."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import basics
from wm.core.fields import field
from wm.models.serving import oracles


class LookUp(oracles.Uniform):
  """Adapts by a look-up table; next tokens are uniform."""

  def __init__(self, world: core.World, by: str, learned: bool, seed: int):
    """by, learned: see `Model`; seed: of coins, with the call's."""
    super().__init__(len(world.vocab), world.end, world.max_len)
    self.world, self.by, self.learned, self.seed = world, by, learned, seed

  def keys(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
    """See few_shot.KeyTable."""
    return oracles.keys(self.world, self.by, tokens, places)

  def coins(self, seed: int) -> int:
    """Depends on the model's seed and the call's."""
    # 62 bits: a seed is a positive int64.
    return int(basics.hash64(self.seed, seed) >> np.uint64(2))


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Answers new tasks by a table of its few labels; a baseline.

  By state it generalises as an ideal model of the world does, by legal tokens
  as a model that knows only which tokens may follow (Vafa et al. 2025).

  Attributes:
    by: points with the same key share an answer: 'state', 'legal' next tokens,
      the 'last_token', the whole 'prefix', or 'nothing', all points.
    learned: answer with the commonest class of a key's labels; False answers
      with a random class for each key (of each point for by='prefix', of all
      for by='nothing').
  """

  gives: ClassVar[tuple[type, ...]] = (LookUp,)

  by: str = field('state', choices=oracles.KEYS)
  learned: bool = True

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model."""
    return LookUp(world, self.by, self.learned, seed)
