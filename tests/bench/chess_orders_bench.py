"""Transpositions of chess games, against the plain reference."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.bench import harness
from tests.kernels.chess import ref
from wm.kernels import chess

PLIES = 80


def bench_chess_orders() -> Iterator[harness.Line]:
  """Other orders of the moves of random games, 80 plies each."""
  moves, lengths = chess.play(400, 1, most=PLIES, stop='moves')[:2]
  seeds = np.arange(400)
  few = moves[:2], lengths[:2], seeds[:2]
  yield harness.rated(
    f'orders of {PLIES} plies',
    *('games', 400, lambda: chess.transpositions(moves, lengths, seeds)),
    *(2, lambda: ref.transpositions(*few)),
  )
