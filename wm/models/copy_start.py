"""A baseline of states: the state after the prompt never changes."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from wm import core
from wm.models.serving import oracles


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Predicts the state after the prompt for all later tokens.

  Without a prompt, it predicts the first state. Within the prompt it predicts
  the true states. Next tokens are uniform.
  """

  needs: ClassVar[tuple[core.Need, ...]] = (core.Labelled,)
  gives: ClassVar[tuple[type, ...]] = (oracles.StateReader,)

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; raises InputError where the world has no labels."""
    del seed
    if not isinstance(world, core.Labelled):
      raise core.InputError(f'{world.name} gives its states no labels')

    def read(tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
      """[B, L, K] labels, see oracles.StateReader."""
      # labels [B, L, K]: true within the prompt, then the last ones repeated
      head = min(world.prompt_len, tokens.shape[1])
      shown = np.minimum(lengths, head)
      labels = world.sequence_labels(tokens[:, :head], shown)
      last = labels[:, -1:]
      # Without a prompt, the first state is repeated.
      if not head:
        last = world.labels(world.init(len(tokens)))[:, None]
      rest = np.repeat(last, tokens.shape[1] - head, axis=1)
      return np.concatenate([labels, rest], axis=1)

    return oracles.StateReader(world, read)
