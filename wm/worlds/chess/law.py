"""How games of a policy are distributed, a move at a time."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.kernels import chess as kernels
from wm.worlds.base import uniform_play


class Players(uniform_play.Play):
  """Games of a policy; the memory is a state of the world.

  Every legal move has a weight above 0, so that nothing is off its support.
  """

  def __init__(self, world: core.World, policy: str) -> None:
    """policy: as kernels have it, not the uniform one."""
    super().__init__(world)
    self._policy = policy

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess."""
    tokens, log_probs = super().next(memory)
    # Tokens and packed moves are in one order.
    moves, shares = kernels.chances(memory, self._policy)
    played = moves[:, 0] >= 0
    with np.errstate(divide='ignore'):
      log_probs[played] = np.log(shares[played, : tokens.shape[1]])
    return tokens, log_probs
