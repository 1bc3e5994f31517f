"""Random play: each token is uniform over the legal ones, until it is over."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.core import registry


class UniformPlay(core.Generative):
  """A world whose samples are random play, to `max_len` or until it is over."""

  def played_otherwise(self) -> str:
    """Why its samples are not random play; '' where they are."""
    return ''

  def process(
    self, split: str = 'all', distinct: bool = False, replan: bool = False
  ) -> core.Process:
    """See core.Generative; random play goes on from any state alike."""
    del replan
    why = self.played_otherwise()
    if split != 'all' or distinct:
      why = (
        f'process(split={split!r}, distinct={distinct}): a hash of a whole '
        "sequence is its split, and sequences may repeat; available: 'all', "
        'distinct=False'
      )
    if why:
      raise core.InputError(f'{registry.spec(self)}: {why}')
    return Play(self)


class Play(core.Process):
  """Random play; the memory is a state of the world and the tokens so far."""

  def __init__(self, world: core.World) -> None:
    """world: whose legal tokens are played."""
    self._world = world

  def init(self, batch: int) -> np.ndarray:
    """See core.Process."""
    none = np.zeros((batch, 1), np.int32)
    return np.concatenate([self._world.init(batch), none], axis=1)

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.Process."""
    states = self._world.advance(
      np.ascontiguousarray(memory[:, :-1]), tokens.astype(np.int32)
    )
    return np.concatenate([states, memory[:, -1:] + 1], axis=1)

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.Process: nothing after `max_len` tokens."""
    legal = self._world.legal(np.ascontiguousarray(memory[:, :-1]))
    legal = legal & (memory[:, -1:] < self._world.max_len)
    count = legal.sum(1)
    rows, token = np.nonzero(legal)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    tokens = np.full((len(legal), int(count.max(initial=0))), core.DEAD)
    tokens[rows, place] = token
    share = -np.log(np.maximum(count, 1))[:, None]
    log_probs = np.where(tokens != core.DEAD, share, -np.inf)
    return tokens.astype(np.int32), log_probs
