"""Counting lines of play, and what tells two positions apart, compiled."""

from __future__ import annotations

import numpy as np

from wm.kernels.chess_attacks_numba import WIDTH
from wm.kernels.chess_board_numba import load, make
from wm.kernels.chess_moves_numba import fill_targets, full_key, list_moves
from wm.kernels.jit import njit

_MOST_MOVES = 256


@njit
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


@njit
def _parted(first, second, counts, only, common):
  """Splits the first of two ascending lists; gives the sizes of the parts."""
  a = b = num_only = num_common = 0
  while a < counts[0]:
    while b < counts[1] and second[b] < first[a]:
      b += 1
    if b < counts[1] and second[b] == first[a]:
      common[num_common] = first[a]
      num_common += 1
    else:
      only[num_only] = first[a]
      num_only += 1
    a += 1
  return num_only, num_common


@njit
def _emitted(found, lengths, num, path, level, only, num_only):
  """Appends path[:level] with each of `only` behind; grows the arrays."""
  if num + num_only > len(lengths):
    size = 2 * (num + num_only)
    longer = np.full((size, found.shape[1]), -1, np.int32)
    more = np.zeros(size, np.int64)
    longer[:num], more[:num] = found[:num], lengths[:num]
    found, lengths = longer, more
  for k in range(num_only):
    found[num, :level] = path[:level]
    found[num, level] = only[k]
    lengths[num] = level + 1
    num += 1
  return found, lengths, num


@njit
def boundary(rows, depth) -> tuple[np.ndarray, np.ndarray]:
  """Product search, depth first, from rows[2, >= 11].

  Gives moves [n, depth] int32, -1 behind the end, and lengths [n].
  """
  stack = np.empty((2, depth + 1, WIDTH), np.int64)
  lists = np.empty((2, _MOST_MOVES), np.int32)
  common = np.empty((depth, _MOST_MOVES), np.int32)
  only, path = np.empty(_MOST_MOVES, np.int32), np.empty(depth, np.int32)
  left, size = np.zeros(depth, np.int64), np.zeros(depth, np.int64)
  targets, counts = np.empty(64, np.int64), np.zeros(2, np.int64)
  found, lengths = np.full((64, depth), -1, np.int32), np.zeros(64, np.int64)
  playable = np.zeros(2, np.bool_)
  for i in range(2):
    playable[i] = load(rows[i], stack[i, 0])
  num, level, entering = 0, 0, True
  while level >= 0:
    if entering:
      first, second = stack[0, level], stack[1, level]
      counts[:] = 0
      same = playable.all() and full_key(first) == full_key(second)
      for i in range(2):
        if playable[i] and not same:
          counts[i] = list_moves(stack[i, level], targets, lists[i])
      num_only, size[level] = _parted(
        lists[0], lists[1], counts, only, common[level]
      )
      left[level] = 0
      found, lengths, num = _emitted(
        found, lengths, num, path, level, only, num_only
      )
    if level + 1 == depth or left[level] == size[level]:
      level, entering = level - 1, False
      continue
    path[level] = common[level, left[level]]
    left[level] += 1
    for i in range(2):
      stack[i, level + 1] = stack[i, level]
      make(stack[i, level + 1], path[level])
    level, entering = level + 1, True
  return found[:num], lengths[:num]
