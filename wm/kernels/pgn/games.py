"""Games in PGN text: where they lie, and what they say.

A game is a run of tag lines, `[Name "value"]`, and the move text after them.
Two kinds of lines start a new game:

  - a tag line, if the game under way has move text; an Event tag also if that
    game has one already;
  - move text after a result: games need not have tags.

Lines inside a comment start nothing, except `[Event "`, which shows that the
comment was never closed. Until a game has its result, a line that starts with
'[' but does not look like a tag is move text.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from wm import core
from wm.kernels.base import checks, pieces
from wm.kernels.chess import layout


class Text(NamedTuple):
  """Games in a text.

  Attributes:
    games: [N, WIDTH] int64, in order.
    rest: byte where the text starts that belongs to no whole game yet.
  """

  games: np.ndarray
  rest: int


class Moves(NamedTuple):
  """Moves of games, end to end.

  Attributes:
    moves: [sum of lengths] uint16 packed.
    lengths: [N] int32, moves read.
    errors: [N] int8 into chess.san.ERRORS; where it is not 0, reading stopped.
    words: [N, 2] int64, first and last + 1 byte of the word refused.
  """

  moves: np.ndarray
  lengths: np.ndarray
  errors: np.ndarray
  words: np.ndarray


def _bytes(text: bytes | np.ndarray) -> np.ndarray:
  if isinstance(text, bytes | bytearray | memoryview):
    text = np.frombuffer(text, np.uint8)
  return checks.frozen(text, np.uint8)


def split(text: bytes | np.ndarray, final: bool = True) -> Text:
  """Finds the games of a text, line ends '\\n'.

  Args:
    text: bytes, or [M] uint8.
    final: is this the end of the file? If not, the last game and the last
      line, which may go on, are left as `rest`.
  """
  from wm.kernels.pgn import games_numba

  games, rest = games_numba.split(_bytes(text), bool(final))
  return Text(games, int(rest))


def read(
  text: bytes | np.ndarray, firsts: np.ndarray, lasts: np.ndarray
) -> Moves:
  """Reads move text from the standard position, each up to its first error.

  What a token means is said in `chess.san`. Memory is bounded by the text.

  Args:
    text: bytes, or [M] uint8.
    firsts: [N] first byte of each game's move text.
    lasts: [N] last + 1 byte of it.
  """
  from wm.kernels.chess import san_numba

  text = _bytes(text)
  firsts = checks.frozen(firsts, np.int64)
  lasts = checks.frozen(lasts, np.int64)
  inside = firsts.shape == lasts.shape and firsts.ndim == 1
  if (
    not inside
    or not ((firsts >= 0) & (firsts <= lasts) & (lasts <= len(text))).all()
  ):
    raise core.InputError(
      f'spans {firsts.tolist()[:4]}... to {lasts.tolist()[:4]}...; expected '
      f'one after the other in {len(text)} bytes'
    )
  opening = layout.start_rows(None, len(firsts))
  found = pieces.run(
    lambda some: san_numba.read(text, firsts[some], lasts[some], opening),
    len(firsts),
  )
  return Moves(*found)
