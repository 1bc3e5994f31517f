"""Moves of chess as people write them, with errors that say what is wrong."""

from __future__ import annotations

import numpy as np

from wm import core
from wm.kernels import chess
from wm.kernels.chess import san as chess_san
from wm.worlds.chess import fen as chess_fen
from wm.worlds.chess import moves as chess_moves

_SHOWN = 8


def parse(text: str, row: np.ndarray | None = None) -> np.ndarray:
  """[K] int32 packed moves of one game in SAN, UCI or PGN move text.

  row: [>= 11] position it starts from; the standard one if None. Raises
  InputError with ply, word, position and legal moves.
  """
  data = text.encode('utf-8', 'replace')
  games = chess_san.read(data, rows=row)
  moves = games.moves[0, : games.lengths[0]]
  if games.errors[0]:
    first, last = games.words[0]
    word = data[first:last].decode('utf-8', 'replace')
    raise refused(word, chess_san.ERRORS[games.errors[0]], moves, row)
  return moves


def refused(
  word: str, why: str, moves: np.ndarray, row: np.ndarray | None = None
) -> core.InputError:
  """The error of a word that is no move after `moves` from `row`.

  Of the legal moves it shows those to the same square first.
  """
  after = chess.replay(moves[None], np.array([len(moves)]), row)[1][0]
  goal = word.rstrip('+#!?')[-2:]
  legal = sorted(san_moves(after), key=lambda move: goal not in move)
  shown = ', '.join(legal[:_SHOWN]) or 'none, the game is over'
  more = f' and {len(legal) - _SHOWN} more' if len(legal) > _SHOWN else ''
  return core.InputError(
    f'ply {len(moves) + 1}: {word!r} is {why} in '
    f'{chess_fen.format(after)!r}; available: {shown}{more}'
  )


def san(row: np.ndarray, move: int) -> str:
  """SAN of a packed move in a position [>= 11]; InputError if illegal."""
  words, steps = chess_san.write(np.array([[move]]), np.array([1]), row)
  if not steps[0]:
    valid = 0 <= move < chess_moves.PACKED
    word = chess_moves.uci(move) if valid else str(move)
    raise refused(word, 'illegal', np.zeros(0, np.int32), row)
  return words[0, 0].decode()


def san_moves(row: np.ndarray) -> list[str]:
  """SAN of all legal moves of a position [>= 11], by packed id."""
  moves, counts = chess.legal(row[None])
  moves = moves[0, : counts[0], None]
  words, _ = chess_san.write(moves, np.ones(len(moves), np.int32), row)
  return [word.decode() for word in words[:, 0].tolist()]
