"""What a world gives: sequences, prefixes, and the table behind it."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np


@dataclasses.dataclass(frozen=True)
class Sequences:
  """Token sequences of one world.

  Attributes:
    tokens: [N, L] int32, padded with PAD.
    lengths: [N] int32, tokens in use of each row.
    side: named arrays [N, ...] that go with the rows.
    counts: what was dropped or resolved while sampling, cause -> count.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  side: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
  counts: dict[str, int] = dataclasses.field(default_factory=dict)

  def __len__(self) -> int:
    return len(self.lengths)

  def take(self, rows: np.ndarray) -> Sequences:
    """The given rows (index or boolean array), side data included."""
    side = {name: array[rows] for name, array in self.side.items()}
    return Sequences(self.tokens[rows], self.lengths[rows], side, self.counts)


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


class Automaton(NamedTuple):
  """A finite table that compiled kernels run on.

  A state is (row, goal): labels move the row; the world's end token is legal
  exactly where row == goal. A world without such goals uses goal = -2; its end
  token, if it has one, is then among the labels.

  Attributes:
    delta: [S, A] int32, next row, or DEAD.
    tokens: [A] int32, token id of each label, ascending.
    turns: [S, A] int, the labels of each row in the order in which the
      published program takes them, DEAD padded; None is ascending.
    known: [S] bool, rows that this order has an entry for; None is those with
      any label.
  """

  delta: np.ndarray
  tokens: np.ndarray
  turns: np.ndarray | None = None
  known: np.ndarray | None = None
