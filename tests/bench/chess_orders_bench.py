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
  timing = harness.measure(lambda: chess.transpositions(moves, lengths, seeds))
  rate = 400 / timing.cpu
  few = moves[:2], lengths[:2], seeds[:2]
  plain = 2 / harness.measure(lambda: ref.transpositions(*few), 1).cpu
  yield harness.Line(
    name=f'orders of {PLIES} plies',
    value=rate,
    unit='games/CPU-s',
    baseline='plain reference, same run',
    ratio=rate / plain,
    compile_s=timing.compile_s,
  )
