"""Transpositions of chess games, against the plain reference."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.bench import harness
from wm.kernels import chess

PLIES = 80


def bench_chess_orders() -> Iterator[harness.Line]:
  """Other orders of the moves of random games, 80 plies each."""
  moves, lengths = chess.play(400, 1, most=PLIES, stop='moves')[:2]

  def run(num: int, backend: str) -> np.ndarray:
    games = moves[:num], lengths[:num], np.arange(num)
    return chess.orders(*games, backend=backend)

  timing = harness.measure(lambda: run(400, 'numba'))
  rate = 400 / timing.cpu
  plain = 2 / harness.measure(lambda: run(2, 'ref'), 1).cpu
  yield harness.Line(
    name=f'orders of {PLIES} plies',
    value=rate,
    unit='games/CPU-s',
    baseline='plain reference, same run',
    ratio=rate / plain,
    compile_s=timing.compile_s,
  )
