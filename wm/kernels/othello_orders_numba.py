"""Other move orders to one Othello position; see `othello.orders`."""

from __future__ import annotations

import numpy as np
from numba import njit

from wm.kernels.bits_numba import bit, lowest, without_lowest
from wm.kernels.othello_numba import opened, step
from wm.kernels.rng_numba import below, splitmix

_NONE = np.uint64(0)


@njit(cache=True)
def _fill(played, game, low, high, squares) -> None:
  """Positions before plies low + 1..high of a legal line of squares."""
  discs, sides = game
  for k in range(low, high):
    own, opp, side, moves = step(
      discs[k, 0], discs[k, 1], sides[k], bit(played[k]), squares
    )
    discs[k + 1, 0], discs[k + 1, 1], discs[k + 1, 2] = own, opp, moves
    sides[k + 1] = side


@njit(cache=True)
def _listed(played, game, low, width, squares, stack, turns, found) -> int:
  """Orders of the window's squares that keep the position after it.

  Depth first, squares ascending, into rows of `found`; gives their number.
  `stack` and `turns` are room for `width` positions and the window's squares
  still to be tried: own, opp, legal, left, to try.
  """
  discs, sides = game
  high = low + width
  own_after, opp_after = discs[high, 0], discs[high, 1]
  left = _NONE
  for k in range(low, high):
    left |= bit(played[k])
  stack[0, 0], stack[0, 1], turns[0] = discs[low, 0], discs[low, 1], sides[low]
  stack[0, 2], stack[0, 3] = left, left & discs[low, 2]
  num, level = 0, 0
  while level >= 0:
    if stack[level, 3] == _NONE:
      level -= 1
      continue
    square = lowest(stack[level, 3])
    stack[level, 3] = without_lowest(stack[level, 3])
    found[num, level] = square
    own, opp, side, moves = step(
      stack[level, 0], stack[level, 1], turns[level], bit(square), squares
    )
    left = stack[level, 2] & ~bit(square)
    if level + 1 < width:
      level += 1
      stack[level, 0], stack[level, 1], turns[level] = own, opp, side
      stack[level, 2], stack[level, 3] = left, left & moves
    elif own == own_after and opp == opp_after and side == sides[high]:
      num += 1
      found[num] = found[num - 1]
  return num


@njit(cache=True)
def orders(
  tokens, lengths, seeds, bits, token_of, squares, sweeps, window
) -> np.ndarray:
  """A Gibbs chain over the orders of each row's moves."""
  most = tokens.shape[1]
  out = np.zeros(tokens.shape, np.int32)
  played = np.empty(most + 1, np.int64)
  discs, sides = (
    np.empty((most + 1, 3), np.uint64),
    np.empty(most + 1, np.int64),
  )
  stack, turns = np.empty((window, 4), np.uint64), np.empty(window, np.int64)
  ways = 1
  for k in range(window):
    ways *= k + 1
  found = np.empty((ways + 1, window), np.uint8)
  game = discs, sides
  for n in range(len(tokens)):
    length = lengths[n]
    width = min(window, length)
    starts = length - width + 1
    stream = splitmix(seeds[n])
    own, opp, sides[0], moves = opened(squares)
    discs[0, 0], discs[0, 1], discs[0, 2] = own, opp, moves
    for k in range(length):
      played[k] = bits[tokens[n, k] - 1]
    _fill(played, game, 0, length, squares)
    for draw in range(0, 2 * sweeps * starts * (width > 1), 2):
      low = below(stream, draw, starts)
      num = _listed(played, game, low, width, squares, stack, turns, found)
      chosen = below(stream, draw + 1, num)
      for k in range(width):
        played[low + k] = found[chosen, k]
      _fill(played, game, low, low + width, squares)
    for k in range(length):
      out[n, k] = token_of[played[k]]
  return out
