"""Words of chess moves read by plain Python: the specification of the kernel.

A word is compared with every legal move; `wm.kernels.chess.san` documents.
"""

from __future__ import annotations

import re

import chess
import numpy as np

from tests.kernels.chess import ref
from wm.kernels.chess import layout
from wm.kernels.chess.san import GLYPHS, ReadGames

UNREADABLE, ILLEGAL = 1, 2  # Ambiguous is 3.
# Between moves: blanks, marks, comments, remarks, move numbers, 'e.p.'.
_GLYPH = b'[+#!?=/~' + GLYPHS[1] + b'-]'
_SKIPPED = re.compile(
  rb'[\0- .!?)}$]|\{[^}]*\}?|;[^\n]*\n?|[1-9][0-9]*(?=[\0- .]|$)'
  rb'|(?!--)(?:e\.?p\.?|(?=' + _GLYPH + rb'))' + _GLYPH + rb'*(?=[\0- {;()$]|$)'
)
_RESULT = re.compile(rb'\*|1-0|0-1|[0-9]+/')
_ASIDE = re.compile(rb'[()]|\{[^}]*\}?|;[^\n]*\n?|[^(){;]+')
_WORD = re.compile(rb'[^\0- {;()$]+')
_TAIL = r'(?:e\.?p\.?)?' + _GLYPH.decode('latin-1') + '*'
_CASTLING = re.compile(rf'(?:O-O(-O)?|0-0(-0)?){_TAIL}')
_MOVE = re.compile(
  r'([PNBRQK]?)([a-h]?)([1-8]?)[x:-]?([a-h])([1-8])'
  rf'(?:=?([QRBNqrbn]))?{_TAIL}'
)


def words(text: bytes) -> list[tuple[int, int]]:
  """First and last + 1 byte of each move in move text, up to a result."""
  result, at = [], 0
  while at < len(text) and not _RESULT.match(text, at):
    skipped = _SKIPPED.match(text, at)
    if skipped:
      at = skipped.end()
    elif text[at : at + 1] == b'(':
      at = _past_variation(text, at)
    elif word := _WORD.match(text, at):
      result.append(word.span())
      at = word.end()
  return result


def _past_variation(text: bytes, at: int) -> int:
  depth = 0
  for part in _ASIDE.finditer(text, at):
    depth += {b'(': 1, b')': -1}.get(part[0], 0)
    if not depth:
      return part.end()
  return len(text)


def meant(board: ref.Board, word: str) -> list[chess.Move] | None:
  """Legal moves that a word may mean; None where it is unreadable."""
  legal = list(board.legal_moves)
  castling, parts = _CASTLING.fullmatch(word), _MOVE.fullmatch(word)
  if castling:
    step = -2 if any(castling.groups()) else 2
    return [
      move
      for move in legal
      if board.is_castling(move) and move.to_square - move.from_square == step
    ]
  if not parts:
    return None
  letter, file, rank, *goal, promotion = parts.groups()
  whole = not letter and file and rank
  if whole and not promotion:  # Of castling, the king takes his rook.
    goal = _castled(board, file + rank, ''.join(goal))
  result = []
  for move in legal:
    source, target = move.from_square, move.to_square
    kind = board.piece_type_at(source)
    if (
      chess.square_name(target) == ''.join(goal)
      and move.uci()[4:] == (promotion or '').lower()
      and file in chess.square_name(source)[0]
      and rank in chess.square_name(source)[1]
      and (whole or chess.piece_symbol(kind).upper() == (letter or 'P'))
      and (whole or not board.is_castling(move))
      and (kind != chess.PAWN or file or source % 8 == target % 8)
    ):
      result.append(move)
  return result


def _castled(board: ref.Board, source: str, goal: str) -> str:
  rank = '1' if board.turn else '8'
  pieces = [board.piece_at(chess.parse_square(s)) for s in (source, goal)]
  home = [chess.Piece(k, board.turn) for k in (chess.KING, chess.ROOK)]
  corner = source == f'e{rank}' and goal in (f'a{rank}', f'h{rank}')
  if corner and pieces == home:
    return ('c' if goal[0] == 'a' else 'g') + rank
  return goal


def read(
  text: bytes, starts: np.ndarray | None = None, rows: np.ndarray | None = None
) -> ReadGames:
  """Games of a text, each up to its first error."""
  ends = [0, len(text)] if starts is None else np.asarray(starts).tolist()
  num = len(ends) - 1
  rows = layout.start_rows(rows, num)
  games: list[list[int]] = [[] for _ in range(num)]
  errors, refused = np.zeros(num, np.int8), np.zeros((num, 2), np.int64)
  for n, game in enumerate(games):
    board = ref.read(rows[n % len(rows)])
    for first, last in words(text[ends[n] : ends[n + 1]]):
      span = ends[n] + first, ends[n] + last
      word = text[slice(*span)].decode('latin-1')
      results = meant(board, word) if board else []
      if results is None or len(results) != 1:
        errors[n] = UNREADABLE if results is None else ILLEGAL + bool(results)
        refused[n] = span
        break
      game.append(ref.packed(results[0]))
      board.push(results[0])
  lengths = np.array([len(game) for game in games], np.int32)
  moves = np.full((num, lengths.max(initial=0)), -1, np.int32)
  for game, row in zip(games, moves, strict=True):
    row[: len(game)] = game
  return ReadGames(moves, lengths, errors, refused)
