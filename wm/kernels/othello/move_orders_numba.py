"""Move orders, compiled: see `wm.kernels.othello.move_orders`."""

from __future__ import annotations

import numpy as np

from wm.kernels.base.bits_numba import bit, lowest, without_lowest
from wm.kernels.base.jit import njit
from wm.kernels.base.rng_numba import below, splitmix
from wm.kernels.othello.rules_numba import opened, step

_NONE = np.uint64(0)


@njit
def _fill(played, discs, sides, low, high, squares) -> None:
  """Positions before plies low + 1..high of a legal line of squares.

  discs: [L + 1, 3], own, opp and legal squares at each ply.
  """
  for k in range(low, high):
    own, opp, side, moves = step(
      discs[k, 0], discs[k, 1], sides[k], bit(played[k]), squares
    )
    discs[k + 1, 0], discs[k + 1, 1], discs[k + 1, 2] = own, opp, moves
    sides[k + 1] = side


@njit
def _drawn(played, discs, sides, low, width, squares, room, stream) -> None:
  """Redraws the window's order among those that keep the position after it.

  Depth first, squares ascending. The n-th order found replaces the one held
  with probability 1 / n, which makes all of them equally likely without a
  list. room: by level (own, opp, squares left, squares still to try); the
  sides to move; the order under trial.
  """
  tried, turns, order = room
  # Words are sets of squares: `left` those of the window not played yet.
  high = low + width
  own_after, opp_after = discs[high, 0], discs[high, 1]
  left = _NONE
  for k in range(low, high):
    left |= bit(played[k])
  tried[0, 0], tried[0, 1], turns[0] = discs[low, 0], discs[low, 1], sides[low]
  tried[0, 2], tried[0, 3] = left, left & discs[low, 2]
  # Each level plays one of the squares that are left and legal there.
  num, level = 0, 0
  while level >= 0:
    if tried[level, 3] == _NONE:
      level -= 1
      continue
    order[level] = lowest(tried[level, 3])
    move = bit(order[level])
    tried[level, 3] = without_lowest(tried[level, 3])
    own, opp, side, moves = step(
      tried[level, 0], tried[level, 1], turns[level], move, squares
    )
    left = tried[level, 2] & ~move
    if level + 1 < width:
      level += 1
      tried[level, 0], tried[level, 1], turns[level] = own, opp, side
      tried[level, 2], tried[level, 3] = left, left & moves
    # All are played: does the order lead where it must?
    elif own == own_after and opp == opp_after and side == sides[high]:
      num += 1
      if below(stream, num, num) == 0:
        played[low:high] = order[:width]


@njit
def transpositions(
  tokens, lengths, seeds, bits, token_of, squares, sweeps, window, opening
) -> np.ndarray:
  """A Gibbs chain over the orders of each row's moves."""
  most, widest = tokens.shape[1], max(window, opening)
  out = np.zeros(tokens.shape, np.int32)
  played = np.empty(most, np.int64)
  discs = np.empty((most + 1, 3), np.uint64)
  sides = np.empty(most + 1, np.int64)
  room = (
    np.empty((widest, 4), np.uint64),
    np.empty(widest, np.int64),
    np.empty(widest, np.int64),
  )
  for n in range(len(tokens)):
    length = lengths[n]
    # A row that one window covers is drawn exactly, at once.
    starts = 1 if length <= opening else max(length - window + 1, 1)
    draws = min(sweeps, 1) if starts == 1 else sweeps * starts
    stream = splitmix(seeds[n])
    discs[0, 0], discs[0, 1], sides[0], discs[0, 2] = opened(squares)
    for k in range(length):
      played[k] = bits[tokens[n, k] - 1]
    _fill(played, discs, sides, 0, length, squares)
    for draw in range(draws * (length > 1)):  # One move has one order.
      own_stream = splitmix(stream ^ np.uint64(draw))
      low = below(own_stream, 0, starts)
      width = min(opening if low == 0 else window, length)
      _drawn(played, discs, sides, low, width, squares, room, own_stream)
      # All orders lead to the position after the window: no later one changes.
      _fill(played, discs, sides, low, low + width, squares)
    for k in range(length):
      out[n, k] = token_of[played[k]]
  return out
