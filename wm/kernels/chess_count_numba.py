"""Counting lines of play, and what tells two positions apart, compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from wm.kernels.chess_attacks_numba import WIDTH
from wm.kernels.chess_board_numba import load, make
from wm.kernels.chess_moves_numba import fill_targets, full_key, list_moves

_MOST_MOVES = 256


@njit(cache=True)
def perft(row, depth) -> int:
  """Number of lines of `depth` moves; the last ply is counted, not made."""
  stack = np.empty((depth + 1, WIDTH), np.int64)
  moves = np.empty((depth + 1, _MOST_MOVES), np.int32)
  left = np.zeros(depth + 1, np.int64)
  targets = np.empty(64, np.int64)
  if not load(row, stack[0]):
    return 0
  if depth <= 1:
    return fill_targets(stack[0], targets) if depth else 1
  total, level = 0, 0
  left[0] = list_moves(stack[0], targets, moves[0])
  while level >= 0:
    if left[level] == 0:
      level -= 1
      continue
    left[level] -= 1
    stack[level + 1] = stack[level]
    make(stack[level + 1], moves[level, left[level]])
    if level + 2 == depth:
      total += fill_targets(stack[level + 1], targets)
      continue
    level += 1
    left[level] = list_moves(stack[level], targets, moves[level])
  return total
