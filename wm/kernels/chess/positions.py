"""Positions of chess: legal moves, moves made, labels, keys, perft.

Positions are state rows, moves are packed, see `wm.kernels.chess.layout`.
"""

from __future__ import annotations

import numpy as np

from wm import core
from wm.kernels.base import checks
from wm.kernels.chess import layout, policies


def legal(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Legal moves of rows [B, >= 11].

  Returns:
    moves: [B, 256] int32 ascending, -1 after the last.
    counts: [B] int32.
  """
  from wm.kernels.chess import positions_numba

  rows = layout.rows(rows)
  moves = np.full((len(rows), layout.MOST_MOVES), -1, np.int32)
  counts = np.empty(len(rows), np.int32)
  positions_numba.legal(rows, moves, counts)
  return moves, counts


def legal_mask(rows: np.ndarray, index: np.ndarray, columns: int) -> np.ndarray:
  """[B, columns] bool: legal moves of rows [B, >= 11] by column.

  index: [20480] column of each packed id; a move whose column is not in
  0..columns - 1, such as -1, has none.
  """
  from wm.kernels.chess import positions_numba

  rows, index = layout.rows(rows), checks.frozen(index, np.int32)
  if index.shape != (layout.PACKED,):
    raise core.InputError(
      f'index has shape {index.shape}; expected {layout.PACKED}'
    )
  mask = np.zeros((len(rows), columns), bool)
  positions_numba.legal_mask(rows, index, mask)
  return mask


def advance(
  rows: np.ndarray, moves: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Rows [B, 11] int32 after one packed move [B] each, and ok [B] bool.

  An illegal move leaves a dead row; any integer may be asked.
  """
  from wm.kernels.chess import positions_numba

  rows = layout.rows(rows)
  moves = checks.frozen(np.atleast_1d(moves), np.int32)
  checks.same_length(rows=rows, moves=moves)
  after = np.empty((len(rows), layout.WORDS), np.int32)
  ok = np.empty(len(rows), bool)
  positions_numba.advance(rows, moves, after, ok)
  return after, ok


def chances(rows: np.ndarray, policy: str) -> tuple[np.ndarray, np.ndarray]:
  """How `play` draws the next move from rows [B, >= 11].

  policy: see `policies`; not the uniform one.

  Returns:
    moves: [B, 256] int32 ascending, -1 after the last.
    shares: [B, 256] float64 probability of each, 0 after the last.
  """
  from wm.kernels.chess import policies_numba

  rows, weights = layout.rows(rows), policies.weights(policy)
  if not weights.size:
    raise core.InputError(
      f'policy {policy!r}: expected one that has weights, as its moves are '
      'uniform over `legal`'
    )
  moves = np.full((len(rows), layout.MOST_MOVES), -1, np.int32)
  shares = np.zeros((len(rows), layout.MOST_MOVES))
  policies_numba.weigh(rows, weights, moves, shares)
  return moves, shares


def keys(rows: np.ndarray) -> np.ndarray:
  """[B] uint64 Zobrist keys of rows [B, >= 11]; 0 for a row without board.

  Equal where the rule of repetition sees one position: placement, side,
  rights, and an en-passant file if a pawn may legally capture there.
  """
  from wm.kernels.chess import positions_numba

  return positions_numba.keys(layout.rows(rows)).view(np.uint64)


def in_check(rows: np.ndarray) -> np.ndarray:
  """[B] bool: is the side to move of rows [B, >= 11] in check?"""
  from wm.kernels.chess import positions_numba

  return positions_numba.checks(layout.rows(rows))


def labels(rows: np.ndarray, ep: str = 'raw') -> np.ndarray:
  """[B, 75] uint8 state labels of rows [B, >= 11]; 0 for a row without board.

  Walker and Lyons 2026, section 2.1. ep: 'raw', as published, sets the
  en-passant labels after every double push; 'legal' only where a pawn may
  legally capture.
  """
  from wm.kernels.chess import positions_numba

  return positions_numba.labels(layout.rows(rows), layout.legal_ep(ep))


def perft(row: np.ndarray, depth: int) -> int:
  """Number of legal lines of exactly `depth` moves from a row [>= 11]."""
  from wm.kernels.chess import positions_numba

  if not 0 <= depth <= 64:
    raise core.InputError(f'depth is {depth}; expected 0..64')
  return positions_numba.perft(layout.rows(np.atleast_2d(row))[0], depth)


def count(row: np.ndarray, depth: int) -> list[int]:
  """Numbers of legal lines of 1..depth moves from a row [>= 11]."""
  return [perft(row, bound) for bound in range(1, depth + 1)]
