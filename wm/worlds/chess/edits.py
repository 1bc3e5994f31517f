"""Chess positions in which another piece, or none, is on one square."""

from __future__ import annotations

import numpy as np

from wm.kernels import chess as kernels

PAWNS = 8  # Of a side, promoted or not.
# Squares of one colour, as labels go.
LIGHT = (np.arange(64) // 8 + np.arange(64) % 8) % 2 == 0
FLAGS = 8  # Word of side, rights and en-passant file.
# Squares of king and rook for the rights K, Q, k and q, bits 1..4 of FLAGS.
HOMES = ((4, 7), (4, 0), (60, 63), (60, 56))


def edited(
  positions: np.ndarray, label: np.ndarray, value: np.ndarray, ep: str
) -> tuple[np.ndarray, np.ndarray]:
  """Positions [B, 11] with pieces 0..12 put on squares.

  Args:
    positions: rows of the chess kernels, each with a board.
    label: [B] label of a square, 0 is a8; others are left as they are.
    value: [B] the piece, 0 is none.
    ep: convention of the en-passant labels, which stay as they are.

  Returns:
    positions: [B, 11] int32.
    known: [B] bool: a king a side, the one that is not to move out of check; no
      pawn on the first or last rank, no more pieces than pawns are gone for;
      castling and en passant stay possible.
  """
  known = (label < 64) & (value >= 0) & (value <= 12)
  square = np.where(known, label, 0) ^ 56  # a1 is 0.
  piece = np.where(known, value, 0).astype(np.uint32)
  rows, word = np.arange(len(label)), square // 8
  shift = (4 * (square % 8)).astype(np.uint32)
  after = np.array(positions, np.int32)
  held = after[rows, word].view(np.uint32) & ~(np.uint32(15) << shift)
  after[rows, word] = (held | piece << shift).view(np.int32)
  labels = kernels.labels(after, ep)
  wanted = kernels.labels(positions, ep)
  wanted[rows[known], label[known]] = value[known]
  known &= (labels == wanted).all(-1)
  board, flags = labels[:, :64], after[:, FLAGS]
  for first in (1, 7):  # Pawn, ..., king of a side.
    pawns, knights, bishops, rooks, queens, kings = (
      board == first + kind for kind in range(6)
    )
    promoted = sum(
      np.maximum(men.sum(-1) - least, 0)
      for men, least in (
        (knights, 2),
        (bishops & LIGHT, 1),
        (bishops & ~LIGHT, 1),
        (rooks, 2),
        (queens, 1),
      )
    )
    known &= pawns.sum(-1) + promoted <= PAWNS
    known &= ~(pawns[:, :8] | pawns[:, 56:]).any(-1)
    known &= kings.sum(-1) == 1
  for right, (king, rook) in enumerate(HOMES):
    touched = (square == king) | (square == rook)
    known &= ~(touched & (flags >> (right + 1) & 1 > 0))
  # The pawn of a double push, and the two squares that it came over.
  push = np.where(flags & 1, square // 8 - 1, square // 8 - 4)
  known &= ~((flags >> 5 == square % 8 + 1) & (push >= 0) & (push < 3))
  other = after.copy()
  other[:, FLAGS] ^= 1
  return after, known & ~kernels.in_check(other)
