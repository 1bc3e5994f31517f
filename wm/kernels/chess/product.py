"""What tells two positions of chess apart: Myhill-Nerode boundaries."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.kernels.chess import layout


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
  from wm.kernels.chess import product_numba

  rows = _pair(first, second, depth)
  moves, lengths, _ = product_numba.boundary(rows, depth, True)
  order = np.lexsort((*moves.T[::-1], lengths))
  moves = moves[order, : lengths.max(initial=0)]
  return moves, lengths[order].astype(np.int32)


def boundary_sizes(
  first: np.ndarray, second: np.ndarray, depth: int, *, interior: bool = False
) -> list[int]:
  """Sizes of `boundary` to each length bound 1..depth, without listing it.

  With `interior`, instead, how many lines are legal from both rows.
  """
  from wm.kernels.chess import product_numba

  rows = _pair(first, second, depth)
  *_, counts = product_numba.boundary(rows, depth, False, interior)
  return np.cumsum(counts[int(interior)]).tolist()


def _pair(first: np.ndarray, second: np.ndarray, depth: int) -> np.ndarray:
  """Checked rows [2, >= 11] of the two."""
  if not 1 <= depth <= 64:
    raise core.InputError(f'depth is {depth}; expected 1..64')
  return layout.rows(np.stack([np.asarray(first), np.asarray(second)]))
