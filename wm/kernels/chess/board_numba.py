"""Positions in compiled code: from and to state rows, and making a move.

The layout of a position is in `position_words`, that of a state row in
`layout`. Every change of a board goes through `flip`, so that all four forms
of it (kinds, colours, codes, Zobrist key) stay equal.
"""

from __future__ import annotations

from wm.kernels.base.bits_numba import lowest, popcount, shr
from wm.kernels.base.jit import njit
from wm.kernels.chess import position_words as w
from wm.kernels.chess import tables
from wm.kernels.chess.attacks_numba import attackers

MOST = 2**16 - 1  # where the counters stop
BEFORE = -2  # `known` of the state before the start token

_KEEP = tables.KEEP
_PIECE_KEYS, _RIGHTS_KEYS = tables.PIECE_KEYS, tables.RIGHTS_KEYS
_SIDE_KEY = tables.SIDE_KEY
_WORD = 2**32 - 1


@njit
def code_at(p, square) -> int:
  """Piece code 0..12 on a square."""
  return shr(p[w.CODES + (square >> 4)], (square & 15) << 2) & 15


@njit
def flip(p, code, square) -> None:
  """Puts a piece on an empty square, or takes that piece away from it."""
  bit = 1 << square
  black = code > 6
  p[code - 7 if black else code - 1] ^= bit
  p[w.PIECES + black] ^= bit
  p[w.CODES + (square >> 4)] ^= code << ((square & 15) << 2)
  p[w.KEY] ^= _PIECE_KEYS[code, square]


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
  p[w.SIDE] = row[8] & 1
  p[w.RIGHTS] = _rights(p, (row[8] >> 1) & 15)
  p[w.EP] = min((row[8] >> 5) & 15, 8)
  p[w.HALF] = row[9] & MOST
  p[w.FULL] = (row[9] >> 16) & MOST
  p[w.KNOWN] = row[10]
  p[w.KEY] ^= _RIGHTS_KEYS[p[w.RIGHTS]]
  if p[w.SIDE]:
    p[w.KEY] ^= _SIDE_KEY
  white, black = p[w.KINGS] & p[w.PIECES], p[w.KINGS] & p[w.PIECES + 1]
  if popcount(white) != 1 or popcount(black) != 1:
    return False
  # The side that has just moved may not have left its king in check.
  idle = lowest(white if p[w.SIDE] else black)
  return attackers(p, idle, p[w.SIDE], p[w.PIECES] | p[w.PIECES + 1]) == 0


@njit
def store(p, row) -> None:
  """Writes position p as a state row."""
  for k in range(4):
    row[2 * k] = p[w.CODES + k] & _WORD
    row[2 * k + 1] = shr(p[w.CODES + k], 32)
  row[8] = p[w.SIDE] | p[w.RIGHTS] << 1 | p[w.EP] << 5
  row[9] = p[w.HALF] | p[w.FULL] << 16
  row[10] = p[w.KNOWN]


@njit
def _castle(p, source, target):
  """Brings the rook to the other side of a king that moved two files."""
  # King's side: the rook is one file beyond the king's target; queen's: two.
  code = 10 if p[w.SIDE] else 4
  flip(p, code, target + 1 if target > source else target - 2)
  flip(p, code, (source + target) >> 1)


@njit
def make(p, move) -> bool:
  """Makes a legal packed move; True where it took or moved a pawn."""
  promo, pair = move % 5, move // 5
  source, target = pair >> 6, pair & 63
  code, taken, side = code_at(p, source), code_at(p, target), p[w.SIDE]
  own = 6 * side  # code of a piece = own + its kind 1..6
  pawn = code == own + 1
  flip(p, code, source)
  if taken:
    flip(p, taken, target)
  elif pawn and (source ^ target) & 7:
    # En passant: a pawn goes to another file and takes nothing there. What it
    # takes stands one rank back, on the square whose number differs by bit 3.
    flip(p, 7 - own, target ^ 8)
  flip(p, own + 6 - promo if promo else code, target)
  if code == own + 6 and abs(target - source) == 2:
    _castle(p, source, target)
  # A king or rook that leaves home loses rights, and so does a rook taken.
  rights = p[w.RIGHTS] & _KEEP[source] & _KEEP[target]
  p[w.KEY] ^= _RIGHTS_KEYS[p[w.RIGHTS]] ^ _RIGHTS_KEYS[rights] ^ _SIDE_KEY
  p[w.RIGHTS] = rights
  # Set after every double push, whether or not a pawn can capture.
  p[w.EP] = (source & 7) + 1 if pawn and source ^ target == 16 else 0
  zeroing = pawn or taken != 0
  p[w.HALF] = 0 if zeroing else min(p[w.HALF] + 1, MOST)
  p[w.FULL] = min(p[w.FULL] + side, MOST)
  p[w.SIDE] = 1 - side
  if p[w.KNOWN] >= 0:  # Else the history is unknown and stays so.
    p[w.KNOWN] += 1
  return zeroing
