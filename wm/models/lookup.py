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
    """by, learned: see `Model`; seed: of coins, with the seed of the call."""
    super().__init__(len(world.vocab), world.end, world.max_len)
    self.world, self.by, self.learned, self.seed = world, by, learned, seed

  def keys(self, tokens: np.ndarray, places: np.ndarray) -> np.ndarray:
    """See few_shot.KeyTable."""
    return oracles.keys(self.world, self.by, tokens, places)

  def coins(self, seed: int) -> int:
    """A seed from the model's seed and the call's seed."""
    # 62 bits: a seed is a positive int64.
    return int(basics.hash64(self.seed, seed) >> np.uint64(2))


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Answers new tasks by a look-up table of their few labels; a baseline.

  by='state' generalises like an ideal model of the world. by='legal'
  generalises like a model of legal next tokens alone (Vafa et al. 2025).

  Attributes:
    by: key of the table; points with equal keys share an answer. The 'state',
      the 'legal' next tokens, the 'last_token', the whole 'prefix', or
      'nothing' (one key for all points).
    learned: True answers with the most common label of a key; False with a
      random class for each key.
  """

  gives: ClassVar[tuple[type, ...]] = (LookUp,)

  by: str = field('state', choices=oracles.KEYS)
  learned: bool = True

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model."""
    return LookUp(world, self.by, self.learned, seed)
