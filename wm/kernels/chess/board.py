"""The board of compiled code: attacks, and making a move.

Squares are a1 = 0, b1 = 1, ..., h8 = 63; a set of squares is an int64 with
those bits. Piece codes are 0..12 for `.PNBRQKpnbrqk`, sides 0 white, 1 black,
castling rights bits 0..3 for K, Q, k, q.

In compiled code a position is an int64 array of WIDTH words; `layout` explains
the words of a state row. Every change of a board goes through `flip`, so that
its four forms (kinds, colours, codes, Zobrist key) stay consistent.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from wm.core import basics
from wm.kernels.base.bits import leading, lowest, popcount, shr
from wm.kernels.base.jit import njit

# Words of a position; a set of squares is a word with their bits.
#
#   0..5    squares of the pieces of each kind, both colours
#   6, 7    squares of the pieces of white and of black
#   8..11   codes of all squares: 64 nibbles in the order of squares
#   12..18  what is not on the board
PAWNS, KNIGHTS, BISHOPS, ROOKS, QUEENS, KINGS = range(6)
PIECES = 6  # + side
CODES = 8  # .. 11
SIDE, RIGHTS, EP, HALF, FULL = range(12, 17)  # EP: raw file + 1, 0 none
KEY = 17  # Zobrist key without en passant
KNOWN = 18  # number of known moves before the position
WIDTH = 19
_SALT = 0x636865737321
_KNIGHT_STEPS = (
  (1, 2),
  (2, 1),
  (2, -1),
  (1, -2),
  (-1, -2),
  (-2, -1),
  (-2, 1),
  (-1, 2),
)
_KING_STEPS = (
  (1, 0),
  (1, 1),
  (0, 1),
  (-1, 1),
  (-1, 0),
  (-1, -1),
  (0, -1),
  (1, -1),
)
# Steps (file, rank) along each kind of line, towards higher squares.
_LINES = ((1, 0), (0, 1), (1, 1), (-1, 1))


def _ray(square: int, step: tuple[int, int], most: int) -> Iterator[int]:
  """Squares met from one by up to `most` steps (file, rank) on the board."""
  file, rank = square % 8, square // 8
  for _ in range(most):
    file, rank = file + step[0], rank + step[1]
    if not (0 <= file < 8 and 0 <= rank < 8):
      return
    yield 8 * rank + file


def _sets(steps: tuple[tuple[int, int], ...], most: int = 1) -> np.ndarray:
  """[64] int64: squares reached from each by any of `steps`."""
  sets = [
    sum(1 << s for step in steps for s in _ray(square, step, most))
    for square in range(64)
  ]
  return np.array(sets, np.uint64).view(np.int64)


def _keep() -> np.ndarray:
  """[64] int64: rights left when a move leaves or enters each square."""
  keep = np.full(64, 15)
  for square, lost in ((0, 2), (4, 3), (7, 1), (56, 8), (60, 12), (63, 4)):
    keep[square] = 15 - lost
  return keep


def _zobrist(topic: int, size: int) -> np.ndarray:
  return basics.hash64(_SALT, topic, np.arange(size)).view(np.int64)


KNIGHT_ATTACKS = _sets(_KNIGHT_STEPS)  # [64]
KING_ATTACKS = _sets(_KING_STEPS)  # [64]
PAWN_ATTACKS = np.stack(  # [2, 64] what a pawn of each side attacks
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
NOT_A = ~0x0101010101010101
NOT_H = 0x7F7F7F7F7F7F7F7F
_LINE = UPPER | LOWER


@njit
def _along(line, square, occupied):
  """Squares that a slider attacks on one line, up to and including blockers.

  Let u be the lowest bit of `upper` and d the highest of `lower` (1 if none).
  2 u - d sets the bits of all squares between, and u and d. The mask of the
  line removes d = 1 if that is off the line, and the slider's own square.
  """
  lower = LOWER[line, square] & occupied
  upper = UPPER[line, square] & occupied
  below = 1 << (63 - leading(lower | 1))
  return (2 * (upper & -upper) - below) & _LINE[line, square]


@njit
def rook(square, occupied) -> int:
  """Squares a rook attacks."""
  return _along(0, square, occupied) | _along(1, square, occupied)


@njit
def bishop(square, occupied) -> int:
  """Squares a bishop attacks."""
  return _along(2, square, occupied) | _along(3, square, occupied)


@njit
def line(first, second) -> int:
  """The line through both squares without the first; 0 if there is none."""
  for k in range(4):  # Rank, file and both diagonals.
    if shr(_LINE[k, first], second) & 1:
      return _LINE[k, first]
  return 0


@njit
def between(first, second) -> int:
  """Squares strictly between two squares of one line, else 0."""
  low, high = min(first, second), max(first, second)
  # Bits low + 1..high - 1.
  return line(first, second) & ((1 << high) - (2 << low))


@njit
def reach(kind, square, occupied) -> int:
  """Squares that a knight, bishop, rook, queen or king (2..6) attacks."""
  if kind == 2:
    return KNIGHT_ATTACKS[square]
  if kind == 6:
    return KING_ATTACKS[square]
  squares = bishop(square, occupied) if kind != 4 else 0
  return squares | rook(square, occupied) if kind != 3 else squares


@njit
def attackers(p, square, side, occupied) -> int:
  """Pieces of `side` that attack a square, given the occupied squares."""
  # A piece attacks a square if a piece of its kind on that square would attack
  # it; for pawns, a pawn of the other side.
  lines = rook(square, occupied) & (p[ROOKS] | p[QUEENS])
  slants = bishop(square, occupied) & (p[BISHOPS] | p[QUEENS])
  leaps = KNIGHT_ATTACKS[square] & p[KNIGHTS] | KING_ATTACKS[square] & p[KINGS]
  pawns = PAWN_ATTACKS[1 - side, square] & p[PAWNS]
  return (lines | slants | leaps | pawns) & p[PIECES + side]


@njit
def attacked(p, side, occupied) -> int:
  """All squares that the pieces of `side` attack."""
  pieces = p[PIECES + side]
  pawns = p[PAWNS] & pieces
  # All pawns at once; the outer files would wrap around the board's edge.
  if side == 0:
    squares = (pawns & NOT_A) << 7 | (pawns & NOT_H) << 9
  else:
    squares = shr(pawns & NOT_A, 9) | shr(pawns & NOT_H, 7)
  rest = p[KNIGHTS] & pieces
  while rest:
    squares |= KNIGHT_ATTACKS[lowest(rest)]
    rest &= rest - 1
  rest = (p[BISHOPS] | p[QUEENS]) & pieces
  while rest:
    squares |= bishop(lowest(rest), occupied)
    rest &= rest - 1
  rest = (p[ROOKS] | p[QUEENS]) & pieces
  while rest:
    squares |= rook(lowest(rest), occupied)
    rest &= rest - 1
  return squares | KING_ATTACKS[lowest(p[KINGS] & pieces)]


MOST = 2**16 - 1  # limit of the counters
BEFORE = -2  # value of KNOWN before the start token
_WORD = 2**32 - 1


@njit
def code_at(p, square) -> int:
  """Piece code 0..12 on a square."""
  return shr(p[CODES + (square >> 4)], (square & 15) << 2) & 15


@njit
def flip(p, code, square) -> None:
  """Puts a piece on an empty square, or removes the piece from its square."""
  bit = 1 << square
  black = code > 6
  p[code - 7 if black else code - 1] ^= bit
  p[PIECES + black] ^= bit
  p[CODES + (square >> 4)] ^= code << ((square & 15) << 2)
  p[KEY] ^= PIECE_KEYS[code, square]


@njit
def _rights(p, flags):
  """Castling rights of a state row whose king and rook are at home."""
  rights = 0
  for right in range(4):
    black = 6 * (right >> 1)
    # Rights are K Q k q: even ones castle with the rook on file h.
    king, rook = 60 if black else 4, (56 if black else 0) + 7 * (1 - right % 2)
    if code_at(p, king) == 6 + black and code_at(p, rook) == 4 + black:
      rights |= flags & 1 << right
  return rights


@njit
def load(row, p) -> bool:
  """Fills position p from a state row; returns False for a row without board.

  Such rows are dead rows, the state before the start token, rows with unknown
  codes or without exactly one king per side, and rows whose side to move could
  capture the king.
  """
  if row[8] < 0 or row[10] == BEFORE:
    return False
  p[:] = 0
  for square in range(64):
    code = (row[square >> 3] >> ((square & 7) << 2)) & 15
    if code > 12:
      return False
    if code:
      flip(p, code, square)
  p[SIDE] = row[8] & 1
  p[RIGHTS] = _rights(p, (row[8] >> 1) & 15)
  p[EP] = min((row[8] >> 5) & 15, 8)
  p[HALF] = row[9] & MOST
  p[FULL] = (row[9] >> 16) & MOST
  p[KNOWN] = row[10]
  p[KEY] ^= RIGHTS_KEYS[p[RIGHTS]]
  if p[SIDE]:
    p[KEY] ^= SIDE_KEY
  white, black = p[KINGS] & p[PIECES], p[KINGS] & p[PIECES + 1]
  if popcount(white) != 1 or popcount(black) != 1:
    return False
  # The side that has just moved may not have left its king in check.
  idle = lowest(white if p[SIDE] else black)
  return attackers(p, idle, p[SIDE], p[PIECES] | p[PIECES + 1]) == 0


@njit
def store(p, row) -> None:
  """Writes position p as a state row."""
  for k in range(4):
    row[2 * k] = p[CODES + k] & _WORD
    row[2 * k + 1] = shr(p[CODES + k], 32)
  row[8] = p[SIDE] | p[RIGHTS] << 1 | p[EP] << 5
  row[9] = p[HALF] | p[FULL] << 16
  row[10] = p[KNOWN]


@njit
def _castle(p, source, target):
  """Moves the rook to the other side of a king that moved two files."""
  # King's side: the rook is one file beyond the king's target; queen's: two.
  code = 10 if p[SIDE] else 4
  flip(p, code, target + 1 if target > source else target - 2)
  flip(p, code, (source + target) >> 1)


@njit
def make(p, move) -> bool:
  """Makes a legal packed move; returns True for captures and pawn moves."""
  promo, pair = move % 5, move // 5
  source, target = pair >> 6, pair & 63
  code, taken, side = code_at(p, source), code_at(p, target), p[SIDE]
  base = 6 * side  # code of a piece = base + its kind 1..6
  pawn = code == base + 1
  flip(p, code, source)
  if taken:
    flip(p, taken, target)
  elif pawn and (source ^ target) & 7:
    # En passant: a pawn moves to an empty square of another file. The captured
    # pawn is one rank back, on the square whose number differs in bit 3.
    flip(p, 7 - base, target ^ 8)
  flip(p, base + 6 - promo if promo else code, target)
  if code == base + 6 and abs(target - source) == 2:
    _castle(p, source, target)
  # A king or rook that leaves home loses rights, as does a captured rook.
  rights = p[RIGHTS] & KEEP[source] & KEEP[target]
  p[KEY] ^= RIGHTS_KEYS[p[RIGHTS]] ^ RIGHTS_KEYS[rights] ^ SIDE_KEY
  p[RIGHTS] = rights
  # Set after every double push, whether or not a pawn can capture.
  p[EP] = (source & 7) + 1 if pawn and source ^ target == 16 else 0
  zeroing = pawn or taken != 0
  p[HALF] = 0 if zeroing else min(p[HALF] + 1, MOST)
  p[FULL] = min(p[FULL] + side, MOST)
  p[SIDE] = 1 - side
  if p[KNOWN] >= 0:  # Otherwise the history stays unknown.
    p[KNOWN] += 1
  return zeroing
