"""Labels of Othello: edits of them, and a reading without the rules."""

from __future__ import annotations

import numpy as np

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
  known = (side >= 0) & (side < kernels.OVER)
  turns = (old > 0) & np.isin(value, (1, 2))
  known &= np.where(disc, turns, np.isin(value, (0, 1)))
  # Squares of this board, counted row by row, as bits of the 8x8 grid.
  row, column = np.divmod(np.minimum(label, squares - 1), size)
  low = 4 - size // 2
  bit = np.asarray(8 * (low + row) + low + column, np.uint64)
  turned = (known & disc & (old != value)).astype(np.uint64) << bit
  side = np.where(known & ~disc, value, side).astype(side.dtype)
  return black ^ turned, white ^ turned, side, known


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
