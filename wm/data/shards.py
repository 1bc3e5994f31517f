"""The files of a store: pairs of token and offset shards, and a manifest."""

from __future__ import annotations

import hashlib
import pathlib
from typing import Any

import numpy as np

from wm import core
from wm.runtime import files

FORMAT = 'wm-sequences-1'
# What a manifest holds, and what data sets of worlds hold besides.
NEEDED = {'dtype': str, 'shards': list, 'rows': int, 'tokens': int}
OPTIONAL = {
  **dict.fromkeys(('world', 'world_version', 'split', 'vocab_sha256'), str),
  **dict.fromkeys(('seed', 'num', 'vocab_size', 'end', 'max_len'), int),
  **{'world_facts': dict, 'counts': dict},
}
KEYS = ('name', 'rows', 'tokens', 'tokens_sha256', 'offsets_sha256')


def token_dtype(vocab_size: int) -> np.dtype:
  """The narrowest little-endian unsigned type that holds every token id."""
  for kind in ('u1', '<u2', '<u4'):
    if vocab_size - 1 <= np.iinfo(kind).max:
      return np.dtype(kind)
  raise core.InputError(f'vocabulary of {vocab_size} tokens: at most 2**32')


class HashedFile:
  """A file that hashes what is written to it."""

  def __init__(self, path: pathlib.Path) -> None:
    self.path = path
    self._file = path.open('wb')
    self._hash = hashlib.sha256()

  def write(self, array: np.ndarray) -> None:
    """Appends an array's bytes."""
    # `ndarray.tofile` raises without an errno on a full disk; `write` tells.
    data = np.ascontiguousarray(array).data.cast('B')
    self._file.write(data)
    self._hash.update(data)

  def close(self) -> str:
    """Makes the bytes safe on disk; their SHA-256 as hex."""
    files.sync(self._file)
    self._file.close()
    return self._hash.hexdigest()

  def abandon(self) -> None:
    """Removes the file."""
    try:
      self._file.close()
    except OSError:  # What was buffered no longer fits: it is given up.
      self._file.raw.close()
    self.path.unlink(missing_ok=True)


class Shard:
  """One pair of files being written."""

  def __init__(self, folder: pathlib.Path, index: int, dtype: np.dtype) -> None:
    self.name = f'{index:05d}'
    self.rows = self.tokens = 0
    self._dtype = dtype
    self._tokens = HashedFile(folder / f'{self.name}.tokens')
    self._offsets = HashedFile(folder / f'{self.name}.offsets')
    self._offsets.write(np.zeros(1, '<u4'))

  def add(self, sequences: core.Sequences) -> None:
    """Appends rows."""
    lengths = sequences.lengths.astype(np.int64)
    used = np.arange(sequences.tokens.shape[1]) < lengths[:, None]
    self._tokens.write(sequences.tokens[used].astype(self._dtype))
    ends = self.tokens + np.cumsum(lengths)
    self._offsets.write(ends.astype('<u4'))
    self.rows += len(lengths)
    self.tokens += int(lengths.sum())

  def close(self) -> dict[str, Any]:
    """Completes both files; the shard's line in the manifest."""
    hashes = self._tokens.close(), self._offsets.close()
    values = (self.name, self.rows, self.tokens, *hashes)
    return dict(zip(KEYS, values, strict=True))

  def abandon(self) -> None:
    """Removes both files."""
    self._tokens.abandon()
    self._offsets.abandon()


def checked(folder: pathlib.Path, manifest: Any) -> dict[str, Any]:
  """The manifest, if it is one; names in it cannot leave the folder."""
  path = folder / 'manifest.json'
  other = isinstance(manifest, dict) and manifest.get('format') != FORMAT
  if not other:
    files.record(manifest, str(path), NEEDED, OPTIONAL)
  if other or not (
    manifest['dtype'] in ('|u1', '<u2', '<u4')
    and all(map(_is_shard, manifest['shards']))
  ):
    raise core.InputError(f'{path} is not a manifest of format {FORMAT}')
  for name in ('rows', 'tokens'):
    if manifest[name] != sum(shard[name] for shard in manifest['shards']):
      raise core.InputError(f'{path}: {name} is not the sum of its shards')
  return manifest


def _is_shard(value: Any) -> bool:
  """Is it a shard's line in a manifest?"""
  if not isinstance(value, dict) or set(KEYS) - value.keys():
    return False
  counts = value['rows'], value['tokens']
  whole = all(isinstance(count, int) and count >= 0 for count in counts)
  return whole and str(value['name']).isdigit()
