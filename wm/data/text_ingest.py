"""Published sequence files as a data set: OUT/data/train and OUT/data/heldout.

Lines are read a chunk at a time, in their order, so that files of any length
fit, and a run that was killed goes on after its last complete shard.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import registry
from wm.data import sampling, text
from wm.data import store as stores
from wm.runtime import files, locks, progress
from wm.worlds.base.sampling import in_split

Path = pathlib.Path

STAGE = 'ingest'
VERSION = '1'  # Moves when the same files give other data.
CHUNK = 1 << 16  # Lines at a time.


@locks.alone(STAGE)
def make_dataset(
  world: core.World,
  train: Sequence[str | Path],
  heldout: Sequence[str | Path],
  out: str | Path,
) -> dict[str, Any]:
  """Makes both stores of files in the text format (see `wm.data.text`).

  Left out, and counted by cause in a store's `counts`, are lines that are
  blank, illegal in the world, longer than its sequences or without their end,
  and lines of `train` whose split key a kept line of `heldout` has (on a map:
  whose origin and destination it has).

  Args:
    world: whose vocabulary and rules the lines follow.
    train: files of training sequences.
    heldout: files of held-out sequences; where there are none, the world
      divides the lines of `train` as it divides what it samples.
    out: output folder; gets data/train, data/heldout, ingest.run.json.

  Returns:
    split -> manifest of its store.

  Raises:
    InputError: an unusable file, an unknown token with its line, no sequence
      left of a split, or `out` holds other data.
  """
  out = Path(out)
  named = {
    split: [_name_and_size(path) for path in paths]
    for split, paths in zip(sampling.SPLITS, (train, heldout), strict=True)
  }
  run = {
    'ingest': f'text {VERSION}',
    'world': registry.spec(world),
    'world_version': world.version,
    **named,
  }
  if not files.claimed(out, STAGE, run):
    for split in sampling.SPLITS:
      if (out / 'data' / split).exists():
        raise core.InputError(
          f'{out} holds other data, in data/{split}; choose another --out'
        )
  with sampling.whole(out, STAGE):
    files.claim(out, STAGE, run)
    held = _make(world, out, 'heldout', heldout or train, run)
    return {'train': _make(world, out, 'train', train, run), 'heldout': held}


def _name_and_size(path: str | Path) -> list[Any]:
  path = Path(path)
  if not path.is_file():
    raise core.InputError(f'no such file: {path}')
  return [path.name, path.stat().st_size]


def _make(
  world: core.World,
  out: Path,
  split: str,
  paths: Sequence[str | Path],
  run: dict[str, Any],
) -> dict[str, Any]:
  """The store of a split, unless it is complete; its manifest."""
  folder = out / 'data' / split
  if folder.exists():
    return stores.open(folder).manifest
  keep = _Keep(
    world, 'all' if run['heldout'] else split, np.zeros(0, np.uint64)
  )
  if split == 'train' and run['heldout']:
    held = stores.open(out / 'data' / 'heldout').chunks(CHUNK)
    keep = keep._replace(
      taken=np.unique(np.concatenate([*map(world.split_key, held)]))
    )
  about = {**sampling.describe(world, 0, split, 0), 'ingest': run}
  tokens = stores.SHARD_TOKENS
  size = sum(Path(path).stat().st_size for path in paths)
  with (
    stores.Writer(folder, about, shard_tokens=tokens) as writer,
    progress.Progress(f'ingest {split}', size, 'B') as shown,
  ):
    for read, sequences in _chunks(world, paths, writer.chunks):
      writer.add(keep.of(sequences))
      shown.reach(read, size, f'{writer.rows:,} sequences')
    if not writer.rows:
      raise core.InputError(
        f'no {split} sequence is left of {", ".join(map(str, paths))}: '
        + ', '.join(f'{n:,} {cause}' for cause, n in writer.counts.items())
      )
    return writer.finish()


def _chunks(
  world: core.World, paths: Sequence[str | Path], done: int
) -> Iterator[tuple[int, core.Sequences]]:
  """Chunks of all files after the first `done`, and characters by their end."""
  read = 0
  for path in paths:
    for first, lines in text.batches(path, CHUNK):
      read += sum(map(len, lines))
      if done:
        done -= 1
        continue
      sequences = text.parse(lines, first, path, world)
      blank = {'blank': len(lines) - len(sequences)}
      yield read, dataclasses.replace(sequences, counts=blank)


class _Keep(NamedTuple):
  """Which lines are kept.

  Attributes:
    world: whose rules.
    split: that the world divides lines into; 'all' where a file says it.
    taken: sorted split keys of the other split's file.
  """

  world: core.World
  split: str
  taken: np.ndarray

  def of(self, sequences: core.Sequences) -> core.Sequences:
    """The lines that are kept; `counts` has causes of the others."""
    world, lengths = self.world, sequences.lengths
    start = world.init(len(lengths))
    steps, _ = world.walk(start, sequences.tokens, lengths)
    last = sequences.tokens[np.arange(len(lengths)), lengths - 1]
    key = world.split_key(sequences)
    causes = {
      'illegal': steps < lengths,
      'too long': lengths > world.max_len,
      'without end': (world.end != core.DEAD) & (last != world.end),
      'of the other split': np.isin(key, self.taken)
      | ~in_split(key, self.split),
    }
    counts, left = dict(sequences.counts), np.ones(len(lengths), bool)
    for cause, mask in causes.items():
      counts[cause] = int((left & mask).sum())
      left &= ~mask
    counts = {cause: count for cause, count in counts.items() if count}
    return dataclasses.replace(sequences.take(left), counts=counts)
