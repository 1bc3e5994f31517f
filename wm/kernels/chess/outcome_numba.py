"""When a game of chess is over, in compiled code.

The order and the meaning of the tests are those by which Walker and Lyons
2026 end random games: a draw that could be claimed ends the game, also where
the claim rests on a move that is only announced.
"""

from __future__ import annotations

from wm.kernels.base.bits_numba import lowest, popcount
from wm.kernels.base.jit import njit
from wm.kernels.chess import position_words as w
from wm.kernels.chess import tables
from wm.kernels.chess.board_numba import code_at, make
from wm.kernels.chess.movegen_numba import fill_targets, full_key, in_check

# Indices into layout.OUTCOMES.
NONE, MATE, DEAD_MATERIAL, STALEMATE, SEVENTY_FIVE, FIVEFOLD = range(6)
FIFTY, THREEFOLD = 6, 7
# What ends a game: no legal move; what an arbiter sees; claims too.
MOVES, AUTOMATIC, CLAIMS = range(3)

# `memory` of the positions since the last capture or pawn move: the ply of
# the first, how many keys of even and of odd plies came twice, and how often
# the position at hand was there.
SINCE, TWICE, SEEN = 0, 1, 3
MEMORY = 4

_DARK = ~0x55AA55AA55AA55AA
_KEEP, _PIECE_KEYS = tables.KEEP, tables.PIECE_KEYS
_SIDE_KEY = tables.SIDE_KEY


@njit
def _cannot_win(p, side):
  """Is no mate by `side` possible, by what stands on the board?"""
  own = p[w.PIECES + side]
  # A pawn, rook or queen can always mate, if the other side helps.
  if own & (p[w.PAWNS] | p[w.ROOKS] | p[w.QUEENS]):
    return False
  if own & p[w.KNIGHTS]:
    # A lone knight needs a piece of theirs, not a queen, beside their king.
    blockers = p[w.PIECES + 1 - side] & ~(p[w.KINGS] | p[w.QUEENS])
    return popcount(own) <= 2 and blockers == 0
  bishops = p[w.BISHOPS]
  if own & bishops:
    # Bishops of one colour of squares never attack the other colour.
    dark = bishops & _DARK
    return (dark == 0 or dark == bishops) and not p[w.PAWNS] | p[w.KNIGHTS]
  return True


@njit
def remember(p, ply, past, twice, memory) -> None:
  """Enters the position after `ply` moves into past [plies] and twice [2, n].

  `memory[SINCE]` says where the window of comparable positions starts.
  """
  key = full_key(p)
  past[ply] = key
  # The same side moves in every second position, and two plies cannot bring
  # one back: the first that may be equal is four plies ago.
  seen = 1
  for earlier in range(ply - 4, memory[SINCE] - 1, -2):
    seen += past[earlier] == key
  memory[SEEN] = seen
  if seen == 2:
    parity = ply & 1
    twice[parity, memory[TWICE + parity]] = key
    memory[TWICE + parity] += 1


@njit
def forget(ply, memory) -> None:
  """After a capture or a pawn's move nothing earlier can come again."""
  memory[SINCE] = ply
  memory[TWICE] = memory[TWICE + 1] = 0


@njit
def _leads_to(p, targets, keys, num):
  """Does a legal move give a position with one of keys[:num]?

  Such a move takes nothing, is no pawn's and leaves the rights as they are.
  """
  side = p[w.SIDE]
  rest = p[w.PIECES + side] & ~p[w.PAWNS]
  while rest:
    source = lowest(rest)
    rest &= rest - 1
    if p[w.RIGHTS] & ~_KEEP[source]:
      continue  # It gives up a right: no such position was there before.
    # The key after a quiet move, without making it.
    code = code_at(p, source)
    base = p[w.KEY] ^ _SIDE_KEY ^ _PIECE_KEYS[code, source]
    goals = targets[source] & ~p[w.PIECES + 1 - side]
    while goals:
      key = base ^ _PIECE_KEYS[code, lowest(goals)]
      goals &= goals - 1
      for k in range(num):
        if keys[k] == key:
          return True
  return False


@njit
def _claims_fifty(p, targets, after, after_targets):
  """May the side to move claim by the fifty-move rule, with a move or now?"""
  if p[w.HALF] != 99:
    return p[w.HALF] >= 100
  side = p[w.SIDE]
  rest = p[w.PIECES + side] & ~p[w.PAWNS]
  while rest:
    source = lowest(rest)
    rest &= rest - 1
    goals = targets[source] & ~p[w.PIECES + 1 - side]
    while goals:
      after[:] = p
      make(after, (source << 6 | lowest(goals)) * 5)
      goals &= goals - 1
      # No claim where the move mates or stalemates: the game is over then.
      if fill_targets(after, after_targets):
        return True
  return False


@njit
def outcome(p, targets, count, ply, stop, twice, memory, spare, room) -> int:
  """Code of what ends the game at a position that `remember` was told of.

  targets and count are those of fill_targets; spare [WIDTH] and room [64]
  are overwritten.
  """
  if count == 0 and in_check(p):
    return MATE
  if stop >= AUTOMATIC and _cannot_win(p, 0) and _cannot_win(p, 1):
    return DEAD_MATERIAL
  if count == 0:
    return STALEMATE
  if stop >= AUTOMATIC:
    if p[w.HALF] >= 150:
      return SEVENTY_FIVE
    if memory[SEEN] >= 5:
      return FIVEFOLD
  if stop >= CLAIMS:
    if p[w.HALF] >= 99 and _claims_fifty(p, targets, spare, room):
      return FIFTY
    if memory[SEEN] >= 3:
      return THREEFOLD
    # A move that brings a key back which came twice may be announced.
    other = 1 - (ply & 1)
    num = memory[TWICE + other]
    if num and _leads_to(p, targets, twice[other], num):
      return THREEFOLD
  return NONE
