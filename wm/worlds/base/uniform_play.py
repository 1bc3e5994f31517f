"""Random play: each token is uniform over the legal ones, until it is over."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.core import registry

SPLITS = 'all', 'train', 'heldout'


def check_split(split: str) -> None:
  """Raises InputError where there is no such split."""
  if split not in SPLITS:
    raise core.InputError(
      f'unknown split {split!r}; available: {", ".join(SPLITS)}'
    )


class UniformPlay(core.Generative):
  """A world whose samples are random play, to `max_len` or until it is over.

  One of other players, whose law is known, has it as `law`.
  """

  def law(self, replan: bool) -> core.SequenceProcess:
    """How its sequences are distributed; see core.Generative.process."""
    del replan  # Random play goes on from any state alike.
    return Play(self)

  def played_otherwise(self) -> str:
    """Why its samples are not random play; '' where they are."""
    return ''

  def data_distribution(
    self, split: str = 'all', distinct: bool = False, replan: bool = False
  ) -> core.SequenceProcess:
    """See core.Generative."""
    check_split(split)
    why = self.played_otherwise()
    if split != 'all' or distinct:
      why = (
        f'process(split={split!r}, distinct={distinct}): a hash of a whole '
        "sequence is its split, and sequences may repeat; available: 'all', "
        'distinct=False'
      )
    if why:
      raise core.InputError(f'{registry.spec(self)}: {why}')
    return self.law(replan)


class Play(core.SequenceProcess):
  """Random play; the memory is a state of the world.

  Samples are cut at `max_len` tokens, and the law goes on: what follows the
  last token is what is legal.
  """

  def __init__(self, world: core.World) -> None:
    """world: whose legal tokens are played."""
    self._world = world

  def init(self, batch: int) -> np.ndarray:
    """See core.SequenceProcess."""
    return self._world.init(batch)

  def advance(self, memory: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """See core.SequenceProcess."""
    return self._world.advance(memory, tokens.astype(np.int32))

  def next(self, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """See core.SequenceProcess."""
    legal = self._world.legal(memory)
    count = legal.sum(1)
    rows, token = np.nonzero(legal)
    place = np.arange(len(rows)) - np.repeat(np.cumsum(count) - count, count)
    tokens = np.full((len(legal), int(count.max(initial=0))), core.DEAD)
    tokens[rows, place] = token
    share = -np.log(np.maximum(count, 1))[:, None]
    log_probs = np.where(tokens != core.DEAD, share, -np.inf)
    return tokens.astype(np.int32), log_probs
