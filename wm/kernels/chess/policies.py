"""What random games of chess prefer: weights of the kinds of moves.

A move is drawn with a probability proportional to its weight, which is the
product of the factors of all kinds it is of; so a policy is a row of factors.
Each leads games away from those of people and from uniform ones in a way of
its own, so that an error can be laid to unfamiliar positions of that sort.

  capture    takes a piece, also in passing
  promotion  each of the four
  castling
  passing    takes a pawn in passing
  offer      a double push that ends beside a pawn of the other side
  pawn       a pawn's move of any sort
  shuffle    a knight's or a rook's that takes nothing
  clearing   a piece leaves the squares between the king and a rook with which
             it may still castle
  forfeit    gives up an own right to castle, other than by castling
"""

from __future__ import annotations

import functools

import numpy as np

from wm import core
from wm.kernels.base.bits import lowest
from wm.kernels.base.jit import njit
from wm.kernels.base.rng import below
from wm.kernels.chess import layout
from wm.kernels.chess import position_words as w
from wm.kernels.chess.board import KEEP, NOT_A, NOT_H, load
from wm.kernels.chess.positions import LAST_RANKS, fill_targets

KINDS = (
  'capture',
  'promotion',
  'castling',
  'passing',
  'offer',
  'pawn',
  'shuffle',
  'clearing',
  'forfeit',
)
CAPTURE, PROMOTION, CASTLING, PASSING, OFFER = (1 << k for k in range(5))
PAWN, SHUFFLE, CLEARING, FORFEIT = (1 << k for k in range(5, 9))
POLICIES: dict[str, dict[str, float]] = {
  'uniform': {},
  'few_captures': {'capture': 1 / 32},
  'promotions': {'promotion': 16, 'pawn': 16, 'capture': 1 / 2},
  'shuffling': {'shuffle': 32},
  'castling': {'castling': 64, 'clearing': 4, 'forfeit': 1 / 16},
  'en_passant': {'passing': 64, 'offer': 16, 'pawn': 2},
}
UNIT = 256  # Weight of a move of no kind.


@functools.cache
def weights(policy: str) -> np.ndarray:
  """[512] int64 weight of each set of kinds; empty for the uniform policy.

  Raises:
    InputError: an unknown policy.
  """
  if policy not in POLICIES:
    raise core.InputError(
      f'unknown policy {policy!r}; available: {", ".join(POLICIES)}'
    )
  factors = POLICIES[policy]
  if not factors:
    return np.zeros(0, np.int64)
  table = np.full(1 << len(KINDS), float(UNIT))
  for name, factor in factors.items():
    table[np.arange(len(table)) & 1 << KINDS.index(name) > 0] *= factor
  # All 218 moves of a position must sum to less than 2 ** 32.
  table = np.clip(np.round(table), 1, 2**24).astype(np.int64)
  table.flags.writeable = False
  return table


@njit
def _between(p, side):
  """Squares between the king and the rooks that it may castle with."""
  rights = p[w.RIGHTS] >> 2 * side
  # On rank 1: f g towards the rook on h, b c d towards that on a.
  squares = (0x60 if rights & 1 else 0) | (0x0E if rights & 2 else 0)
  return squares << 56 * side


@njit
def _pawn_kinds(p, source, target, them):
  """Kinds of a pawn's move, promotion left out."""
  if (source ^ target) & 7:
    kinds = PAWN | CAPTURE
    return kinds if 1 << target & them else kinds | PASSING
  if source ^ target == 16:  # Two ranks: the squares differ in bit 4 alone.
    goal = 1 << target
    # Neighbours by file; the masks take away what has wrapped to the next rank.
    if (goal << 1 & NOT_A | goal >> 1 & NOT_H) & them & p[w.PAWNS]:
      return PAWN | OFFER
  return PAWN


@njit
def _piece_kinds(p, source, target, them, between):
  """Kinds of a move of any other piece."""
  if 1 << source & p[w.KINGS] and abs(target - source) == 2:
    return CASTLING
  kinds = 0
  if 1 << target & them:
    kinds = CAPTURE
  elif 1 << source & (p[w.KNIGHTS] | p[w.ROOKS]):
    kinds = SHUFFLE
  # These are own rights: the other side has none left once a piece stands on
  # its home squares.
  if p[w.RIGHTS] & ~KEEP[source]:
    kinds |= FORFEIT
  if 1 << source & between and not 1 << target & between:
    kinds |= CLEARING
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
        kinds |= PROMOTION
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


def chances(rows: np.ndarray, policy: str) -> tuple[np.ndarray, np.ndarray]:
  """How `play` draws the next move from rows [B, >= 11].

  policy: see above; not the uniform one.

  Returns:
    moves: [B, 256] int32 ascending, -1 after the last.
    shares: [B, 256] float64 probability of each, 0 after the last.
  """
  rows, factors = layout.rows(rows), weights(policy)
  if not factors.size:
    raise core.InputError(
      f'policy {policy!r}: expected one that has weights, as its moves are '
      'uniform over `legal`'
    )
  moves = np.full((len(rows), layout.MOST_MOVES), -1, np.int32)
  shares = np.zeros((len(rows), layout.MOST_MOVES))
  _chances(rows, factors, moves, shares)
  return moves, shares


@njit
def _chances(rows, weights, moves, shares) -> None:
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
