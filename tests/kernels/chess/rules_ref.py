"""The rules of chess for one position, in plain Python.

A move is tried on the board and refused if it leaves the own king attacked.
"""

from __future__ import annotations

import bisect
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from wm.kernels.chess import board as tables
from wm.kernels.chess import games as policies
from wm.kernels.chess import layout

EMPTY, PAWN, KNIGHT, BISHOP, ROOK, QUEEN, KING = range(7)  # black: + 6
PROMOTIONS = {1: QUEEN, 2: ROOK, 3: BISHOP, 4: KNIGHT}
STRAIGHT = ((1, 0), (-1, 0), (0, 1), (0, -1))
SLANTED = ((1, 1), (1, -1), (-1, 1), (-1, -1))
LEAPS = tuple(
  (x, y) for x in (-2, -1, 1, 2) for y in (-2, -1, 1, 2) if abs(x * y) == 2
)
STEPS = {
  KNIGHT: (LEAPS, 1),
  BISHOP: (SLANTED, 7),
  ROOK: (STRAIGHT, 7),
  QUEEN: (STRAIGHT + SLANTED, 7),
  KING: (STRAIGHT + SLANTED, 1),
}
# Right (bit) -> the king's source and target, the rook's source and target.
CASTLINGS = ((4, 6, 7, 5), (4, 2, 0, 3), (60, 62, 63, 61), (60, 58, 56, 59))
MOST = 2**16 - 1


class Position(NamedTuple):
  """A position; `board` holds 64 codes, `passed` the square a pawn skipped."""

  board: tuple[int, ...]
  side: int
  rights: frozenset[int]
  passed: int | None
  half: int
  full: int
  known: int


def piece(code: int) -> tuple[int, int]:
  """Kind 1..6 and side of a code 1..12."""
  return (code - 1) % 6 + 1, int(code > 6)


def read(row: np.ndarray) -> Position | None:
  """Position of a state row, None where it has no board."""
  if row[8] < 0 or row[10] == layout.BEFORE:
    return None
  words = [int(word) & 0xFFFFFFFF for word in row]
  board = tuple(words[s // 8] >> 4 * (s % 8) & 15 for s in range(64))
  if max(board) > 12 or board.count(KING) != 1 or board.count(KING + 6) != 1:
    return None
  side, file = words[8] & 1, min(words[8] >> 5 & 15, 8) - 1
  rights = {k for k in range(4) if words[8] >> 1 + k & 1 and _home(board, k)}
  position = Position(
    board,
    side,
    frozenset(rights),
    None if file < 0 else file + (16 if side else 40),
    words[9] & MOST,
    words[9] >> 16,
    int(row[10]),
  )
  return None if checked(position, 1 - side) else position


def _home(board: tuple[int, ...], right: int) -> bool:
  """Are the king and the rook of a castling right where they started?"""
  king, _, rook, _ = CASTLINGS[right]
  black = 6 * (right // 2)
  return board[king] == KING + black and board[rook] == ROOK + black


def write(position: Position) -> np.ndarray:
  """[11] int32 state row."""
  board, passed = position.board, position.passed
  words = [
    sum(code << 4 * k for k, code in enumerate(board[8 * w : 8 * w + 8]))
    for w in range(8)
  ]
  file = 0 if passed is None else passed % 8 + 1
  rights = sum(1 << k for k in position.rights)
  words.append(position.side | rights << 1 | file << 5)
  words.append(position.half | position.full << 16)
  words.append(position.known & 0xFFFFFFFF)
  return np.array(words, np.uint32).view(np.int32)


def reach(board: Sequence[int], square: int) -> Iterator[int]:
  """Squares that the piece on a square attacks."""
  kind, side = piece(board[square])
  if kind == PAWN:
    ahead = -1 if side else 1
    steps: Sequence[tuple[int, int]] = ((-1, ahead), (1, ahead))
    most = 1
  else:
    steps, most = STEPS[kind]
  for step in steps:
    for target in tables.ray(square, step, most):
      yield target
      if board[target]:
        break


def is_attacked(board: tuple[int, ...], square: int, side: int) -> bool:
  """Does a piece of `side` attack a square?"""
  return any(
    square in reach(board, s)
    for s in range(64)
    if board[s] and piece(board[s])[1] == side
  )


def checked(position: Position, side: int) -> bool:
  """Is the king of `side` attacked?"""
  king = position.board.index(KING + 6 * side)
  return is_attacked(position.board, king, 1 - side)


def _pawn_targets(position: Position, square: int) -> Iterator[int]:
  board, side = position.board, position.side
  ahead, home = ((0, -1), 6) if side else ((0, 1), 1)
  for target in tables.ray(square, ahead, 2 if square // 8 == home else 1):
    if board[target]:
      break
    yield target
  enemy = PAWN + 6 * (1 - side)
  for target in reach(board, square):
    if board[target] or (
      target == position.passed and board[target ^ 8] == enemy
    ):
      yield target


def _castlings(position: Position) -> Iterator[tuple[int, int]]:
  board, side = position.board, position.side
  for right in position.rights & {2 * side, 2 * side + 1}:
    king, goal, rook, landing = CASTLINGS[right]
    low, high = sorted((king, rook))
    free = not any(board[low + 1 : high])
    path = (king, landing, goal)
    if free and not any(is_attacked(board, s, 1 - side) for s in path):
      yield king, goal


def _tried(position: Position) -> Iterator[tuple[int, int]]:
  """From and to of all moves but for the own king's safety."""
  board, side = position.board, position.side
  for square in range(64):
    if not board[square] or piece(board[square])[1] != side:
      continue
    if board[square] == PAWN + 6 * side:
      targets = _pawn_targets(position, square)
    else:
      targets = reach(board, square)
    for target in targets:
      if not board[target] or piece(board[target])[1] != side:
        yield square, target
  yield from _castlings(position)


def moves(position: Position) -> list[int]:
  """Legal packed moves, ascending."""
  results = []
  for source, target in _tried(position):
    pawn = piece(position.board[source])[0] == PAWN
    promotes = pawn and target // 8 in (0, 7)
    for promo in PROMOTIONS if promotes else (0,):
      move = (source * 64 + target) * 5 + promo
      if not checked(after(position, move), position.side):
        results.append(move)
  return sorted(results)


def zeroing(position: Position, move: int) -> bool:
  """Does a move take something or move a pawn?"""
  source, target = move // 5 // 64, move // 5 % 64
  pawn = piece(position.board[source])[0] == PAWN
  return pawn or position.board[target] != EMPTY


def after(position: Position, move: int) -> Position:
  """The position after a move, whose king may be attacked."""
  promo, source, target = move % 5, move // 5 // 64, move // 5 % 64
  board, side = list(position.board), position.side
  kind = piece(board[source])[0]
  if kind == PAWN and source % 8 != target % 8 and not board[target]:
    board[target ^ 8] = EMPTY
  board[target] = PROMOTIONS[promo] + 6 * side if promo else board[source]
  board[source] = EMPTY
  if kind == KING:
    for king, goal, rook, landing in CASTLINGS:
      if (source, target) == (king, goal):
        board[landing], board[rook] = board[rook], EMPTY
  lost = {
    right
    for right, (king, _, rook, _) in enumerate(CASTLINGS)
    if {king, rook} & {source, target}
  }
  double = kind == PAWN and abs(target - source) == 16
  return Position(
    tuple(board),
    1 - side,
    position.rights - lost,
    (source + target) // 2 if double else None,
    0 if zeroing(position, move) else min(position.half + 1, MOST),
    min(position.full + side, MOST),
    position.known + (position.known >= 0),
  )


def takes_passing(position: Position) -> bool:
  """Is an en-passant capture legal?"""
  board, passed = position.board, position.passed
  return (passed is not None and not board[passed]) and any(
    move // 5 % 64 == passed
    and piece(board[move // 5 // 64])[0] == PAWN
    and (move // 5 // 64 - passed) % 8
    for move in moves(position)
  )


def repeatable(position: Position) -> tuple:
  """What must be equal for the rule of repetition."""
  passed = position.passed if takes_passing(position) else None
  return (*position[:3], passed)


def key(position: Position) -> int:
  """Zobrist key of `repeatable`, as a signed 64-bit integer."""
  board, side, rights, passed = repeatable(position)
  result = int(tables.RIGHTS_KEYS[sum(1 << k for k in rights)])
  for square, code in enumerate(board):
    result ^= int(tables.PIECE_KEYS[code, square])
  if passed is not None:
    result ^= int(tables.EP_KEYS[passed % 8 + 1])
  return result ^ tables.SIDE_KEY if side else result


def labels(position: Position, legal_ep: bool) -> list[int]:
  """The 75 state labels."""
  passed = position.passed
  if legal_ep and not takes_passing(position):
    passed = None
  return [
    *(position.board[s ^ 56] for s in range(64)),
    position.side,
    *(int(right in position.rights) for right in range(4)),
    0 if passed is None else passed % 8 + 1,
    0 if passed is None else (1 if passed < 32 else 2),
    *divmod(position.half, 256),
    *divmod(position.full, 256),
  ]


def cannot_win(board: tuple[int, ...], side: int) -> bool:
  """Is no mate by `side` possible, by what stands on the board?"""
  own, other = (
    Counter(piece(code)[0] for code in board if code and piece(code)[1] == s)
    for s in (side, 1 - side)
  )
  if own[PAWN] + own[ROOK] + own[QUEEN]:
    return False
  if own[KNIGHT]:
    lone = own.total() == 2
    return lone and other.total() == other[KING] + other[QUEEN]
  if own[BISHOP]:
    shades = {
      (s // 8 + s % 8) % 2
      for s, code in enumerate(board)
      if code and piece(code)[0] == BISHOP
    }
    return len(shades) == 1 and not any(
      both[PAWN] + both[KNIGHT] for both in (own, other)
    )
  return True


def outcome(history: list[Position], stop: int) -> int:
  """Index into OUTCOMES at the last of the positions of a game.

  stop: 0 by lack of moves, 1 also by arbiter, 2 also by claim.
  """
  here = history[-1]
  legal = moves(here)
  names = layout.OUTCOMES.index
  if not legal and checked(here, here.side):
    return names('checkmate')
  if stop and cannot_win(here.board, 0) and cannot_win(here.board, 1):
    return names('insufficient_material')
  if not legal:
    return names('stalemate')
  seen = Counter(map(repeatable, history))
  times = seen[repeatable(here)]
  if stop and here.half >= 150:
    return names('seventyfive_moves')
  if stop and times >= 5:
    return names('fivefold_repetition')
  if stop < 2:
    return 0
  nexts = [after(here, move) for move in legal]
  if here.half >= 100 or any(n.half >= 100 and moves(n) for n in nexts):
    return names('fifty_moves')
  if times >= 3 or any(seen[repeatable(n)] >= 2 for n in nexts):
    return names('threefold_repetition')
  return 0


# Policies of random games.


def kinds(position: Position, move: int) -> int:
  """Set of kinds of a legal packed move."""
  promo, pair = move % 5, move // 5
  source, target = divmod(pair, 64)
  kind, _ = piece(position.board[source])
  taken = position.board[target] != EMPTY
  result = policies.CAPTURE if taken else 0
  if kind == PAWN:
    result |= policies.PAWN
    if promo:
      result |= policies.PROMOTION
    if not taken and source % 8 != target % 8:
      result |= policies.CAPTURE
  return result


def draw(
  position: Position, moves: list[int], weights: list[int], word: int
) -> int:
  """The move that a random word of 32 bits draws."""
  sums = [*itertools.accumulate(weights[kinds(position, m)] for m in moves)]
  return moves[bisect.bisect_right(sums, word * sums[-1] >> 32)]
