"""Text of PGN files, plain or compressed, in parts, in constant memory.

Compression is told by a file's first bytes, not by its name: gzip, Zstandard,
bzip2 or xz, of any number of members or frames.
"""

from __future__ import annotations

import bz2
import functools
import importlib
import lzma
import os
import pathlib
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from wm import core
from wm.core import inputs

PART = 1 << 23  # Bytes of text that are given at a time.
_PIECE = 1 << 14  # Compressed bytes that are unpacked at a time.
_WINDOW_LOG = 31  # Largest window that a Zstandard frame may ask for.
_MARK = b'\xef\xbb\xbf'  # Byte order mark of UTF-8.
_MAGIC = (
  (b'\x1f\x8b', 'gzip'),
  (b'\x28\xb5\x2f\xfd', 'Zstandard'),
  (b'BZh', 'bzip2'),
  (b'\xfd7zXZ\x00', 'xz'),
)
_SKIPPABLE = re.compile(rb'[\x50-\x5f]\x2a\x4d\x18')  # A frame of pzstd.
_ESCAPED = re.compile(rb'^%[^\n]*\n', re.M)


def _compression(head: bytes) -> str:
  """Name of a file's compression by its first bytes; '' if none."""
  if _SKIPPABLE.match(head):
    return 'Zstandard'
  return next((name for magic, name in _MAGIC if head.startswith(magic)), '')


def _zstandard(path: pathlib.Path) -> tuple[Callable[[], Any], type]:
  """Maker of decompressors, and their error: Python's own, or the package."""
  try:
    # By name: only Python 3.14 and later have it.
    zstd = importlib.import_module('compression.zstd')
  except ImportError:
    zstd = None
  if zstd is not None:
    options = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
    return functools.partial(zstd.ZstdDecompressor, options=options), (
      zstd.ZstdError
    )
  try:
    import zstandard
  except ImportError as error:
    raise core.InputError(
      f'{path} is compressed with Zstandard; install the package zstandard '
      "(pip install -e '.[games]'), or unpack it first"
    ) from error
  decompressor = zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW_LOG)
  return decompressor.decompressobj, zstandard.ZstdError


def _unpacker(
  kind: str, path: pathlib.Path
) -> tuple[Callable[[], Any], tuple[type[Exception], ...]]:
  """Maker of decompressors with `decompress`, `eof`, `unused_data`; errors."""
  if kind == 'Zstandard':
    make, error = _zstandard(path)
    return make, (error,)
  makers = {
    'gzip': lambda: zlib.decompressobj(wbits=31),
    'bzip2': bz2.BZ2Decompressor,
    'xz': lzma.LZMADecompressor,
  }
  # bz2 says OSError of bad data; no disk is touched where it is caught.
  return makers[kind], (zlib.error, lzma.LZMAError, OSError)


class Source:
  """One file.

  Attributes:
    path: where it is.
    size: its bytes on disk.
    read: bytes of it read so far.
    damage: what is wrong with it, '' if nothing so far; its text ends there.
  """

  def __init__(self, path: str | pathlib.Path) -> None:
    """Raises InputError where there is no such file."""
    with inputs.reading_file(path, 'a PGN file') as self.path:
      self.size = self.path.stat().st_size
    self.read, self.damage = 0, ''

  def parts(self) -> Iterator[bytes]:
    """Text from the start, PART bytes at a time, the last one shorter.

    Line ends are made '\\n', a byte order mark is left out.
    """
    self.read, self.damage = 0, ''
    held, first = bytearray(), True
    for piece in self._pieces():
      held += piece
      while len(held) > PART + len(_MARK):
        # A carriage return waits for what follows it.
        size = PART - held.startswith(b'\r', PART - 1)
        yield _lines(bytes(held[:size]), first)
        del held[:size]
        first = False
    yield _lines(bytes(held), first)

  def _pieces(self) -> Iterator[bytes]:
    with (
      inputs.reading_file(self.path, 'a PGN file'),
      self.path.open('rb') as file,
    ):
      head = file.peek(8)[:8]
      kind = _compression(head)
      yield from self._unpacked(file, kind) if kind else self._raw(file)

  def _raw(self, file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(8 * _PIECE):
      self.read += len(piece)
      yield piece

  def _unpacked(self, file: BinaryIO, kind: str) -> Iterator[bytes]:
    make, errors = _unpacker(kind, self.path)
    member, num_bytes = make(), 0
    while piece := file.read(_PIECE):
      self.read += len(piece)
      while piece:
        if member.eof:  # Another member, or the zeros that pad some files.
          piece = piece.lstrip(b'\0')
          if not piece:
            break
          member = make()
        try:
          text = member.decompress(piece)
        except errors:
          self.damage = f'corrupt {kind} data after {num_bytes:,} bytes of text'
          return
        num_bytes += len(text)
        piece = member.unused_data if member.eof else b''
        yield text
    if not member.eof and self.read:
      self.damage = f'truncated {kind} data after {num_bytes:,} bytes of text'


def _lines(part: bytes, first: bool) -> bytes:
  if first:
    part = part.removeprefix(_MARK)
  if b'\r' in part:
    part = part.replace(b'\r\n', b'\n').replace(b'\r', b'\n')
  return part


def without_escapes(text: bytes, final: bool) -> bytes:
  """The text, which starts a line, less its whole lines that start with '%'.

  The PGN standard reserves them for other programs.
  """
  if b'%' not in text or (text[:1] != b'%' and b'\n%' not in text):
    return text
  if final and not text.endswith(b'\n'):
    text += b'\n'
  return _ESCAPED.sub(b'', text)


def name_and_size(source: Source) -> list[str | int]:
  """What a run remembers a file by."""
  return [os.path.basename(source.path), source.size]
