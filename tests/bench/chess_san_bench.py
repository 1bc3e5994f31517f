"""Chess notation against python-chess, on real games, one core."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np

from tests.bench import harness, pgn_bench
from tests.kernels.chess.texts import joined
from wm.kernels.chess import san as chess_san

FEW = 100  # games for the peer


def games() -> list[str]:
  """Move text of the master games."""
  import zstandard

  with open(pgn_bench.paths()[0], 'rb') as file:
    text = zstandard.ZstdDecompressor().stream_reader(file).read().decode()
  blocks = text.strip().split('\n\n')
  return [block for block in blocks if not block.startswith('[')]


def bench_notation() -> Iterator[harness.Line]:
  """Reading PGN move text, and writing its words."""
  import chess
  import chess.pgn

  texts = games()
  text, starts = joined(texts)
  read = harness.measure(lambda: chess_san.read(text, starts))
  result = chess_san.read(text, starts)
  plies = int(result.lengths.sum())
  write = harness.measure(lambda: chess_san.write(result.moves, result.lengths))

  def peer_reads() -> list[chess.pgn.Game]:
    return [chess.pgn.read_game(io.StringIO(game)) for game in texts[:FEW]]

  def peer_writes() -> None:
    for game in peer_reads():
      board = game.board()
      for move in game.mainline_moves():
        board.san(move)
        board.push(move)

  few = int(np.sum(result.lengths[:FEW]))
  slow = harness.measure(peer_reads, runs=2).cpu
  slower = harness.measure(peer_writes, runs=2).cpu
  baseline = f'python-chess {chess.__version__}, same run'
  yield harness.Line(
    name='PGN move text read',
    value=len(texts) / read.cpu,
    unit='games/CPU-s',
    baseline=baseline,
    ratio=len(texts) / read.cpu / (FEW / slow),
    compile_s=read.compile_s,
    target='10000 games/s',
  )
  yield harness.Line(
    name='SAN read',
    value=plies / read.cpu,
    unit='plies/CPU-s',
    baseline=baseline,
    ratio=plies / read.cpu / (few / slow),
  )
  yield harness.Line(
    name='SAN written',
    value=plies / write.cpu,
    unit='plies/CPU-s',
    baseline=f'{baseline}, reading left out',
    ratio=plies / write.cpu / (few / (slower - slow)),
    compile_s=write.compile_s,
  )
