"""Whole games of Othello, compiled: see `wm.kernels.othello.policies`."""

from __future__ import annotations

import numpy as np

from wm.kernels.base.bits_numba import (
  bit,
  lowest,
  nth,
  popcount,
  without_lowest,
)
from wm.kernels.base.jit import njit
from wm.kernels.base.rng_numba import below, splitmix
from wm.kernels.othello.rules_numba import (
  flips_of,
  moves_of,
  opened,
  oriented,
  step,
)

_NONE = np.uint64(0)
_MOST = 1 << 20
# Draws of a game's stream: move k takes number k, its noise NOISE + k.
_NOISE = 64


@njit
def _greedy(own, opp, moves) -> np.uint64:
  """Moves that turn most discs."""
  most, best = -1, _NONE
  while moves != _NONE:
    move = bit(lowest(moves))
    moves = without_lowest(moves)
    turned = popcount(flips_of(move, own, opp))
    # A better one starts the set anew, an equal one joins it.
    if turned > most:
      most, best = turned, _NONE
    if turned == most:
      best |= move
  return best


@njit
def _mobility(own, opp, moves, squares) -> np.uint64:
  """Moves after which the other side has fewest, passing counted as none."""
  least, best = _MOST, _NONE
  while moves != _NONE:
    move = bit(lowest(moves))
    moves = without_lowest(moves)
    flips = flips_of(move, own, opp)
    left = popcount(moves_of(opp ^ flips, own | move | flips, squares))
    if left < least:
      least, best = left, _NONE
    if left == least:
      best |= move
  return best


@njit
def _judged(own, opp, side, moves, squares, shape) -> np.int64:
  """Worth of a position to the mover (to black once it is over)."""
  corners, beside, late = shape
  discs = popcount(own) - popcount(opp)
  if side == 2:
    return 1000 * discs
  worth = 32 * (popcount(own & corners) - popcount(opp & corners))
  for k in range(4):
    # A disc diagonal to a corner gives the corner away, while it is empty.
    corner, risky = bit(beside[k, 0]), bit(beside[k, 1])
    if (own | opp) & corner == _NONE:
      worth -= 12 * (np.int64((own & risky) != _NONE))
      worth += 12 * (np.int64((opp & risky) != _NONE))
  # `moves` are the mover's; the other's are those it would have in turn.
  worth += 4 * (popcount(moves) - popcount(moves_of(opp, own, squares)))
  return worth + (discs if popcount(own | opp) >= late else -discs)


@njit
def _search(own, opp, side, moves, squares, shape, depth, room) -> np.uint64:
  """The best move by alpha-beta to `depth` plies, ties to the lowest square.

  Levels are plies below the root. `lows` and `highs` bound what the mover of
  a level can still gain; a pass keeps the mover, so bounds change hands only
  where the side does.
  """
  discs, turns, lows, highs = room
  # discs [level, 3]: own, opp, moves still to try.
  discs[0, 0], discs[0, 1], discs[0, 2], turns[0] = own, opp, moves, side
  lows[0], highs[0] = -_MOST, _MOST
  best, tried, level = _NONE, _NONE, 0
  while True:
    # Nothing left to try, or the other side will not let it come to this.
    if discs[level, 2] == _NONE or lows[level] >= highs[level]:
      if level == 0:
        return best
      worth, mover, level = lows[level], turns[level], level - 1
    else:
      move = bit(lowest(discs[level, 2]))
      discs[level, 2] = without_lowest(discs[level, 2])
      if level == 0:  # The root's move, to be kept if it proves best.
        tried = move
      own, opp, mover, moves = step(
        discs[level, 0], discs[level, 1], turns[level], move, squares
      )
      if mover != 2 and level + 1 < depth:
        # One ply deeper, with the bounds as the next mover sees them.
        same = mover == turns[level]
        low, high = lows[level], highs[level]
        level += 1
        discs[level, 0], discs[level, 1], discs[level, 2] = own, opp, moves
        turns[level] = mover
        lows[level] = low if same else -high
        highs[level] = high if same else -low
        continue
      worth = _judged(own, opp, mover, moves, squares, shape)
    # What was found, worth as much to the mover of the level it goes back to.
    # Nobody moves once the game is over: the worth is black's then.
    owner = 0 if mover == 2 else mover
    gain = worth if owner == turns[level] else -worth
    if gain > lows[level]:
      lows[level] = gain
      if level == 0:
        best = tried


@njit
def _room(levels) -> tuple:
  """Working memory of a search, a row for each ply."""
  return (
    np.empty((levels, 3), np.uint64),
    np.empty(levels, np.int64),
    np.empty(levels, np.int64),
    np.empty(levels, np.int64),
  )


@njit
def _among(own, opp, side, moves, squares, policy, shape, room) -> np.uint64:
  """The moves that a policy draws from; `room` has a row for each ply."""
  if policy == 1:
    return _greedy(own, opp, moves)
  if policy == 2:
    return _mobility(own, opp, moves, squares)
  if policy == 3:
    levels = len(room[0])
    return _search(own, opp, side, moves, squares, shape, levels, room)
  return moves


@njit
def favoured(black, white, side, squares, policy, depth, shape) -> np.ndarray:
  """[B] bits of the moves that a policy draws from; none where it is over."""
  among = np.zeros(len(side), np.uint64)
  room = _room(max(depth, 1))
  for n in range(len(side)):
    if not 0 <= side[n] <= 1:
      continue
    own, opp = oriented(black[n], white[n], side[n])
    mover, moves = np.int64(side[n]), moves_of(own, opp, squares)
    among[n] = _among(own, opp, mover, moves, squares, policy, shape, room)
  return among


@njit
def play(
  num, seed, first, token_of, length, squares, policy, noise, depth, shape
) -> tuple:
  """Games by policy 0 uniform, 1 greedy, 2 mobility, 3 search.

  noise: a move is uniform where the upper half of its draw is below it.
  """
  tokens = np.zeros((num, length), np.int32)
  lengths = np.zeros(num, np.int32)
  room = _room(max(depth, 1))
  # Game n has the stream of (seed, first + n): pieces of a run equal the whole.
  mixed = splitmix(seed)
  for n in range(num):
    stream = splitmix(mixed ^ np.uint64(first + n))
    own, opp, side, moves = opened(squares)
    ply = 0
    while moves != _NONE:
      among = moves
      if policy and below(stream, _NOISE + ply, 1 << 32) >= noise:
        among = _among(own, opp, side, moves, squares, policy, shape, room)
      square = nth(among, below(stream, ply, popcount(among)))
      tokens[n, ply] = token_of[square]
      own, opp, side, moves = step(own, opp, side, bit(square), squares)
      ply += 1
    lengths[n] = ply
  return tokens, lengths
