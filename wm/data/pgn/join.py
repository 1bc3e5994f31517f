"""Joins the blocks that were read of PGN files into two stores.

The games of a block are in a file of arrays, which `wm.data.pgn.ingest` writes.
Blocks are read in order, one at a time.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from wm import core
from wm.core import inputs
from wm.data import sampling
from wm.data import store as stores
from wm.data.pgn import games as pgn
from wm.runtime import files
from wm.worlds.base.games import RecordedGames

Path = pathlib.Path

ROWS = 4096  # Games padded at a time.
HASHES = 1 << 22  # Hashes compared at a time.
KEPT, DUPLICATE, ACROSS, BEYOND = range(4)


class NothingLeft(core.InputError):
  """Every game was left out."""


def path_of(parts: Path, block: int) -> Path:
  """File of a block."""
  return parts / f'{block:08d}.npz'


def reach(parts: Path, most: int, counts: tuple[int, int]) -> tuple[int, int]:
  """Counts the blocks that are there without a gap, up to `most` games.

  Args:
    parts: folder of the blocks.
    most: good games asked for, duplicates included; 0 is all.
    there: blocks and games counted so far, (0, 0) at first.

  Returns:
    Blocks, and games in them.
  """
  blocks, games = counts
  while not (most and games >= most) and path_of(parts, blocks).exists():
    games += len(_load(parts, blocks, 'lengths')[0])
    blocks += 1
  return blocks, games


def write(path: Path, games: pgn.Read) -> None:
  """Writes what was read of a block, whole or not at all."""
  arrays = games._asdict()
  about = {name: arrays.pop(name) for name in ('file', 'damage', 'examples')}
  text = np.frombuffer(json.dumps(about).encode(), np.uint8)
  causes = np.bincount(arrays.pop('causes'), minlength=len(pgn.CAUSES))
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
  world: RecordedGames, out: Path, parts: Path, run: dict[str, Any], blocks: int
) -> dict[str, Any]:
  """Makes both stores from all blocks.

  Args:
    world: whose tokens they hold.
    out: they go to data/train and data/heldout in it.
    parts: folder of the blocks.
    run: what this ingestion is; 'most' of the good games are taken, 0 is all.
    blocks: number of blocks.

  Returns:
    split -> manifest; 'ingest' in it says what became of all games.

  Raises:
    NothingLeft: all games were left out.
  """
  drop = _duplicates(parts, blocks)
  drop[run['most'] or len(drop) :] = BEYOND
  report = _report(parts, run, blocks, drop)
  if not report['kept']:
    raise NothingLeft(
      f'no game is left of {report["games"]}: {told(report["rejected"])}'
    )
  manifests = {}
  for split in sampling.SPLITS:
    num = report['splits'][split]
    about = {**sampling.describe(world, 0, split, num), 'ingest': report}
    rows = _rows(world, parts, blocks, drop, split == 'heldout')
    manifests[split] = stores.write(out / 'data' / split, rows, about)
  return manifests


def told(counts: dict[str, int]) -> str:
  """'3 variant, 2 too short'."""
  return ', '.join(f'{n:,} {cause}' for cause, n in counts.items())


def _report(
  parts: Path, run: dict[str, Any], blocks: int, drop: np.ndarray
) -> dict[str, Any]:
  """What became of all games, as JSON values."""
  causes = np.zeros(len(pgn.CAUSES), np.int64)
  examples: dict[str, list[dict[str, Any]]] = {}
  damage, at, cut, held = {}, 0, 0, 0
  for block in range(blocks):
    names = ('causes', 'cut', 'heldout', 'about')
    block_causes, longer, heldout, text = _load(parts, block, *names)
    causes, cut = causes + block_causes, cut + int(longer)
    held += int((heldout & (drop[at : at + len(heldout)] == KEPT)).sum())
    at += len(heldout)
    about = json.loads(text.tobytes())
    file = run['files'][about['file']][0]
    if about['damage']:
      damage[file] = about['damage']
    for example in about['examples']:
      shown = examples.setdefault(example.pop('cause'), [])
      if len(shown) < pgn.SHOWN:
        shown.append({'file': file, **example})
  num_kept = int((drop == KEPT).sum())
  rejected = dict(zip(pgn.CAUSES[1:], causes[1:].tolist(), strict=True))
  rejected['duplicate'] = int((drop == DUPLICATE).sum())
  rejected['duplicate across splits'] = int((drop == ACROSS).sum())
  rejected['not asked for'] = int((drop == BEYOND).sum())
  return {
    **run,
    'games': int(causes.sum()),
    'kept': num_kept,
    'splits': {'train': num_kept - held, 'heldout': held},
    'rejected': {cause: n for cause, n in rejected.items() if n},
    'cut': cut,
    'examples': examples,
    'damage': damage,
  }


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
