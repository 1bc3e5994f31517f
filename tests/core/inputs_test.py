"""Whatever fails while something is read is one line with the thing's name."""

import csv
import errno
import gzip
import json
import os
import socket
import sys
import tarfile
import zipfile
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest

from wm import core
from wm.core import inputs


class Mute(Exception):
  def __str__(self):
    raise KeyError('mute')


class Panic(BaseException):
  """As libraries in Rust raise."""


def deep():
  return deep()


FAILURES = {
  'value': lambda: int('x'),
  'digits': lambda: json.loads('9' * 5000),
  'overflow': lambda: np.array([10**30], np.int64),
  'key': lambda: {}['k'],
  'index': lambda: [][0],
  'attribute': lambda: None.nothing,
  'type': lambda: len(3),
  'recursion': deep,
  'memory': lambda: bytearray(1 << 62),
  'division': lambda: 1 / 0,
  'json': lambda: json.loads('{'),
  'nested json': lambda: json.loads('[' * 100_000),
  'csv': lambda: list(csv.reader(['"'], strict=True)),
  'xml': lambda: ElementTree.fromstring('<a'),
  'gzip': lambda: gzip.decompress(b'no gzip'),
  'zlib': lambda: zlib.decompress(b'no zlib'),
  'tar': lambda: tarfile.TarFile('thing'),
  'zip': lambda: zipfile.ZipFile('thing'),
  'unicode': lambda: b'\xff'.decode(),
  'surrogate': lambda: '\ud800'.encode(),
  'encoding': lambda: b'a'.decode('no-such-encoding'),
  'assert': lambda: (_ for _ in ()).throw(AssertionError()),
  'mute': lambda: (_ for _ in ()).throw(Mute()),
  'panic': lambda: (_ for _ in ()).throw(Panic('a\nb')),
  'stop': lambda: next(iter(())),
  'system': lambda: (_ for _ in ()).throw(OSError(errno.EIO, 'I/O error')),
}


@pytest.mark.parametrize('name', FAILURES)
def test_any_failure_is_one_line(name, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'thing').write_bytes(b'neither')
  with (
    pytest.raises(core.InputError, match=r'^thing') as caught,
    inputs.reading('thing', 'a map'),
  ):
    FAILURES[name]()
  assert '\n' not in str(caught.value)
  assert len(str(caught.value)) < 400
  assert caught.value.__cause__ is not None


@pytest.mark.parametrize(
  'error',
  [
    core.InputError('it says enough'),
    BrokenPipeError(),
    KeyboardInterrupt(),
    SystemExit(1),
    GeneratorExit(),
    OSError(errno.ENOSPC, 'full'),
    OSError(errno.EMFILE, 'files'),
  ],
)
def test_ends_and_failures_of_the_machine_pass(error):
  with pytest.raises(type(error)) as caught, inputs.reading('thing', 'a map'):
    raise error
  assert caught.value is error


def test_reasons():
  def line(error):
    with pytest.raises(core.InputError) as caught, inputs.reading('t', 'JSON'):
      raise error
    return str(caught.value)

  assert line(ValueError('no number')) == 't is not JSON: no number'
  assert line(KeyError('id')) == "t is not JSON: KeyError: 'id'"
  assert line(EOFError()) == 't is not JSON: EOFError'
  assert line(FileNotFoundError(2, 'No', 'inner')) == 'no such file: inner'
  assert line(PermissionError(13, 'Denied', 'a')) == 'a: Denied'
  assert line(ValueError('a\x1b[1m\ud800\n\tb')) == (
    r't is not JSON: a\x1b[1m\ud800 b'
  )


def test_a_name_is_printable():
  with (
    pytest.raises(core.InputError) as caught,
    inputs.reading('bad\udcff\nname', 'JSON'),
  ):
    raise ValueError('x')
  assert str(caught.value) == r'bad\udcff name is not JSON: x'


def _special(folder, kind):
  path = folder / kind
  if kind == 'a folder':
    path.mkdir()
  elif kind == 'a pipe':
    os.mkfifo(path)
  elif kind == 'a socket':
    os.chdir(folder)  # The path of a socket is short.
    with socket.socket(socket.AF_UNIX) as server:
      server.bind(kind)
  else:
    return '/dev/zero'
  return path


@pytest.mark.skipif(sys.platform == 'win32', reason='pipes of Unix')
@pytest.mark.parametrize('kind', ['a folder', 'a pipe', 'a socket', 'a device'])
def test_only_regular_files_are_opened(kind, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  path = _special(tmp_path, kind)
  with pytest.raises(core.InputError) as caught:
    inputs.read_text(path, 'a map')
  assert str(caught.value) == f'{path} is {kind}; expected a map'


@pytest.mark.parametrize(
  ('path', 'line'),
  [
    ('none.txt', 'no such file: none.txt'),
    ('', "no such file: ''"),
    ('file/inner', 'file/inner: Not a directory'),
    ('a\0b', r'a\x00b is not a map: embedded null byte'),
    ('\ud800', r'\ud800 is not a map: '),
    ('a' * 5000, 'aaa ... aaaaaaaaaaaaaaaaaaaa: File name too long'),
  ],
)
def test_paths_that_do_not_open(path, line, tmp_path, monkeypatch, one_line):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'file').write_text('')
  with one_line() as caught:
    inputs.read_text(path, 'a map')
  assert line in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason='root may read all')
def test_a_file_that_may_not_be_read(tmp_path):
  path = tmp_path / 'file'
  path.write_text('x')
  path.chmod(0)
  with pytest.raises(core.InputError, match=r'file: Permission denied$'):
    inputs.read_text(path)


def test_text_and_its_mark(tmp_path):
  path = tmp_path / 'file'
  path.write_bytes(b'\xef\xbb\xbfword\n')
  assert inputs.read_text(path) == 'word\n'
  path.write_bytes(b'\xff')
  with pytest.raises(core.InputError, match=r'is not UTF-8 text: .utf-8'):
    inputs.read_text(path)


def test_a_generator_that_is_closed_has_not_failed():
  def lines():
    with inputs.reading('file', 'text'):
      yield from range(3)

  rows = lines()
  assert next(rows) == 0
  rows.close()


@pytest.mark.parametrize(
  'text', ['{', '', '9' * 5000, '[' * 10**5, '["\\ud800"]', '{"\\uDC00x": 1}']
)
def test_json_is_read_or_named(text, tmp_path, one_line):
  path = tmp_path / 'file.json'
  path.write_text(text)
  with one_line(r'file\.json is not JSON: '):
    inputs.read_json(path)
  path.write_text('["\\ud83d\\ude00"]')
  assert inputs.read_json(path) == ['\U0001f600']


def test_a_hint_ends_the_line():
  with (
    pytest.raises(core.InputError, match=r'^p is not a q: bad; remove it$'),
    inputs.reading('p', 'a q', 'remove it'),
  ):
    raise ValueError('bad')
