"""Chess notation: moves as UCI and SAN, positions as FEN, vocabularies.

The FEN parser checks every rule of a possible position and names the broken
one. A position is a row of WORDS int32 words, the layout of the chess kernels:

  0..7  64 nibbles; square s (a1 = 0, h8 = 63) is word s // 8, bits 4 * (s % 8)
        classes 0..12 are `.PNBRQKpnbrqk`
  8     side to move (bit 0, 1 black), rights K Q k q (bits 1..4),
        en-passant file + 1 (from bit 5, 0 none; set after every double push)
  9     halfmove clock, fullmove number << 16 (both 0..65535)
  10    number of known moves before the position; HISTORY_UNKNOWN for a FEN

Squares are a1 = 0, b1 = 1, ..., h8 = 63. A packed id is
(from * 64 + to) * 5 + promotion, where promotion is 0 none, 1 queen, 2 rook,
3 bishop, 4 knight; castling is the move of the king. Only POSSIBLE of the
PACKED ids are moves of some piece (Walker and Lyons 2026, section 2).

Tokens of either vocabulary: 0 is padding, then the moves in order of their
packed ids, last the start token:

  compact  1..1968 possible moves   1969 start
  packed   1..20480 all packed ids  20481 start
"""

from __future__ import annotations

import functools

import numpy as np

from wm import core
from wm.kernels import chess
from wm.kernels.chess import layout
from wm.kernels.chess import san as chess_san

PACKED, POSSIBLE = 20480, 1968
START_TOKEN, PADDING = '<start>', '<pad>'
PROMOTIONS = ' qrbn'
PUBLISHED_START = 20480  # Start token of the published numbering.

_SQUARES = tuple(f'{file}{rank}' for rank in '12345678' for file in 'abcdefgh')


def square_name(square: int) -> str:
  """'a1' for 0, 'h8' for 63."""
  return _SQUARES[square]


def uci(packed: int) -> str:
  """Written form of a packed id, 'e2e4' or 'e7e8q'; one for every id."""
  pair, promotion = divmod(int(packed), 5)
  name = _SQUARES[pair // 64] + _SQUARES[pair % 64]
  return name + PROMOTIONS[promotion].strip()


def _frozen(array: np.ndarray) -> np.ndarray:
  array.flags.writeable = False
  return array


@functools.cache
def possible_moves() -> np.ndarray:
  """[1968] int32, ascending: packed ids that are a move of some piece.

  1,792 pairs of squares on queen or knight lines, and 176 promotions.
  """
  origin, target = np.divmod(np.arange(64 * 64), 64)
  files = np.abs(target % 8 - origin % 8)
  ranks = np.abs(target // 8 - origin // 8)
  line = (files == 0) | (ranks == 0) | (files == ranks)
  piece = (line | (files * ranks == 2)) & (origin != target)
  up = (origin // 8 == 6) & (target // 8 == 7)
  down = (origin // 8 == 1) & (target // 8 == 0)
  pawn = (files <= 1) & (up | down)
  moves = np.stack([piece, *[pawn] * 4], axis=-1)
  return _frozen(np.flatnonzero(moves).astype(np.int32))


def _moves(kind: str) -> np.ndarray:
  if kind == 'compact':
    return possible_moves()
  return np.arange(PACKED, dtype=np.int32)


@functools.cache
def vocab(kind: str, start: str = START_TOKEN) -> tuple[str, ...]:
  """Token strings by id: '<pad>', moves in UCI, the start token."""
  return (PADDING, *(uci(move) for move in _moves(kind).tolist()), start)


def start_token(kind: str) -> int:
  """Id of the start token, the last one."""
  return len(_moves(kind)) + 1


@functools.cache
def packed_ids(kind: str) -> np.ndarray:
  """[V] int32 packed id of each token; DEAD for padding and start."""
  return _frozen(
    np.concatenate([[core.DEAD], _moves(kind), [core.DEAD]]).astype(np.int32)
  )


@functools.cache
def token_ids(kind: str) -> np.ndarray:
  """[20480] int32 token of each packed id; 0 without a token."""
  tokens = np.zeros(PACKED, np.int32)
  moves = _moves(kind)
  tokens[moves] = np.arange(1, len(moves) + 1)
  return _frozen(tokens)


WORDS, HISTORY_UNKNOWN = layout.WORDS, layout.UNKNOWN
PIECES = '.PNBRQKpnbrqk'
START_FEN = 'rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1'
MOST_COUNTED = 2**16 - 1
# Right -> squares of king and rook.
HOMES = {'K': (4, 7), 'Q': (4, 0), 'k': (60, 63), 'q': (60, 56)}


def parse_fen(text: str) -> np.ndarray:
  """[11] int32 position of a FEN; with only four fields, counters are '0 1'.

  Raises InputError, naming the first of RULES that the text breaks, for
  positions that cannot occur in a game.
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
    row = _packed(board, int(black) | rights << 1 | (file + 1) << 5, clocks)
    if not chess.keys(row[None])[0]:  # The kernels see no board.
      fault = 'the side to move can take the king'
      raise _Broken('check', fault, 'that king not in check')
  except _Broken as broken:
    raise _broken(text, *broken.args) from None
  return row


def format_fen(row: np.ndarray) -> str:
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
    f'{clocks & MOST_COUNTED} {clocks >> 16}'
  )


def squares(row: np.ndarray) -> np.ndarray:
  """[64] uint8 class of the piece on each square, a1 first, 0 none."""
  words = np.asarray(row[:8], np.int32).view(np.uint32)
  shifts = np.arange(0, 32, 4, dtype=np.uint32)
  return (words[:, None] >> shifts & 15).astype(np.uint8).ravel()


class _Broken(ValueError):
  """A broken rule: its name, the fault, and the expected value."""


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
    king, rook = HOMES[right]
    men = ('K', 'R') if right.isupper() else ('k', 'r')
    if PIECES[board[king]] + PIECES[board[rook]] != ''.join(men):
      home = [square_name(s) for s in (king, rook)]
      raise _Broken(
        'castling',
        f'right {right} with {_named(board, king)}, {_named(board, rook)}',
        f'{men[0]} on {home[0]} and {men[1]} on {home[1]}',
      )
  return sum(1 << 'KQkq'.index(right) for right in field)


def _named(board: list[int], square: int) -> str:
  name = square_name(square)
  piece = PIECES[board[square]]
  return f'{name} empty' if piece == '.' else f'{piece} on {name}'


def _counters(*fields: str) -> tuple[int, int]:
  """Halfmove clock and fullmove number."""
  names = (('halfmove clock', 0), ('fullmove number', 1))
  for field, (name, least) in zip(fields, names, strict=True):
    number = field.isascii() and field.isdecimal() and len(field) <= 5
    if not number or not least <= int(field) <= MOST_COUNTED:
      raise _Broken('counters', f'{name} {field!r}', f'{least}..{MOST_COUNTED}')
  return int(fields[0]), int(fields[1])


def _check_men(board: list[int]) -> None:
  """Raises _Broken for impossible numbers or places of pieces."""
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
  square = _SQUARES.index(field) if field in _SQUARES else core.DEAD
  rank, step, pawn = (2, 8, 'P') if black else (5, -8, 'p')
  if square // 8 != rank:
    raise _Broken(
      'en passant', f'square {field!r}', f"'-' or a square on rank {rank + 1}"
    )
  pushed, origin = square + step, square - step
  pieces = [PIECES[board[s]] for s in (pushed, square, origin)]
  if pieces != [pawn, '.', '.']:
    names = [square_name(s) for s in (pushed, square, origin)]
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


_SHOWN = 8


def parse_moves(text: str, row: np.ndarray | None = None) -> np.ndarray:
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
  """The error for a word that is not a legal move after `moves` from `row`.

  The message lists legal moves, those to the same square first.
  """
  after = chess.replay(moves[None], np.array([len(moves)]), row)[1][0]
  goal = word.rstrip('+#!?')[-2:]
  legal = sorted(san_moves(after), key=lambda move: goal not in move)
  shown = ', '.join(legal[:_SHOWN]) or 'none, the game is over'
  more = f' and {len(legal) - _SHOWN} more' if len(legal) > _SHOWN else ''
  return core.InputError(
    f'ply {len(moves) + 1}: {word!r} is {why} in '
    f'{format_fen(after)!r}; available: {shown}{more}'
  )


def san_moves(row: np.ndarray) -> list[str]:
  """SAN of all legal moves of a position [>= 11], by packed id."""
  moves, counts = chess.legal(row[None])
  moves = moves[0, : counts[0], None]
  words, _ = chess_san.write(moves, np.ones(len(moves), np.int32), row)
  return [word.decode() for word in words[:, 0].tolist()]
