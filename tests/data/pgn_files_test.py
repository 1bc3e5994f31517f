import bz2
import gzip
import lzma
import sys

import pytest

from wm import core
from wm.data import pgn_games

TEXT = b'[Event "a"]\n\n1. e4 e5 1-0\n\n' * 400


def zstd(data: bytes) -> bytes:
  return pytest.importorskip('zstandard').ZstdCompressor().compress(data)


PACKERS = {
  'plain': bytes,
  'gzip': gzip.compress,
  'Zstandard': zstd,
  'bzip2': bz2.compress,
  'xz': lzma.compress,
}
packed = pytest.mark.parametrize('kind', [k for k in PACKERS if k != 'plain'])


def source(tmp_path, data: bytes) -> pgn_games.Source:
  path = tmp_path / 'games'
  path.write_bytes(data)
  return pgn_games.Source(path)


def text(tmp_path, data: bytes) -> tuple[bytes, str]:
  result = source(tmp_path, data)
  return b''.join(result.parts()), result.damage


@pytest.mark.parametrize('kind', PACKERS)
@pytest.mark.parametrize('part', [100, 1000, 1 << 23])
def test_any_packing_gives_the_text(tmp_path, monkeypatch, kind, part):
  monkeypatch.setattr(pgn_games, 'PART', part)
  result = source(tmp_path, PACKERS[kind](TEXT))
  parts = list(result.parts())
  assert b''.join(parts) == TEXT
  assert {len(item) for item in parts[:-1]} <= {part}
  assert not result.damage
  assert result.read == result.size
  assert list(result.parts()) == parts


@packed
def test_members_follow_each_other(tmp_path, kind):
  pack = PACKERS[kind]
  data = pack(TEXT) + pack(b'') + pack(b'1. e4 *')
  assert text(tmp_path, data) == (TEXT + b'1. e4 *', '')
  padded = pack(TEXT) + b'\0' * 512
  assert text(tmp_path, padded) == (TEXT, '')


def test_frames_of_parallel_zstandard(tmp_path):
  skipped = b'\x50\x2a\x4d\x18' + (4).to_bytes(4, 'little') + b'\1\2\3\4'
  data = skipped + zstd(TEXT) + skipped + zstd(TEXT)
  assert text(tmp_path, data) == (TEXT * 2, '')


@packed
def test_truncated(tmp_path, kind):
  noise = bytes(range(48, 123)) * 2000
  data = PACKERS[kind](TEXT) + PACKERS[kind](noise)
  for size in (len(data) - 3, len(data) - len(PACKERS[kind](noise)) + 20):
    got, damage = text(tmp_path, data[:size])
    assert got.startswith(TEXT[:-200])
    assert len(got) <= len(TEXT + noise)
    assert damage.startswith(f'truncated {kind} data after ')


@packed
def test_corrupt(tmp_path, kind):
  data = PACKERS[kind](TEXT) + b'this is no member' * 10
  got, damage = text(tmp_path, data)
  assert got == TEXT
  assert damage == f'corrupt {kind} data after {len(TEXT):,} bytes of text'


@packed
def test_corrupt_from_its_start(tmp_path, kind):
  data = PACKERS[kind](TEXT)[:8] + b'\xff' * 300
  got, damage = text(tmp_path, data)
  assert got == b''
  assert kind in damage


@pytest.mark.parametrize('part', [3, 4, 5, 1 << 20])
def test_line_ends_and_byte_order_marks(tmp_path, monkeypatch, part):
  monkeypatch.setattr(pgn_games, 'PART', part)
  data = b'\xef\xbb\xbfab\r\ncd\r\n\r\nef\rg\nh\r'
  assert text(tmp_path, data) == (b'ab\ncd\n\nef\ng\nh\n', '')


@pytest.mark.parametrize(
  ('data', 'final', 'left'),
  [
    (b'ab\n%cd\nef\n', True, b'ab\nef\n'),
    (b'%ab\n%cd', True, b''),
    (b'%ab\n%cd', False, b'%cd'),
    (b'a %b\n{%c}\n', True, b'a %b\n{%c}\n'),
  ],
)
def test_escaped_lines(data, final, left):
  assert pgn_games.without_escapes(data, final) == left


def test_no_file(tmp_path):
  with pytest.raises(core.InputError, match=r'no such file: .*none\.pgn'):
    pgn_games.Source(tmp_path / 'none.pgn')
  with pytest.raises(core.InputError, match='is a folder'):
    pgn_games.Source(tmp_path)


def test_without_the_package(tmp_path, monkeypatch):
  data = zstd(TEXT)
  monkeypatch.setitem(sys.modules, 'zstandard', None)
  with pytest.raises(core.InputError, match='Zstandard files needs the extra'):
    text(tmp_path, data)
