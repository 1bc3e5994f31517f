"""What tells two positions of chess apart: Myhill-Nerode boundaries."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.core import resources
from wm.kernels.base.jit import njit
from wm.kernels.chess import layout
from wm.kernels.chess.board import load, make
from wm.kernels.chess.layout import MOST_MOVES
from wm.kernels.chess.position_words import WIDTH
from wm.kernels.chess.positions import NODES, full_key, list_moves


def boundary(
  first: np.ndarray, second: np.ndarray, depth: int
) -> tuple[np.ndarray, np.ndarray]:
  """Boundary of a pair of rows [>= 11] (Vafa et al. 2024, Def. 2.4).

  The lines of at most `depth` packed moves that are legal from first and not
  from second while every proper prefix is legal from both; shorter ones
  first, then in order of moves. Rows with equal keys have none.

  Returns:
    moves: [n, K] int32, DEAD after the last; K is the length of the longest.
    lengths: [n] int32.
  """
  rows = _pair(first, second, depth)
  moves, lengths, _ = _boundary(rows, depth, True)
  order = np.lexsort((*moves.T[::-1], lengths))
  moves = moves[order, : lengths.max(initial=0)]
  return moves, lengths[order].astype(np.int32)


def boundary_sizes(
  first: np.ndarray, second: np.ndarray, depth: int, *, interior: bool = False
) -> list[int]:
  """Sizes of `boundary` to each length bound 1..depth, without listing it.

  With `interior`, instead, how many lines are legal from both rows.
  """
  rows = _pair(first, second, depth)
  *_, counts = _boundary(rows, depth, False, interior)
  return np.cumsum(counts[int(interior)]).tolist()


def _pair(first: np.ndarray, second: np.ndarray, depth: int) -> np.ndarray:
  """Checked rows [2, >= 11] of the two."""
  if not 1 <= depth <= 64:
    raise core.InputError(f'depth is {depth}; expected 1..64')
  return layout.rows(np.stack([np.asarray(first), np.asarray(second)]))


@njit
def _parted(first, second, counts, only, common):
  """Splits the first of two ascending lists; gives the sizes of the parts."""
  # A merge: b stays at the first of `second` that is not below first[a].
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
def _emitted(out, lengths, num, path, level, only, num_only):
  """Appends path[:level] with each of `only` behind; grows the arrays."""
  if num + num_only > len(lengths):
    size = 2 * (num + num_only)
    longer = np.full((size, out.shape[1]), -1, np.int32)
    more = np.zeros(size, np.int64)
    longer[:num], more[:num] = out[:num], lengths[:num]
    out, lengths = longer, more
  for k in range(num_only):
    out[num, :level] = path[:level]
    out[num, level] = only[k]
    lengths[num] = level + 1
    num += 1
  return out, lengths, num


def _boundary(
  rows, depth, listing, through=False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Product search, depth first, from rows [2, >= 11].

  Gives moves [n, depth] int32, -1 behind the end, lengths [n], and counts
  [2, depth] by length of boundary and interior: of the latter only if the
  search goes `through` equal positions. Without `listing` only the counts.
  """
  # The stack, by level l:
  #   boards [2, l]    both positions after l common moves
  #   common [l, n]    moves legal in both, ascending
  #   path   [l]       the one that is being followed
  #   left, size [l]   how many of `common` were tried, how many there are
  counts = np.zeros((2, depth), np.int64)
  lines = np.full((64, depth), -1, np.int32), np.zeros(64, np.int64)
  stack = (
    np.empty((2, depth + 1, WIDTH), np.int64),
    np.empty((depth, MOST_MOVES), np.int32),
    np.empty(depth, np.int32),
    np.zeros(depth, np.int64),
    np.zeros(depth, np.int64),
  )
  place = np.array([0, 0, -1])
  while place[0] >= 0:
    held = 2 * (lines[0].nbytes + lines[1].nbytes)  # They double.
    resources.require_memory(held, f'suffixes of up to {depth} moves')
    lines = _search(
      rows, (listing, through), place, stack, lines, counts, NODES
    )
  return lines[0][: place[1]], lines[1][: place[1]], counts


@njit
def _search(rows, modes, place, stack, lines, counts, budget) -> tuple:
  """Goes on from place [3]: level, lines found, -1 if it has not begun.

  When `budget` moves are made it stops before the next one, to go on from
  there. The stack is drawn in `boundary`.
  """
  (listing, through), (out, lengths) = modes, lines
  boards, common, path, left, size = stack
  lists = np.empty((2, MOST_MOVES), np.int32)
  only, targets = np.empty(MOST_MOVES, np.int32), np.empty(64, np.int64)
  sizes, playable = np.zeros(2, np.int64), np.ones(2, np.bool_)
  level, num, entering = place[0], place[1], place[2] < 0
  if entering:
    for i in range(2):
      playable[i] = load(rows[i], boards[i, 0])
  while level >= 0:
    if entering:
      # Equal positions have no boundary: nothing of what follows is listed.
      sizes[:] = 0
      same = playable.all() and not through
      same = same and full_key(boards[0, level]) == full_key(boards[1, level])
      for i in range(2):
        if playable[i] and not same:
          sizes[i] = list_moves(boards[i, level], targets, lists[i])
      num_only, size[level] = _parted(
        lists[0], lists[1], sizes, only, common[level]
      )
      left[level] = 0
      counts[0, level] += num_only
      counts[1, level] += size[level]
      if listing:
        out, lengths, num = _emitted(
          out, lengths, num, path, level, only, num_only
        )
    # At the greatest depth, or with nothing left to try: back up.
    if level + 1 == len(path) or left[level] == size[level]:
      level, entering = level - 1, False
      continue
    if budget == 0:  # `place` then says that this level was entered.
      break
    budget -= 1
    path[level] = common[level, left[level]]
    left[level] += 1
    for i in range(2):
      boards[i, level + 1] = boards[i, level]
      make(boards[i, level + 1], path[level])
    level, entering = level + 1, True
  place[:] = level, num, 1
  return out, lengths
