"""Names and numbers of chess moves: UCI, packed ids, vocabularies.

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

PACKED, POSSIBLE = 20480, 1968
START, PAD = '<start>', '<pad>'
KINDS = ('compact', 'packed')
PROMOTIONS = ' qrbn'
PUBLISHED_START = 20480  # Of the published numbering, beside packed ids.

_SQUARES = tuple(f'{file}{rank}' for rank in '12345678' for file in 'abcdefgh')
_NUMBERS = {name: square for square, name in enumerate(_SQUARES)}


def square_name(square: int) -> str:
  """'a1' for 0, 'h8' for 63."""
  return _SQUARES[square]


def square_number(name: str) -> int:
  """0 for 'a1', 63 for 'h8'; DEAD where `name` is no square."""
  return _NUMBERS.get(name, core.DEAD)


def uci(packed: int) -> str:
  """Written form of a packed id, 'e2e4' or 'e7e8q'; one for every id."""
  pair, promotion = divmod(int(packed), 5)
  name = _SQUARES[pair // 64] + _SQUARES[pair % 64]
  return name + PROMOTIONS[promotion].strip()


def _frozen(array: np.ndarray) -> np.ndarray:
  array.flags.writeable = False
  return array


@functools.cache
def possible() -> np.ndarray:
  """[1968] int32, ascending: the packed ids that are a move of some piece.

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
  if kind not in KINDS:
    raise core.InputError(
      f'unknown vocabulary {kind!r}; available: {", ".join(KINDS)}'
    )
  if kind == 'compact':
    return possible()
  return np.arange(PACKED, dtype=np.int32)


@functools.cache
def vocab(kind: str, start: str = START) -> tuple[str, ...]:
  """Token strings by id: '<pad>', moves in UCI, the start token."""
  return (PAD, *(uci(move) for move in _moves(kind).tolist()), start)


def start(kind: str) -> int:
  """Id of the start token, the last one."""
  return len(_moves(kind)) + 1


@functools.cache
def packed(kind: str) -> np.ndarray:
  """[V] int32 packed id of each token; DEAD for padding and start."""
  return _frozen(
    np.concatenate([[core.DEAD], _moves(kind), [core.DEAD]]).astype(np.int32)
  )


@functools.cache
def index(kind: str) -> np.ndarray:
  """[20480] int32 token of each packed id; 0 where it has none."""
  tokens = np.zeros(PACKED, np.int32)
  moves = _moves(kind)
  tokens[moves] = np.arange(1, len(moves) + 1)
  return _frozen(tokens)
