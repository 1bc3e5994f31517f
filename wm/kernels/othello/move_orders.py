"""Transpositions of Othello: other orders of moves to the same position."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.kernels.base import checks, chunked_calls
from wm.kernels.base.bits import bit, lowest, without_lowest
from wm.kernels.base.jit import njit
from wm.kernels.base.rng import below, splitmix
from wm.kernels.othello import rules
from wm.kernels.othello.rules import first_position, step

_NONE = np.uint64(0)


def transpositions(
  tokens: np.ndarray,
  lengths: np.ndarray,
  seeds: np.ndarray,
  size: int = 8,
  sweeps: int = 3,
  window: int = 6,
  opening: int = 11,
) -> np.ndarray:
  """Random orders of each row's moves that reach the same position.

  A Gibbs chain: pick a window of consecutive moves, its start uniform; list
  every order of the window's squares that is legal from the position before
  it and leads to the position after it, side to move included; take one of
  them uniformly. The chain leaves the uniform distribution over all move
  orders that such steps connect as it is, and tends to it. The window at the
  start of a row is wider than the others, as few orders are legal there; a
  row no longer than it is drawn exactly, uniform over all its orders. Of a
  random game's first 12, 20, 30 and 60 moves, one draw differs in .69, .91,
  .99 and 1.00 of rows, and in .45 and .53 of the places of 30 and 60 moves
  (chains ten times as long: .53 and .63).

  Args:
    tokens: [T, L] legal rows of tokens.
    lengths: [T].
    seeds: [T] uint64; row t depends on its moves and seeds[t] alone.
    size: 4, 6 or 8.
    sweeps: windows drawn, as multiples of the number of starts in the row.
    window: moves in a window, 2..12.
    opening: moves in the window at the start, window..12.

  Returns:
    tokens [T, L] int32, 0 past each length.
  """
  if not (2 <= window <= opening <= 12 and sweeps >= 0):
    raise core.InputError(
      f'sweeps {sweeps}, window {window}, opening {opening}; expected '
      'sweeps >= 0 and 2 <= window <= opening <= 12'
    )
  rows = checks.games(np.atleast_2d(tokens), lengths, 'tokens')
  seeds = checks.seeds(seeds)
  checks.same_length(tokens=rows[0], seeds=seeds)
  steps = rules.replay(*rows, size)[0]
  if (steps < rows[1]).any():
    row = int(np.argmax(steps < rows[1]))
    raise core.InputError(
      f'row {row} has an illegal token {rows[0][row, steps[row]]} at move '
      f'{steps[row] + 1}; expected legal moves from the start'
    )
  board = rules.squares(size), rules.tokens_of(size), rules.mask(size)
  return chunked_calls.run_rows(
    _transpositions, (*rows, seeds), *board, sweeps, window, opening
  )


@njit
def _transpositions(
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
    discs[0, 0], discs[0, 1], sides[0], discs[0, 2] = first_position(squares)
    for k in range(length):
      played[k] = bits[tokens[n, k] - 1]
    _fill(played, discs, sides, 0, length, squares)
    for draw in range(draws * (length > 1)):  # One move has one order.
      draws = splitmix(stream ^ np.uint64(draw))
      low = below(draws, 0, starts)
      width = min(opening if low == 0 else window, length)
      _drawn(played, discs, sides, low, width, squares, room, draws)
      # All orders lead to the position after the window: no later one changes.
      _fill(played, discs, sides, low, low + width, squares)
    for k in range(length):
      out[n, k] = token_of[played[k]]
  return out


@njit
def _fill(played, discs, sides, low, high, squares) -> None:
  """Positions before plies low + 1..high of a legal line of squares.

  discs: [L + 1, 3], me, opp and legal squares at each ply.
  """
  for k in range(low, high):
    me, opp, side, moves = step(
      discs[k, 0], discs[k, 1], sides[k], bit(played[k]), squares
    )
    discs[k + 1, 0], discs[k + 1, 1], discs[k + 1, 2] = me, opp, moves
    sides[k + 1] = side


@njit
def _drawn(played, discs, sides, low, width, squares, room, stream) -> None:
  """Redraws the window's order among those that keep the position after it.

  Depth first, squares ascending. The n-th order found replaces the one held
  with probability 1 / n, which makes all of them equally likely without a
  list. room: by level (me, opp, squares left, squares still to try); the
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
    me, opp, side, moves = step(
      tried[level, 0], tried[level, 1], turns[level], move, squares
    )
    left = tried[level, 2] & ~move
    if level + 1 < width:
      level += 1
      tried[level, 0], tried[level, 1], turns[level] = me, opp, side
      tried[level, 2], tried[level, 3] = left, left & moves
    # All are played: does the order lead where it must?
    elif me == own_after and opp == opp_after and side == sides[high]:
      num += 1
      if below(stream, num, num) == 0:
        played[low:high] = order[:width]
