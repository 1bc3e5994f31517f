"""A walk on a line of states with walls at both ends.

    0 -- 1 -- 2 -- 3 -- 4        left, stay, right; no step into a wall

The walk starts at 0, which is no token; each move is uniform over the legal
ones (the lattice of the inductive-bias probes, Vafa et al. 2025).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import numpy as np

from wm import core
from wm.worlds import table

VOCAB = ('<pad>', 'left', 'stay', 'right')


@dataclasses.dataclass(frozen=True)
class World(table.TableWorld):
  """A line of states.

  Attributes:
    size: number of states, S.
    length: tokens in a sequence.
  """

  version: ClassVar[str] = '1'

  size: int = 5
  length: int = 100

  def __post_init__(self) -> None:
    if self.size < 2 or self.length < 2:
      raise core.InputError(
        f'lattice(size={self.size}, length={self.length}): expected at least '
        '2 states and 2 tokens'
      )

  @property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', 'left', 'stay', 'right'."""
    return VOCAB

  @property
  def max_len(self) -> int:
    """The length of every sequence."""
    return self.length

  @functools.cached_property
  def delta(self) -> np.ndarray:
    """[S, 3] int32."""
    row = np.arange(self.size, dtype=np.int32)
    delta = np.stack([row - 1, row, row + 1], axis=-1)
    delta[delta == self.size] = core.DEAD
    return delta
