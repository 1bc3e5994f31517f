"""Positions of chess as FEN, read with every rule of a possible position.

A position is a row of WORDS int32 words, the layout of the chess kernels:

  0..7  64 nibbles; square s (a1 = 0, h8 = 63) is word s // 8, bits 4 * (s % 8)
        classes 0..12 are `.PNBRQKpnbrqk`
  8     side to move (bit 0, 1 black), rights K Q k q (bits 1..4),
        en-passant file + 1 (from bit 5, 0 none; set after every double push)
  9     halfmove clock, fullmove number << 16 (both 0..65535)
  10    moves known before the position; HISTORY_UNKNOWN for one read here
"""

from __future__ import annotations

import numpy as np

from wm import core
from wm.kernels.chess import board as rules
from wm.kernels.chess import layout
from wm.worlds.chess import moves as chess_moves

WORDS, HISTORY_UNKNOWN = layout.WORDS, layout.UNKNOWN
PIECES = '.PNBRQKpnbrqk'
START = 'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1'
RULES = (
  'fields',
  'ranks',
  'files',
  'pieces',
  'side',
  'castling',
  'en passant',
  'counters',
  'kings',
  'pawns',
  'men',
  'check',
)
MOST = 2**16 - 1
# Right -> squares of king and rook.
_HOMES = {'K': (4, 7), 'Q': (4, 0), 'k': (60, 63), 'q': (60, 56)}


def parse(text: str) -> np.ndarray:
  """[11] int32 position of a FEN; of four fields, the counters are '0 1'.

  Raises InputError that names the first of RULES that the text breaks: a
  position that no game reaches for one of these reasons is refused.
  """
  fields = text.split()
  if len(fields) == 4:
    fields += ['0', '1']
  if len(fields) != 6:
    raise _broken(text, 'fields', f'{len(fields)} fields', '6, or 4')
  try:
    board = _board(fields[0])
    if fields[1] not in ('w', 'b'):
      raise _Broken('side', f'side {fields[1]!r}', 'w or b')
    black = fields[1] == 'b'
    rights = _rights(fields[2], board)
    clocks = _counters(*fields[4:])
    _check_men(board)
    file = _passant(fields[3], board, black, clocks[0])
    _check_checks(board, black, file)
  except _Broken as broken:
    raise _broken(text, *broken.args) from None
  flags = int(black) | rights << 1 | (file + 1) << 5
  return _packed(board, flags, clocks)


def format(row: np.ndarray) -> str:
  """FEN of a position [>= 11 words], its en-passant square after any push."""
  board = squares(row)
  flags, clocks = int(row[8]), int(row[9]) & 0xFFFFFFFF
  ranks = []
  for rank in range(7, -1, -1):
    text = ''.join(PIECES[c] for c in board[8 * rank : 8 * rank + 8].tolist())
    for run in range(8, 0, -1):
      text = text.replace('.' * run, str(run))
    ranks.append(text)
  rights = ''.join(r for k, r in enumerate('KQkq') if flags >> (k + 1) & 1)
  file, black = flags >> 5, flags & 1
  passant = '-' if not file else 'abcdefgh'[file - 1] + '63'[black]
  return (
    f'{"/".join(ranks)} {"wb"[black]} {rights or "-"} {passant} '
    f'{clocks & MOST} {clocks >> 16}'
  )


def squares(row: np.ndarray) -> np.ndarray:
  """[64] uint8 class of the piece on each square, a1 first, 0 none."""
  words = np.asarray(row[:8], np.int32).view(np.uint32)
  shifts = np.arange(0, 32, 4, dtype=np.uint32)
  return (words[:, None] >> shifts & 15).astype(np.uint8).ravel()


class _Broken(ValueError):
  """A rule broken: its name, what was given, what is expected."""


def _broken(text: str, rule: str, fault: str, expected: str) -> core.InputError:
  return core.InputError(
    f'FEN {text!r} is impossible ({rule}): {fault}; expected {expected}'
  )


def _packed(
  board: list[int], flags: int, clocks: tuple[int, int]
) -> np.ndarray:
  nibbles = np.array(board, np.uint32).reshape(8, 8)
  shifts = np.arange(0, 32, 4, dtype=np.uint32)
  words = (nibbles << shifts).sum(-1, dtype=np.uint32)
  clock = np.array([clocks[0] | clocks[1] << 16], np.uint32)
  row = np.zeros(WORDS, np.int32)
  row[:8], row[8], row[9] = words.view(np.int32), flags, clock.view(np.int32)[0]
  row[10] = HISTORY_UNKNOWN
  return row


def _board(field: str) -> list[int]:
  """Classes by square."""
  ranks = field.split('/')
  if len(ranks) != 8:
    raise _Broken('ranks', f'{len(ranks)} ranks', '8, between slashes')
  board: list[int] = []
  for number, rank in zip(range(8, 0, -1), ranks, strict=True):
    classes = []
    for letter in rank:
      if letter in '12345678':
        classes += [0] * int(letter)
      elif letter in PIECES[1:]:
        classes.append(PIECES.index(letter))
      else:
        raise _Broken(
          'pieces', f'{letter!r} on rank {number}', f'{PIECES[1:]} or 1..8'
        )
    if len(classes) != 8:
      raise _Broken('files', f'{len(classes)} files on rank {number}', '8')
    board = classes + board
  return board


def _rights(field: str, board: list[int]) -> int:
  """Bits K, Q, k, q."""
  if field == '-':
    return 0
  if not set(field) <= set('KQkq') or len(set(field)) < len(field):
    raise _Broken('castling', f'rights {field!r}', "letters of KQkq, or '-'")
  for right in field:
    king, rook = _HOMES[right]
    men = ('K', 'R') if right.isupper() else ('k', 'r')
    if PIECES[board[king]] + PIECES[board[rook]] != ''.join(men):
      home = [chess_moves.square_name(s) for s in (king, rook)]
      raise _Broken(
        'castling',
        f'right {right} with {_named(board, king)}, {_named(board, rook)}',
        f'{men[0]} on {home[0]} and {men[1]} on {home[1]}',
      )
  return sum(1 << 'KQkq'.index(right) for right in field)


def _named(board: list[int], square: int) -> str:
  name = chess_moves.square_name(square)
  piece = PIECES[board[square]]
  return f'{name} empty' if piece == '.' else f'{piece} on {name}'


def _counters(*fields: str) -> tuple[int, int]:
  """Halfmove clock and fullmove number."""
  names = (('halfmove clock', 0), ('fullmove number', 1))
  for field, (name, least) in zip(fields, names, strict=True):
    number = field.isascii() and field.isdecimal() and len(field) <= 5
    if not number or not least <= int(field) <= MOST:
      raise _Broken('counters', f'{name} {field!r}', f'{least}..{MOST}')
  return int(fields[0]), int(fields[1])


def _check_men(board: list[int]) -> None:
  """Numbers that no game has."""
  for side, men in (('white', 'PNBRQK'), ('black', 'pnbrqk')):
    at = {m: [s for s in range(64) if PIECES[board[s]] == m] for m in men}
    pawns, knights, bishops, rooks, queens, kings = at.values()
    if len(kings) != 1:
      raise _Broken('kings', f'{len(kings)} {side} kings', '1 a side')
    if any(s < 8 or s >= 56 for s in pawns):
      raise _Broken('pawns', f'a {side} pawn on rank 1 or 8', 'ranks 2..7')
    if len(pawns) > 8:
      raise _Broken('pawns', f'{len(pawns)} {side} pawns', 'at most 8')
    light = sum((s + s // 8) % 2 for s in bishops)
    dark = len(bishops) - light
    ones = sum(max(n - 1, 0) for n in (light, dark, len(queens)))
    promoted = ones + sum(max(len(n) - 2, 0) for n in (knights, rooks))
    if promoted > 8 - len(pawns):
      raise _Broken(
        'men',
        f'{len(pawns)} {side} pawns and {promoted} promoted pieces',
        'at most 8 together',
      )


def _passant(field: str, board: list[int], black: bool, clock: int) -> int:
  """File of the en-passant square, -1 for none."""
  if field == '-':
    return -1
  square = chess_moves.square_number(field)
  rank, step, pawn = (2, 8, 'P') if black else (5, -8, 'p')
  if square // 8 != rank:
    raise _Broken(
      'en passant', f'square {field!r}', f"'-' or a square on rank {rank + 1}"
    )
  pushed, origin = square + step, square - step
  pieces = [PIECES[board[s]] for s in (pushed, square, origin)]
  if pieces != [pawn, '.', '.']:
    names = [chess_moves.square_name(s) for s in (pushed, square, origin)]
    contents = ', '.join(_named(board, s) for s in (pushed, square, origin))
    raise _Broken(
      'en passant',
      contents,
      f'{pawn} on {names[0]}, {names[1]} and {names[2]} empty',
    )
  if clock:
    raise _Broken(
      'en passant', f'halfmove clock {clock} after a push', 'clock 0'
    )
  return square % 8


def _check_checks(board: list[int], black: bool, file: int) -> None:
  """Checks that no move gives."""
  mover, other = ('k', 'K') if black else ('K', 'k')
  king = board.index(PIECES.index(mover))
  attackers = _attackers(
    board, board.index(PIECES.index(other)), white=not black
  )
  if attackers:
    raise _Broken(
      'check',
      f'{_named(board, attackers[0])} attacks the king of the side not to move',
      'that king not in check',
    )
  checkers = _attackers(board, king, white=black)
  names = ' and '.join(_named(board, s) for s in checkers)
  if len(checkers) > 2:
    raise _Broken('check', f'{names} give check', 'at most 2 checkers')
  if len(checkers) == 2 and _opposite(king, *checkers):
    raise _Broken('check', f'{names} give check on one line', 'one of them')
  if checkers and file >= 0:
    pushed, origin = (24 + file, 8 + file) if black else (32 + file, 48 + file)
    before = list(board)
    before[pushed], before[origin] = 0, board[pushed]
    if checkers != [pushed] and _attackers(before, king, white=black):
      raise _Broken(
        'check',
        f'{names} gives check, and the last move was '
        f'{chess_moves.square_name(origin)}{chess_moves.square_name(pushed)}',
        'a check that this move gives',
      )


def _opposite(king: int, first: int, second: int) -> bool:
  """Do two checkers stand on either side of the king on one line?"""
  (a, b), (c, d) = (
    (s % 8 - king % 8, s // 8 - king // 8) for s in (first, second)
  )
  return a * d == b * c and a * c + b * d < 0


def _attackers(board: list[int], square: int, white: bool) -> list[int]:
  """Squares from which a side's men attack a square, ascending."""
  men = 'PNBRQK' if white else 'pnbrqk'
  return [
    s
    for s in range(64)
    if PIECES[board[s]] in men and square in rules.attacked_from(board, s)
  ]
