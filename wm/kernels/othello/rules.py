"""Othello's rules: legal moves, moves, replays, counts.

A position is three arrays: discs `black` and `white`, [B] uint64 with bit
8 * row + column, and `side`, [B] int8: 0 black moves, 1 white moves, 2 the
game is over. After a move the turn passes, without a token, where the other
side has none; the game is over where neither has.

Boards of `size` 4, 6 and 8 lie amid the 8x8 grid, so that the four squares
filled at the start are bits 27, 28, 35, 36 on each. Token k is the k-th of
the other squares (Vafa et al. 2024, appendix on Othello; Li et al. 2023).
"""

from __future__ import annotations

import functools

import numpy as np

from wm import core
from wm.kernels.base import checks, pieces

SIZES = (4, 6, 8)
CENTRE = (27, 28, 35, 36)
BLACK, WHITE = np.uint64(1 << 28 | 1 << 35), np.uint64(1 << 27 | 1 << 36)
OVER = 2

Position = tuple[np.ndarray, np.ndarray, np.ndarray]  # black, white, side.


@functools.cache
def squares(size: int = 8) -> np.ndarray:
  """[n] uint8 bits of tokens 1..n, n = size * size - 4, read-only."""
  if size not in SIZES:
    raise core.InputError(
      f'board size is {size!r}; available: {", ".join(map(str, SIZES))}'
    )
  edge = (8 - size) // 2
  lines = range(edge, edge + size)
  bits = [8 * row + column for row in lines for column in lines]
  return checks.frozen([b for b in bits if b not in CENTRE], np.uint8)


@functools.cache
def tokens_of(size: int = 8) -> np.ndarray:
  """[64] int32 token of each bit, 0 where no move is made, read-only."""
  found = np.zeros(64, np.int32)
  found[squares(size)] = np.arange(1, len(squares(size)) + 1)
  return checks.frozen(found, np.int32)


@functools.cache
def mask(size: int) -> np.uint64:
  """uint64 word of all squares that tokens name."""
  return np.bitwise_or.reduce(np.uint64(1) << squares(size).astype(np.uint64))


def checked(position: Position) -> Position:
  """The position frozen; raises InputError where sizes differ."""
  kinds = zip(position, (np.uint64, np.uint64, np.int8), strict=True)
  black, white, side = (checks.frozen(np.atleast_1d(c), k) for c, k in kinds)
  checks.same_length(black=black, white=white, side=side)
  return black, white, side


def start(batch: int = 1) -> Position:
  """The starting position, [batch] each; black moves."""
  full = functools.partial(np.full, batch)
  return full(BLACK), full(WHITE), np.zeros(batch, np.int8)


def legal(position: Position, size: int = 8) -> np.ndarray:
  """[B] uint64: squares on which the side to move may place a disc.

  0 where the game is over or `side` is anything but 0 and 1.
  """
  from wm.kernels.othello import rules_numba

  return rules_numba.legal(*checked(position), mask(size))


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
    ok: [B] bool, False where the move is illegal; the position then stays.
  """
  from wm.kernels.othello import rules_numba

  position = checked(position)
  bits = checks.frozen(np.atleast_1d(bits), np.int32)
  checks.same_length(black=position[0], bits=bits)
  return rules_numba.advance(*position, bits, mask(size))


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
  from wm.kernels.othello import rules_numba

  rows = checks.games(np.atleast_2d(tokens), lengths, 'tokens')
  board = squares(size), mask(size)
  return pieces.run_rows(rules_numba.replay, rows, *board)


def replay_labels(
  tokens: np.ndarray, lengths: np.ndarray, size: int = 8
) -> np.ndarray:
  """[N, L, size * size + 1] uint8 labels after each token of `replay`'s rows.

  Of the squares, row by row, 0 empty, 1 black, 2 white; then of the side. 0
  from the first illegal token on and past a row's length.
  """
  from wm.kernels.othello import rules_numba

  rows = checks.games(np.atleast_2d(tokens), lengths, 'tokens')
  board = squares(size), mask(size)
  return pieces.run_rows(rules_numba.replay_labels, rows, *board, size)


def count(position: Position, depth: int, size: int = 8) -> list[int]:
  """Numbers of legal token sequences of lengths 1..depth from one position.

  A pass is no token. Columns are scalars or of shape [1]; work grows with
  the sequences of length depth - 1.
  """
  from wm.kernels.othello import rules_numba

  black, white, side = (column[0] for column in checked(position))
  if depth < 0:
    raise core.InputError(f'depth is {depth}; expected at least 0')
  return rules_numba.count(black, white, side, depth, mask(size)).tolist()
