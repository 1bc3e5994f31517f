"""Formats of chess positions and moves, and checks of both.

A move is a packed id, (from * 64 + to) * 5 + promotion, squares a1 = 0 to
h8 = 63, promotion 0 none, 1 queen, 2 rook, 3 bishop, 4 knight (Walker and
Lyons 2026, section 2). A state row is [>= 11] int32; a world may append more
words:

  0..7  64 nibbles: square s is word s // 8, bits 4 * (s % 8); codes 0..12
        are `.PNBRQKpnbrqk`
  8     side to move (bit 0, 1 black), castling rights K Q k q (bits 1..4),
        en-passant file + 1 (from bit 5; set after every double push, 0 none)
  9     halfmove clock, fullmove number << 16; both stop at 65535
  10    number of known moves before the position; -2 before the start token,
        -3 where the history is unknown (a position given as FEN)

No move is legal from a row without board: a dead row (all DEAD), a row before
the start token, and a row with codes above 12, without exactly one king per
side, or whose side to move could capture the king. Castling rights without king
and rook at home, and en passant without a pawn to capture, are ignored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wm import core
from wm.kernels.base import calls

WORDS, LABELS, PACKED = 11, 75, 64 * 64 * 5
MOST_MOVES = 256  # a position has at most 218
BEFORE, UNKNOWN = -2, -3  # in word 10
# In the order of the tests.
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
STOPS = ('moves', 'automatic', 'claims')  # each includes the ones before
_BACK = (4, 2, 3, 5, 6, 3, 2, 4)


def start() -> np.ndarray:
  """[11] int32: the standard start position."""
  ranks = [_BACK, (1,) * 8, *[(0,) * 8] * 4, (7,) * 8, [c + 6 for c in _BACK]]
  row = np.zeros(WORDS, np.uint32)
  # Rank after rank, a1 in the lowest nibble of the first word.
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
  return calls.frozen(rows, np.int32)


def games(
  moves: Any, lengths: Any, starts: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """Checked [N, L] int32, [N] int32 and [1 or N, >= 11] int32, frozen."""
  moves, lengths = calls.games(moves, lengths, 'moves')
  return moves, lengths, start_rows(starts, len(moves))


def start_rows(starts: Any, num: int) -> np.ndarray:
  """One start row [1, >= 11] or one for each of `num` games, frozen.

  None is the standard position.
  """
  starts = start() if starts is None else np.asarray(starts)
  starts = rows(np.atleast_2d(starts), 'start rows')
  if len(starts) not in (1, num):
    raise core.InputError(
      f'{len(starts)} start rows for {num} games; expected one or all'
    )
  return starts
