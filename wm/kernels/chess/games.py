"""Whole games of chess: replays, outcomes, random games."""

from __future__ import annotations

from typing import Any

import numpy as np

from wm import core
from wm.kernels.base import pieces
from wm.kernels.chess import layout, policies
from wm.kernels.chess.layout import LABELS, STOPS, WORDS


def _replay(
  moves: Any,
  lengths: Any,
  starts: Any,
  *,
  labelled: bool = False,
  ep: str = 'raw',
  judged: bool = False,
  stop: str = 'claims',
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
  """Everything that is asked of games, in one go.

  Returns:
    steps: [N] int32, moves followed.
    rows: [N, 11] int32, after them.
    labels: [N, L + 1, 75] uint8 after each, 0 behind the last; or empty.
    codes: [N, L + 1] int8 outcomes after each, -1 behind the last; or empty.
  """
  from wm.kernels.chess import games_numba

  moves, lengths, starts = layout.games(moves, lengths, starts)
  num, plies = moves.shape
  found = (
    np.empty(num, np.int32),
    np.empty((num, WORDS), np.int32),
    np.zeros((num * labelled, plies + 1, LABELS), np.uint8),
    np.full((num * judged, plies + 1), -1, np.int8),
  )
  rules = layout.legal_ep(ep), _stop(stop)
  for some in pieces.slices(num):
    first = starts[some] if len(starts) > 1 else starts
    parts = (array[some] for array in found)
    games_numba.replay(moves[some], lengths[some], first, *rules, *parts)
  return found


def _stop(stop: str) -> int:
  if stop not in STOPS:
    raise core.InputError(f'unknown stop {stop!r}; available: {STOPS}')
  return STOPS.index(stop)


def replay(
  moves: np.ndarray, lengths: np.ndarray, starts: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
  """Follows games up to the first illegal move.

  Args:
    moves: [N, L] packed; those past lengths[n] are not read.
    lengths: [N].
    starts: [11], [1, >= 11] or [N, >= 11] rows; the standard position if None.

  Returns:
    steps: [N] int32, moves followed.
    rows: [N, 11] int32, after them.
  """
  return _replay(moves, lengths, starts)[:2]


def replay_labels(
  moves: np.ndarray,
  lengths: np.ndarray,
  ep: str = 'raw',
  starts: np.ndarray | None = None,
) -> np.ndarray:
  """[N, L + 1, 75] uint8 state labels after every move of games.

  Row 0 is before the first; those after the last, or after an illegal move,
  are 0. Arguments as for `replay` and `labels`.
  """
  return _replay(moves, lengths, starts, labelled=True, ep=ep)[2]


def outcomes(
  moves: np.ndarray,
  lengths: np.ndarray,
  stop: str = 'claims',
  starts: np.ndarray | None = None,
) -> np.ndarray:
  """[N, L + 1] int8: index into OUTCOMES after every move of games.

  0 where the game goes on, -1 after its last move or an illegal one; the
  first of OUTCOMES that holds counts.
  Repetitions are those of the given moves; the halfmove clock of a start row
  counts. Arguments as for `replay` and `play`.
  """
  return _replay(moves, lengths, starts, judged=True, stop=stop)[3]


def play(
  num: int,
  seed: int,
  first: int = 0,
  *,
  most: int = 1024,
  stop: str = 'claims',
  policy: str = 'uniform',
  labels: bool = False,
  ep: str = 'raw',
  start_row: np.ndarray | None = None,
) -> tuple[np.ndarray, ...]:
  """Random games, uniform as published (Walker and Lyons 2026) or shifted.

  Game i depends on seed, first + i and the start row alone: its move at ply t
  is number hash64(seed, first + i, t) of the legal ones, scaled; each counts
  as many times as its weight.

  Args:
    num: games.
    seed: any integer.
    first: number of the first game.
    most: plies after which a game is cut.
    stop: what ends a game: 'claims', anything in OUTCOMES; 'automatic', no
      claim; 'moves', only mate and stalemate.
    policy: what moves are preferred, see `policies`.
    labels: whether to give the state labels too.
    ep: their en-passant convention.
    start_row: [>= 11]; the standard position if None.

  Returns:
    moves: [num, most] int32 packed, -1 after the last.
    lengths: [num] int32.
    codes: [num] int8 into OUTCOMES; 0 where the game was cut.
    labels: [num, most + 1, 75] uint8, where asked for.
  """
  from wm.kernels.chess import games_numba

  row = layout.start() if start_row is None else start_row
  row = layout.rows(np.atleast_2d(row), 'start row')[0]
  seeds = core.hash64(seed, first + np.arange(num))
  moves = np.full((num, most), -1, np.int32)
  lengths, codes = np.zeros(num, np.int32), np.zeros(num, np.int8)
  shown = np.zeros((num * labels, most + 1, LABELS), np.uint8)
  rules = layout.legal_ep(ep), _stop(stop), policies.weights(policy)
  found = moves, lengths, codes, shown
  for some in pieces.slices(num):
    if not games_numba.play(
      row, seeds[some], *rules, *(a[some] for a in found)
    ):
      raise core.InputError(
        f'start row {row[:WORDS].tolist()}; expected a board, one king a side'
      )
  return (moves, lengths, codes) + ((shown,) if labels else ())
