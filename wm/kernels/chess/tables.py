"""Small constant tables of the chess kernels.

Squares are a1 = 0, b1 = 1, ..., h8 = 63; a set of squares is an int64 with
those bits. Piece codes are 0..12 for `.PNBRQKpnbrqk`, sides 0 white, 1 black,
castling rights bits 0..3 for K, Q, k, q.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wm import core

_SALT = 0x636865737321
_KNIGHT = (
  (1, 2),
  (2, 1),
  (2, -1),
  (1, -2),
  (-1, -2),
  (-2, -1),
  (-2, 1),
  (-1, 2),
)
_KING = ((1, 0), (1, 1), (0, 1), (-1, 1), (-1, 0), (-1, -1), (0, -1), (1, -1))
# Steps (file, rank) along each kind of line, towards higher squares.
_LINES = ((1, 0), (0, 1), (1, 1), (-1, 1))


def ray(square: int, step: tuple[int, int], most: int) -> Iterator[int]:
  """Squares met from one by up to `most` steps (file, rank) on the board."""
  file, rank = square % 8, square // 8
  for _ in range(most):
    file, rank = file + step[0], rank + step[1]
    if not (0 <= file < 8 and 0 <= rank < 8):
      return
    yield 8 * rank + file


def _sets(steps: tuple[tuple[int, int], ...], most: int = 1) -> np.ndarray:
  """[64] int64: squares reached from each by any of `steps`."""
  found = [
    sum(1 << s for step in steps for s in ray(square, step, most))
    for square in range(64)
  ]
  return np.array(found, np.uint64).view(np.int64)


def _keep() -> np.ndarray:
  """[64] int64: rights left when a move leaves or enters each square."""
  keep = np.full(64, 15)
  for square, lost in ((0, 2), (4, 3), (7, 1), (56, 8), (60, 12), (63, 4)):
    keep[square] = 15 - lost
  return keep


def _zobrist(topic: int, size: int) -> np.ndarray:
  return core.hash64(_SALT, topic, np.arange(size)).view(np.int64)


KNIGHT = _sets(_KNIGHT)  # [64]
KING = _sets(_KING)  # [64]
PAWN = np.stack(  # [2, 64] what a pawn of each side attacks
  [_sets(((-1, 1), (1, 1))), _sets(((-1, -1), (1, -1)))]
)
# [4, 64] the line through a square by rank, file, diagonal, antidiagonal:
# its squares above and those below.
UPPER = np.stack([_sets((step,), 7) for step in _LINES])
LOWER = np.stack([_sets(((-x, -y),), 7) for x, y in _LINES])
KEEP = _keep()  # [64]

PIECE_KEYS = _zobrist(0, 13 * 64).reshape(13, 64).copy()  # by code, square
PIECE_KEYS[0] = 0
EP_KEYS = _zobrist(1, 9)  # by file + 1
EP_KEYS[0] = 0
RIGHTS_KEYS = _zobrist(2, 16)  # by set of rights
SIDE_KEY = int(_zobrist(3, 1)[0])
