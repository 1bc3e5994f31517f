"""Moves drawn by weight, compiled: see `wm.kernels.chess.policies`."""

from __future__ import annotations

import numpy as np

from wm.kernels.base.bits_numba import lowest
from wm.kernels.base.jit import njit
from wm.kernels.base.rng_numba import below
from wm.kernels.chess import policies, tables
from wm.kernels.chess import position_words as w
from wm.kernels.chess.attacks_numba import NOT_A, NOT_H
from wm.kernels.chess.board_numba import load
from wm.kernels.chess.movegen_numba import LAST_RANKS, fill_targets

_KEEP = tables.KEEP


@njit
def _between(p, side):
  """Squares between the king and the rooks that it may castle with."""
  rights = p[w.RIGHTS] >> 2 * side
  # On rank 1: f g towards the rook on h, b c d towards that on a.
  found = (0x60 if rights & 1 else 0) | (0x0E if rights & 2 else 0)
  return found << 56 * side


@njit
def _pawn_kinds(p, source, target, them):
  """Kinds of a pawn's move, promotion left out."""
  if (source ^ target) & 7:
    kinds = policies.PAWN | policies.CAPTURE
    return kinds if 1 << target & them else kinds | policies.PASSING
  if source ^ target == 16:  # Two ranks: the squares differ in bit 4 alone.
    goal = 1 << target
    # Neighbours by file; the masks take away what has wrapped to the next rank.
    if (goal << 1 & NOT_A | goal >> 1 & NOT_H) & them & p[w.PAWNS]:
      return policies.PAWN | policies.OFFER
  return policies.PAWN


@njit
def _piece_kinds(p, source, target, them, between):
  """Kinds of a move of any other piece."""
  if 1 << source & p[w.KINGS] and abs(target - source) == 2:
    return policies.CASTLING
  kinds = 0
  if 1 << target & them:
    kinds = policies.CAPTURE
  elif 1 << source & (p[w.KNIGHTS] | p[w.ROOKS]):
    kinds = policies.SHUFFLE
  # These are own rights: the other side has none left once a piece stands on
  # its home squares.
  if p[w.RIGHTS] & ~_KEEP[source]:
    kinds |= policies.FORFEIT
  if 1 << source & between and not 1 << target & between:
    kinds |= policies.CLEARING
  return kinds


@njit
def _weigh(p, targets, weights, moves, sums):
  """Lists moves[n], ascending, and running sums[n] of weights; gives n."""
  side, count, total = p[w.SIDE], 0, 0
  them, between = p[w.PIECES + 1 - side], _between(p, side)
  rest = p[w.PIECES + side]
  while rest:
    source = lowest(rest)
    pawn = rest & -rest & p[w.PAWNS]
    rest &= rest - 1
    goals = targets[source]
    while goals:
      target = lowest(goals)
      promotes = pawn and goals & -goals & LAST_RANKS
      goals &= goals - 1
      if pawn:
        kinds = _pawn_kinds(p, source, target, them)
      else:
        kinds = _piece_kinds(p, source, target, them, between)
      packed = (source << 6 | target) * 5
      first, last = 0, 1  # Promotions that the move may have: none.
      if promotes:
        kinds |= policies.PROMOTION
        first, last = 1, 5
      for promo in range(first, last):
        total += weights[kinds]
        moves[count], sums[count] = packed + promo, total
        count += 1
  return count


@njit
def draw(p, targets, weights, moves, sums, stream, ply) -> int:
  """A legal packed move of filled targets, drawn by weight.

  moves [>= 218] and sums [>= 218] are overwritten; stream and ply are those
  of `below`.
  """
  count = _weigh(p, targets, weights, moves, sums)
  # The first move whose running sum exceeds a number below the total.
  place = below(stream, ply, sums[count - 1])
  k = 0
  while sums[k] <= place:
    k += 1
  return moves[k]


@njit
def weigh(rows, weights, moves, shares) -> None:
  """Fills moves[B, 256], ascending, and shares[B, 256]: how each is drawn."""
  p, targets = np.empty(w.WIDTH, np.int64), np.empty(64, np.int64)
  choices, sums = np.empty(256, np.int64), np.empty(256, np.int64)
  for b in range(len(rows)):
    if not load(rows[b], p) or not fill_targets(p, targets):
      continue
    count = _weigh(p, targets, weights, choices, sums)
    last = 0
    for k in range(count):
      moves[b, k] = choices[k]
      shares[b, k] = (sums[k] - last) / sums[count - 1]
      last = sums[k]
