"""Where a world without an end token says that a continuation is over.

A game ends with a legal move and no token to say so; what a model would go on
with after that is not asked for. Continuations that were illegal are never
over: the world knows no state for them.
"""

from __future__ import annotations

import numpy as np

from wm import core


class Endings:
  """World states of continuations in flight.

  What it says of a continuation depends on its own tokens alone.
  """

  def __init__(self, world: core.World, start: np.ndarray) -> None:
    """start: [T, W] state that the continuations of each trial start from."""
    self.world, self.start = world, start
    self._now: dict[int, np.ndarray] = {}

  def follow(self, trials: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """[R, M] bool: is the world over after these tokens [R, M]?

    trials: [R], each once; DEAD among the tokens is for none.
    """
    if not len(trials):
      return np.zeros(tokens.shape, bool)
    fresh = (len(tokens[0]), self.start.shape[1])
    now = np.stack(
      [
        self._now.get(t, np.broadcast_to(self.start[t], fresh))
        for t in trials.tolist()
      ]
    )
    moved = tokens != core.DEAD
    after = self.world.advance(now[moved], tokens[moved])
    now[moved] = after
    self._now.update(zip(trials.tolist(), now, strict=True))
    over = np.zeros(tokens.shape, bool)
    over[moved] = self.world.over(after)
    return over

  def forget(self, trials: np.ndarray) -> None:
    """Frees what is kept of decided trials."""
    for trial in trials.tolist():
      self._now.pop(trial, None)


def of(world: core.World, start: np.ndarray) -> Endings | None:
  """Endings of continuations from states [T, W]; None: the end token tells."""
  return Endings(world, start) if world.end == core.DEAD else None
