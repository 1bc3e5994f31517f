"""Legal moves in compiled code, as sets of target squares by source square.

Pins and checks are found first, so that every set is exact and nothing has
to be tried and taken back; only en passant is, as it moves three pieces.
"""

from __future__ import annotations

from wm.kernels.base.bits_numba import lowest, popcount, shr
from wm.kernels.base.jit import njit
from wm.kernels.chess import position_words as w
from wm.kernels.chess import tables
from wm.kernels.chess.attacks_numba import (
  attacked,
  attackers,
  between,
  bishop,
  line,
  rook,
)

LAST_RANKS = ~0x00FFFFFFFFFFFF00
_THIRD, _SIXTH = 0xFF << 16, 0xFF << 40
_KNIGHT, _KING, _PAWN = tables.KNIGHT, tables.KING, tables.PAWN
_EP_KEYS = tables.EP_KEYS


@njit
def ep_sources(p) -> int:
  """Pawns that may legally capture en passant."""
  if not p[w.EP]:
    return 0
  side = p[w.SIDE]
  target = p[w.EP] - 1 + (16 if side else 40)
  us, them = p[w.PIECES + side], p[w.PIECES + 1 - side]
  taken = 1 << (target ^ 8)
  sources = _PAWN[1 - side, target] & p[w.PAWNS] & us
  if not sources or not taken & p[w.PAWNS] & them or shr(us | them, target) & 1:
    return 0
  # Two pawns leave the capturer's rank at once, so pins do not tell: each
  # capture is made on the board and the king looked at.
  king = lowest(p[w.KINGS] & us)
  found, rest = 0, sources
  while rest:
    source = rest & -rest
    rest ^= source
    occupied = (us | them) ^ source ^ taken | 1 << target
    if not attackers(p, king, 1 - side, occupied) & ~taken:
      found |= source
  return found


@njit
def full_key(p) -> int:
  """Zobrist key; en passant counts only where it can be played."""
  return p[w.KEY] ^ _EP_KEYS[p[w.EP]] if ep_sources(p) else p[w.KEY]


@njit
def in_check(p) -> bool:
  """Is the side to move in check?"""
  side = p[w.SIDE]
  king = lowest(p[w.KINGS] & p[w.PIECES + side])
  return attackers(p, king, 1 - side, p[w.PIECES] | p[w.PIECES + 1]) != 0


@njit
def _pinned(p, king, us, them):
  """Own pieces that stand alone between the king and a slider of theirs."""
  # Sliders that would see the king if none of its own pieces were there.
  slants = bishop(king, them) & (p[w.BISHOPS] | p[w.QUEENS])
  rest = (rook(king, them) & (p[w.ROOKS] | p[w.QUEENS]) | slants) & them
  pinned = 0
  while rest:
    shield = between(king, lowest(rest)) & us
    rest &= rest - 1
    if shield & (shield - 1) == 0:  # One piece at most, or none.
      pinned |= shield
  return pinned


@njit
def _castlings(p, side, occupied, danger):
  """Targets of the king's castlings."""
  rights = p[w.RIGHTS] >> 2 * side
  if not rights & 3:
    return 0
  shift = 56 * side
  # Both sides' home rank as rank 1: e f g h are 0x10 0x20 0x40 0x80.
  occupied, danger = shr(occupied, shift), shr(danger, shift)
  found = 0
  if rights & 1 and not occupied & 0x60 and not danger & 0x70:
    found = 0x40
  if rights & 2 and not occupied & 0x0E and not danger & 0x1C:
    found |= 0x04
  return found << shift


@njit
def _pawn_pushes(pawn, side, free):
  """Targets of a pawn (one bit) straight ahead."""
  # What reaches the third rank (sixth for black) in one step came from home.
  if side == 0:
    one = pawn << 8 & free
    return one | (one & _THIRD) << 8 & free
  one = shr(pawn, 8) & free
  return one | shr(one & _SIXTH, 8) & free


@njit
def fill_targets(p, targets) -> int:
  """Sets targets[s] for each own piece's square s; gives the number of moves.

  Entries of other squares are left as they are. A pawn on the last rank is
  four moves.
  """
  side = p[w.SIDE]
  us, them = p[w.PIECES + side], p[w.PIECES + 1 - side]
  occupied = us | them
  own_king = p[w.KINGS] & us
  king = lowest(own_king)
  # The king is lifted off: it may not step back along a slider's line.
  danger = attacked(p, 1 - side, occupied ^ own_king)
  # Where others may go: in check, onto the checker or in between; in double
  # check, nowhere.
  allowed = ~us
  if danger & own_king:
    checkers = attackers(p, king, 1 - side, occupied)
    allowed = between(king, lowest(checkers)) | checkers
    if checkers & (checkers - 1):
      allowed = 0
  pinned = _pinned(p, king, us, them)
  targets[king] = _KING[king] & ~us & ~danger
  targets[king] |= _castlings(p, side, occupied, danger)
  count = popcount(targets[king])
  takers = ep_sources(p)
  rest = us ^ own_king
  while rest:
    source = lowest(rest)
    piece = rest & -rest
    rest ^= piece
    if piece & p[w.PAWNS]:
      found = _PAWN[side, source] & them | _pawn_pushes(piece, side, ~occupied)
    elif piece & p[w.KNIGHTS]:
      found = _KNIGHT[source]
    else:
      found = 0
      if piece & (p[w.BISHOPS] | p[w.QUEENS]):
        found = bishop(source, occupied)
      if piece & (p[w.ROOKS] | p[w.QUEENS]):
        found |= rook(source, occupied)
    found &= allowed
    if piece & pinned:  # It may move along the pin alone.
      found &= line(king, source)
    if piece & p[w.PAWNS]:
      if piece & takers:
        found |= 1 << (p[w.EP] - 1 + (16 if side else 40))
      # Four promotions each, of which one is counted below.
      count += 3 * popcount(found & LAST_RANKS)
    count += popcount(found)
    targets[source] = found
  return count


@njit
def list_moves(p, targets, moves) -> int:
  """Writes legal packed moves in ascending order; gives their number."""
  fill_targets(p, targets)
  count = 0
  rest = p[w.PIECES + p[w.SIDE]]
  while rest:
    source = lowest(rest)
    last = LAST_RANKS if rest & -rest & p[w.PAWNS] else 0
    rest &= rest - 1
    goals = targets[source]
    # From the lowest source, target and promotion up: packed ids ascend.
    while goals:
      packed = (source << 6 | lowest(goals)) * 5
      promotes = goals & -goals & last
      goals &= goals - 1
      if promotes:
        for promo in range(1, 5):
          moves[count + promo - 1] = packed + promo
        count += 4
      else:
        moves[count] = packed
        count += 1
  return count


@njit
def is_legal(p, targets, move) -> bool:
  """Is a packed move, any integer, among the filled targets?"""
  if move < 0 or move >= 64 * 64 * 5:
    return False
  promo, pair = move % 5, move // 5
  source, target = pair >> 6, pair & 63
  piece = 1 << source
  if (
    not piece & p[w.PIECES + p[w.SIDE]] or not shr(targets[source], target) & 1
  ):
    return False
  # A pawn on the last rank must promote, and nothing else may.
  promotes = piece & p[w.PAWNS] and 1 << target & LAST_RANKS
  return (promo > 0) == (promotes != 0)


@njit
def nth_move(p, targets, index) -> int:
  """Packed move number `index` in ascending order, of filled targets."""
  rest = p[w.PIECES + p[w.SIDE]]
  while rest:
    source = lowest(rest)
    last = LAST_RANKS if rest & -rest & p[w.PAWNS] else 0
    rest &= rest - 1
    goals = targets[source]
    count = popcount(goals) + 3 * popcount(goals & last)
    if index >= count:  # Not of this piece: none of its moves is listed.
      index -= count
      continue
    while goals:
      # Of one pawn either every move promotes or none.
      packed = (source << 6 | lowest(goals)) * 5
      goals &= goals - 1
      if last and last & 1 << (packed // 5 & 63):
        if index < 4:
          return packed + 1 + index
        index -= 4
      else:
        if index == 0:
          return packed
        index -= 1
  return -1
