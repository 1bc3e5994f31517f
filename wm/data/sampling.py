"""Sampling a data set from a world: OUT/data/train and OUT/data/heldout.

Chunk c of a split is `world.sample` with a seed made of (seed, split, c). So a
run that was killed resumes after its last complete shard, and ends with the
same bytes as an unbroken one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np

from wm import core
from wm.core import basics, registry, resources
from wm.data import store as stores
from wm.data import text as texts
from wm.options.sampling import Sampling
from wm.runtime import files, progress

Path = pathlib.Path

CHUNK = 1 << 17  # Rows asked from a world at a time.
SPLITS = ('train', 'heldout')


def chunk_seed(seed: int, split: str, chunk: int) -> int:
  """Seed that a chunk of a split is sampled with."""
  words = basics.hash64(seed, SPLITS.index(split), chunk)
  return int(words >> np.uint64(1))


def describe(
  world: core.World, seed: int, split: str, num: int
) -> dict[str, Any]:
  """What a store's manifest says of where its rows come from."""
  return {
    'world': registry.spec(world),
    'world_version': world.version,
    'world_facts': world.stats()
    if core.can(world, core.Described.stats)
    else {},
    'seed': seed,
    'split': split,
    'num': num,
    'vocab_size': len(world.vocab),
    'vocab_sha256': core.world.vocab_sha256(world),
    'end': world.end,
    'max_len': world.max_len,
  }


def check_vocab(store: stores.Store, world: core.World) -> None:
  """Raises InputError where a store's tokens are not those of this world."""
  if store.manifest.get('vocab_sha256') != core.world.vocab_sha256(world):
    raise core.InputError(
      f'{store.folder} was sampled from {store.manifest.get("world")}, whose '
      f'vocabulary is not that of {registry.spec(world)}'
    )


def stored(
  world: core.World, folder: str, num: int, seed: int
) -> core.Sequences:
  """`num` stored sequences of a world, chosen by seed, in their order.

  Raises:
    InputError: the folder holds none, or those of another vocabulary.
  """
  store = stores.open(folder)
  check_vocab(store, world)
  order = np.argsort(basics.hash64(seed, np.arange(len(store))), kind='stable')
  return core.Sequences(*store.take(np.sort(order[:num])))


@files.locked_stage('sample')
def make_dataset(
  world: core.World, out: str | Path, options: Sampling
) -> dict[str, Any]:
  """Samples both splits; resumes a broken run, and leaves a complete one.

  Args:
    world: what to sample from.
    out: output folder; gets data/train, data/heldout, sample.run.json.
    options: how many sequences, and the seed of all draws.

  Returns:
    split -> manifest of its store.

  Raises:
    InputError: the world cannot be sampled, or `out` holds another run, or
      another process samples there.
    OSError: what the disk says; nothing half-written is left then.
  """
  out = Path(out)
  num, num_heldout, seed = options.num, options.num_heldout, options.seed
  run = describe(world, seed, 'train', num)  # Bad input shows before a claim.
  run = {key: run[key] for key in run if key not in ('split', 'num')}
  run.update(num=num, num_heldout=num_heldout)
  _check_room(world, out, num + num_heldout, seed)
  with whole(out, 'sample'):
    files.claim(out, 'sample', run)
    manifests = {
      split: _make_split(world, out / 'data' / split, size, seed, split)
      for split, size in zip(SPLITS, (num, num_heldout), strict=True)
    }
    if options.text:
      _write_text(world, out / 'data')
  return manifests


@contextlib.contextmanager
def whole(out: Path, stage: str) -> Iterator[None]:
  """Removes what a stage's first run made of data in `out`, where it fails.

  What is complete stays on Ctrl-C, for the next run to go on with.
  """
  claimed = out / f'{stage}.run.json'
  before = {path for path in _products(claimed) if path.exists()}
  done = False
  try:
    yield
    done = True
  except KeyboardInterrupt:
    done = True
    raise
  finally:
    if not done and claimed not in before:
      _retract(claimed, before)


def _check_room(world: core.World, out: Path, num: int, seed: int) -> None:
  """Raises InputError where the disk has no room for so many sequences."""
  if num <= CHUNK:
    return
  few = world.sample(64, seed)
  if few.distinct:
    return  # There may be fewer than `num` of them.
  size = stores.token_dtype(len(world.vocab)).itemsize
  bytes_each = int(few.lengths.mean()) * size
  resources.require_disk(out, num * bytes_each, f'num={num} sequences')


def _products(claimed: Path) -> list[Path]:
  """All paths that a run may make, folders after their contents."""
  data = claimed.parent / 'data'
  texts_made = [data / f'{split}_sequences.txt' for split in SPLITS]
  stores_made = [data / split for split in SPLITS]
  return [*texts_made, *stores_made, data, claimed]


def _retract(claimed: Path, before: set[Path]) -> None:
  """Removes what a failed first run has made."""
  data = claimed.parent / 'data'
  for path in _products(claimed):
    if path in before or not path.exists():
      continue
    if path.parent == data and path.is_dir():
      shutil.rmtree(path)
    elif path.is_dir():
      path.rmdir()
    else:
      path.unlink()


def _write_text(world: core.World, folder: Path) -> None:
  for split in SPLITS:
    path = folder / f'{split}_sequences.txt'
    if not path.exists():
      texts.write(path, stores.open(folder / split).chunks(), world)


def _make_split(
  world: core.World, folder: Path, num: int, seed: int, split: str
) -> dict[str, Any]:
  """Makes the store of a split, unless it is complete; its manifest."""
  description = describe(world, seed, split, num)
  if folder.exists():
    manifest = stores.open(folder).manifest
    files.same(
      folder, split, description, {k: manifest.get(k) for k in description}
    )
    return manifest
  tokens = stores.SHARD_TOKENS
  with stores.Writer(folder, description, shard_tokens=tokens) as writer:
    with progress.Progress(
      f'sample {split}', num, 'sequences', done=writer.rows
    ) as shown:
      for chunk in _chunks(world, writer, num, seed, split):
        writer.add(chunk)
        shown.update(len(chunk))
    if not writer.rows:
      raise core.InputError(
        f'{registry.spec(world)} has no sequence for its {split} split'
      )
    return writer.finish()


def _chunks(
  world: core.World, writer: stores.Writer, num: int, seed: int, split: str
) -> Iterator[core.Sequences]:
  """Yields chunks until there are `num` rows, or the world has no more.

  A world whose sequences are `distinct` repeats none within a chunk. Those
  that an earlier chunk had are dropped and counted here.
  """
  seen = None
  while writer.rows < num:
    asked = min(num - writer.rows, CHUNK)
    chunk = world.sample(asked, chunk_seed(seed, split, writer.chunks), split)
    if not isinstance(chunk, core.Sequences):  # Of a user's world.
      raise core.InputError(
        f'{registry.spec(world)}: sample gives {type(chunk).__name__}; '
        'expected core.Sequences'
      )
    num_drawn = len(chunk)
    if chunk.distinct:
      seen = seen or _Seen(writer)
      chunk = seen.new(chunk)
    if len(chunk):
      yield chunk
    if num_drawn < asked or not len(chunk):
      return


class _Seen:
  """Hashes of the sequences so far, 8 bytes each."""

  def __init__(self, writer: stores.Writer) -> None:
    self._hashes = np.zeros(0, np.uint64)
    for chunk in writer.written():
      self.new(chunk)

  def new(self, chunk: core.Sequences) -> core.Sequences:
    """The rows that are new; the others are counted."""
    hashes = chunk.hashes()
    fresh = ~np.isin(hashes, self._hashes)
    self._hashes = np.union1d(self._hashes, hashes)
    if fresh.all():
      return chunk
    again = {'duplicate of another chunk': int((~fresh).sum())}
    return dataclasses.replace(chunk.take(fresh), counts=chunk.counts | again)
