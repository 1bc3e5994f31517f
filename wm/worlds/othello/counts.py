"""Functions of a board: whose discs are more, and where; boards of labels.

Tasks of Vafa et al. 2025 (section 8 of what their program does): each as the
paper has it, and, where it differs, as the program computes it, which takes the
stored 0, 1, 2 for empty, black, white, while they are white, empty, black.
"""

from __future__ import annotations

import abc

import numpy as np

from wm import core

EMPTY, BLACK, WHITE = 0, 1, 2


class Counted(core.Labelled):
  """The part of Othello that counts discs, and sets them up.

  Attributes:
    size: squares a side.
  """

  size: int

  @abc.abstractmethod
  def rows(
    self, black: np.ndarray, white: np.ndarray, side: np.ndarray
  ) -> np.ndarray:
    """[B, W] states of bits of the 8 x 8 grid and sides, without history."""

  def from_labels(self, labels: np.ndarray) -> np.ndarray:
    """See core.Labelled.from_labels: any discs, and any side to move."""
    low = 4 - self.size // 2
    discs = labels[:, :-1].reshape(-1, self.size, self.size)
    inside = slice(low, low + self.size)

    def board(disc: int) -> np.ndarray:
      grid = np.zeros((len(labels), 8, 8), np.uint8)
      grid[:, inside, inside] = discs == disc
      packed = np.packbits(grid.reshape(-1, 64), axis=-1, bitorder='little')
      return packed.view(np.uint64)[:, 0]

    side = labels[:, -1].astype(np.int8)
    return self.rows(board(BLACK), board(WHITE), side)

  def functions(self, states: np.ndarray) -> dict[str, np.ndarray]:
    """Parity of black discs; are black ones more: at all, above, at the edge?

    'parity', 'majority', 'balance' (the upper half against the lower one) and
    'edges'. As published: of white discs the parity and the balance; at the
    edge, are white ones more than empty squares?
    """
    board = self.labels(states)[:, :-1].reshape(-1, self.size, self.size)
    black, white, empty = (board == disc for disc in (BLACK, WHITE, EMPTY))
    edge = np.ones((self.size, self.size), bool)
    edge[1:-1, 1:-1] = False
    upper = np.arange(self.size)[:, None] < self.size // 2
    everywhere = np.ones_like(edge)

    def num(discs: np.ndarray, part: np.ndarray = everywhere) -> np.ndarray:
      return (discs & part).sum((1, 2))

    found = {
      'parity': num(black) % 2,
      'majority': num(black) > num(white),
      'balance': num(black, upper) > num(black, ~upper),
      'edges': num(black, edge) > num(white, edge),
      'parity_published': num(white) % 2,
      'balance_published': num(white, upper) > num(white, ~upper),
      'edges_published': num(white, edge) > num(empty, edge),
    }
    return {name: value.astype(np.int64) for name, value in found.items()}
