"""What tells two positions of Othello apart: Myhill-Nerode boundaries."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.kernels.othello.rules import Position, checked, mask, tokens_of


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
  from wm.kernels.othello import product_numba

  pair, board = _pair(first, second, depth), (mask(size), tokens_of(size))
  rows, lengths, _ = product_numba.boundary(*pair, depth, *board, True)
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
  from wm.kernels.othello import product_numba

  pair, board = _pair(first, second, depth), (mask(size), tokens_of(size))
  *_, counts = product_numba.boundary(*pair, depth, *board, False, interior)
  return np.cumsum(counts[int(interior)]).tolist()


def _pair(first: Position, second: Position, depth: int) -> Position:
  """Columns of the two positions, [2] each."""
  if not 1 <= depth <= 64:
    raise core.InputError(f'depth is {depth}; expected 1..64')
  columns = zip(checked(first), checked(second), strict=True)
  black, white, side = (np.concatenate(column) for column in columns)
  return checked((black, white, side))
