"""PGN files as a data set: OUT/data/train and OUT/data/heldout.

The files are read as blocks (`pgn_games.blocks`). The games of a block go to a
file of arrays of its own in OUT/data/ingest.partial. Tasks may share the work:
task i of n takes blocks i, i + n, i + 2n, ... and skips those that are there.
Each unpacks all files, which is the cheap part. All blocks are then joined in
order, one at a time, without duplicates. So neither kills nor the number of
tasks change a byte of the result.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wm import core
from wm.core import inputs, registry
from wm.data import pgn_games, sampling
from wm.data import store as stores
from wm.runtime import files, progress, tasks
from wm.worlds.base.games import RecordedGames

Path = pathlib.Path

ROWS = 4096  # Games padded at a time.
HASHES = 1 << 22  # Hashes compared at a time.
KEPT, DUPLICATE, ACROSS, BEYOND = range(4)
ALL = 0, 1  # The shard that is everything.


class Refused(core.InputError):
  """Every game was left out, or too many for one reason."""


def path_of(parts: Path, block: int) -> Path:
  """File of a block."""
  return parts / f'{block:08d}.npz'


def reach(parts: Path, most: int, counts: tuple[int, int]) -> tuple[int, int]:
  """Counts the blocks that are there without a gap, up to `most` games.

  Args:
    parts: folder of the blocks.
    most: good games asked for, duplicates included; 0 is all.
    counts: blocks and games counted so far, (0, 0) at first.

  Returns:
    Blocks, and games in them.
  """
  blocks, games = counts
  while not (most and games >= most) and path_of(parts, blocks).exists():
    games += len(_load(parts, blocks, 'lengths')[0])
    blocks += 1
  return blocks, games


def write(path: Path, games: pgn_games.Read) -> None:
  """Writes what was read of a block, whole or not at all."""
  arrays = games._asdict()
  about = {name: arrays.pop(name) for name in ('file', 'damage', 'examples')}
  text = np.frombuffer(json.dumps(about).encode(), np.uint8)
  causes = np.bincount(arrays.pop('causes'), minlength=len(pgn_games.CAUSES))
  with files.replacing(path) as name, name.open('wb') as file:
    np.savez(file, about=text, causes=causes, **arrays)


def _load(parts: Path, block: int, *names: str) -> list[np.ndarray]:
  """Named arrays of a block."""
  path = path_of(parts, block)
  hint = 'remove it and run the same command again'
  with (
    inputs.reading_file(path, 'a whole block of games', hint),
    np.load(path) as arrays,
  ):
    return [arrays[name] for name in names]


def join(
  world: RecordedGames,
  out: Path,
  parts: Path,
  run: dict[str, Any],
  blocks: int,
  lost: float = inputs.LOST,
) -> dict[str, Any]:
  """Makes both stores from all blocks.

  Args:
    world: whose tokens they hold.
    out: they go to data/train and data/heldout in it.
    parts: folder of the blocks.
    run: what this ingestion is; 'most' of the good games are taken, 0 is all.
    blocks: number of blocks.
    lost: see inputs.Lost.

  Returns:
    split -> manifest; 'ingest' in it says what became of all games.

  Raises:
    Refused: all games were left out, or more than `lost` of a file.
  """
  drop = _duplicates(parts, blocks)
  drop[run['most'] or len(drop) :] = BEYOND
  report, counts = _report(parts, run, blocks, drop)
  if not report['kept']:
    raise Refused(
      f'no game is left of {report["games"]}: {counts_text(report["rejected"])}'
    )
  try:
    _check_lost(report, counts, lost)
  except core.InputError as error:
    raise Refused(str(error)) from error
  manifests = {}
  for split in sampling.SPLITS:
    num = report['splits'][split]
    about = {**sampling.describe(world, 0, split, num), 'ingest': report}
    rows = _rows(world, parts, blocks, drop, split == 'heldout')
    manifests[split] = stores.write(out / 'data' / split, rows, about)
  return manifests


def _check_lost(
  report: dict[str, Any], counts: np.ndarray, lost: float
) -> None:
  """Raises InputError where a file loses too much for one reason.

  counts: [files, causes].
  """
  for (name, _), causes in zip(report['files'], counts.tolist(), strict=True):
    for cause, number in zip(pgn_games.CAUSES, causes, strict=True):
      if number and cause in pgn_games.HINTS:
        examples = report['examples'].get(cause, [])
        first = next((_example(x) for x in examples if x['file'] == name), name)
        share = inputs.Lost(name, cause, number, sum(causes), first)
        share.check(lost, pgn_games.HINTS[cause])


def counts_text(counts: dict[str, int]) -> str:
  """'3 variant, 2 too short'."""
  return ', '.join(f'{n:,} {cause}' for cause, n in counts.items())


def _report(
  parts: Path, run: dict[str, Any], blocks: int, drop: np.ndarray
) -> tuple[dict[str, Any], np.ndarray]:
  """What became of all games, as JSON values; [files, causes] counts."""
  counts = np.zeros((len(run['files']), len(pgn_games.CAUSES)), np.int64)
  examples: dict[str, list[dict[str, Any]]] = {}
  damage, at, cut, held = {}, 0, 0, 0
  for block in range(blocks):
    names = ('causes', 'cut', 'heldout', 'about')
    block_causes, longer, heldout, text = _load(parts, block, *names)
    cut += int(longer)
    held += int((heldout & (drop[at : at + len(heldout)] == KEPT)).sum())
    at += len(heldout)
    about = json.loads(text.tobytes())
    file = run['files'][about['file']][0]
    counts[about['file']] += block_causes
    if about['damage']:
      damage[file] = about['damage']
    for example in about['examples']:
      shown = examples.setdefault(example.pop('cause'), [])
      if len(shown) < pgn_games.SHOWN:
        shown.append({'file': file, **example})
  num_kept = int((drop == KEPT).sum())
  causes = counts.sum(0).tolist()
  rejected = dict(zip(pgn_games.CAUSES[1:], causes[1:], strict=True))
  rejected['duplicate'] = int((drop == DUPLICATE).sum())
  rejected['duplicate across splits'] = int((drop == ACROSS).sum())
  rejected['not asked for'] = int((drop == BEYOND).sum())
  report = {
    **run,
    'games': sum(causes),
    'kept': num_kept,
    'splits': {'train': num_kept - held, 'heldout': held},
    'rejected': {cause: n for cause, n in rejected.items() if n},
    'cut': cut,
    'examples': examples,
    'damage': damage,
  }
  return report, counts


def _duplicates(parts: Path, blocks: int) -> np.ndarray:
  """[K] uint8: what becomes of each game that the blocks hold.

  Of games with equal moves the first is KEPT. Later ones are DUPLICATE where
  they are in its split, else ACROSS. Hashes are compared in turns, each of
  about HASHES of them, so that memory is a byte a game and one turn.
  """
  sizes = [len(_load(parts, k, 'heldout')[0]) for k in range(blocks)]
  drop = np.zeros(sum(sizes), np.uint8)
  turns = -(-len(drop) // HASHES)
  firsts = np.cumsum([0, *sizes])
  for turn in range(turns):
    blocks_hashes = [
      _some(hashes, heldout, int(firsts[k]), turn, turns)
      for k in range(blocks)
      for hashes, heldout in [_load(parts, k, 'hashes', 'heldout')]
    ]
    hashes, place, heldout = (
      np.concatenate(x) for x in zip(*blocks_hashes, strict=True)
    )
    order = np.argsort(hashes, kind='stable')
    same = np.zeros(len(order), bool)
    same[1:] = hashes[order[1:]] == hashes[order[:-1]]
    leader = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
    across = heldout[order] != heldout[order][leader]
    kind = np.where(across, ACROSS, DUPLICATE)
    drop[place[order]] = np.where(same, kind, KEPT)
  return drop


def _some(
  hashes: np.ndarray, heldout: np.ndarray, first: int, turn: int, turns: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """The hashes of one turn, with their places and splits."""
  rows = np.flatnonzero(hashes % np.uint64(turns) == turn)
  return hashes[rows], first + rows, heldout[rows]


def _rows(
  world: RecordedGames, parts: Path, blocks: int, drop: np.ndarray, held: bool
) -> Iterator[core.Sequences]:
  """Sequences of one split, in order of the games."""
  at = 0
  for block in range(blocks):
    moves, lengths, heldout = _load(parts, block, 'moves', 'lengths', 'heldout')
    picked = (heldout == held) & (drop[at : at + len(heldout)] == KEPT)
    at += len(heldout)
    moves = moves[np.repeat(picked, lengths)]
    lengths = lengths[picked]
    ends = np.cumsum(lengths, dtype=np.int64)
    for first in range(0, len(lengths), ROWS):
      sizes = lengths[first : first + ROWS]
      start = ends[first] - lengths[first]
      part = moves[start : start + sizes.sum()]
      yield world.from_moves(part, sizes)


STAGE = 'ingest'
VERSION = '1'  # Moves when the same files give other data.
WORLD = 'chess(length=704)'  # Longer than any published random game.


def run_of(
  world: core.World, sources: list[pgn_games.Source], most: int
) -> dict[str, Any]:
  """The inputs that identify an ingestion."""
  return {
    'ingest': VERSION,
    'world': registry.spec(world),
    'world_version': world.version,
    # By which a run recognises its files.
    'files': [[source.path.name, source.size] for source in sources],
    'most': most,
    'salt': pgn_games.SALT.decode(),
  }


def make_dataset(
  world: core.World,
  paths: list[str],
  out: str | Path,
  most: int = 0,
  jobs: int = 1,
  lost: float = inputs.LOST,
) -> dict[str, Any]:
  """Reads the games of PGN files into both stores.

  Args:
    world: whose games they are, see RecordedGames.
    paths: PGN files, plain or compressed.
    out: output folder; gets data/train, data/heldout, ingest.run.json.
    most: good games after which reading stops, before duplicates are left
      out; 0 is all.
    jobs: processes that read blocks.
    lost: see inputs.Lost.

  Returns:
    split -> manifest of its store.

  Raises:
    InputError: a file that is no PGN, no game left, or `out` holds other
      data, or another process reads games into it.
  """
  out = Path(out)
  if not isinstance(world, RecordedGames):
    raise core.InputError(
      f'PGN holds games of chess; --world={registry.spec(world)} has others'
    )
  sources = [pgn_games.Source(path) for path in paths]

  def read(parts: Path) -> int:
    """Reads all blocks."""
    if jobs == 1:
      _read(world, sources, parts, ALL, most, shown=True)
    else:
      fixed = {
        'world': registry.spec(world),
        'paths': [str(source.path) for source in sources],
        'parts': str(parts),
        'most': most,
      }
      tasks.run_shards(STAGE, read_shard, fixed, jobs)
    return reach(parts, most, (0, 0))[0]

  with files.stage_lock(out, STAGE):
    return _make(world, sources, out, run_of(world, sources, most), read, lost)


def read_shard(
  world: str, paths: list[str], parts: str, shard: tuple[int, int], most: int
) -> None:
  """Reads the blocks of a shard that are missing; a task of `make_dataset`."""
  sources = [pgn_games.Source(path) for path in paths]
  played = registry.make('world', world)
  _read(played, sources, Path(parts), shard, most, shown=False)


def _make(
  world: RecordedGames,
  sources: list[pgn_games.Source],
  out: Path,
  run: dict[str, Any],
  read: Callable[[Path], int],
  lost: float,
) -> dict[str, Any]:
  """See make_dataset; no other process is at it.

  read: reads blocks into a folder; how many there are.
  """
  if not (out / 'ingest.run.json').exists():
    _check(out, sources)
  files.claim(out, STAGE, run)
  manifests = _complete(out)
  if manifests:
    return manifests
  parts = out / 'data' / 'ingest.partial'
  parts.mkdir(parents=True, exist_ok=True)
  try:
    manifests = join(world, out, parts, run, read(parts), lost)
  except Refused:
    _retract(out)
    raise
  shutil.rmtree(parts, ignore_errors=True)
  return manifests


def _check(out: Path, sources: list[pgn_games.Source]) -> None:
  """Raises InputError where a first run would fail, or spoil other data."""
  sampling.check_free(out)
  for source in sources:
    pgn_games.check(source)


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
  sources: list[pgn_games.Source],
  parts: Path,
  shard: tuple[int, int],
  most: int,
  shown: bool,
) -> None:
  """Reads the blocks of one process that are missing."""
  number = games = before = good = 0
  counts = (0, 0)
  size = sum(source.size for source in sources)
  bar = progress.Progress(STAGE, size, 'B') if shown else None
  with bar or contextlib.nullcontext():
    for file, source in enumerate(sources):
      for block in pgn_games.blocks(source, file):
        counts = reach(parts, most, counts)
        # Blocks of other processes may be on other machines as yet.
        if most and max(counts[1], good) >= most:
          return
        path = path_of(parts, number)
        if number % shard[1] == shard[0] and not path.exists():
          read = pgn_games.read(block, world.least, world.length, world.start)
          write(path, read)
          good += len(read.lengths)
        number, games = number + 1, games + len(block.games)
        if bar:
          bar.reach(before + source.read, size, f'{games:,} games')
      before += source.size


def lines(report: dict[str, Any]) -> list[str]:
  """Lines that summarize an ingestion."""
  text_lines = [
    f'{report["games"]:,} games, {report["kept"]:,} kept; left out: '
    + (counts_text(report['rejected']) or 'none')
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
