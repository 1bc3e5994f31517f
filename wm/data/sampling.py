"""Sampling a data set from a world: OUT/data/train and OUT/data/heldout.

Chunk c of a split is `world.sample` with a seed derived from (seed, split, c).
A killed run therefore resumes after its last complete shard, and ends with the
same bytes as an uninterrupted one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import pathlib
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wm import core
from wm.core import basics, capabilities, registry, resources
from wm.data import store as stores
from wm.options.calls import Sampling
from wm.runtime import exit_codes, files, progress, tasks

Path = pathlib.Path
Draw = Callable[[int, int], core.Sequences | stores.Ragged]

CHUNK = 1 << 17  # Rows that a world samples at a time.
SPLITS = ('train', 'heldout')


def describe(
  world: core.World, seed: int, split: str, num: int
) -> dict[str, Any]:
  """Fields of a store's manifest that describe the source of its rows."""
  return {
    'world': registry.spec(world),
    'world_version': world.version,
    'world_facts': (
      world.stats() if core.can(world, core.Described.stats) else {}
    )
    | capabilities.notes(world),
    'seed': seed,
    'split': split,
    'num': num,
    'vocab_size': len(world.vocab),
    'vocab_sha256': core.world.vocab_sha256(world),
    'end': world.end,
    'max_len': world.max_len,
  }


def check_vocab(store: stores.Store, world: core.World) -> None:
  """Raises InputError if a store has another vocabulary than the world."""
  if store.manifest.get('vocab_sha256') != core.world.vocab_sha256(world):
    raise core.InputError(
      f'{store.folder} was sampled from {store.manifest.get("world")}, whose '
      f'vocabulary is not that of {registry.spec(world)}'
    )


def stored(
  world: core.World, folder: str, num: int, seed: int
) -> core.Sequences:
  """Reads `num` stored sequences, chosen by seed, in the store's order.

  Raises:
    InputError: no store in the folder, or one of another vocabulary.
  """
  store = stores.open(folder)
  check_vocab(store, world)
  order = np.argsort(basics.hash64(seed, np.arange(len(store))), kind='stable')
  return core.Sequences(*store.take(np.sort(order[:num])))


@files.locked_stage('sample')
def make_dataset(
  world: core.World, out: str | Path, options: Sampling, jobs: int = 1
) -> dict[str, Any]:
  """Samples both splits; resumes a killed run, and keeps a complete one.

  Args:
    world: world to sample.
    out: output folder; gets data/train, data/heldout, sample.run.json.
    options: numbers of sequences, and the seed of all draws.
    jobs: processes that sample chunks; this process joins them.

  Returns:
    split -> manifest of its store.

  Raises:
    InputError: the world cannot be sampled, or `out` holds another run, or
      another process samples there.
    OSError: the disk refuses a write; no partial files are left then.
  """
  out = Path(out)
  num, num_heldout, seed = options.num, options.num_heldout, options.seed
  run = describe(world, seed, 'train', num)  # Bad input shows before a claim.
  run = {key: run[key] for key in run if key not in ('split', 'num')}
  run.update(num=num, num_heldout=num_heldout)
  _check_room(world, out, num + num_heldout, seed)
  with removed_on_failure(out, 'sample'):
    files.claim(out, 'sample', run)
    manifests = {
      split: _make_split(world, out / 'data' / split, size, seed, split, jobs)
      for split, size in zip(SPLITS, (num, num_heldout), strict=True)
    }
  return manifests


def check_free(out: Path) -> None:
  """Raises InputError if a folder holds data of either split."""
  for split in SPLITS:
    if (out / 'data' / split).exists():
      raise core.InputError(
        f'{out} holds other data, in data/{split}; choose another --out'
      )


@contextlib.contextmanager
def removed_on_failure(out: Path, stage: str) -> Iterator[None]:
  """Context that removes the data of a stage's first run if it fails.

  After Ctrl-C or the loss of processes all files stay for the next run.
  """
  claimed = out / f'{stage}.run.json'
  before = {path for path in _products(claimed) if path.exists()}
  done = False
  try:
    yield
    done = True
  except exit_codes.RESUMABLE:
    done = True
    raise
  finally:
    if not done and claimed not in before:
      _retract(claimed, before)


def _check_room(world: core.World, out: Path, num: int, seed: int) -> None:
  """Raises InputError if the disk has no room for `num` sequences."""
  if num <= CHUNK:
    return
  few = world.sample(64, seed)
  if few.distinct:
    return  # The world may have fewer than `num` sequences.
  size = stores.token_dtype(len(world.vocab)).itemsize
  bytes_each = int(few.lengths.mean()) * size
  resources.require_disk(out, num * bytes_each, f'num={num} sequences')


def _products(claimed: Path) -> list[Path]:
  """All paths that a run may create, folders after their contents."""
  data = claimed.parent / 'data'
  stores_made = [data / split for split in SPLITS]
  chunks = [data / f'.{split}.chunks' for split in SPLITS]
  return [*stores_made, *chunks, data, claimed]


def _retract(claimed: Path, before: set[Path]) -> None:
  """Removes the files of a failed first run."""
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


def _make_split(
  world: core.World, folder: Path, num: int, seed: int, split: str, jobs: int
) -> dict[str, Any]:
  """Makes the store of a split unless it exists; returns its manifest."""
  description = describe(world, seed, split, num)
  if folder.exists():
    manifest = stores.open(folder).manifest
    files.same(
      folder, split, description, {k: manifest.get(k) for k in description}
    )
    return manifest
  tokens = stores.SHARD_TOKENS
  with stores.Writer(folder, description, shard_tokens=tokens) as writer:
    with (
      progress.Progress(
        f'sample {split}', num, 'sequences', done=writer.rows
      ) as shown,
      _drawing(world, writer, description, jobs) as draw,
    ):
      for chunk in _chunks(writer, num, draw):
        writer.add(chunk)
        shown.update(len(chunk))
    if not writer.rows:
      raise core.InputError(
        f'{registry.spec(world)} has no sequence for its {split} split'
      )
    return writer.finish()


def _chunks(
  writer: stores.Writer, num: int, draw: Draw
) -> Iterator[core.Sequences | stores.Ragged]:
  """Yields chunks until there are `num` rows, or the world has no more.

  A world with `distinct` sequences does not repeat one within a chunk. Repeats
  of an earlier chunk are dropped and counted here.
  """
  seen = None
  while writer.rows < num:
    asked = min(num - writer.rows, CHUNK)
    chunk = draw(writer.chunks, asked)
    num_drawn = len(chunk)
    if chunk.distinct:
      seen = seen or _Seen(writer)
      if isinstance(chunk, stores.Ragged):
        chunk = chunk.sequences()
      chunk = seen.new(chunk)
    if len(chunk):
      yield chunk
    if num_drawn < asked or not len(chunk):
      return


def _sample(
  world: core.World, seed: int, split: str, chunk: int, num: int
) -> core.Sequences:
  """Samples a chunk of `num` rows, or fewer if the world has no more."""
  words = basics.hash64(seed, SPLITS.index(split), chunk)
  rows = world.sample(num, int(words >> np.uint64(1)), split)
  if not isinstance(rows, core.Sequences):  # Of a user's world.
    raise core.InputError(
      f'{registry.spec(world)}: sample gives {type(rows).__name__}; '
      'expected core.Sequences'
    )
  return rows


@contextlib.contextmanager
def _drawing(
  world: core.World, writer: stores.Writer, about: dict[str, Any], jobs: int
) -> Iterator[Draw]:
  """Context that gives a function (chunk, rows) -> sequences of the chunk.

  With several jobs, tasks sample the chunks ahead, assuming that no row is
  dropped. If rows of a `distinct` world are dropped, this process samples the
  further chunks.

  about: description of the store; see `describe`.
  """
  seed, split = about['seed'], about['split']
  left = about['num'] - writer.rows
  sizes = [min(left - at, CHUNK) for at in range(0, left, CHUNK)]

  def sample(chunk: int, num: int) -> core.Sequences:
    return _sample(world, seed, split, chunk, num)

  # Chunks are not published at a URL, as they are joined soon.
  parts = writer.folder.with_name(f'.{split}.chunks')
  if jobs == 1 or len(sizes) < 2:
    yield sample
    shutil.rmtree(parts, ignore_errors=True)  # Left by a run of several jobs.
    return
  parts.mkdir(exist_ok=True)
  fixed = {'world': about['world'], 'seed': seed, 'split': split}
  fixed.update(folder=str(parts), run=time.time_ns())
  todo = {
    (chunk, num): tasks.Task(
      sample_chunk,
      {**fixed, 'chunk': chunk, 'num': num},
      functools.partial(_is_listed, _path(parts, chunk, num)),
    )
    for chunk, num in enumerate(sizes, writer.chunks)
  }
  ended = tasks.run([*todo.values()], jobs)
  ready: set[int] = set()

  def joined(chunk: int, num: int) -> core.Sequences | stores.Ragged:
    """The sequences of a task, once it has ended."""
    if (chunk, num) not in todo:
      return sample(chunk, num)
    while chunk not in ready:
      ready.add(next(ended)[0].arguments['chunk'])
    path = _path(parts, chunk, num)
    rows = stores.Ragged.read(path)
    path.unlink()
    return rows

  with contextlib.closing(ended):
    yield joined
  # A lost worker may have come back and written a chunk.
  shutil.rmtree(parts, ignore_errors=True)


def _path(folder: Path, chunk: int, num: int) -> Path:
  return folder / f'{chunk:08d}-{num}.npy'


def _is_listed(path: Path) -> bool:
  """Does a file exist? It lists the folder, because a network file system may
  cache the answer that a name is missing."""
  return path.name in os.listdir(path.parent)


def sample_chunk(
  world: str, run: int, seed: int, split: str, chunk: int, num: int, folder: str
) -> None:
  """Samples a chunk into a file of `folder`; a task of `make_dataset`.

  run: number that differs between runs, so that a world's files are read again.
  """
  parts, sampled = Path(folder), _world(world, run)
  dtype = stores.token_dtype(len(sampled.vocab))
  rows = stores.Ragged.of(_sample(sampled, seed, split, chunk, num), dtype)
  if parts.exists():  # Otherwise this task ran twice, after all were joined.
    rows.write(_path(parts, chunk, num))


@functools.lru_cache(maxsize=1)
def _world(spec: str, run: int) -> core.World:
  """The world that all tasks of one run share in a process."""
  del run
  return registry.make('world', spec)


class _Seen:
  """Hashes of the sequences so far, 8 bytes each."""

  def __init__(self, writer: stores.Writer) -> None:
    # Sorted runs, each at least twice as long as the next: a hash is merged
    # whenever the number of hashes doubles, not with every chunk.
    self._runs: list[np.ndarray] = []
    for chunk in writer.written():
      self.new(chunk)

  def new(self, chunk: core.Sequences) -> core.Sequences:
    """The rows that are new; the others are counted."""
    hashes = chunk.hashes()
    fresh = np.ones(len(hashes), bool)
    for run in self._runs:
      place = np.searchsorted(run, hashes)
      fresh &= run[np.minimum(place, len(run) - 1)] != hashes
    latest = np.unique(hashes[fresh])
    while self._runs and len(self._runs[-1]) < 2 * len(latest):
      latest = np.union1d(self._runs.pop(), latest)
    if len(latest):
      self._runs.append(latest)
    if fresh.all():
      return chunk
    again = {'duplicate of another chunk': int((~fresh).sum())}
    return dataclasses.replace(chunk.take(fresh), counts=chunk.counts | again)
