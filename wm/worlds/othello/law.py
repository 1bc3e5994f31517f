"""How games of a policy are distributed, a move at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wm import core
from wm.worlds.base import uniform_play

Chances = Callable[[np.ndarray], tuple[np.ndarray, float, float]]


class Players(uniform_play.Play):
  """Games of a policy with noise; the memory is a state of the world.

  A move is uniform over all legal ones with the probability of the noise, and
  else over those that the policy favours.
  """

  def __init__(
    self, world: core.World, squares: np.ndarray, chances: Chances, replan: bool
  ) -> None:
    """Takes the players.

    world: whose policy it is.
    squares: [n] bit of each token but padding.
    chances: of states, see `wm.kernels.othello.chances`.
    replan: does a game go on from positions that the players never reach?
    """
    super().__init__(world)
    self._bits = np.append(0, squares).astype(np.uint64)
    self._chances, self._replan = chances, replan

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess; nothing follows a move that is never played."""
    after = super().advance(memory, tokens)
    if not self._replan:
      moves, log_probs = self.next(memory)
      played = (moves == tokens[:, None]) & np.isfinite(log_probs)
      after[~played.any(1)] = core.DEAD
    return after

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess."""
    tokens, log_probs = super().next(memory)
    legal = tokens != core.DEAD
    favoured, drawn, noisy = self._chances(memory)
    chosen = (favoured[:, None] >> self._bits[np.where(legal, tokens, 0)]) & 1
    chosen = legal & chosen.astype(bool)
    share = chosen / np.maximum(chosen.sum(1, keepdims=True), 1)
    odds = noisy * np.exp(log_probs) + drawn * share
    with np.errstate(divide='ignore'):
      return np.where(odds > 0, tokens, core.DEAD), np.log(odds)
