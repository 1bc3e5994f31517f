"""What tells two positions of Othello apart: Myhill-Nerode boundaries."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.core import resources
from wm.kernels.base.bits import bit, lowest, popcount, without_lowest
from wm.kernels.base.jit import njit
from wm.kernels.othello.rules import (
  NODES,
  Position,
  checked,
  mask,
  moves_of,
  oriented,
  step,
  tokens_of,
)

_NONE = np.uint64(0)


def boundary(
  first: Position, second: Position, depth: int, size: int = 8
) -> core.Boundary:
  """Myhill-Nerode boundary of two positions, to a length bound.

  The suffixes of at most `depth` moves that are legal from `first` and not
  from `second` while every proper prefix is legal from both (Vafa et al. 2024,
  Def. 2.4).

  Args:
    first, second: columns of one position each, scalars or of shape [1].
    depth: longest suffix, at least 1.
    size: 4, 6 or 8.
  """
  pair, board = _pair(first, second, depth), (mask(size), tokens_of(size))
  rows, lengths, _ = _boundary(*pair, depth, *board, True)
  order = np.argsort(lengths, kind='stable')  # They come in order of tokens.
  tokens, sizes = rows[order].astype(np.int32), lengths[order].astype(np.int32)
  return core.Boundary(np.array([0, len(order)]), tokens, sizes)


def boundary_sizes(
  first: Position,
  second: Position,
  depth: int,
  size: int = 8,
  *,
  interior: bool = False,
) -> list[int]:
  """Sizes of `boundary` to each length bound 1..depth, without listing it.

  With `interior`, instead, how many suffixes are legal from both positions.
  """
  pair, board = _pair(first, second, depth), (mask(size), tokens_of(size))
  *_, counts = _boundary(*pair, depth, *board, False, interior)
  return np.cumsum(counts[int(interior)]).tolist()


def _pair(first: Position, second: Position, depth: int) -> Position:
  """Columns of the two positions, [2] each."""
  if not 1 <= depth <= 64:
    raise core.InputError(f'depth is {depth}; expected 1..64')
  columns = zip(checked(first), checked(second), strict=True)
  black, white, side = (np.concatenate(column) for column in columns)
  return checked((black, white, side))


@njit
def _entered(discs, sides, moves, level, through) -> np.uint64:
  """What both sides of the pair at `level` may play.

  Nothing where they are equal, unless the search goes through these too.
  """
  same = discs[0, level, 0] == discs[1, level, 0]
  same &= discs[0, level, 1] == discs[1, level, 1]
  # Equal positions have no boundary, and neither has what follows them.
  if same and sides[0, level] == sides[1, level] and not through:
    return _NONE
  return moves[0] & moves[1]


@njit
def _emitted(out, lengths, num, path, level, only, token_of) -> tuple:
  """Appends path[:level] and each square of `only`, growing the arrays."""
  # Twice the room that is needed, so that growing costs little on the whole.
  need = num + popcount(only)
  if need > len(lengths):
    size = 2 * need
    grown, longer = (
      np.zeros((size, out.shape[1]), np.uint8),
      np.zeros(size, np.int64),
    )
    grown[:num], longer[:num] = out[:num], lengths[:num]
    out, lengths = grown, longer
  while only != _NONE:
    out[num, :level] = path[:level]
    out[num, level] = token_of[lowest(only)]
    lengths[num] = level + 1
    only = without_lowest(only)
    num += 1
  return out, lengths, num


def _boundary(
  black, white, side, depth, squares, token_of, listing, through=False
) -> tuple:
  """Product search, depth first: elements, their lengths, counts by length.

  black, white, side: [2], the pair. Without `listing` only the counts are
  made, [2, depth] of boundary and interior; of the latter only if the search
  goes `through` equal positions.
  """
  counts = np.zeros((2, depth), np.int64)
  lines = np.zeros((64, depth), np.uint8), np.zeros(64, np.int64)
  stack = (
    np.empty((2, depth, 2), np.uint64),  # me and opp of both, by level
    np.empty((2, depth), np.int64),  # their sides
    np.zeros(depth, np.uint8),  # tokens of the common moves followed
    np.zeros(depth, np.uint64),  # common moves still to try
  )
  place = np.array([0, 0, -1])
  pair, board = (black, white, side), (squares, token_of)
  modes = listing, through
  while place[0] >= 0:
    held = 2 * (lines[0].nbytes + lines[1].nbytes)  # They double.
    resources.require_memory(held, f'suffixes of up to {depth} moves')
    lines = _search(pair, board, modes, place, stack, lines, counts, NODES)
  num = place[1]
  return lines[0][:num], lines[1][:num], counts


@njit
def _search(pair, board, modes, place, stack, lines, counts, budget) -> tuple:
  """Goes on from place [3]: level, elements found, -1 if it has not begun.

  Level l of the stack holds both positions after l common moves and the
  common moves still to try. When `budget` moves are made it stops before the
  next one, to go on from there.
  """
  (black, white, side), (squares, token_of) = pair, board
  (listing, through), (out, lengths) = modes, lines
  discs, sides, path, common = stack
  moves = np.zeros(2, np.uint64)
  level, num, entering = place[0], place[1], place[2] < 0
  if entering:
    for i in range(2):
      me, opp = oriented(black[i], white[i], side[i])
      discs[i, 0, 0], discs[i, 0, 1], sides[i, 0] = me, opp, side[i]
      if 0 <= side[i] <= 1:
        moves[i] = moves_of(me, opp, squares)
  while level >= 0:
    if entering:
      # What one side alone may play ends a suffix; common moves go on.
      common[level] = _entered(discs, sides, moves, level, through)
      only = moves[0] & ~moves[1]
      counts[0, level] += popcount(only)
      counts[1, level] += popcount(common[level])
      if listing:
        out, lengths, num = _emitted(
          out, lengths, num, path, level, only, token_of
        )
    if level + 1 == len(path) or common[level] == _NONE:
      level, entering = level - 1, False
      continue
    if budget == 0:
      break
    budget -= 1
    square = lowest(common[level])
    common[level] = without_lowest(common[level])
    path[level] = token_of[square]
    for i in range(2):
      me, opp, turn, moves[i] = step(
        discs[i, level, 0],
        discs[i, level, 1],
        sides[i, level],
        bit(square),
        squares,
      )
      discs[i, level + 1, 0], discs[i, level + 1, 1] = me, opp
      sides[i, level + 1] = turn
    level, entering = level + 1, True
  place[:] = level, num, 1
  return out, lengths
