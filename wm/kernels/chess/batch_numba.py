"""Chess kernels on batches of state rows; `wm.kernels.chess` documents them."""

from __future__ import annotations

import numpy as np

from wm.kernels.base.jit import njit
from wm.kernels.chess import (
  count_numba as chess_count_numba,
)
from wm.kernels.chess import (
  play_numba as chess_play_numba,
)
from wm.kernels.chess.attacks_numba import MEN, WIDTH, attackers
from wm.kernels.chess.board_numba import load, make, store
from wm.kernels.chess.labels_numba import encode
from wm.kernels.chess.moves_numba import (
  fill_targets,
  full_key,
  in_check,
  is_legal,
  list_moves,
)

boundary = chess_count_numba.boundary
perft = chess_count_numba.perft
play = chess_play_numba.play
replay = chess_play_numba.replay


@njit
def legal(rows, moves, counts) -> None:
  """Fills moves[B, 256], ascending, and counts[B]."""
  p, targets = np.empty(WIDTH, np.int64), np.empty(64, np.int64)
  for b in range(len(rows)):
    counts[b] = 0
    if load(rows[b], p):
      counts[b] = list_moves(p, targets, moves[b])


@njit
def legal_mask(rows, index, mask) -> None:
  """Sets mask[b, index[move]] for each legal move whose index is none of -1."""
  p, targets = np.empty(WIDTH, np.int64), np.empty(64, np.int64)
  moves = np.empty(256, np.int32)
  for b in range(len(rows)):
    if load(rows[b], p):
      for k in range(list_moves(p, targets, moves)):
        column = index[moves[k]]
        if 0 <= column < mask.shape[1]:
          mask[b, column] = True


@njit
def advance(rows, moves, after, ok) -> None:
  """Fills after[B, 11] (all -1 where illegal) and ok[B]."""
  p, targets = np.empty(WIDTH, np.int64), np.empty(64, np.int64)
  for b in range(len(rows)):
    ok[b] = False
    if load(rows[b], p):
      fill_targets(p, targets)
      ok[b] = is_legal(p, targets, moves[b])
    if ok[b]:
      make(p, moves[b])
      store(p, after[b])
    else:
      after[b] = -1


@njit
def describe(rows, legal_ep, keys, checks, labels) -> None:
  """Fills keys[B], checks[B] and labels[B, 75], those that are not empty."""
  p = np.empty(WIDTH, np.int64)
  for b in range(len(rows)):
    if not load(rows[b], p):
      continue
    if len(keys):
      keys[b] = full_key(p)
    if len(checks):
      checks[b] = in_check(p)
    if len(labels):
      encode(p, legal_ep, labels[b])


@njit
def attacked(rows, squares, sides) -> np.ndarray:
  """[B] bool: does any man of sides[b] attack squares[b]?"""
  found = np.zeros(len(rows), np.bool_)
  p = np.empty(WIDTH, np.int64)
  for b in range(len(rows)):
    if load(rows[b], p):
      occupied = p[MEN] | p[MEN + 1]
      found[b] = attackers(p, squares[b], sides[b], occupied) != 0
  return found
