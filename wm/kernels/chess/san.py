"""Chess notation: games as text, games as packed moves.

Tokens are standard algebraic notation (SAN): 'e4', 'exd6', 'Nbd7', 'R1a3',
'e8=Q+', 'O-O'. Packed moves and state rows are those of `wm.kernels.chess`.

Reading is lenient in form. Check and mate signs, 'x' and '=' may be missing;
more of the source square may be given than needed; glyphs ('!?') may follow,
and 'e.p.', with dots or without, at once or after a blank. Castling may be
written with zeros, promotions in small letters, and any move as two squares
('g1f3', 'e7e8q'). Reading is strict in meaning: a token means exactly one
legal move, or the game stops there. In PGN move text, numbers, comments,
glyphs and variations are passed over, and a result ends the game.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.kernels.base import checks
from wm.kernels.chess import layout

# Why a token is no move; a game's error is an index into these.
ERRORS = ('', 'unreadable', 'illegal', 'ambiguous')


class Games(NamedTuple):
  """Games read.

  Attributes:
    moves: [N, L] int32 packed, DEAD after each game's last.
    lengths: [N] int32, moves read.
    errors: [N] int8 into ERRORS; where it is not 0, reading stopped.
    words: [N, 2] int64, first and last + 1 byte of the token refused.
  """

  moves: np.ndarray
  lengths: np.ndarray
  errors: np.ndarray
  words: np.ndarray


def read(
  text: bytes | np.ndarray,
  starts: np.ndarray | None = None,
  rows: np.ndarray | None = None,
) -> Games:
  """Reads games from SAN or PGN move text, each up to its first error.

  The result holds as many columns as the longest game has moves, so a large
  file is better read by `wm.kernels.pgn`.

  Args:
    text: bytes, or [M] uint8.
    starts: [N + 1] first byte of each game, ascending, and the end of the
      last; one game if None.
    rows: [11], [1, >= 11] or [N, >= 11] positions they start from; the
      standard one if None.
  """
  from wm.kernels.chess import san_numba

  if isinstance(text, bytes | bytearray | memoryview):
    text = np.frombuffer(text, np.uint8)
  text = checks.frozen(text, np.uint8)
  starts = np.array([0, len(text)]) if starts is None else np.asarray(starts)
  _check_starts(starts, text)
  rows = layout.start_rows(rows, len(starts) - 1)
  starts = checks.frozen(starts, np.int64)
  flat, lengths, *refused = san_numba.read(text, starts[:-1], starts[1:], rows)
  moves = np.full((len(lengths), lengths.max(initial=0)), core.DEAD, np.int32)
  moves[np.arange(moves.shape[1]) < lengths[:, None]] = flat
  return Games(moves, lengths, *refused)


def write(
  moves: np.ndarray, lengths: np.ndarray, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
  """Writes games in SAN, each up to its first illegal move.

  Args:
    moves: [N, L] packed; those past lengths[n] are not read.
    lengths: [N].
    rows: as for `read`.

  Returns:
    words: [N, L] bytes 'S7', the shortest that tell, with checks and mates;
      empty after the last.
    steps: [N] int32, moves written.
  """
  from wm.kernels.chess import san_numba

  moves, lengths, rows = layout.games(moves, lengths, rows)
  words, steps = san_numba.write(moves, lengths, rows)
  return words.view('S7').reshape(moves.shape), steps


def _check_starts(starts: np.ndarray, text: np.ndarray) -> None:
  ordered = (
    starts.ndim == 1 and len(starts) > 0 and (np.diff(starts) >= 0).all()
  )
  if not ordered or starts[0] < 0 or starts[-1] > len(text):
    raise core.InputError(
      f'starts are {starts.tolist()[:4]}...; expected ascending places in '
      f'{len(text)} bytes'
    )
