"""Transpositions of chess: other orders of the moves to one position."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.kernels.base import checks, pieces
from wm.kernels.chess import games, layout

WIDEST = 10  # Plies in a window: 5! * 5! orders.


def transpositions(
  moves: np.ndarray,
  lengths: np.ndarray,
  seeds: np.ndarray,
  start: np.ndarray | None = None,
  sweeps: int = 4,
  window: int = 5,
  opening: int = 8,
) -> np.ndarray:
  """Random orders of each game's moves that reach the same position.

  A Gibbs chain: pick a window of consecutive plies, its start uniform; list
  every order of its moves, each side keeping its own, that is legal from the
  position before it and leads to the position after it (equal Zobrist keys:
  counters may differ); take one of them uniformly. The chain leaves the
  uniform distribution over all orders that such steps connect as it is, and
  tends to it. The window at the start is wider than the others, as few orders
  are legal there; a game no longer than it is drawn exactly, uniform over all
  its orders.

  Args:
    moves: [T, L] legal packed moves; those past lengths[t] are not read.
    lengths: [T].
    seeds: [T] uint64; row t depends on its moves and seeds[t] alone.
    start: [>= 11] row that games begin in; the standard position if None.
    sweeps: windows drawn, as multiples of the number of starts in the row.
    window: plies in a window, 3..WIDEST.
    opening: plies in the window at the start, window..WIDEST.

  Returns:
    moves [T, L] int32, -1 past each length.

  Raises:
    InputError: an illegal move, or sizes out of range.
  """
  from wm.kernels.chess import move_orders_numba

  if not (3 <= window <= opening <= WIDEST and sweeps >= 0):
    raise core.InputError(
      f'sweeps {sweeps}, window {window}, opening {opening}; expected '
      f'sweeps >= 0 and 3 <= window <= opening <= {WIDEST}'
    )
  start = layout.start() if start is None else start
  moves = checks.frozen(np.atleast_2d(moves), np.int32)
  lengths = checks.frozen(np.atleast_1d(lengths), np.int32)
  seeds = checks.seeds(seeds)
  checks.same_length(moves=moves, lengths=lengths, seeds=seeds)
  steps = games.replay(moves, lengths, start)[0]
  if (steps < lengths).any():
    row = int(np.argmax(steps < lengths))
    raise core.InputError(
      f'row {row} has an illegal move {moves[row, steps[row]]} at ply '
      f'{steps[row] + 1}; expected legal moves from the start'
    )
  start = checks.frozen(np.asarray(start)[: layout.WORDS], np.int32)
  call, rest = (
    move_orders_numba.transpositions,
    (start, sweeps, window, opening),
  )
  return pieces.run_rows(call, (moves, lengths, seeds), *rest)
