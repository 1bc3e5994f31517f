"""The functions of `wm.kernels.chess` by python-chess: their specification.

They take what those take, unchecked, and return the same. Only move orders ask
the compiled ones, to be done in time.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator

import chess
import numpy as np

from tests.kernels.base import product_ref
from tests.kernels.base.product_ref import Suffix as Line
from tests.kernels.base.rng_ref import below, splitmix
from wm import core
from wm.core import basics
from wm.kernels.chess import board as tables
from wm.kernels.chess import games, layout, positions

ROOKS = 7, 0, 63, 56  # Whose castling right each bit is.
PROMOTIONS = None, chess.QUEEN, chess.ROOK, chess.BISHOP, chess.KNIGHT
MOST = 2**16 - 1


class Board(chess.Board):
  """One of python-chess, also where no pawn stands before the passed square."""

  def generate_pseudo_legal_ep(self, *masks: int) -> Iterator[chess.Move]:
    """None without a pawn to take."""
    pushed = chess.Piece(chess.PAWN, not self.turn)
    passed = self.ep_square
    if passed is not None and self.piece_at(passed ^ 8) == pushed:
      yield from super().generate_pseudo_legal_ep(*masks)


def packed(move: chess.Move) -> int:
  """Id of a move."""
  squares = move.from_square * 64 + move.to_square
  return squares * 5 + PROMOTIONS.index(move.promotion)


def unpacked(move: int) -> chess.Move:
  """Move of an id."""
  return chess.Move(move // 320, move // 5 % 64, PROMOTIONS[move % 5])


def read(row: np.ndarray) -> Board | None:
  """Board of a state row, None where it has none."""
  if row[8] < 0 or row[10] == layout.BEFORE:
    return None
  words = [int(word) & 0xFFFFFFFF for word in row]
  codes = [words[s // 8] >> 4 * (s % 8) & 15 for s in range(64)]
  if max(codes) > 12 or codes.count(6) != 1 or codes.count(12) != 1:
    return None
  board = Board(None)
  for square, code in enumerate(codes):
    if code:
      board.set_piece_at(square, chess.Piece((code - 1) % 6 + 1, code < 7))
  side, file = words[8] & 1, min(words[8] >> 5 & 15, 8) - 1
  board.turn = not side
  board.castling_rights = sum(
    (words[8] >> 1 + k & 1) << rook for k, rook in enumerate(ROOKS)
  )
  board.castling_rights = board.clean_castling_rights()
  board.ep_square = None if file < 0 else file + (16 if side else 40)
  board.halfmove_clock, board.fullmove_number = words[9] & MOST, words[9] >> 16
  return None if board.was_into_check() else board


def _flags(board: Board) -> list[int]:
  """Side, four rights, the passed pawn's file + 1, and both counters."""
  passed = 0 if board.ep_square is None else board.ep_square % 8 + 1
  rights = [board.castling_rights >> rook & 1 for rook in ROOKS]
  counters = board.halfmove_clock, board.fullmove_number
  return [
    int(not board.turn),
    *rights,
    passed,
    *(min(n, MOST) for n in counters),
  ]


def _code(board: Board, square: int) -> int:
  piece = board.piece_at(square)
  return piece.piece_type + 6 * (not piece.color) if piece else 0


def write(board: Board, known: int) -> np.ndarray:
  """[11] int32 state row."""
  side, *rights, passed, half, full = _flags(board)
  words = [
    sum(_code(board, 8 * rank + k) << 4 * k for k in range(8))
    for rank in range(8)
  ]
  words.append(side | sum(r << k + 1 for k, r in enumerate(rights)))
  words[8] |= passed << 5
  words += [half | full << 16, known & 0xFFFFFFFF]
  return np.array(words, np.uint32).view(np.int32)


def moves(board: Board | None) -> list[int]:
  """Legal packed moves, ascending."""
  return sorted(map(packed, board.legal_moves)) if board else []


def after(board: Board, move: int) -> Board:
  """The board after a legal move, with its history."""
  result = board.copy()
  result.push(unpacked(move))
  return result


def label(board: Board, ep: str = 'raw') -> list[int]:
  """The 75 state labels."""
  side, *rights, passed, half, full = _flags(board)
  if ep == 'legal' and not board.has_legal_en_passant():
    passed = 0
  rank = passed and (2 if board.turn else 1)
  squares = [_code(board, square ^ 56) for square in range(64)]
  return [
    *(*squares, side, *rights, passed, rank),
    *(*divmod(half, 256), *divmod(full, 256)),
  ]


def legal(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Legal moves [B, 256] and their numbers [B]."""
  out = np.full((len(rows), layout.MOST_MOVES), -1, np.int32)
  results = [moves(read(row)) for row in rows]
  for b, listed in enumerate(results):
    out[b, : len(listed)] = listed
  return out, np.array([len(listed) for listed in results], np.int32)


def legal_mask(rows: np.ndarray, index: np.ndarray, columns: int) -> np.ndarray:
  """[B, columns] bool: legal moves by column."""
  mask = np.zeros((len(rows), columns), bool)
  for b, row in enumerate(rows):
    for move in moves(read(row)):
      if 0 <= index[move] < columns:
        mask[b, index[move]] = True
  return mask


def advance(
  rows: np.ndarray, played: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Rows after one move each, and whether it was legal."""
  out = np.full((len(rows), layout.WORDS), core.DEAD, np.int32)
  ok = np.zeros(len(rows), bool)
  for b, row in enumerate(rows):
    board, move = read(row), int(played[b])
    if board and move in moves(board):
      known = int(row[10])
      ok[b] = True
      out[b] = write(after(board, move), known + (known >= 0))
  return out, ok


def keys(rows: np.ndarray) -> np.ndarray:
  """Zobrist keys."""
  boards = [read(row) for row in rows]
  words = [_zobrist(board) if board else 0 for board in boards]
  return np.array(words, np.int64).view(np.uint64)


def _zobrist(board: Board) -> int:
  """Of pieces, side, rights, and a passed pawn that may be taken."""
  side, *rights, passed, _, _ = _flags(board)
  result = int(tables.RIGHTS_KEYS[sum(r << k for k, r in enumerate(rights))])
  for square in chess.SQUARES:
    result ^= int(tables.PIECE_KEYS[_code(board, square), square])
  if board.has_legal_en_passant():
    result ^= int(tables.EP_KEYS[passed])
  return result ^ tables.SIDE_KEY if side else result


def in_check(rows: np.ndarray) -> np.ndarray:
  """Is the side to move in check?"""
  boards = [read(row) for row in rows]
  return np.array([board is not None and board.is_check() for board in boards])


def labels(rows: np.ndarray, ep: str = 'raw') -> np.ndarray:
  """State labels [B, 75]."""
  result = np.zeros((len(rows), layout.LABELS), np.uint8)
  for b, board in enumerate(map(read, rows)):
    if board:
      result[b] = label(board, ep)
  return result


def count(row: np.ndarray, depth: int) -> list[int]:
  """Numbers of lines of 1..depth moves, by listing."""
  board, counts = read(row), []
  level = [board] if board else []
  for _ in range(depth):
    level = [after(b, move) for b in level for move in moves(b)]
    counts.append(len(level))
  return counts


# Games.


def outcome(board: Board, stop: str) -> str:
  """How a game ends at its last board."""
  if stop == 'moves' and any(board.legal_moves):
    return 'none'
  if stop == 'moves':
    return 'checkmate' if board.is_check() else 'stalemate'
  result = board.outcome(claim_draw=stop == 'claims')
  return result.termination.name.lower() if result else 'none'


def _code_of(board: Board, stop: str) -> int:
  return layout.OUTCOMES.index(outcome(board, stop))


def _games(
  played: np.ndarray, lengths: np.ndarray, starts: np.ndarray | None
) -> Iterator[list[Board]]:
  """Boards of each game up to its first illegal move; none without board."""
  starts = layout.start_rows(starts, len(played))
  for n, (game, length) in enumerate(zip(played, lengths, strict=True)):
    board = read(starts[n % len(starts)])
    history = [board] if board else []
    for move in game[:length] if board else ():
      if move not in moves(history[-1]):
        break
      history.append(after(history[-1], int(move)))
    yield history


def replay_labels(
  played: np.ndarray,
  lengths: np.ndarray,
  ep: str = 'raw',
  starts: np.ndarray | None = None,
) -> np.ndarray:
  """State labels after every move."""
  num, plies = np.shape(played)
  result = np.zeros((num, plies + 1, layout.LABELS), np.uint8)
  for n, history in enumerate(_games(played, lengths, starts)):
    for ply, board in enumerate(history):
      result[n, ply] = label(board, ep)
  return result


def outcomes(
  played: np.ndarray,
  lengths: np.ndarray,
  stop: str = 'claims',
  starts: np.ndarray | None = None,
) -> np.ndarray:
  """Outcomes after every move."""
  num, plies = np.shape(played)
  codes = np.full((num, plies + 1), -1, np.int8)
  for n, history in enumerate(_games(played, lengths, starts)):
    codes[n, : len(history)] = [_code_of(board, stop) for board in history]
  return codes


def play(
  num: int,
  seed: int,
  first: int = 0,
  *,
  most: int = 1024,
  stop: str = 'claims',
  policy: str = 'uniform',
  start_row: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
  """Random games; a move at ply t takes draw t of its game's stream."""
  weights = games.weights(policy).tolist()
  played = np.full((num, most), -1, np.int32)
  lengths, codes = np.zeros(num, np.int32), np.zeros(num, np.int8)
  for n, key in enumerate(basics.hash64(seed, first + np.arange(num)).tolist()):
    board = read(layout.start() if start_row is None else start_row)
    for ply in range(most + 1):
      codes[n], lengths[n] = _code_of(board, stop), ply
      if codes[n] or ply == most:
        break
      played[n, ply] = _draw(board, weights, splitmix(key ^ ply) >> 32)
      board.push(unpacked(int(played[n, ply])))
  return played, lengths, codes


def kinds(board: Board, move: int) -> int:
  """Set of kinds of a legal packed move."""
  item = unpacked(move)
  pawn = board.piece_type_at(item.from_square) == chess.PAWN
  return (
    games.CAPTURE * board.is_capture(item)
    | games.PROMOTION * (item.promotion is not None)
    | games.PAWN * pawn
  )


def _draw(board: Board, weights: list[int], word: int) -> int:
  """The move that a random word of 32 bits draws; no weights are equal ones."""
  choices = moves(board)
  mass = [weights[kinds(board, m)] if weights else 1 for m in choices]
  sums = [*itertools.accumulate(mass)]
  return choices[bisect.bisect_right(sums, word * sums[-1] >> 32)]


# Boundaries.


def _product(
  first: np.ndarray, second: np.ndarray, depth: int
) -> tuple[list[Line], list[Line]]:
  """Boundary and interior of a pair of rows."""
  return product_ref.product(read(first), read(second), depth, moves, after)


def boundary(
  first: np.ndarray, second: np.ndarray, depth: int
) -> tuple[np.ndarray, np.ndarray]:
  """Lines of the boundary, shorter ones first, and their lengths."""
  lines, _ = _product(first, second, depth)
  out = np.full((len(lines), max(map(len, lines), default=0)), -1, np.int32)
  for k, line in enumerate(lines):
    out[k, : len(line)] = line
  return out, np.array([len(line) for line in lines], np.int32)


def boundary_sizes(
  first: np.ndarray, second: np.ndarray, depth: int
) -> tuple[list[int], list[int]]:
  """Sizes of boundary and interior by length, by listing."""
  outer, inner = _product(first, second, depth)
  return product_ref.sizes(outer, depth), product_ref.sizes(inner, depth)


# Move orders.


def transpositions(
  played: np.ndarray,
  lengths: np.ndarray,
  seeds: np.ndarray,
  start: np.ndarray | None = None,
  sweeps: int = 4,
  window: int = 5,
  opening: int = 8,
) -> np.ndarray:
  """A Gibbs chain over the orders of each row's moves."""
  start = layout.start() if start is None else start
  out = np.full(played.shape, -1, np.int32)
  for n, length in enumerate(lengths.tolist()):
    line = tuple(played[n, :length].tolist())
    starts = max(length - window + 1, 1)
    steps = sweeps * starts if length > opening else min(sweeps, 1)
    seed = int(seeds[n])
    for step in range(steps):
      low = below(seed, step, starts) if length > opening else 0
      high = low + (window if low else min(opening, length))
      mixed = splitmix(seed) ^ splitmix(step)
      before = _reached(start, line[:low])
      drawn = _drawn(before, line[low:high], mixed)
      line = line[:low] + drawn + line[high:]
    out[n, :length] = line
  return out


def _reached(row: np.ndarray, line: Line) -> np.ndarray:
  return games.replay(np.array([line], int), np.array([len(line)]), row)[1][0]


def _key(row: np.ndarray) -> int:
  return int(positions.keys(row[None])[0])


def _drawn(before: np.ndarray, line: Line, seed: int) -> Line:
  """One of the orders that lead where `line` does, uniformly."""
  goal = _key(_reached(before, line))
  drawn, num = line, 0
  for order, row in _orders(before, sorted(line[::2]), sorted(line[1::2])):
    if _key(row) == goal:
      num += 1
      if below(seed, num, num) == 0:
        drawn = order
  return drawn


def _orders(
  row: np.ndarray, mine: list[int], other: list[int]
) -> Iterator[tuple[Line, np.ndarray]]:
  """Legal orders of both sides' moves, ascending, and where they lead."""
  if not mine:
    yield (), row
    return
  for move in sorted(set(mine)):
    rows, ok = positions.advance(row[None], np.array([move]))
    if not ok[0]:
      continue
    left = list(mine)
    left.remove(move)
    for rest, reached in _orders(rows[0], other, left):
      yield (move, *rest), reached
