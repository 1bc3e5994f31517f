"""A frog on a row of stones.

Copied into wm/worlds it is the world `frog`; from here it runs as it is:

  python launch/score.py --world='launch/examples/frog.py:World(stones=4)' \\
    --model='uniform()' --metric='compression(trials=50)' --out=runs/frog

A finite table is all there is to write. Any other world gives the functions of
`core.World` itself.
"""

import dataclasses
import functools

import numpy as np

from wm.worlds.base import table


@dataclasses.dataclass(frozen=True)
class World(table.TableWorld):
  """A state is a stone; sequences start at stone 0. -1 means illegal.

  Attributes:
    stones: how many there are.
  """

  version = '1'
  vocab = ('<pad>', 'back', 'hop', 'leap')
  max_len = 40

  stones: int = 6

  @functools.cached_property
  def delta(self) -> np.ndarray:
    """[S, 3] int32, the stone that each token leads to."""
    stone = np.arange(self.stones, dtype=np.int32)[:, None]
    after = stone + np.array([-1, 1, 2], np.int32)
    return np.where(after < self.stones, after, -1)
