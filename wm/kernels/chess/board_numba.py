"""Positions in compiled code: from and to state rows, and making a move.

The layout of a position is in `attacks_numba`, that of a state row in
`layout`. Every change of a board goes through `flip`, so that all four forms
of it (kinds, colours, codes, Zobrist key) stay equal.
"""

from __future__ import annotations

from wm.kernels.base.bits_numba import lowest, popcount, shr
from wm.kernels.base.jit import njit
from wm.kernels.chess import tables
from wm.kernels.chess.attacks_numba import (
  CODES,
  EP,
  FULL,
  HALF,
  KEY,
  KINGS,
  KNOWN,
  PIECES,
  RIGHTS,
  SIDE,
  attackers,
)

MOST = 2**16 - 1  # where the counters stop
BEFORE = -2  # `known` of the state before the start token

_KEEP = tables.KEEP
_PIECE_KEYS, _RIGHTS_KEYS = tables.PIECE_KEYS, tables.RIGHTS_KEYS
_SIDE_KEY = tables.SIDE_KEY
_WORD = 2**32 - 1


@njit
def code_at(p, square) -> int:
  """Piece code 0..12 on a square."""
  return shr(p[CODES + (square >> 4)], (square & 15) << 2) & 15


@njit
def flip(p, code, square) -> None:
  """Puts a piece on an empty square, or takes that piece away from it."""
  bit = 1 << square
  black = code > 6
  p[code - 7 if black else code - 1] ^= bit
  p[PIECES + black] ^= bit
  p[CODES + (square >> 4)] ^= code << ((square & 15) << 2)
  p[KEY] ^= _PIECE_KEYS[code, square]


@njit
def _rights(p, flags):
  """Rights of a state row whose king and rook are at home."""
  found = 0
  for right in range(4):
    black = 6 * (right >> 1)
    # Rights are K Q k q: even ones castle with the rook on file h.
    king, rook = 60 if black else 4, (56 if black else 0) + 7 * (1 - right % 2)
    if code_at(p, king) == 6 + black and code_at(p, rook) == 4 + black:
      found |= flags & 1 << right
  return found


@njit
def load(row, p) -> bool:
  """Fills position p from a state row; False where it has no board.

  That is a dead row, the state before the start token, unknown codes, other
  than one king a side, and a king that could be taken.
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
  p[KEY] ^= _RIGHTS_KEYS[p[RIGHTS]]
  if p[SIDE]:
    p[KEY] ^= _SIDE_KEY
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
  """Brings the rook to the other side of a king that moved two files."""
  code = 10 if p[SIDE] else 4
  flip(p, code, target + 1 if target > source else target - 2)
  flip(p, code, (source + target) >> 1)


@njit
def make(p, move) -> bool:
  """Makes a legal packed move; True where it took or moved a pawn."""
  promo, pair = move % 5, move // 5
  source, target = pair >> 6, pair & 63
  code, taken, side = code_at(p, source), code_at(p, target), p[SIDE]
  own = 6 * side  # code of a piece = own + its kind 1..6
  pawn = code == own + 1
  flip(p, code, source)
  if taken:
    flip(p, taken, target)
  elif pawn and (source ^ target) & 7:
    flip(p, 7 - own, target ^ 8)  # en passant
  flip(p, own + 6 - promo if promo else code, target)
  if code == own + 6 and abs(target - source) == 2:
    _castle(p, source, target)
  rights = p[RIGHTS] & _KEEP[source] & _KEEP[target]
  p[KEY] ^= _RIGHTS_KEYS[p[RIGHTS]] ^ _RIGHTS_KEYS[rights] ^ _SIDE_KEY
  p[RIGHTS] = rights
  # Set after every double push, whether or not a pawn can capture.
  p[EP] = (source & 7) + 1 if pawn and source ^ target == 16 else 0
  zeroing = pawn or taken != 0
  p[HALF] = 0 if zeroing else min(p[HALF] + 1, MOST)
  p[FULL] = min(p[FULL] + side, MOST)
  p[SIDE] = 1 - side
  if p[KNOWN] >= 0:
    p[KNOWN] += 1
  return zeroing
