"""Positions of chess, compiled: see `wm.kernels.chess.positions`."""

from __future__ import annotations

import numpy as np

from wm.kernels.base.bits_numba import shr
from wm.kernels.base.jit import njit
from wm.kernels.chess import position_words as w
from wm.kernels.chess.board_numba import load, make, store
from wm.kernels.chess.layout import LABELS, MOST_MOVES
from wm.kernels.chess.movegen_numba import (
  ep_sources,
  fill_targets,
  full_key,
  in_check,
  is_legal,
  list_moves,
)

# Positions that one compiled call makes, in a fraction of a second.
NODES = 1 << 21


@njit
def encode(p, legal, out) -> None:
  """Fills out[75]; `legal` asks for en passant only where it can be played.

  Walker and Lyons 2026, section 2.1: squares a8..h1, side, four rights,
  en-passant file and rank, both bytes of both counters.
  """
  # Word k of the codes holds ranks 2 k + 1 and 2 k + 2; labels begin at a8.
  for k in range(4):
    codes = p[w.CODES + k]
    for rank in range(2):
      first = 8 * (7 - 2 * k - rank)
      for file in range(8):
        out[first + file] = shr(codes, 32 * rank + 4 * file) & 15
  out[64] = p[w.SIDE]
  for k in range(4):
    out[65 + k] = p[w.RIGHTS] >> k & 1
  shown = p[w.EP] and (not legal or ep_sources(p) != 0)
  out[69] = p[w.EP] if shown else 0
  # Black to move: a white pawn has just passed rank 3.
  out[70] = 2 - p[w.SIDE] if shown else 0
  out[71], out[72] = p[w.HALF] >> 8, p[w.HALF] & 255
  out[73], out[74] = p[w.FULL] >> 8, p[w.FULL] & 255


@njit
def legal(rows, moves, counts) -> None:
  """Fills moves[B, 256], ascending, and counts[B]."""
  p, targets = np.empty(w.WIDTH, np.int64), np.empty(64, np.int64)
  for b in range(len(rows)):
    counts[b] = 0
    if load(rows[b], p):
      counts[b] = list_moves(p, targets, moves[b])


@njit
def legal_mask(rows, index, mask) -> None:
  """Sets mask[b, index[move]] for each legal move whose index is none of -1."""
  p, targets = np.empty(w.WIDTH, np.int64), np.empty(64, np.int64)
  moves = np.empty(256, np.int32)
  for b in range(len(rows)):
    if load(rows[b], p):
      for k in range(list_moves(p, targets, moves)):
        column = index[moves[k]]
        if 0 <= column < mask.shape[1]:  # Else no token stands for it.
          mask[b, column] = True


@njit
def advance(rows, moves, after, ok) -> None:
  """Fills after[B, 11] (all -1 where illegal) and ok[B]."""
  p, targets = np.empty(w.WIDTH, np.int64), np.empty(64, np.int64)
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
def keys(rows) -> np.ndarray:
  """[B] int64 Zobrist keys, 0 without board."""
  found = np.zeros(len(rows), np.int64)
  p = np.empty(w.WIDTH, np.int64)
  for b in range(len(rows)):
    if load(rows[b], p):
      found[b] = full_key(p)
  return found


@njit
def checks(rows) -> np.ndarray:
  """[B] bool: is the side to move in check?"""
  found = np.zeros(len(rows), np.bool_)
  p = np.empty(w.WIDTH, np.int64)
  for b in range(len(rows)):
    if load(rows[b], p):
      found[b] = in_check(p)
  return found


@njit
def labels(rows, legal_ep) -> np.ndarray:
  """[B, 75] uint8 state labels, 0 without board."""
  found = np.zeros((len(rows), LABELS), np.uint8)
  p = np.empty(w.WIDTH, np.int64)
  for b in range(len(rows)):
    if load(rows[b], p):
      encode(p, legal_ep, found[b])
  return found


def perft(row, depth) -> int:
  """Number of lines of `depth` moves; the last ply is counted, not made."""
  # By level: the position, its moves, how many of them are not made yet.
  stack = np.empty((depth + 1, w.WIDTH), np.int64)
  moves = np.empty((depth + 1, MOST_MOVES), np.int32)
  left = np.zeros(depth + 1, np.int64)
  place = np.array([-2, 0])
  while place[0] != -1:  # Ctrl-C is heard between the calls.
    _count(row, depth, place, stack, moves, left, NODES)
  return int(place[1])


@njit
def _count(row, depth, place, stack, moves, left, budget) -> None:
  """Goes on from place: level (-2: not begun, -1: done), lines so far."""
  level, total = place
  targets = np.empty(64, np.int64)
  if level == -2:
    level = -1
    if not load(row, stack[0]):
      total = 0
    elif depth <= 1:
      total = fill_targets(stack[0], targets) if depth else 1
    else:
      level = 0
      left[0] = list_moves(stack[0], targets, moves[0])
  while level >= 0 and budget > 0:
    if left[level] == 0:
      level -= 1
      continue
    budget -= 1
    left[level] -= 1  # Moves are made from the last one back.
    stack[level + 1] = stack[level]
    make(stack[level + 1], moves[level, left[level]])
    if level + 2 == depth:  # The last ply is counted, not made.
      total += fill_targets(stack[level + 1], targets)
      continue
    level += 1
    left[level] = list_moves(stack[level], targets, moves[level])
  place[:] = level, total
