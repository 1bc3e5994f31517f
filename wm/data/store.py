"""Stores: token shards on disk, hashed, and read in constant memory.

    folder/manifest.json      format, world, seed, counts, a line per shard
    folder/00000.tokens       rows end to end, uint8, uint16 or uint32
    folder/00000.offsets      uint32 [rows + 1], where each row starts

Everything is little-endian. A store is written into `<folder>.partial`, which
is renamed to `folder` once it is complete.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import hashlib
import importlib.util
import itertools
import json
import os
import pathlib
import shutil
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from wm import core
from wm.core import inputs, registry, schema
from wm.runtime import exit_codes, files

FORMAT, COLUMN = 'wm-sequences-1', ['tokens']
# Further fields in data sets of worlds.
OPTIONAL = {
  **dict.fromkeys(('world', 'world_version', 'split', 'vocab_sha256'), str),
  **dict.fromkeys(('seed', 'num', 'vocab_size', 'end', 'max_len'), int),
  **{'world_facts': dict, 'counts': dict},
}
KEYS = ('name', 'rows', 'tokens', 'tokens_sha256', 'offsets_sha256')
_COUNTS = dict.fromkeys(('rows', 'tokens'), schema.Number(int, 0))
NEEDED = {
  'dtype': schema.String(3, ('|u1', '<u2', '<u4')),
  'shards': schema.List(schema.Object({**dict.fromkeys(KEYS, str), **_COUNTS})),
  **_COUNTS,
}


def token_dtype(vocab_size: int) -> np.dtype:
  """The narrowest little-endian unsigned type that holds every token id."""
  for kind in ('u1', '<u2', '<u4'):
    if vocab_size - 1 <= np.iinfo(kind).max:
      return np.dtype(kind)
  raise core.InputError(f'vocabulary of {vocab_size} tokens: at most 2**32')


@dataclasses.dataclass(frozen=True, eq=False)
class Ragged:
  """Sequences end to end, as stores hold them.

  Attributes:
    tokens: [sum of lengths], of the type on disk.
    lengths: [N] int32.
    counts, distinct: see core.Sequences.
  """

  tokens: np.ndarray
  lengths: np.ndarray
  counts: dict[str, int] = dataclasses.field(default_factory=dict)
  distinct: bool = False

  @classmethod
  def of(cls, sequences: core.Sequences, dtype: np.dtype) -> Ragged:
    """Converts Sequences; padding and side data are dropped."""
    tokens, lengths = sequences.tokens, sequences.lengths
    used = np.arange(tokens.shape[1]) < lengths[:, None]
    flat = tokens[used].astype(dtype)
    return cls(flat, lengths, sequences.counts, sequences.distinct)

  def __len__(self) -> int:
    return len(self.lengths)

  def sequences(self) -> core.Sequences:
    """Converts to Sequences, padded with PAD to the longest."""
    used = np.arange(int(self.lengths.max(initial=0))) < self.lengths[:, None]
    padded = np.full(used.shape, core.PAD, np.int32)
    padded[used] = self.tokens
    return core.Sequences(
      padded, self.lengths, counts=self.counts, distinct=self.distinct
    )

  def write(self, path: Path) -> None:
    """Writes a file, atomically."""
    about = json.dumps({'counts': self.counts, 'distinct': self.distinct})
    text = np.frombuffer(about.encode(), np.uint8)
    with files.replacing(path) as name, name.open('wb') as file:
      # Not a zip archive: its checksums would take longer than the rest.
      for array in (self.tokens, self.lengths, text):
        np.save(file, array, allow_pickle=False)

  @classmethod
  def read(cls, path: Path) -> Ragged:
    """Reads a file of `write`."""
    hint = 'remove it and run the same command again'
    with inputs.reading_file(path, 'sequences', hint), path.open('rb') as file:
      tokens, lengths, text = (np.load(file) for _ in range(3))
      return cls(tokens, lengths, **json.loads(text.tobytes()))


class HashedFile:
  """A file that hashes the bytes written to it."""

  def __init__(self, path: pathlib.Path) -> None:
    self.path = path
    self._file = path.open('wb')
    self._hash = hashlib.sha256()

  def write(self, array: np.ndarray) -> None:
    """Appends an array's bytes."""
    # On a full disk `ndarray.tofile` raises without an errno; `write` sets it.
    data = np.ascontiguousarray(array).data.cast('B')
    self._file.write(data)
    self._hash.update(data)

  def close(self) -> str:
    """Flushes the bytes to disk; returns their SHA-256 as hex."""
    files.sync(self._file)
    self._file.close()
    return self._hash.hexdigest()

  def abandon(self) -> None:
    """Removes the file."""
    try:
      self._file.close()
    except OSError:  # Buffered bytes no longer fit, and are dropped.
      self._file.raw.close()
    self.path.unlink(missing_ok=True)


class Shard:
  """One pair of files being written."""

  def __init__(self, folder: pathlib.Path, index: int) -> None:
    self.name = f'{index:05d}'
    self.rows = self.tokens = 0
    self._tokens = HashedFile(folder / f'{self.name}.tokens')
    self._offsets = HashedFile(folder / f'{self.name}.offsets')
    self._offsets.write(np.zeros(1, '<u4'))

  def add(self, rows: Ragged) -> None:
    """Appends rows."""
    self._tokens.write(rows.tokens)
    ends = self.tokens + np.cumsum(rows.lengths, dtype=np.int64)
    self._offsets.write(ends.astype('<u4'))
    self.rows += len(rows)
    self.tokens += len(rows.tokens)

  def close(self) -> dict[str, Any]:
    """Completes both files; returns the shard's line in the manifest."""
    hashes = self._tokens.close(), self._offsets.close()
    values = (self.name, self.rows, self.tokens, *hashes)
    return dict(zip(KEYS, values, strict=True))

  def abandon(self) -> None:
    """Removes both files."""
    self._tokens.abandon()
    self._offsets.abandon()


def checked(folder: pathlib.Path, manifest: Any) -> dict[str, Any]:
  """Validates a manifest; its file names cannot leave the folder."""
  path = folder / 'manifest.json'
  other = isinstance(manifest, dict) and manifest.get('format') != FORMAT
  if not other:
    files.record(manifest, str(path), NEEDED, OPTIONAL)
  if other or not all(x['name'].isdigit() for x in manifest['shards']):
    raise core.InputError(f'{path} is not a manifest of format {FORMAT}')
  for name in ('rows', 'tokens'):
    if manifest[name] != sum(shard[name] for shard in manifest['shards']):
      raise core.InputError(f'{path}: {name} is not the sum of its shards')
  return manifest


Path = pathlib.Path

SHARD_TOKENS = 1 << 26  # A shard is closed at this number of tokens.


class Writer:
  """Writes a store chunk by chunk; resumes where a killed run stopped.

  As a context it removes the partial store if the work fails. After Ctrl-C or
  the loss of processes it keeps the store, and the next run resumes.

  Attributes:
    partial: folder that it writes to.
    progress: JSON record of the data on disk; a resumed run skips its first
      `chunks` chunks.
    counts: cause -> number of sequences dropped from all chunks so far.
  """

  def __init__(
    self,
    folder: str | Path,
    manifest: dict[str, Any],
    *,
    shard_tokens: int = SHARD_TOKENS,
  ) -> None:
    """Opens the writer.

    Args:
      folder: folder of the finished store.
      manifest: JSON values that describe the data; `vocab_size` is required.
      shard_tokens: tokens at which a shard is closed, below 2**31.
    """
    self.folder = Path(folder)
    self.partial = self.folder.with_name(self.folder.name + '.partial')
    self._dtype = token_dtype(manifest['vocab_size'])
    self._limit = shard_tokens
    self._shard: Shard | None = None
    self._chunks = 0
    fresh = {
      'manifest': json.loads(json.dumps(manifest)),
      'shard_tokens': shard_tokens,
      'chunks': 0,
      'shards': [],
      'counts': {},
    }
    self.progress = self._resume(fresh)
    self.counts = collections.Counter[str](self.progress['counts'])

  def _resume(self, fresh: dict[str, Any]) -> dict[str, Any]:
    record = self.partial / 'progress.json'
    progress = files.read_json(record) if record.exists() else fresh
    keys = ('manifest', 'shard_tokens')
    if any(progress.get(key) != fresh[key] for key in keys):
      progress = fresh
    if progress is fresh and self.partial.exists():
      shutil.rmtree(self.partial)
    self.partial.mkdir(parents=True, exist_ok=True)
    return progress

  @property
  def rows(self) -> int:
    """Rows written so far."""
    done = sum(shard['rows'] for shard in self.progress['shards'])
    return done + (self._shard.rows if self._shard else 0)

  @property
  def chunks(self) -> int:
    """Chunks written so far."""
    return self.progress['chunks'] + self._chunks

  def written(self) -> Iterator[core.Sequences]:
    """Yields the rows that an earlier run wrote, in order."""
    for shard in self.progress['shards']:
      store = Store(self.partial, {**self._manifest(), 'shards': [shard]})
      yield from store.chunks()

  def add(self, rows: core.Sequences | Ragged) -> None:
    """Appends a chunk's rows; side data are not stored."""
    if isinstance(rows, core.Sequences):
      rows = Ragged.of(rows, self._dtype)
    if self._shard is None:
      self._shard = Shard(self.partial, len(self.progress['shards']))
    self._shard.add(rows)
    self._chunks += 1
    self.counts.update(rows.counts)
    if self._shard.tokens >= self._limit:
      self._close_shard()

  def _close_shard(self) -> None:
    if self._shard is None:
      return
    shards = [*self.progress['shards'], self._shard.close()]
    self._shard = None
    self.progress.update(
      shards=shards, chunks=self.chunks, counts=dict(self.counts)
    )
    self._chunks = 0
    files.write_json(self.partial / 'progress.json', self.progress)

  def _manifest(self) -> dict[str, Any]:
    shards = self.progress['shards']
    return {
      'format': FORMAT,
      **self.progress['manifest'],
      'dtype': self._dtype.str,
      'rows': sum(shard['rows'] for shard in shards),
      'tokens': sum(shard['tokens'] for shard in shards),
      'counts': self.progress['counts'],
      'shards': shards,
    }

  def finish(self) -> dict[str, Any]:
    """Completes the store, renames it, and returns its manifest."""
    self._close_shard()
    manifest = self._manifest()
    files.write_json(self.partial / 'manifest.json', manifest)
    (self.partial / 'progress.json').unlink(missing_ok=True)
    if self.folder.exists():
      shutil.rmtree(self.folder)
    files.rename(self.partial, self.folder)
    return manifest

  def __enter__(self) -> Writer:
    return self

  def __exit__(self, failure: type[BaseException] | None, *_: Any) -> None:
    if failure and not issubclass(failure, exit_codes.RESUMABLE):
      if self._shard is not None:
        self._shard.abandon()
      shutil.rmtree(self.partial, ignore_errors=True)


def write(
  folder: str | Path,
  chunks: Iterable[core.Sequences],
  manifest: dict[str, Any],
  *,
  shard_tokens: int = SHARD_TOKENS,
) -> dict[str, Any]:
  """Writes all chunks as one store, atomically.

  Args:
    folder: folder of the store; an existing store is replaced.
    chunks: sequences with any numbers of rows, taken one at a time.
    manifest: JSON values for manifest.json; needs `vocab_size`.
    shard_tokens: tokens at which a shard is closed.

  Returns:
    The manifest as written: also `rows`, `tokens`, `counts`, `shards`.
  """
  shutil.rmtree(Path(f'{folder}.partial'), ignore_errors=True)
  with Writer(folder, manifest, shard_tokens=shard_tokens) as writer:
    for chunk in chunks:
      writer.add(chunk)
    return writer.finish()


class _Spans(NamedTuple):
  """Rows of a store as spans, each of consecutive rows of one shard.

  Attributes:
    shards, starts, sizes: shard, first token and number of tokens of each span.
    lengths: [R] int32 length of each row.
  """

  shards: np.ndarray
  starts: np.ndarray
  sizes: np.ndarray
  lengths: np.ndarray


@dataclasses.dataclass(frozen=True, eq=False)
class Store:
  """Sequences on disk; only requested rows are read.

  Attributes:
    folder: folder of the shards.
    manifest: content of manifest.json.
  """

  folder: Path
  manifest: dict[str, Any]

  def __len__(self) -> int:
    return int(self._firsts[-1])

  @functools.cached_property
  def _firsts(self) -> np.ndarray:
    rows = [shard['rows'] for shard in self.manifest['shards']]
    return np.concatenate([[0], np.cumsum(rows, dtype=np.int64)])

  @functools.cached_property
  def dtype(self) -> np.dtype:
    """Type of a token on disk."""
    return np.dtype(self.manifest['dtype'])

  def _path(self, shard: int, kind: str) -> Path:
    return self.folder / f'{self.manifest["shards"][shard]["name"]}.{kind}'

  @functools.cached_property
  def _handles(self) -> dict[str, list[BinaryIO]]:
    # Open for the life of the store. `pread` shares no file position between
    # threads and maps no pages, so memory use stays constant.
    shards = range(len(self.manifest['shards']))
    return {
      kind: [self._path(k, kind).open('rb', buffering=0) for k in shards]
      for kind in ('tokens', 'offsets')
    }

  def _broken(self, shard: int, kind: str) -> core.InputError:
    return core.InputError(
      f'{self._path(shard, kind)} is truncated or corrupt; sample again into '
      'a new folder'
    )

  def _rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Shard of each row, and its row within the shard."""
    rows = np.asarray(rows, np.int64)
    if rows.size and not (rows.min() >= 0 and rows.max() < len(self)):
      raise core.InputError(
        f'row {rows.min()} or {rows.max()} of {self.folder}: it has rows '
        f'0..{len(self) - 1}'
      )
    shards = np.searchsorted(self._firsts, rows, side='right') - 1
    return shards, rows - self._firsts[shards]

  def _read(self, kind: str, *spans: np.ndarray) -> bytearray:
    """Reads spans end to end; spans: shards, starts and sizes in bytes."""
    shards, starts, sizes = (column.tolist() for column in spans)
    out = bytearray(sum(sizes))
    view, at = memoryview(out), 0
    handles = [file.fileno() for file in self._handles[kind]]
    read = os.preadv
    for shard, start, size in zip(shards, starts, sizes, strict=True):
      end = at + size
      while at < end:  # The system reads at most 2 GiB at a time.
        num = read(handles[shard], [view[at:end]], start)
        if not num:
          raise self._broken(shard, kind)
        at, start = at + num, start + num
    return out

  def _spans(self, rows: np.ndarray) -> _Spans:
    """Spans of rows [R]; consecutive rows form one span, read at once."""
    shards, local = self._rows(rows)
    apart = (np.diff(local) != 1) | (np.diff(shards) != 0)
    first = np.flatnonzero(np.append(True, apart)) if len(local) else local
    count = np.diff(np.append(first, len(local)))
    shards = shards[first]
    read = self._read('offsets', shards, 4 * local[first], 4 * (count + 1))
    offsets = np.frombuffer(read, '<u4').astype(np.int64)
    # A span of n rows has n + 1 offsets: o0 o1 .. on | p0 p1 .. pm | ...
    # Differences across a bar are not lengths of rows, and are deleted.
    last = np.cumsum(count + 1) - 1
    lengths = np.delete(np.diff(offsets), last[:-1])
    starts, stops = offsets[last - count], offsets[last]
    totals = np.array([s['tokens'] for s in self.manifest['shards']], np.int64)
    wrong = stops > totals[shards]
    if len(lengths):
      wrong |= np.minimum.reduceat(lengths, first) < 0
    if wrong.any():
      raise self._broken(int(shards[wrong][0]), 'offsets')
    return _Spans(shards, starts, stops - starts, lengths.astype(np.int32))

  @functools.cached_property
  def lengths(self) -> np.ndarray:
    """[N] int32 lengths of all rows (4 bytes a row in memory)."""
    return self._spans(np.arange(len(self))).lengths

  def lengths_of(self, rows: np.ndarray) -> np.ndarray:
    """[R] int32 lengths of rows [R] in any order, read from disk."""
    return self._spans(rows).lengths

  def ragged(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows [R] in any order, end to end.

    Returns:
      tokens: [sum of lengths], of the type on disk.
      lengths: [R] int32.
    """
    spans = self._spans(rows)
    size = self.dtype.itemsize
    starts, sizes = size * spans.starts, size * spans.sizes
    read = self._read('tokens', spans.shards, starts, sizes)
    return np.frombuffer(read, self.dtype), spans.lengths

  def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows [R] in any order: tokens [R, L] int32 and lengths [R] int32.

    L is the longest of them; shorter ones are padded with PAD.
    """
    padded = Ragged(*self.ragged(rows)).sequences()
    return padded.tokens, padded.lengths

  def read(self, first: int, last: int) -> core.Sequences:
    """Rows [first, last) as Sequences; `last` may exceed the store."""
    return core.Sequences(*self.take(np.arange(first, min(last, len(self)))))

  def chunks(self, size: int = 1 << 16) -> Iterator[core.Sequences]:
    """All rows in order, `size` at a time."""
    for first in range(0, len(self), size):
      yield self.read(first, first + size)

  def _tables(self) -> Iterator[Any]:
    """Tables of pyarrow with a column `tokens`, of lists of texts."""
    pyarrow: Any = importlib.import_module('pyarrow')
    vocab = pyarrow.array(registry.make('world', self.manifest['world']).vocab)
    # Of no rows there is a table, too.
    for part in core.predictor.chunks(max(len(self), 1), 1, 1 << 16):
      tokens, lengths = self.ragged(np.arange(len(self))[part])
      ends = np.append(0, np.cumsum(lengths)).astype(np.int32)
      words = vocab.take(pyarrow.array(tokens.astype(np.int64)))
      yield pyarrow.table([pyarrow.ListArray.from_arrays(ends, words)], COLUMN)

  def to_parquet(self, path: str | Path) -> None:
    """Writes all rows to a Parquet file, which `wm.ingest` reads back.

    Its column `tokens` holds lists of the world's tokens.
    """
    parquet: Any = importlib.import_module('pyarrow.parquet')
    table = next(tables := self._tables())  # For its schema.
    with (
      files.replacing(Path(path)) as temporary,
      parquet.ParquetWriter(temporary, table.schema) as writer,
    ):
      for each in itertools.chain([table], tables):
        writer.write_table(each)

  def verify(self, process: int = 0, processes: int = 1) -> None:
    """Verifies every shard's hash; raises InputError naming a bad file.

    Each of several processes reads its share of the shards.
    """
    for k, shard in enumerate(self.manifest['shards']):
      if k % processes != process:
        continue
      for kind in ('tokens', 'offsets'):
        if files.sha256(self._path(k, kind)) != shard[f'{kind}_sha256']:
          raise self._broken(k, kind)


def open(folder: str | Path) -> Store:
  """Opens a store; sizes are checked now, hashes by `Store.verify`.

  Raises:
    InputError: no store in the folder, or a truncated or corrupt one.
  """
  folder = Path(folder)
  if not (folder / 'manifest.json').is_file():
    raise core.InputError(
      f'no sequences at {folder} (no manifest.json); make them with '
      'launch/sample.py'
    )
  store = Store(
    folder, checked(folder, files.read_json(folder / 'manifest.json'))
  )
  for k, shard in enumerate(store.manifest['shards']):
    sizes = {
      'tokens': shard['tokens'] * store.dtype.itemsize,
      'offsets': 4 * (shard['rows'] + 1),
    }
    for kind, size in sizes.items():
      path = store._path(k, kind)
      if not path.is_file() or path.stat().st_size != size:
        raise store._broken(k, kind)
  return store
