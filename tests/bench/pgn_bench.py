"""PGN files to token shards against python-chess, on real games, one core."""

from __future__ import annotations

import io
import pathlib
import tempfile
from collections.abc import Iterator

from tests.bench import harness
from wm.core import registry
from wm.data import pgn_games, pgn_ingest

FILES = (
  'gnuchess_book_sample_10000.pgn.zst',
  'lichess_rated_standard_3172.pgn.zst',
)
FEW = 60  # games of each file for the peer


def paths() -> list[pathlib.Path]:
  """The PGN files; raises Skip where they cannot be read."""
  folder = harness.MANHATTAN.parent / 'chess'
  results = [folder / name for name in FILES]
  for path in results:
    if not path.is_file():
      raise harness.Skip(f'no chess data at {path} (set WM_TESTDATA)')
  return results


def bench_ingest() -> Iterator[harness.Line]:
  """Packed files to stores of tokens, all in; splitting alone."""
  import chess
  import chess.pgn

  world, results = registry.make('world', pgn_ingest.WORLD), paths()
  games = 0

  def ours() -> None:
    nonlocal games
    with tempfile.TemporaryDirectory() as folder:
      made = pgn_ingest.make_dataset(world, [str(p) for p in results], folder)
      games = made['train']['ingest']['games']

  def split() -> None:
    for path in results:
      for _ in pgn_games.blocks(pgn_games.Source(path)):
        pass

  texts = [next(pgn_games.Source(path).parts()).decode() for path in results]

  def peer() -> None:
    """Tokens as the published program reads them, without states."""
    for text in texts:
      file = io.StringIO(text)
      for _ in range(FEW):
        game = chess.pgn.read_game(file)
        for move in game.mainline_moves():
          (move.from_square * 64 + move.to_square) * 5 + (move.promotion or 0)

  whole = harness.measure(ours)
  parted = harness.measure(split)
  slow = harness.measure(peer, runs=2).cpu / (FEW * len(results))
  baseline = f'python-chess {chess.__version__} to tokens, same run'
  yield harness.Line(
    name='PGN to token shards',
    value=games / whole.cpu,
    unit='games/CPU-s',
    baseline=baseline,
    ratio=games / whole.cpu * slow,
    compile_s=whole.compile_s,
    target='10000 games/s',
  )
  yield harness.Line(
    name='unpacking and splitting alone',
    value=games / parted.cpu,
    unit='games/CPU-s',
    baseline=baseline,
    ratio=games / parted.cpu * slow,
  )
