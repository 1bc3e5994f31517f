"""Transpositions of Othello: other orders of moves to the same position."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.kernels.base import checks, pieces
from wm.kernels.othello import rules


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
  from wm.kernels.othello import move_orders_numba

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
  return pieces.run_rows(
    move_orders_numba.transpositions,
    (*rows, seeds),
    *board,
    sweeps,
    window,
    opening,
  )
