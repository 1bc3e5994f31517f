"""Labels of Othello: edits of them, and a reading without the rules.

Functions of a board: whose discs are more, and where; boards of labels.

Tasks of Vafa et al. 2025 (section 8 of what their program does): each as the
paper has it, and, where it differs, as the program computes it, which takes the
stored 0, 1, 2 for empty, black, white, while they are white, empty, black.
"""

from __future__ import annotations

import abc

import numpy as np

from wm import core
from wm.kernels import othello as kernels

Position = tuple[np.ndarray, np.ndarray, np.ndarray]


def edited(
  position: Position, labels: np.ndarray, label: np.ndarray, value: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Positions [B] with a disc turned, or with the given side to move.

  Args:
    position: black and white [B] uint64, side [B]; 0 black moves, 1 white.
    labels: [B, K] of these: squares row by row, 0 empty, 1 black, 2 white;
      then the side.
    label, value: [B] what is changed, and to what.

  Returns:
    black, white, side: as given.
    known: [B] bool, there is such a position; others are as they were, or
      are of no meaning.
  """
  black, white, side = position
  rows, squares = np.arange(len(side)), labels.shape[1] - 1
  size, old, disc = int(squares**0.5), labels[rows, label], label < squares
  possible = (side >= 0) & (side < kernels.OVER)
  turns = (old > 0) & np.isin(value, (1, 2))
  possible &= np.where(disc, turns, np.isin(value, (0, 1)))
  # Squares of this board, counted row by row, as bits of the 8x8 grid.
  row, column = np.divmod(np.minimum(label, squares - 1), size)
  low = 4 - size // 2
  bit = np.asarray(8 * (low + row) + low + column, np.uint64)
  turned = (possible & disc & (old != value)).astype(np.uint64) << bit
  side = np.where(possible & ~disc, value, side).astype(side.dtype)
  return black ^ turned, white ^ turned, side, possible


def as_put(
  tokens: np.ndarray, lengths: np.ndarray, first: np.ndarray, places: np.ndarray
) -> np.ndarray:
  """[N, L, K] uint8: sides take turns, and discs stay as they are put.

  Args:
    tokens: [N, L] int32, of lengths [N].
    first: [K] labels before the first.
    places: label of the square of each token.
  """
  num, longest = tokens.shape
  now = np.tile(first, (num, 1))
  inside = (tokens > 0) & (tokens < len(places))
  place = places[np.where(inside, tokens, 0)]
  labels = np.zeros((num, longest, now.shape[1]), np.uint8)
  rows = np.arange(num)
  for ply in range(longest):
    rows = rows[(ply < np.asarray(lengths)[rows]) & inside[rows, ply]]
    now[rows, place[rows, ply]] = 1 + ply % 2
    now[rows, -1] = (ply + 1) % 2
    labels[rows, ply] = now[rows]
  return labels


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

    values = {
      'parity': num(black) % 2,
      'majority': num(black) > num(white),
      'balance': num(black, upper) > num(black, ~upper),
      'edges': num(black, edge) > num(white, edge),
      'parity_published': num(white) % 2,
      'balance_published': num(white, upper) > num(white, ~upper),
      'edges_published': num(white, edge) > num(empty, edge),
    }
    return {name: value.astype(np.int64) for name, value in values.items()}
