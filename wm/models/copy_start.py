"""A baseline of states: the world stays as the prompt leaves it."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from wm import core
from wm.models.serving import oracles


@dataclasses.dataclass(frozen=True)
class Model(core.Model):
  """Names the state after the prompt (without one, the first) for ever.

  Within the prompt it names the true states. Of next tokens it knows none.
  """

  version: ClassVar[str] = '1'
  needs: ClassVar[tuple[core.Need, ...]] = (core.Labelled,)
  gives: ClassVar[tuple[type, ...]] = (oracles.Reader,)

  def predictor(self, world: core.World, seed: int) -> core.Predictor:
    """See core.Model; raises InputError where the world has no labels."""
    del seed
    if not isinstance(world, core.Labelled):
      raise core.InputError(f'{world.name} gives its states no labels')

    def read(tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
      """[B, L, K] labels, see oracles.Reader."""
      head = min(world.prompt_len, tokens.shape[1])
      known = np.minimum(lengths, head)
      labels = world.sequence_labels(tokens[:, :head], known)
      last = labels[:, -1:]
      if not head:
        last = world.labels(world.init(len(tokens)))[:, None]
      rest = np.repeat(last, tokens.shape[1] - head, axis=1)
      return np.concatenate([labels, rest], axis=1)

    return oracles.Reader(world, read)
