"""Othello and chess from their texts.

Othello is played by the reference of its kernels. Of chess the text gives the
position and the notation; what moves are legal in a position is left to the
rules of `wm.kernels.chess`, which the world plays by too.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable

import numpy as np

from tests.language.stand_ins import base

_FILES = 'abcdefgh'
_Board = tuple[int, int, int]  # Discs of both as bits, and the side to move.
_Row = tuple[int, ...]  # A position of the kernels; () before the first word.


class Othello(base.Reading):
  """Discs on named squares, in the middle of the reference's board."""

  def __init__(self, size: int, black: list[str], white: list[str]) -> None:
    """black, white: squares with discs at the start."""
    low = 4 - size // 2
    self._bits = {
      f'{_FILES[column]}{row + 1}': 8 * (low + row) + low + column
      for row in range(size)
      for column in range(size)
    }
    self._first = self._word(black), self._word(white), 0

  def _word(self, squares: Iterable[str]) -> int:
    return sum(1 << self._bits[square] for square in squares)

  def start(self) -> Hashable:
    """Four discs, and black to move."""
    return self._first

  def step(self, state: _Board, word: str) -> Hashable | None:
    """The board after a disc of the side to move."""
    from tests.kernels import othello_ref  # Deferred: it imports Numba.

    squares, bit = self._word(self.every()), self._bits.get(word, 64)
    if not othello_ref.legal_squares(state, squares) >> bit & 1:
      return None
    return othello_ref.moved(state, bit, squares)

  def every(self) -> Iterable[str]:
    """All squares that are free at the start."""
    taken = self._first[0] | self._first[1]
    return [name for name, bit in self._bits.items() if not taken >> bit & 1]


def read_othello(told: str) -> Othello | None:
  """A game of Othello; None where the text has none."""
  size = re.match(
    r'This is the game of Othello on a board of (\d) x|'
    r'Two players, black and white, put discs on a square grid with (\d)',
    told,
  )
  discs = re.search(
    r'[Bb]lack (?:has discs|discs lie) on (\w\d) and (\w\d) and white '
    r'(?:discs )?on (\w\d) and (\w\d)[;,]',
    told,
  )
  if not (size and discs):
    return None
  squares = list(discs.groups())
  return Othello(int(size[1] or size[2]), squares[:2], squares[2:])


class Chess(base.Reading):
  """Positions of the rules, and the notation of the text."""

  def __init__(self, fen: str, begin: str, hyphens: bool) -> None:
    """fen: position of the start. begin: the word that sets up the position."""
    self._fen, self._begin, self._hyphens = fen, begin, hyphens

  def start(self) -> Hashable:
    """No position yet."""
    return ()

  def _moves(self, state: _Row) -> dict[str, int]:
    """Legal moves as the text writes them."""
    from wm.kernels import chess  # Deferred: it imports Numba.

    moves, counts = chess.legal(np.array([state], np.int32))
    results = moves[0, : counts[0]].tolist()
    return {self._written(move): move for move in results}

  def _written(self, move: int) -> str:
    pair, promotion = divmod(move, 5)
    first, last = (
      _FILES[square % 8] + str(square // 8 + 1) for square in divmod(pair, 64)
    )
    dash, equals = ('-', '=') if self._hyphens else ('', '')
    letter = f'{equals}{" qrbn"[promotion]}' if promotion else ''
    return f'{first}{dash}{last}{letter}'

  def step(self, state: _Row, word: str) -> Hashable | None:
    """The position after a move."""
    from wm.kernels import chess  # Deferred: it imports Numba.

    if state == ():
      return _position(self._fen) if word == self._begin else None
    move = self._moves(state).get(word)
    if move is None:
      return None
    after, _ = chess.advance(np.array([state], np.int32), np.array([move]))
    return tuple(after[0].tolist())

  def following(self, state: _Row) -> list[str]:
    """The legal moves."""
    return [self._begin] if state == () else list(self._moves(state))

  def every(self) -> Iterable[str]:
    """The first word, and all pairs of squares; promotions on top of these."""
    result = [self._begin]
    for pair in range(64 * 64):
      first, last = divmod(pair, 64)
      rows = {first // 8, last // 8}
      promotes = rows in ({6, 7}, {0, 1}) and abs(first % 8 - last % 8) <= 1
      for promotion in range(5 if promotes else 1):
        result.append(self._written(pair * 5 + promotion))
    return result


def _position(fen: str) -> _Row:
  """The position of a FEN, as the kernels hold it."""
  from tests.kernels.chess import ref  # Deferred: only some need it.

  board = ref.Board(fen)
  board.castling_rights = board.clean_castling_rights()
  return tuple(ref.write(board, 0).tolist())


def read_chess(told: str) -> Chess | None:
  """A game of chess; None where the text has none."""
  result = re.search(
    r'(?:the position|in the FEN) (\S+ [wb] \S+ \S+ \d+ \d+)[ .]', told
  )
  begin = re.search(r'(?:of a game is|begins with) the word (\w+)', told)
  if not (result and begin):
    return None
  return Chess(result[1], begin[1], 'hyphen' in told)
