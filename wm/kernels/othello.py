"""Othello's rules: legal moves, replays, counts, boundaries of two positions.

A position is three arrays: discs `black` and `white`, [B] uint64 with bit
8 * row + column, and `side`, [B] int8: 0 black moves, 1 white moves, 2 the
game is over. If the other side has no move, the turn passes without a token; if
neither side has a move, the game is over.

Boards of `size` 4, 6 and 8 are centred in the 8x8 grid, so that the four
squares filled at the start are bits 27, 28, 35, 36 on each. Token k is the k-th
other square (Vafa et al. 2024, appendix on Othello; Li et al. 2023).

In compiled code a position is (me, opp, side): discs of the side to move, discs
of its opponent, and the side; in a finished game (side 2), me is black. A ray
wraps around the board's edge only through discs on columns 0 and 7, so
horizontal and diagonal rays never cross those columns. Smaller boards are
centred, so the mask of squares in play suffices for their edges.
"""

from __future__ import annotations

import functools

import numpy as np

from wm import core
from wm.core import inputs, resources
from wm.kernels.base import calls
from wm.kernels.base.bits import (
  bit,
  enlarged,
  lowest,
  popcount,
  put,
  without_lowest,
)
from wm.kernels.base.jit import njit

SIZES = (4, 6, 8)
CENTRE = (27, 28, 35, 36)
#   column   3 4
#   row 3    O X     bits 27, 28     X black, O white
#   row 4    X O     bits 35, 36
BLACK, WHITE = np.uint64(1 << 28 | 1 << 35), np.uint64(1 << 27 | 1 << 36)
OVER = 2
Position = tuple[np.ndarray, np.ndarray, np.ndarray]  # black, white, side.
# Moves per call of a search, which takes a fraction of a second.
NODES = 1 << 23
_NONE = np.uint64(0)
_INNER = np.uint64(0x7E7E7E7E7E7E7E7E)  # Columns 1..6.
# To the next square of a line: by 1 along a row, by 8 along a column, by 9 and
# 7 along the diagonals; up is towards high bits, down towards low ones.
_S1, _S7, _S8, _S9 = (np.uint64(n) for n in (1, 7, 8, 9))
_TWO = np.uint64(2)


@functools.cache
def squares(size: int = 8) -> np.ndarray:
  """[n] uint8 bits of tokens 1..n, n = size * size - 4, read-only."""
  inputs.check_known(size, SIZES, f'board size is {size!r}')
  edge = (8 - size) // 2
  lines = range(edge, edge + size)
  bits = [8 * row + column for row in lines for column in lines]
  return calls.frozen([b for b in bits if b not in CENTRE], np.uint8)


@functools.cache
def tokens_of(size: int = 8) -> np.ndarray:
  """[64] int32 token of each bit, 0 where no move is made, read-only."""
  tokens = np.zeros(64, np.int32)
  tokens[squares(size)] = np.arange(1, len(squares(size)) + 1)
  return calls.frozen(tokens, np.int32)


@functools.cache
def mask(size: int) -> np.uint64:
  """uint64 word of all squares that tokens name."""
  return np.bitwise_or.reduce(np.uint64(1) << squares(size).astype(np.uint64))


def checked(position: Position) -> Position:
  """The position frozen; raises InputError where sizes differ."""
  kinds = zip(position, (np.uint64, np.uint64, np.int8), strict=True)
  black, white, side = (calls.frozen(np.atleast_1d(c), k) for c, k in kinds)
  calls.same_length(black=black, white=white, side=side)
  return black, white, side


def start(batch: int = 1) -> Position:
  """The starting position, [batch] each; black moves."""
  full = functools.partial(np.full, batch)
  return full(BLACK), full(WHITE), np.zeros(batch, np.int8)


def legal(position: Position, size: int = 8) -> np.ndarray:
  """[B] uint64: squares on which the side to move may place a disc.

  0 where the game is over or `side` is anything but 0 and 1.
  """
  return _legal(*checked(position), mask(size))


@njit
def _legal(black, white, side, squares) -> np.ndarray:
  """Legal squares of each position."""
  moves = np.zeros(len(black), np.uint64)
  for b in range(len(black)):
    me, opp = oriented(black[b], white[b], side[b])
    if 0 <= side[b] <= 1:
      moves[b] = moves_of(me, opp, squares)
  return moves


def advance(
  position: Position, bits: np.ndarray, size: int = 8
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Positions after one move each.

  Args:
    position: columns [B].
    bits: [B] integers, the squares played; outside 0..63 is illegal too.
    size: 4, 6 or 8.

  Returns:
    black: [B] uint64.
    white: [B] uint64.
    side: [B] int8.
    ok: [B] bool, False where the move is illegal and the position unchanged.
  """
  position = checked(position)
  bits = calls.frozen(np.atleast_1d(bits), np.int32)
  calls.same_length(black=position[0], bits=bits)
  return _advance(*position, bits, mask(size))


@njit
def _advance(black, white, side, bits, squares) -> tuple:
  """Positions after one move each; unchanged where it is illegal."""
  num = len(black)
  blacks, whites = np.empty(num, np.uint64), np.empty(num, np.uint64)
  sides, ok = np.empty(num, np.int8), np.zeros(num, np.bool_)
  for b in range(num):
    blacks[b], whites[b], sides[b] = black[b], white[b], side[b]
    # What follows replaces these only where the move is legal.
    if not (0 <= side[b] <= 1 and 0 <= bits[b] < 64):
      continue
    me, opp = oriented(black[b], white[b], side[b])
    move = bit(bits[b])
    if moves_of(me, opp, squares) & move == _NONE:
      continue
    me, opp, after, _ = step(me, opp, np.int64(side[b]), move, squares)
    blacks[b], whites[b] = oriented(me, opp, after)
    sides[b], ok[b] = after, True
  return blacks, whites, sides, ok


def replay(
  tokens: np.ndarray, lengths: np.ndarray, size: int = 8
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Plays token rows from the start, up to the first illegal token.

  Args:
    tokens: [N, L] integers; those past lengths[n] are not read.
    lengths: [N].
    size: 4, 6 or 8.

  Returns:
    steps: [N] int32, tokens played.
    black: [N] uint64 after them.
    white: [N] uint64.
    side: [N] int8.
  """
  rows = calls.games(np.atleast_2d(tokens), lengths, 'tokens')
  board = squares(size), mask(size)
  return calls.run_rows(_replay, rows, *board)


@njit
def _replay(tokens, lengths, bits, squares) -> tuple:
  """Plays rows of tokens from the start, up to the first illegal one."""
  num = len(tokens)
  steps, sides = np.zeros(num, np.int32), np.empty(num, np.int8)
  blacks, whites = np.empty(num, np.uint64), np.empty(num, np.uint64)
  for n in range(num):
    me, opp, side, moves = first_position(squares)
    for k in range(lengths[n]):
      move = _named(tokens[n, k], moves, bits)
      if move == _NONE:
        break
      me, opp, side, moves = step(me, opp, side, move, squares)
      steps[n] += 1
    blacks[n], whites[n] = oriented(me, opp, side)
    sides[n] = side
  return steps, blacks, whites, sides


def replay_labels(
  tokens: np.ndarray, lengths: np.ndarray, size: int = 8
) -> np.ndarray:
  """[N, L, size * size + 1] uint8 labels after each token of `replay`'s rows.

  Labels of squares, row by row: 0 empty, 1 black, 2 white; then the side. All 0
  from the first illegal token on and beyond a row's length.
  """
  rows = calls.games(np.atleast_2d(tokens), lengths, 'tokens')
  board = squares(size), mask(size)
  return calls.run_rows(_replay_labels, rows, *board, size)


@njit
def _replay_labels(tokens, lengths, bits, squares, size) -> np.ndarray:
  """Labels after each token of rows; 0 from the first illegal one on."""
  labels = np.zeros((*tokens.shape, size * size + 1), np.uint8)
  first = 9 * (4 - size // 2)  # The board's first square on the 8x8 grid.
  for n in range(len(tokens)):
    me, opp, side, moves = first_position(squares)
    for k in range(lengths[n]):
      move = _named(tokens[n, k], moves, bits)
      if move == _NONE:
        break
      me, opp, side, moves = step(me, opp, side, move, squares)
      black, white = oriented(me, opp, side)
      # A row of the board is a run of bits, in black's and in white's word.
      for row in range(size):
        start = np.uint64(first + 8 * row)
        low, high = black >> start, white >> start
        for column in range(size):
          place = np.uint64(column)
          disc = low >> place & _S1 | (high >> place & _S1) << _S1
          labels[n, k, row * size + column] = disc
      labels[n, k, size * size] = side
  return labels


def count(position: Position, depth: int, size: int = 8) -> list[int]:
  """Numbers of legal token sequences of lengths 1..depth from one position.

  A pass is not a token. Columns are scalars or of shape [1]. Work grows with
  the number of sequences of length depth - 1.
  """
  black, white, side = (column[0] for column in checked(position))
  if depth < 0:
    raise core.InputError(f'depth is {depth}; expected at least 0')
  return _counts(black, white, side, depth, mask(size)).tolist()


def _counts(black, white, side, depth, squares) -> np.ndarray:
  """Legal sequences of lengths 1..depth, depth first; popcount at the end."""
  counts = np.zeros(depth, np.int64)
  owns, opps = np.empty(depth, np.uint64), np.empty(depth, np.uint64)
  sides, moves = np.empty(depth, np.int64), np.zeros(depth, np.uint64)
  if depth < 1 or side > 1:
    return counts
  # By level: the position and its remaining moves.
  stack = owns, opps, sides, moves
  level = _push(black, white, side, squares, stack, counts)
  while level >= 0 and depth > 1:  # Ctrl-C is heard between the calls.
    level = _count_on(squares, level, stack, counts, NODES)
  return counts


@njit(inline='always')
def oriented(first, second, side) -> tuple:
  """(black, white) to (me, opp) and back."""
  return (second, first) if side == 1 else (first, second)


@njit(inline='always')
def _up(start, through, shift):
  """Squares of `through` that rays from `start` cross, towards high bits."""
  # A ray crosses 6 discs at most: 1 and 2 step by step, then twice 2 at once.
  ray = through & (start << shift)
  ray |= through & (ray << shift)
  pairs = through & (through << shift)
  ray |= pairs & (ray << (_TWO * shift))
  return ray | (pairs & (ray << (_TWO * shift)))


@njit(inline='always')
def _down(start, through, shift):
  """As `_up`, towards low bits."""
  ray = through & (start >> shift)
  ray |= through & (ray >> shift)
  pairs = through & (through >> shift)
  ray |= pairs & (ray >> (_TWO * shift))
  return ray | (pairs & (ray >> (_TWO * shift)))


@njit(inline='always')
def _ends(me, through, shift):
  """Squares that rays from `me` over `through` end on, both ways."""
  high = _up(me, through, shift) << shift
  return high | (_down(me, through, shift) >> shift)


@njit
def moves_of(me, opp, squares) -> np.uint64:
  """Squares on which `me` may place a disc."""
  # Squares that a ray ends on after at least one disc of `opp`.
  inner = opp & _INNER
  # Columns need no mask of inner squares: shifts by 8 run off the word.
  ends = _ends(me, inner, _S1) | _ends(me, opp, _S8)
  ends |= _ends(me, inner, _S7) | _ends(me, inner, _S9)
  return ends & squares & ~(me | opp)


@njit(inline='always')
def _held(move, me, through, shift):
  """Discs of `through` on one line that `move` and own discs enclose."""
  # A ray counts only if an own disc stands behind its last disc.
  high = _up(move, through, shift)
  low = _down(move, through, shift)
  flips = high if ((high << shift) & me) != _NONE else _NONE
  return flips | (low if ((low >> shift) & me) != _NONE else _NONE)


@njit
def flips_of(move, me, opp) -> np.uint64:
  """Discs that a move (one bit) turns over."""
  inner = opp & _INNER
  held = _held(move, me, inner, _S1) | _held(move, me, opp, _S8)
  return held | _held(move, me, inner, _S7) | _held(move, me, inner, _S9)


@njit
def step(me, opp, side, move, squares) -> tuple:
  """Plays a legal move (one bit): me, opp, side, moves of the next side.

  The turn passes if the other side has no move; no moves means the end.
  """
  # Flipped discs move from the opponent's word to the mover's.
  flips = flips_of(move, me, opp)
  me |= move | flips
  opp ^= flips
  moves = moves_of(opp, me, squares)
  if moves != _NONE:
    return opp, me, 1 - side, moves
  # The other side has no move and passes; if neither has, the game is over.
  moves = moves_of(me, opp, squares)
  if moves != _NONE:
    return me, opp, side, moves
  black, white = oriented(me, opp, side)
  return black, white, 2, _NONE


@njit
def first_position(squares) -> tuple:
  """The starting position, as `step` gives one."""
  # Of a plain 0 Numba compiles all that take the side to move twice.
  return BLACK, WHITE, np.int64(0), moves_of(BLACK, WHITE, squares)


@njit(inline='always')
def _named(token, moves, bits):
  """The move (one bit) of a token, or 0 if illegal."""
  valid = 1 <= token <= len(bits)
  return bit(bits[token - 1]) & moves if valid else _NONE


@njit
def _push(black, white, side, squares, stack, counts) -> int:
  """Puts a position on the stack and counts its moves; returns level 0."""
  owns, opps, sides, moves = stack
  owns[0], opps[0] = oriented(black, white, side)
  sides[0] = side
  moves[0] = moves_of(owns[0], opps[0], squares)
  counts[0] = popcount(moves[0])
  return 0


@njit
def _count_on(squares, level, stack, counts, budget) -> int:
  """Continues for `budget` moves; returns the level, -1 when done."""
  owns, opps, sides, moves = stack
  depth = len(counts)
  while level >= 0 and budget > 0:
    if moves[level] == _NONE:
      level -= 1
      continue
    budget -= 1
    move = bit(lowest(moves[level]))
    moves[level] = without_lowest(moves[level])
    me, opp, turn, then = step(
      owns[level], opps[level], sides[level], move, squares
    )
    # The last level is counted, not played.
    counts[level + 1] += popcount(then)
    if level + 2 < depth:
      level += 1
      owns[level], opps[level], sides[level] = me, opp, turn
      moves[level] = then
  return level


def boundary(
  first: Position, second: Position, depth: int, size: int = 8
) -> core.Boundary:
  """Myhill-Nerode boundary of two positions, to a length bound.

  The suffixes of at most `depth` moves that are legal from `first` but not from
  `second`, while every proper prefix is legal from both (Vafa et al. 2024, Def.
  2.4).

  Args:
    first, second: columns of one position each, scalars or of shape [1].
    depth: longest suffix, at least 1.
    size: 4, 6 or 8.
  """
  pair, board = _pair(first, second, depth), (mask(size), tokens_of(size))
  rows, lengths, _ = _boundary(*pair, depth, *board, listing=True)
  # The search yields them in order of tokens; a stable sort keeps that order
  # within each length.
  order = np.argsort(lengths, kind='stable')
  tokens, sizes = rows[order].astype(np.int32), lengths[order].astype(np.int32)
  return core.Boundary(np.array([0, len(order)]), tokens, sizes)


def boundary_sizes(
  first: Position, second: Position, depth: int, size: int = 8
) -> tuple[list[int], list[int]]:
  """Sizes of `boundary` by length, 1..depth, and of the interior, unlisted.

  The interior has the suffixes that are legal from both positions.
  """
  pair, board = _pair(first, second, depth), (mask(size), tokens_of(size))
  outer, inner = _boundary(*pair, depth, *board, listing=False)[2].tolist()
  return outer, inner


def _pair(first: Position, second: Position, depth: int) -> Position:
  """Columns of the two positions, [2] each."""
  if not 1 <= depth <= 64:
    raise core.InputError(f'depth is {depth}; expected 1..64')
  columns = zip(checked(first), checked(second), strict=True)
  black, white, side = (np.concatenate(column) for column in columns)
  return checked((black, white, side))


@njit
def _entered(discs, sides, moves, level, listing) -> np.uint64:
  """Legal moves of both positions of the pair at `level`.

  A listing goes no further where the positions are equal.
  """
  same = discs[0, level, 0] == discs[1, level, 0]
  same &= discs[0, level, 1] == discs[1, level, 1]
  # Equal positions and their successors have empty boundaries.
  if same and sides[0, level] == sides[1, level] and listing:
    return _NONE
  return moves[0] & moves[1]


@njit
def _emitted(out, lengths, num, path, level, only, token_of) -> tuple:
  """Appends path[:level] and each square of `only`, growing the arrays."""
  # Doubling keeps the total cost of growth small.
  need = num + popcount(only)
  if need > len(lengths):
    out, lengths = enlarged(out, 2 * need, 0), enlarged(lengths, 2 * need, 0)
  while only != _NONE:
    put(out[num], path[:level])
    out[num, level] = token_of[lowest(only)]
    lengths[num] = level + 1
    only = without_lowest(only)
    num += 1
  return out, lengths, num


def _boundary(black, white, side, depth, squares, token_of, listing) -> tuple:
  """Product search, depth first: elements, their lengths, counts by length.

  black, white, side: [2], the pair. Counts are [2, depth] of boundary and
  interior, which only a search without `listing` counts completely.
  """
  counts = np.zeros((2, depth), np.int64)
  lines = np.zeros((64, depth), np.uint8), np.zeros(64, np.int64)
  stack = (
    np.empty((2, depth, 2), np.uint64),  # me and opp of both, by level
    np.empty((2, depth), np.int64),  # their sides
    np.zeros(depth, np.uint8),  # tokens of the common moves followed
    np.zeros(depth, np.uint64),  # common moves still to try
  )
  place = np.array([0, 0, -1])
  pair, board = (black, white, side), (squares, token_of)
  while place[0] >= 0:
    held = 2 * (lines[0].nbytes + lines[1].nbytes)  # They double.
    resources.require_memory(held, f'suffixes of up to {depth} moves')
    lines = _search(pair, board, listing, place, stack, lines, counts, NODES)
  num = place[1]
  return lines[0][:num], lines[1][:num], counts


@njit
def _search(pair, board, listing, place, stack, lines, counts, budget) -> tuple:
  """Continues from place [3]: level, elements so far, -1 at the start.

  Level l of the stack has both positions after l common moves and the remaining
  common moves. After `budget` moves the search returns, and a later call
  continues.
  """
  (black, white, side), (squares, token_of) = pair, board
  out, lengths = lines
  discs, sides, path, common = stack
  moves = np.zeros(2, np.uint64)
  level, num, entering = place[0], place[1], place[2] < 0
  if entering:
    for i in range(2):
      me, opp = oriented(black[i], white[i], side[i])
      discs[i, 0, 0], discs[i, 0, 1], sides[i, 0] = me, opp, side[i]
      if 0 <= side[i] <= 1:
        moves[i] = moves_of(me, opp, squares)
  while level >= 0:
    if entering:
      # Moves legal in only one position end a suffix; common moves continue.
      common[level] = _entered(discs, sides, moves, level, listing)
      only = moves[0] & ~moves[1]
      counts[0, level] += popcount(only)
      counts[1, level] += popcount(common[level])
      if listing:
        out, lengths, num = _emitted(
          out, lengths, num, path, level, only, token_of
        )
    if level + 1 == len(path) or common[level] == _NONE:
      level, entering = level - 1, False
      continue
    # Returns to Python, which handles Ctrl-C, checks memory and calls again.
    if budget == 0:
      break
    budget -= 1
    square = lowest(common[level])
    common[level] = without_lowest(common[level])
    path[level] = token_of[square]
    for i in range(2):
      me, opp, turn, moves[i] = step(
        discs[i, level, 0],
        discs[i, level, 1],
        sides[i, level],
        bit(square),
        squares,
      )
      discs[i, level + 1, 0], discs[i, level + 1, 1] = me, opp
      sides[i, level + 1] = turn
    level, entering = level + 1, True
  place[0], place[1], place[2] = level, num, 1
  return out, lengths
