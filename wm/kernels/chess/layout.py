"""What the front doors of chess share: the layout of rows, and checks."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from wm import core
from wm.kernels.base import checks

backend = functools.partial(
  checks.backend, __package__, numba='batch_numba', ref='batch_ref'
)

WORDS, LABELS, PACKED = 11, 75, 64 * 64 * 5
BEFORE, UNKNOWN = -2, -3  # in word 10
EN_PASSANT = ('raw', 'legal')
# In the order in which they are looked for.
OUTCOMES = (
  'none',
  'checkmate',
  'insufficient_material',
  'stalemate',
  'seventyfive_moves',
  'fivefold_repetition',
  'fifty_moves',
  'threefold_repetition',
)
STOPS = ('moves', 'automatic', 'claims')  # each looks for more
_BACK = (4, 2, 3, 5, 6, 3, 2, 4)


def start() -> np.ndarray:
  """[11] int32: the standard position, after no move."""
  ranks = [_BACK, (1,) * 8, *[(0,) * 8] * 4, (7,) * 8, [c + 6 for c in _BACK]]
  row = np.zeros(WORDS, np.uint32)
  row[:8] = [sum(c << 4 * k for k, c in enumerate(rank)) for rank in ranks]
  row[8], row[9] = 15 << 1, 1 << 16
  return row.view(np.int32)


def rows(rows: Any, name: str = 'rows') -> np.ndarray:
  """Checked [B, >= 11] int32, frozen."""
  rows = np.asarray(rows)
  if rows.ndim != 2 or rows.shape[1] < WORDS:
    raise core.InputError(
      f'{name} have shape {rows.shape}; expected [B, at least {WORDS}]'
    )
  return checks.frozen(rows, np.int32)


def games(
  moves: Any, lengths: Any, starts: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Checked [N, L] int32, [N] int32 and [1 or N, >= 11] int32, frozen."""
  moves = checks.frozen(moves, np.int32)
  lengths = checks.frozen(np.atleast_1d(lengths), np.int32)
  if moves.ndim != 2:
    raise core.InputError(f'moves have shape {moves.shape}; expected [N, L]')
  checks.same_length(moves=moves, lengths=lengths)
  if lengths.size and not 0 <= lengths.min() <= lengths.max() <= moves.shape[1]:
    raise core.InputError(
      f'lengths hold {lengths.min()}..{lengths.max()}; moves have '
      f'{moves.shape[1]} columns'
    )
  starts = start() if starts is None else np.asarray(starts)
  starts = rows(np.atleast_2d(starts), 'start rows')
  if len(starts) not in (1, len(moves)):
    raise core.InputError(
      f'{len(starts)} start rows for {len(moves)} games; expected one or all'
    )
  return moves, lengths, starts


def legal_ep(ep: str) -> bool:
  """Is it the legal convention of en passant? InputError if it is none."""
  if ep not in EN_PASSANT:
    raise core.InputError(f'unknown ep {ep!r}; available: {EN_PASSANT}')
  return ep == 'legal'
