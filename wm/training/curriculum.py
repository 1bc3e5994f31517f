"""What a run is shown early on: fewer rows at a time, and shorter sequences.

    rows     first_batch, doubled at equal intervals over the first half of
             the run until it is the whole batch
    lengths  the first eighth of the longest sequence, doubled at equal
             intervals over a share of the run until it is all of it

Early steps need neither: their gradients agree over few rows, and what is
learned first depends on few tokens. Both come in doublings, since a step is
compiled for each shape. All is a pure function of the step, as batches are.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from wm.data import batches as batches_lib
from wm.options.training import Training

SHORTEST = 3  # Doublings from the shortest cut to the longest sequence.


@dataclasses.dataclass(frozen=True)
class Curriculum:
  """The batches of a run by step.

  Attributes:
    batches: whole ones, by step; early steps share them.
    training: the run's options.
    max_len: columns past it hold padding only, and are cut.
    prompt_len: tokens that sequences begin with; no cut leaves only these.
  """

  batches: batches_lib.Batches
  training: Training
  max_len: int
  prompt_len: int

  @property
  def doublings(self) -> int:
    """How often the rows double."""
    first = self.training.first_batch or self.training.batch
    return (self.training.batch // first).bit_length() - 1

  def part(self, step: int) -> tuple[int, int, int]:
    """Which whole batch a step takes rows of: number, first row and stride.

    A phase in which d steps share a whole batch is as long as any other, but
    for the last.
    """
    doublings = self.doublings
    long = self.training.steps // (2 * doublings) if doublings else 0
    number = 0
    for left in range(doublings, 0, -1):
      parts = 1 << left
      if step < long:
        return number + step // parts, step % parts, parts
      number, step = number + -(-long // parts), step - long
    return number + step, 0, 1

  def longest(self, step: int) -> int:
    """Tokens of a sequence that a step is shown at most."""
    growing = int(self.training.curriculum * self.training.steps)
    if step >= growing:
      return self.max_len
    left = SHORTEST - SHORTEST * step // growing
    cut = -(-self.max_len // (1 << left))
    return min(max(cut, self.prompt_len + 1, 2), self.max_len)

  def at(self, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Tokens [B, L] int32 and lengths [B] int32 of a step."""
    number, first, stride = self.part(step)
    tokens, lengths = self.batches.at(number)
    tokens, lengths = tokens[first::stride], lengths[first::stride]
    longest = self.longest(step)
    return tokens[:, :longest], np.minimum(lengths, longest)
