"""PGN files as a data set: OUT/data/train and OUT/data/heldout.

The files are read as blocks (`games.blocks`). The games of a block go to a file
of its own in OUT/data/ingest.partial. Any number of processes may share the
work: process i of n takes blocks i, i + n, i + 2n, ... and skips those that
are there. Each unpacks all files, which is the cheap part. The process that
ends last finds all blocks and joins them in order, without duplicates. So
neither kills nor the number of processes change a byte of the result.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
import shutil
from typing import Any

from wm import core
from wm.core import registry
from wm.data import sampling
from wm.data import store as stores
from wm.data.pgn import files as pgn_files
from wm.data.pgn import games as pgn
from wm.data.pgn import identity
from wm.data.pgn import join as ingest_join
from wm.runtime import files, locks, progress
from wm.worlds.base.games import RecordedGames

Path = pathlib.Path

STAGE = 'ingest'
VERSION = '1'  # Moves when the same files give other data.
WORLD = 'chess(length=704)'  # Longer than any published random game.


def run_of(
  world: core.World, sources: list[pgn_files.Source], most: int
) -> dict[str, Any]:
  """What makes an ingestion this one."""
  return {
    'ingest': VERSION,
    'world': registry.spec(world),
    'world_version': world.version,
    'files': [pgn_files.name_and_size(source) for source in sources],
    'most': most,
    'salt': identity.SALT.decode(),
  }


def make_dataset(
  world: core.World,
  paths: list[str],
  out: str | Path,
  shard: tuple[int, int] = (0, 1),
  most: int = 0,
) -> dict[str, Any] | None:
  """Does the part of one process, and joins all parts once they are there.

  Args:
    world: whose games they are, see RecordedGames.
    paths: PGN files, plain or compressed.
    out: output folder; gets data/train, data/heldout, ingest.run.json.
    shard: number of this process and of all, (i, n).
    most: good games after which reading stops, before duplicates are left
      out; 0 is all.

  Returns:
    split -> manifest of its store; None where blocks of other processes are
    missing, or one of them is putting the parts together.

  Raises:
    InputError: a file that is no PGN, no game left, or `out` holds other
      data, or another process is at the same part.
  """
  out = Path(out)
  if not isinstance(world, RecordedGames):
    raise core.InputError(
      f'PGN holds games of chess; --world={registry.spec(world)} has others'
    )
  if world.start:
    raise core.InputError(
      'PGN holds games from the standard position; --world='
      f'{registry.spec(world)} starts from another'
    )
  sources = [pgn_files.Source(path) for path in paths]
  with locks.writer(out, STAGE, '{}of{}'.format(*shard)):
    return _make(world, sources, out, shard, most)


def _make(
  world: RecordedGames,
  sources: list[pgn_files.Source],
  out: Path,
  shard: tuple[int, int],
  most: int,
) -> dict[str, Any] | None:
  """See make_dataset; no other process is at this shard."""
  run = run_of(world, sources, most)
  if not (out / 'ingest.run.json').exists():
    _check(out, sources)
  files.claim(out, STAGE, run)
  manifests = _complete(out)
  if manifests:
    return manifests
  parts = out / 'data' / 'ingest.partial'
  parts.mkdir(parents=True, exist_ok=True)
  blocks = _read(world, sources, parts, shard, most)
  if not blocks and not _complete(out):
    return None
  try:
    with locks.writer(out, STAGE, 'join'):
      manifests = _complete(out) or ingest_join.join(
        world, out, parts, run, blocks
      )
      shutil.rmtree(parts, ignore_errors=True)
  except ingest_join.NothingLeft:
    _retract(out)
    raise
  except locks.Held:
    return None
  return manifests


def _check(out: Path, sources: list[pgn_files.Source]) -> None:
  """Raises InputError where a first run would fail, or spoil other data."""
  for split in sampling.SPLITS:
    if (out / 'data' / split).exists():
      raise core.InputError(
        f'{out} holds other data, in data/{split}; choose another --out'
      )
  for source in sources:
    pgn.check(source)


def _retract(out: Path) -> None:
  """Removes what a run has made that leaves no game."""
  shutil.rmtree(out / 'data' / 'ingest.partial')
  (out / 'ingest.run.json').unlink()
  with contextlib.suppress(OSError):  # Others' files keep the folder.
    (out / 'data').rmdir()


def _complete(out: Path) -> dict[str, Any]:
  """Manifests of both stores, {} unless both are there."""
  folders = {split: out / 'data' / split for split in sampling.SPLITS}
  if not all(folder.exists() for folder in folders.values()):
    return {}
  return {name: stores.open(path).manifest for name, path in folders.items()}


def _read(
  world: RecordedGames,
  sources: list[pgn_files.Source],
  parts: Path,
  shard: tuple[int, int],
  most: int,
) -> int:
  """Reads the blocks of one process; how many there are, 0 if some lack."""
  number = games = before = 0
  counts = (0, 0)
  size = sum(source.size for source in sources)
  with progress.Progress('ingest', size, 'B') as shown:
    for file, source in enumerate(sources):
      for block in pgn.blocks(source, file):
        counts = ingest_join.reach(parts, most, counts)
        if most and counts[1] >= most:
          return counts[0]
        path = ingest_join.path_of(parts, number)
        if number % shard[1] == shard[0] and not path.exists():
          ingest_join.write(path, pgn.read(block, world.least, world.length))
        number, games = number + 1, games + len(block.games)
        shown.reach(before + source.read, size, f'{games:,} games')
      before += source.size
  blocks, num_games = ingest_join.reach(parts, most, counts)
  return blocks if blocks == number or (most and num_games >= most) else 0


def parse_shard(text: str) -> tuple[int, int]:
  """(i, n) of 'i/n', 0 <= i < n; raises InputError."""
  match = re.fullmatch(r'(\d{1,6})/(\d{1,6})', text)
  shard = (int(match[1]), int(match[2])) if match else (0, 0)
  if not shard[0] < shard[1]:
    raise core.InputError(
      f'--shard={text}; expected i/n with i from 0 to n - 1, as 0/4 to 3/4'
    )
  return shard


def lines(report: dict[str, Any]) -> list[str]:
  """What became of the games of an ingestion, for people to read."""
  text_lines = [
    f'{report["games"]:,} games, {report["kept"]:,} kept; left out: '
    + (ingest_join.told(report['rejected']) or 'none')
  ]
  if report['cut']:
    text_lines.append(f'{report["cut"]:,} longer games cut: {report["world"]}')
  for cause, examples in report['examples'].items():
    if cause != 'too short':
      text_lines += [f'  {cause}: {_example(example)}' for example in examples]
  return text_lines


def _example(example: dict[str, Any]) -> str:
  ply = f', ply {example["ply"]}' if example['word'] and example['ply'] else ''
  word = f': {example["word"]}' if example['word'] else ''
  return f'{example["file"]}, game {example["game"]}{ply}{word}'
