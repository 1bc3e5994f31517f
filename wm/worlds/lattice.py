"""A walk on a line of states with walls at both ends.

    0 -- 1 -- 2 -- 3 -- 4        left, stay, right; no step into a wall

The walk starts at 0, which is no token; each move is uniform over the legal
ones (the lattice of the inductive-bias probes, Vafa et al. 2025). Where it is
`clipped`, every move is legal, and one into a wall leaves the walk in place.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import numpy as np

from wm import core
from wm.worlds.base import svg, table

AROUND = 8  # States drawn on each side of the current one.

VOCAB = ('<pad>', 'left', 'stay', 'right')


@dataclasses.dataclass(frozen=True)
class World(table.TableWorld):
  """A line of states.

  Attributes:
    size: number of states, S.
    length: tokens in a sequence.
    clipped: a move into a wall is legal, and none; all states then have the
      same legal tokens.
  """

  version: ClassVar[str] = '1'

  size: int = 5
  length: int = 100
  clipped: bool = False

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
    """[S, 3] int32; raises InputError where memory does not hold it."""
    core.need_memory(28 * self.size, f'lattice(size={self.size})')
    row = np.arange(self.size, dtype=np.int32)
    delta = np.stack([row - 1, row, row + 1], axis=-1)
    if self.clipped:
      return delta.clip(0, self.size - 1)
    delta[delta == self.size] = core.DEAD
    return delta

  def render(self, state: np.ndarray) -> str:
    """The line around the current state, walls where they are in sight."""
    row = int(state[0])
    if row < 0:
      return svg.card(['dead'])
    first, last = max(row - AROUND, 0), min(row + AROUND, self.size - 1)
    gap, y = 44, 32
    left, right = 40, 40 + gap * (last - first)
    parts = [svg.line(left - 30, y, right + 30, y, svg.FAINT, 2)]
    for end, x in ((0, left - 30), (self.size - 1, right + 30)):
      if first <= end <= last:
        parts.append(svg.rect(x - 4, y - 18, 8, 36, svg.INK))
    for place in range(first, last + 1):
      x, here = left + gap * (place - first), place == row
      fill, ink = (svg.HERE, svg.PAPER) if here else (svg.PAPER, svg.INK)
      parts.append(svg.circle(x, y, 15, fill, f'stroke="{svg.FAINT}"'))
      parts.append(svg.label(x, y + 4, str(place), fill=ink, bold=here))
    legal = np.flatnonzero(self.delta[row] >= 0)
    note = 'legal: ' + ', '.join(VOCAB[label + 1] for label in legal)
    parts.append(svg.text(left - 30, y + 38, note, size=12))
    return svg.picture(max(right + 40, 160), y + 48, parts, f'at {row}')
