"""Notation of chess moves in plain Python: the specification of the kernels.

A word is compared with every legal move; `wm.kernels.chess.san` documents.
"""

from __future__ import annotations

import re

import numpy as np

from tests.kernels.chess import rules_ref
from wm.kernels.chess import layout
from wm.kernels.chess.san import GLYPHS, ReadGames

LETTERS, PROMOTIONS = '.PNBRQK', ' QRBN'
UNREADABLE, ILLEGAL, AMBIGUOUS = 1, 2, 3
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


def _squares(move: int) -> tuple[int, int]:
  return divmod(move // 5, 64)


def _castles(position: rules_ref.Position, move: int) -> bool:
  source, target = _squares(move)
  king = rules_ref.piece(position.board[source])[0] == rules_ref.KING
  return king and abs(source - target) == 2


def _name(square: int) -> str:
  return 'abcdefgh'[square % 8] + '12345678'[square // 8]


def meant(position: rules_ref.Position, word: str) -> list[int] | None:
  """Legal packed moves that a word may mean; None where it is unreadable."""
  legal = rules_ref.moves(position)
  castling, parts = _CASTLING.fullmatch(word), _MOVE.fullmatch(word)
  if castling:
    step = -2 if any(castling.groups()) else 2
    return [
      move
      for move in legal
      if _castles(position, move) and np.diff(_squares(move)) == step
    ]
  if not parts:
    return None
  letter, file, rank, *goal, promotion = parts.groups()
  whole = not letter and file and rank
  if whole and not promotion:  # Of castling, the king takes his rook.
    goal = _castled(position, file + rank, ''.join(goal))
  result = []
  for move in legal:
    source, target = _squares(move)
    kind = rules_ref.piece(position.board[source])[0]
    if (
      _name(target) == ''.join(goal)
      and PROMOTIONS[move % 5] == (promotion or ' ').upper()
      and file in _name(source)[0]
      and rank in _name(source)[1]
      and (whole or LETTERS[kind] == (letter or 'P'))
      and (whole or not _castles(position, move))
      and (kind != rules_ref.PAWN or file or source % 8 == target % 8)
    ):
      result.append(move)
  return result


def _castled(position: rules_ref.Position, source: str, goal: str) -> str:
  rank = '18'[position.side]
  pieces = [
    position.board['abcdefgh'.index(name[0]) + 8 * (int(name[1]) - 1)]
    for name in (source, goal)
  ]
  kinds = [rules_ref.piece(piece) if piece else None for piece in pieces]
  king, rook = ((kind, position.side) for kind in (rules_ref.KING, 4))
  corner = source == f'e{rank}' and goal in (f'a{rank}', f'h{rank}')
  if corner and kinds == [king, rook]:
    return ('c' if goal[0] == 'a' else 'g') + rank
  return goal


def spelled(position: rules_ref.Position, move: int) -> str:
  """The shortest word of a legal move that tells it, with check or mate."""
  source, target = _squares(move)
  kind = rules_ref.piece(position.board[source])[0]
  takes = position.board[target] or (
    kind == rules_ref.PAWN and source % 8 != target % 8
  )
  if _castles(position, move):
    word = 'O-O' if target > source else 'O-O-O'
  else:
    word = LETTERS[kind] + _hint(position, move)
    if kind == rules_ref.PAWN:
      word = _name(source)[0] if takes else ''
    word += 'x' * bool(takes) + _name(target)
    word += f'={PROMOTIONS[move % 5]}' if move % 5 else ''
  after = rules_ref.after(position, move)
  if rules_ref.checked(after, after.side):
    word += '+' if rules_ref.moves(after) else '#'
  return word


def _hint(position: rules_ref.Position, move: int) -> str:
  """File, else rank, else square of the source, where others may go too."""
  source, target = _squares(move)
  others = {_squares(other) for other in rules_ref.moves(position)}
  names = [
    _name(square)
    for square, goal in others
    if goal == target
    and square != source
    and position.board[square] == position.board[source]
  ]
  file, rank = (*_name(source),)
  if not names:
    return ''
  if all(file not in name for name in names):
    return file
  return rank if all(rank not in name for name in names) else file + rank


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
    position = rules_ref.read(rows[n % len(rows)])
    for first, last in words(text[ends[n] : ends[n + 1]]):
      span = ends[n] + first, ends[n] + last
      word = text[slice(*span)].decode('latin-1')
      results = meant(position, word) if position else []
      if position is None or results is None or len(results) != 1:
        errors[n] = UNREADABLE if results is None else ILLEGAL + bool(results)
        refused[n] = span
        break
      game.append(results[0])
      position = rules_ref.after(position, results[0])
  lengths = np.array([len(game) for game in games], np.int32)
  moves = np.full((num, lengths.max(initial=0)), -1, np.int32)
  for game, row in zip(games, moves, strict=True):
    row[: len(game)] = game
  return ReadGames(moves, lengths, errors, refused)


def write(
  moves: np.ndarray, lengths: np.ndarray, rows: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
  """SAN [N, L] bytes of games, and how many moves are legal."""
  moves = np.asarray(moves)
  rows = layout.start_rows(rows, len(moves))
  result = np.zeros(moves.shape, 'S7')
  steps = np.zeros(len(moves), np.int32)
  for n, game in enumerate(moves.tolist()):
    position = rules_ref.read(rows[n % len(rows)])
    for move in game[: lengths[n]]:
      if position is None or move not in rules_ref.moves(position):
        break
      result[n, steps[n]] = spelled(position, move)
      position = rules_ref.after(position, move)
      steps[n] += 1
  return result, steps
