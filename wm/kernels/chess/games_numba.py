"""Whole games of chess, compiled: see `wm.kernels.chess.games`."""

from __future__ import annotations

import numpy as np

from wm.kernels.base.jit import njit
from wm.kernels.base.rng_numba import below
from wm.kernels.chess.board_numba import load, make, store
from wm.kernels.chess.movegen_numba import fill_targets, is_legal, nth_move
from wm.kernels.chess.outcome_numba import (
  MEMORY,
  MOVES,
  forget,
  outcome,
  remember,
)
from wm.kernels.chess.policies_numba import draw
from wm.kernels.chess.position_words import WIDTH
from wm.kernels.chess.positions_numba import encode


@njit
def _room(plies):
  """Scratch for games of up to `plies` moves.

      p, targets    the position, squares that its pieces may go to
      spare, more   the same for a move that is only announced
      past          [plies + 1] the key after each ply
      twice         [2, n] by parity of the ply, keys that came a second time
      memory        [MEMORY], see `outcome_numba`

  A key that came twice took two plies of one side: plies // 4 of them at most.
  """
  p, targets = np.empty(WIDTH, np.int64), np.empty(64, np.int64)
  spare, more = np.empty(WIDTH, np.int64), np.empty(64, np.int64)
  past = np.empty(plies + 1, np.int64)
  twice = np.empty((2, plies // 4 + 2), np.int64)
  return p, targets, spare, more, past, twice, np.zeros(MEMORY, np.int64)


@njit
def replay(
  moves, lengths, starts, legal_ep, stop, steps, rows, labels, codes
) -> None:
  """Follows games to the first illegal move.

  starts: [1 or N, >= 11]. Fills steps[N], rows[N, 11], and, unless empty,
  labels[N, L + 1, 75] and codes[N, L + 1] of outcomes.
  """
  p, targets, spare, more, past, twice, memory = _room(moves.shape[1])
  for n in range(len(moves)):
    start = starts[n if len(starts) > 1 else 0]
    steps[n] = 0
    rows[n] = start[:11]
    if not load(start, p):
      continue
    forget(0, memory)  # Of the game before this one.
    ply = 0
    while True:
      count = fill_targets(p, targets)
      if len(labels):
        encode(p, legal_ep, labels[n, ply])
      if len(codes):
        remember(p, ply, past, twice, memory)
        codes[n, ply] = outcome(
          p, targets, count, ply, stop, twice, memory, spare, more
        )
      # The position is judged and shown before its move is looked at: there
      # is one more of these than moves.
      if ply == lengths[n] or not is_legal(p, targets, moves[n, ply]):
        break
      zeroing = make(p, moves[n, ply])
      ply += 1
      if zeroing:
        forget(ply, memory)
    steps[n] = ply
    store(p, rows[n])


@njit
def play(
  start, seeds, legal_ep, stop, weights, moves, lengths, codes, labels
) -> bool:
  """Random games; game n is a function of seeds[n].

  weights: [512] of the kinds of moves (`policies`), empty: uniform.
  Fills moves[N, L] (only while the game lasts), lengths[N], codes[N] and,
  unless empty, labels[N, L + 1, 75]. False where start has no board.
  """
  most = moves.shape[1]
  p, targets, spare, more, past, twice, memory = _room(most)
  choices, sums = np.empty(256, np.int64), np.empty(256, np.int64)
  first = np.empty(WIDTH, np.int64)
  if not load(start, first):
    return False
  for n in range(len(moves)):
    p[:] = first
    forget(0, memory)
    ply = 0
    while True:
      count = fill_targets(p, targets)
      if len(labels):
        encode(p, legal_ep, labels[n, ply])
      if stop > MOVES:  # Else nobody asks what came before.
        remember(p, ply, past, twice, memory)
      codes[n] = outcome(
        p, targets, count, ply, stop, twice, memory, spare, more
      )
      if codes[n] or ply == most:
        break
      # Uniform games need no list of moves: the drawn one alone is looked up.
      if len(weights):
        move = draw(p, targets, weights, choices, sums, seeds[n], ply)
      else:
        move = nth_move(p, targets, below(seeds[n], ply, count))
      moves[n, ply] = move
      zeroing = make(p, move)
      ply += 1
      if zeroing:
        forget(ply, memory)
    lengths[n] = ply
  return True
