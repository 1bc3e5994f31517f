"""What a world gives: sequences, and prefixes of states."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from wm.core.basics import hash64


@dataclasses.dataclass(frozen=True)
class Sequences:
  """Token sequences of one world.

  Attributes:
    tokens: [N, L] int32, padded with PAD.
    lengths: [N] int32, tokens in use of each row.
    side: named arrays [N, ...] that go with the rows.
    counts: what was dropped or resolved while sampling, cause -> count.
    distinct: no sequence is there twice, by the way that it was sampled.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  side: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
  counts: dict[str, int] = dataclasses.field(default_factory=dict)
  distinct: bool = False

  def __len__(self) -> int:
    return len(self.lengths)

  def hashes(self) -> np.ndarray:
    """[N] uint64 of whole sequences, the same whatever they are padded to."""
    mixed = hash64(self.lengths)
    for k, column in enumerate(self.tokens.T):
      rows = np.flatnonzero(k < self.lengths)
      mixed[rows] = hash64(mixed[rows], column[rows])
    return mixed

  def take(self, rows: np.ndarray) -> Sequences:
    """The given rows (index or boolean array), side data included."""
    side = {name: array[rows] for name, array in self.side.items()}
    return dataclasses.replace(
      self, tokens=self.tokens[rows], lengths=self.lengths[rows], side=side
    )


class Prefixes(NamedTuple):
  """Prefixes that reach given states.

  Attributes:
    tokens: [T, L] int32, padded with PAD.
    lengths: [T] int32.
    ok: [T] bool, False where no such prefix was found.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  ok: np.ndarray
