"""Front door to the rules of chess: NumPy in, NumPy out.

A move is a packed id, (from * 64 + to) * 5 + promotion, squares a1 = 0 to
h8 = 63, promotion 0 none, 1 queen, 2 rook, 3 bishop, 4 knight (Walker and
Lyons 2026, section 2). A state row is [>= 11] int32; a world may keep more
words behind these:

  0..7  64 nibbles: square s is word s // 8, bits 4 * (s % 8); codes 0..12
        are `.PNBRQKpnbrqk`
  8     side to move (bit 0, 1 black), castling rights K Q k q (bits 1..4),
        en-passant file + 1 (from bit 5; set after every double push, 0 none)
  9     halfmove clock, fullmove number << 16; both stop at 65535
  10    moves known before the position; -2 before the start token, -3 where
        the history is unknown (a position given as FEN)

Nothing is legal from a row without board: a dead one (all DEAD), one before
the start token, and one with codes above 12, other than one king a side or a
king that could be taken. Of the rights only those are read whose king and
rook are at home, of en passant a capture only of a pawn that is there.

`backend` names the implementation: 'numba' compiled, 'ref' plain Python (the
specification).
"""

from __future__ import annotations

import numpy as np

from wm import core
from wm.kernels.base import checks
from wm.kernels.chess import (
  games as chess_games,
)
from wm.kernels.chess import layout
from wm.kernels.chess import (
  orders as chess_orders,
)
from wm.kernels.chess import (
  policies as chess_policies,
)

WORDS, LABELS, PACKED = layout.WORDS, layout.LABELS, layout.PACKED
BEFORE, UNKNOWN = layout.BEFORE, layout.UNKNOWN
EN_PASSANT, OUTCOMES, STOPS = layout.EN_PASSANT, layout.OUTCOMES, layout.STOPS
POLICIES = tuple(chess_policies.POLICIES)
MOST_MOVES = 256  # a position has at most 218

start = layout.start
Replay = chess_games.Replay
replay = chess_games.replay
replay_labels = chess_games.replay_labels
outcome = chess_games.outcome
outcomes = chess_games.outcomes
play = chess_games.play
orders = chess_orders.orders


def legal(
  rows: np.ndarray, *, backend: str = 'numba'
) -> tuple[np.ndarray, np.ndarray]:
  """Legal moves of rows [B, >= 11].

  Returns:
    moves: [B, 256] int32 ascending, -1 after the last.
    counts: [B] int32.
  """
  rows = layout.rows(rows)
  moves = np.full((len(rows), MOST_MOVES), -1, np.int32)
  counts = np.empty(len(rows), np.int32)
  layout.backend(backend).legal(rows, moves, counts)
  return moves, counts


def legal_mask(
  rows: np.ndarray, index: np.ndarray, columns: int, *, backend: str = 'numba'
) -> np.ndarray:
  """[B, columns] bool: legal moves of rows [B, >= 11] by column.

  index: [20480] column of each packed id; -1, or any that is no column, where
  it has none.
  """
  rows, index = layout.rows(rows), checks.frozen(index, np.int32)
  if index.shape != (PACKED,):
    raise core.InputError(f'index has shape {index.shape}; expected {PACKED}')
  mask = np.zeros((len(rows), columns), bool)
  layout.backend(backend).legal_mask(rows, index, mask)
  return mask


def advance(
  rows: np.ndarray, moves: np.ndarray, *, backend: str = 'numba'
) -> tuple[np.ndarray, np.ndarray]:
  """Rows [B, 11] int32 after one packed move [B] each, and ok [B] bool.

  An illegal move leaves a dead row; any integer may be asked.
  """
  rows = layout.rows(rows)
  moves = checks.frozen(np.atleast_1d(moves), np.int32)
  checks.same_length(rows=rows, moves=moves)
  after = np.empty((len(rows), WORDS), np.int32)
  ok = np.empty(len(rows), bool)
  layout.backend(backend).advance(rows, moves, after, ok)
  return after, ok


def _described(
  rows: np.ndarray, ep: str, keys: int, in_check: int, labels: int, backend: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """What is known of rows; each of the three only where its size is not 0."""
  rows = layout.rows(rows)
  found = (
    np.zeros(len(rows) * keys, np.int64),
    np.zeros(len(rows) * in_check, bool),
    np.zeros((len(rows) * labels, LABELS), np.uint8),
  )
  layout.backend(backend).describe(rows, layout.legal_ep(ep), *found)
  return found


def keys(rows: np.ndarray, *, backend: str = 'numba') -> np.ndarray:
  """[B] uint64 Zobrist keys of rows [B, >= 11]; 0 for a row without board.

  Equal where the rule of repetition sees one position: placement, side,
  rights, and an en-passant file if a pawn may legally capture there.
  """
  return _described(rows, 'raw', 1, 0, 0, backend)[0].view(np.uint64)


def in_check(rows: np.ndarray, *, backend: str = 'numba') -> np.ndarray:
  """[B] bool: is the side to move of rows [B, >= 11] in check?"""
  return _described(rows, 'raw', 0, 1, 0, backend)[1]


def labels(
  rows: np.ndarray, ep: str = 'raw', *, backend: str = 'numba'
) -> np.ndarray:
  """[B, 75] uint8 state labels of rows [B, >= 11]; 0 for a row without board.

  Walker and Lyons 2026, section 2.1. ep: 'raw', as published, sets the
  en-passant labels after every double push; 'legal' only where a pawn may
  legally capture.
  """
  return _described(rows, ep, 0, 0, 1, backend)[2]


def attacked(
  rows: np.ndarray,
  squares: np.ndarray,
  sides: np.ndarray,
  *,
  backend: str = 'numba',
) -> np.ndarray:
  """[B] bool: do men of side sides[b] (1 black) attack square squares[b]?"""
  rows = layout.rows(rows)
  squares = checks.rows(squares, 64, 'squares', 0)
  sides = checks.rows(sides, 2, 'sides', 0)
  checks.same_length(rows=rows, squares=squares, sides=sides)
  return layout.backend(backend).attacked(rows, squares, sides)


def perft(row: np.ndarray, depth: int, *, backend: str = 'numba') -> int:
  """Number of legal lines of exactly `depth` moves from a row [>= 11]."""
  if not 0 <= depth <= 64:
    raise core.InputError(f'depth is {depth}; expected 0..64')
  row = layout.rows(np.atleast_2d(row))[0]
  return int(layout.backend(backend).perft(row, depth))


def count(row: np.ndarray, depth: int, *, backend: str = 'numba') -> list[int]:
  """Numbers of legal lines of 1..depth moves from a row [>= 11]."""
  return [perft(row, bound, backend=backend) for bound in range(1, depth + 1)]


def boundary(
  first: np.ndarray, second: np.ndarray, depth: int, *, backend: str = 'numba'
) -> tuple[np.ndarray, np.ndarray]:
  """Boundary of a pair of rows [>= 11] (Vafa et al. 2024, Def. 2.4).

  The lines of at most `depth` packed moves that are legal from first and not
  from second while every proper prefix is legal from both; shorter ones
  first, then in order of moves. Rows with one key have none.

  Returns:
    moves: [n, K] int32, DEAD behind the end; K is the length of the longest.
    lengths: [n] int32.
  """
  rows = _pair(first, second, depth)
  moves, lengths, _ = layout.backend(backend).boundary(rows, depth, True)
  order = np.lexsort((*moves.T[::-1], lengths))
  moves = moves[order, : lengths.max(initial=0)]
  return moves, lengths[order].astype(np.int32)


def boundary_sizes(
  first: np.ndarray,
  second: np.ndarray,
  depth: int,
  *,
  interior: bool = False,
  backend: str = 'numba',
) -> list[int]:
  """Sizes of `boundary` to each length bound 1..depth, without listing it.

  With `interior`, instead, how many lines are legal from both rows.
  """
  rows, module = _pair(first, second, depth), layout.backend(backend)
  *_, counts = module.boundary(rows, depth, False, interior)
  return np.cumsum(counts[int(interior)]).tolist()


def _pair(first: np.ndarray, second: np.ndarray, depth: int) -> np.ndarray:
  """Checked rows [2, >= 11] of the two."""
  if not 1 <= depth <= 64:
    raise core.InputError(f'depth is {depth}; expected 1..64')
  return layout.rows(np.stack([np.asarray(first), np.asarray(second)]))
