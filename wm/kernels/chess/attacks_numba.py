"""Who attacks what: compiled helpers over sets of squares (int64)."""

from __future__ import annotations

from wm.kernels.base.bits_numba import leading, lowest, shr
from wm.kernels.base.jit import njit
from wm.kernels.chess import position_words as w
from wm.kernels.chess import tables

NOT_A = ~0x0101010101010101
NOT_H = 0x7F7F7F7F7F7F7F7F

_UPPER, _LOWER = tables.UPPER, tables.LOWER
_LINE = tables.UPPER | tables.LOWER
_KNIGHT, _KING, _PAWN = tables.KNIGHT, tables.KING, tables.PAWN


@njit
def _along(line, square, occupied):
  """Squares a slider sees on one line: the nearest piece each way, inclusive.

  With u the lowest bit of `upper` and d the highest of `lower` (1 if none),
  2 u - d borrows through all squares between: they are set, u and d too. The
  line's mask takes away d = 1 where it is off the line, and the own square.
  """
  lower = _LOWER[line, square] & occupied
  upper = _UPPER[line, square] & occupied
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
  """Squares in line with both, the first left out; 0 if they share none."""
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
    return _KNIGHT[square]
  if kind == 6:
    return _KING[square]
  found = bishop(square, occupied) if kind != 4 else 0
  return found | rook(square, occupied) if kind != 3 else found


@njit
def attackers(p, square, side, occupied) -> int:
  """Pieces of `side` that attack a square, given what stands in the way."""
  # A piece attacks a square if one of its kind would attack it from there; of
  # pawns, one of the other side.
  lines = rook(square, occupied) & (p[w.ROOKS] | p[w.QUEENS])
  slants = bishop(square, occupied) & (p[w.BISHOPS] | p[w.QUEENS])
  leaps = _KNIGHT[square] & p[w.KNIGHTS] | _KING[square] & p[w.KINGS]
  pawns = _PAWN[1 - side, square] & p[w.PAWNS]
  return (lines | slants | leaps | pawns) & p[w.PIECES + side]


@njit
def attacked(p, side, occupied) -> int:
  """All squares that the pieces of `side` attack."""
  pieces = p[w.PIECES + side]
  pawns = p[w.PAWNS] & pieces
  # All pawns at once; the outer files would wrap around the board's edge.
  if side == 0:
    found = (pawns & NOT_A) << 7 | (pawns & NOT_H) << 9
  else:
    found = shr(pawns & NOT_A, 9) | shr(pawns & NOT_H, 7)
  rest = p[w.KNIGHTS] & pieces
  while rest:
    found |= _KNIGHT[lowest(rest)]
    rest &= rest - 1
  rest = (p[w.BISHOPS] | p[w.QUEENS]) & pieces
  while rest:
    found |= bishop(lowest(rest), occupied)
    rest &= rest - 1
  rest = (p[w.ROOKS] | p[w.QUEENS]) & pieces
  while rest:
    found |= rook(lowest(rest), occupied)
    rest &= rest - 1
  return found | _KING[lowest(p[w.KINGS] & pieces)]
