"""A walk on a line of states with walls at both ends.

    0 -- 1 -- 2 -- 3 -- 4        left, stay, right; no step into a wall

The walk starts at 0, which is not a token; each move is uniform over the legal
ones (the lattice of the inductive-bias probes, Vafa et al. 2025).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import numpy as np

from wm import core
from wm.core import resources
from wm.core.fields import field
from wm.worlds.base import table, verbal

VOCAB = ('<pad>', 'left', 'stay', 'right')
TEXTS = verbal.Texts(__file__)


@dataclasses.dataclass(frozen=True)
class World(table.TableWorld, core.Verbal):
  """A line of states."""

  noun: ClassVar[str] = 'this line'

  size: int = field(5, 'number of states, S', least=2)
  length: int = field(100, 'moves in a sequence', least=2)

  def cost(self, world: core.World | None = None) -> core.Cost:
    """See core.Bounded; includes the table."""
    del world
    return resources.sequences_cost(
      self.length, 'size', 'length', more=28 * self.size
    )

  @property
  def vocab(self) -> tuple[str, ...]:
    """'<pad>', 'left', 'stay', 'right'."""
    return VOCAB

  @functools.cached_property
  def delta(self) -> np.ndarray:
    """[S, 3] int32."""
    row = np.arange(self.size, dtype=np.int32)
    delta = np.stack([row - 1, row, row + 1], axis=-1)
    delta[delta == self.size] = core.DEAD
    return delta

  # In words.

  def rules(self, style: core.PromptStyle) -> str:
    """See core.Verbal."""
    last = self.size - 1
    body = TEXTS.lines('line_walls', style, last=last)
    return TEXTS.render('line', size=self.size, last=last, body='\n'.join(body))

  def functions(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """'parity' of the state's number."""
    return {'parity': states[:, 0].astype(np.int64) % 2}
