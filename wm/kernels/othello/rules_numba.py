"""Othello's rules, compiled: see `wm.kernels.othello.rules`.

Inside, a position is (own, opp, side): the mover's discs, the other's, and
who moves; once the game is over (side 2), own is black. A ray wraps around
the board's edge only through discs on columns 0 and 7, so those are left out
of what a horizontal or diagonal ray may cross. Smaller boards lie amid the
8x8 grid, so their edges need no masks but that of the squares in play.
"""

from __future__ import annotations

import numpy as np

from wm.kernels.base.bits_numba import bit, lowest, popcount, without_lowest
from wm.kernels.base.jit import njit

# Moves that one call of a search makes, in a fraction of a second.
NODES = 1 << 23
_NONE = np.uint64(0)
_INNER = np.uint64(0x7E7E7E7E7E7E7E7E)  # Columns 1..6.
# To the next square of a line: by 1 along a row, by 8 along a column, by 9 and
# 7 along the diagonals; up is towards high bits, down towards low ones.
_S1, _S7, _S8, _S9 = (np.uint64(n) for n in (1, 7, 8, 9))
_TWO = np.uint64(2)
_BLACK = np.uint64(1 << 28 | 1 << 35)
_WHITE = np.uint64(1 << 27 | 1 << 36)


@njit(inline='always')
def oriented(first, second, side) -> tuple:
  """(black, white) to (own, opp) and back."""
  return (second, first) if side == 1 else (first, second)


@njit(inline='always')
def _up(start, through, shift):
  """Squares of `through` that rays from `start` cross, towards high bits."""
  # A ray crosses 6 discs at most: 1 and 2 step by step, then twice 2 at once.
  ray = through & (start << shift)
  ray |= through & (ray << shift)
  pairs = through & (through << shift)
  ray |= pairs & (ray << (_TWO * shift))
  return ray | (pairs & (ray << (_TWO * shift)))


@njit(inline='always')
def _down(start, through, shift):
  """As `_up`, towards low bits."""
  ray = through & (start >> shift)
  ray |= through & (ray >> shift)
  pairs = through & (through >> shift)
  ray |= pairs & (ray >> (_TWO * shift))
  return ray | (pairs & (ray >> (_TWO * shift)))


@njit(inline='always')
def _ends(own, through, shift):
  """Squares that rays from own discs over `through` end on, both ways."""
  high = _up(own, through, shift) << shift
  return high | (_down(own, through, shift) >> shift)


@njit
def moves_of(own, opp, squares) -> np.uint64:
  """Squares on which `own` may place a disc."""
  # Squares that a ray ends on after at least one disc of `opp`.
  inner = opp & _INNER
  ends = _ends(own, inner, _S1) | _ends(own, opp, _S8)
  ends |= _ends(own, inner, _S7) | _ends(own, inner, _S9)
  return ends & squares & ~(own | opp)


@njit(inline='always')
def _held(move, own, through, shift):
  """Discs of `through` on one line that `move` and own discs enclose."""
  # A ray counts only if an own disc stands behind its last disc.
  high = _up(move, through, shift)
  low = _down(move, through, shift)
  kept = high if ((high << shift) & own) != _NONE else _NONE
  return kept | (low if ((low >> shift) & own) != _NONE else _NONE)


@njit
def flips_of(move, own, opp) -> np.uint64:
  """Discs that a move (one bit) turns over."""
  inner = opp & _INNER
  held = _held(move, own, inner, _S1) | _held(move, own, opp, _S8)
  return held | _held(move, own, inner, _S7) | _held(move, own, inner, _S9)


@njit
def step(own, opp, side, move, squares) -> tuple:
  """Plays a legal move (one bit): own, opp, side, moves of who is next.

  The turn passes where the other side has no move; no moves means over.
  """
  flips = flips_of(move, own, opp)
  own |= move | flips
  opp ^= flips
  moves = moves_of(opp, own, squares)
  if moves != _NONE:
    return opp, own, 1 - side, moves
  # The other side has no move and passes; if neither has, the game is over.
  moves = moves_of(own, opp, squares)
  if moves != _NONE:
    return own, opp, side, moves
  black, white = oriented(own, opp, side)
  return black, white, 2, _NONE


@njit
def opened(squares) -> tuple:
  """The starting position, as `step` gives one."""
  return _BLACK, _WHITE, 0, moves_of(_BLACK, _WHITE, squares)


@njit
def legal(black, white, side, squares) -> np.ndarray:
  """Legal squares of each position."""
  moves = np.zeros(len(black), np.uint64)
  for b in range(len(black)):
    own, opp = oriented(black[b], white[b], side[b])
    found = moves_of(own, opp, squares)
    moves[b] = found if 0 <= side[b] <= 1 else _NONE
  return moves


@njit
def advance(black, white, side, bits, squares) -> tuple:
  """Positions after one move each; unchanged where it is illegal."""
  num = len(black)
  blacks, whites = np.empty(num, np.uint64), np.empty(num, np.uint64)
  sides, ok = np.empty(num, np.int8), np.zeros(num, np.bool_)
  for b in range(num):
    blacks[b], whites[b], sides[b] = black[b], white[b], side[b]
    # What follows replaces these only where the move is legal.
    if not (0 <= side[b] <= 1 and 0 <= bits[b] < 64):
      continue
    own, opp = oriented(black[b], white[b], side[b])
    move = bit(bits[b])
    if moves_of(own, opp, squares) & move == _NONE:
      continue
    own, opp, after, _ = step(own, opp, np.int64(side[b]), move, squares)
    blacks[b], whites[b] = oriented(own, opp, after)
    sides[b], ok[b] = after, True
  return blacks, whites, sides, ok


@njit(inline='always')
def _named(token, moves, bits):
  """The move (one bit) that a token names, none where it is illegal."""
  known = 1 <= token <= len(bits)
  return bit(bits[token - 1]) & moves if known else _NONE


@njit
def replay(tokens, lengths, bits, squares) -> tuple:
  """Plays rows of tokens from the start, up to the first illegal one."""
  num = len(tokens)
  steps, sides = np.zeros(num, np.int32), np.empty(num, np.int8)
  blacks, whites = np.empty(num, np.uint64), np.empty(num, np.uint64)
  for n in range(num):
    own, opp, side, moves = opened(squares)
    for k in range(lengths[n]):
      move = _named(tokens[n, k], moves, bits)
      if move == _NONE:
        break
      own, opp, side, moves = step(own, opp, side, move, squares)
      steps[n] += 1
    blacks[n], whites[n] = oriented(own, opp, side)
    sides[n] = side
  return steps, blacks, whites, sides


@njit
def replay_labels(tokens, lengths, bits, squares, size) -> np.ndarray:
  """Labels after each token of rows; 0 from the first illegal one on."""
  labels = np.zeros((*tokens.shape, size * size + 1), np.uint8)
  first = 9 * (4 - size // 2)  # The board's first square on the 8x8 grid.
  for n in range(len(tokens)):
    own, opp, side, moves = opened(squares)
    for k in range(lengths[n]):
      move = _named(tokens[n, k], moves, bits)
      if move == _NONE:
        break
      own, opp, side, moves = step(own, opp, side, move, squares)
      black, white = oriented(own, opp, side)
      # A row of the board is a run of bits: black's and white's side by side.
      for row in range(size):
        start = np.uint64(first + 8 * row)
        low, high = black >> start, white >> start
        for column in range(size):
          place = np.uint64(column)
          disc = low >> place & _S1 | (high >> place & _S1) << _S1
          labels[n, k, row * size + column] = disc
      labels[n, k, size * size] = side
  return labels


def count(black, white, side, depth, squares) -> np.ndarray:
  """Legal sequences of lengths 1..depth, depth first; the last by popcount."""
  counts = np.zeros(depth, np.int64)
  owns, opps = np.empty(depth, np.uint64), np.empty(depth, np.uint64)
  sides, moves = np.empty(depth, np.int64), np.zeros(depth, np.uint64)
  if depth < 1 or side > 1:
    return counts
  # By level: the position there and its moves that are not played yet.
  stack = owns, opps, sides, moves
  level = _opened(black, white, side, squares, stack, counts)
  while level >= 0 and depth > 1:  # Ctrl-C is heard between the calls.
    level = _count(squares, level, stack, counts, NODES)
  return counts


@njit
def _opened(black, white, side, squares, stack, counts) -> int:
  """Puts a position on the stack, counts its moves; the level, 0."""
  owns, opps, sides, moves = stack
  owns[0], opps[0] = oriented(black, white, side)
  sides[0] = side
  moves[0] = moves_of(owns[0], opps[0], squares)
  counts[0] = popcount(moves[0])
  return 0


@njit
def _count(squares, level, stack, counts, budget) -> int:
  """Counts on for `budget` moves; the level reached, -1 when done."""
  owns, opps, sides, moves = stack
  depth = len(counts)
  while level >= 0 and budget > 0:
    if moves[level] == _NONE:
      level -= 1
      continue
    budget -= 1
    move = bit(lowest(moves[level]))
    moves[level] = without_lowest(moves[level])
    own, opp, turn, then = step(
      owns[level], opps[level], sides[level], move, squares
    )
    # The last level is counted, not played.
    counts[level + 1] += popcount(then)
    if level + 2 < depth:
      level += 1
      owns[level], opps[level], sides[level] = own, opp, turn
      moves[level] = then
  return level
