"""Folders that are not on this disk: s3://, gs:// and others that fsspec knows.

A URL has a mirror, a folder of the user's cache. All work is done there, on
ordinary files. `fetch` brings a mirror up to date, and `publish` uploads what
has changed in it. A table says what both sides were when they last agreed:

    s3://bucket/run/scores.json    ~/.cache/wm/remote-files/s3/bucket/run/...
        tag, e.g. its ETag    <- index.sqlite ->    size and time

An object appears whole or not at all. JSON files and pages describe other
files. They are uploaded last, with the bytes that they had before the others
were read. So a machine that is lost at any moment leaves at the URL what a
killed process leaves on a disk, and any other machine goes on from that.

If another machine has written since, its files count, and what was not
published here is dropped. If none has, the mirror is ahead and its files count.
A process that is killed between an upload and its row has said in the table,
before, what it sends and by which lease. As long as all leases since are of the
same cache, the object that is there is its own.

One process writes what a stage makes. It holds a lease, the object
`.<stage>.lease.<n>`, which a conditional create has made. A thread rewrites
the object every EVERY seconds as a sign of life, during long uploads too. A
process that wants the lease waits for such a sign, for LIFE seconds by its own
clock, and then creates number n + 1; the old holder publishes no more. Numbers
start again after a release, so a token in the object says whose it is.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import datetime
import errno
import functools
import importlib
import json
import logging
import os
import pathlib
import re
import shutil
import socket
import sqlite3
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from wm import core
from wm.core import inputs
from wm.runtime import progress, stopping

try:
  import fcntl
except ImportError:  # Not a Unix.
  fcntl = None  # type: ignore[assignment]  # It is asked for before use.

Path = pathlib.Path

MIRRORS = 'remote-files'  # The folder of all mirrors; in the path of each.
EVERY = 15.0  # Seconds between uploads, and between signs of a lease's holder.
LIFE = 60.0  # Seconds without a sign after which a holder counts as dead.
_AT_ONCE = 8  # Files that are sent or fetched at a time.
_TRIES = 5  # Of what may fail by chance.
_SENDING = '.sending.'  # Before a process's number: links of what it sends.
_SENDS = 'sends '  # Before the URL, in a row of what is being sent or removed.
_HOLDS = '_WM_LEASED'  # Environment: URL that a parent process publishes.
_HINT = (
  "gs, s3 and others of fsspec are available; pip install -e '.[cloud]' adds "
  'these two'
)
# Files that describe other files.
_RECORDS = ('.json', '.html')
# Folders that appear by one rename, and the records that make them complete.
_WHOLE = re.compile(r'(?:^|.*/)(?:checkpoints/\d+|data/(?:train|heldout))/')
_OF_WHOLE = 'sha256.json', 'manifest.json'
_TEMPORARY = re.compile(r'(^|/)\.|\.tmp$|\.orbax-checkpoint-tmp(-\d+)?/')


class Held(core.InputError):
  """Another process works on that stage of the folder."""


class Cleared(OSError):
  """The mirror is gone: what was not published is lost."""


class _File(NamedTuple):
  """A file when both sides last agreed; time 0: it is not on this disk."""

  tag: str
  size: int
  time: int = 0


def is_url(value: object) -> bool:
  """Is it a URL, as text, a UPath, or a path into which it was put?"""
  if isinstance(value, str):
    return '://' in value and bool(inputs.URL.fullmatch(value))
  is_path = isinstance(value, os.PathLike) or type(value).__module__[:5] == (
    'upath'
  )
  return is_path and bool(inputs.URL.fullmatch(str(value)))


def root() -> Path:
  """The folder of all mirrors."""
  home = os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'
  return Path(home).absolute() / 'wm' / MIRRORS


def url_of(path: str | os.PathLike[str]) -> str | None:
  """The URL of a path in a mirror; None of any other."""
  place = Path(path).absolute()
  if not place.is_relative_to(root()) or place == root():
    return None
  scheme, *parts = place.relative_to(root()).parts
  return f'{scheme}://{"/".join(parts)}'


def shown(text: str) -> str:
  """A text in which paths of mirrors are the URLs that they stand for."""
  return re.sub(rf'{re.escape(str(root()))}/([\w+.-]+)/', r'\1://', text)


def at(place: str | os.PathLike[str]) -> Remote:
  """What a URL, or a path of a mirror, stands for; one for each.

  Raises:
    InputError: no file system of that name, or a package is missing.
  """
  path = os.fspath(place) if isinstance(place, os.PathLike) else str(place)
  match = inputs.URL.fullmatch(path)
  url = f'{match[1]}://{match[2]}' if match else url_of(path)
  assert url is not None, path
  return _opened(url.rstrip('/'))


@functools.cache
def _opened(url: str) -> Remote:
  scheme, _, rest = url.partition('://')
  if scheme in ('file', 'local'):
    raise core.InputError(f'{url}: expected a plain path, without {scheme}://')
  odd = [part for part in rest.split('/') if part in ('', '.', '..')]
  if odd or '\0' in rest:
    raise core.InputError(
      f'{url!r}: a URL has no part {(odd or [chr(0)])[0]!r}'
    )
  with inputs.reading(url, 'a URL that can be opened', _HINT):
    place = importlib.import_module('upath').UPath(url)
    logging.getLogger('asyncio').addFilter(_is_news)
    return Remote(url, place.fs, place.path.rstrip('/'), root() / scheme / rest)


def _is_news(record: logging.LogRecord) -> bool:
  """False for asyncio's records of lost connections, which are tried again."""
  return not (record.exc_info and isinstance(record.exc_info[1], OSError))


def local(place: str | os.PathLike[str], skip: tuple[str, ...] = ()) -> Path:
  """The mirror of a URL, brought up to date.

  skip: names of folders whose files are not needed.

  Raises:
    InputError: it cannot be read.
  """
  remote = at(place)
  remote.skip = skip
  remote.fetch()
  return remote.mirror


class _Index:
  """The table of what both sides were when they last agreed."""

  def __init__(self) -> None:
    self._path = root() / 'index.sqlite'

  def _do(self, order: str, values: Iterable[tuple] = ()) -> list[tuple]:
    """Rows of one order, done for each of some values, whole or not at all."""
    for again in (True, False):
      try:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(
          sqlite3.connect(self._path, timeout=60)
        ) as base:
          # A power cut may damage it, which only costs a fetch.
          base.execute('PRAGMA synchronous=OFF')
          base.execute(
            'CREATE TABLE IF NOT EXISTS files '
            '(url TEXT PRIMARY KEY, tag TEXT, size INTEGER, time INTEGER)'
          )
          with base:
            return [row for each in values for row in base.execute(order, each)]
      except sqlite3.Error as error:
        damaged = type(error) is sqlite3.DatabaseError
        if not (again and damaged):
          raise OSError(errno.EIO, str(error), str(self._path)) from error
        self._path.unlink(missing_ok=True)  # Mirrors are fetched anew.
    return []

  def rows(self, url: str) -> dict[str, _File]:
    """Path within `url` -> what it was."""
    order = 'SELECT * FROM files WHERE url = ? OR (url > ? AND url < ?)'
    rows = self._do(order, [(url, f'{url}/', f'{url}0')])
    return {name[len(url) + 1 :]: _File(*values) for name, *values in rows}

  def put(self, rows: dict[str, _File]) -> None:
    """Notes files, URL -> what it is."""
    values = [(url, *file) for url, file in rows.items()]
    self._do('INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?)', values)

  def cache(self) -> str:
    """Id of this table and its mirrors."""
    order = "INSERT OR IGNORE INTO files VALUES ('', ?, 0, 0)"
    self._do(order, [(uuid.uuid4().hex,)])
    return self._do("SELECT tag FROM files WHERE url = ''", [()])[0][0]

  def drop(self, urls: Iterable[str]) -> None:
    """Forgets files."""
    self._do('DELETE FROM files WHERE url = ?', [(url,) for url in urls])


def _tag(info: dict[str, Any]) -> str:
  """What tells a version of an object from others."""
  keys = 'ETag', 'etag', 'md5Hash', 'generation', 'mtime', 'created'
  mark = next((info[key] for key in keys if info.get(key) is not None), '')
  mark = mark.timestamp() if isinstance(mark, datetime.datetime) else mark
  return f'{mark} {info["size"]}'


def _changed(info: dict[str, Any]) -> float:
  """When an object was written, in seconds since 1970; now if unknown."""
  keys = 'LastModified', 'updated', 'mtime', 'created'
  when = next((info[key] for key in keys if info.get(key) is not None), None)
  if isinstance(when, str):
    when = datetime.datetime.fromisoformat(when)
  if isinstance(when, datetime.datetime):
    when = when.timestamp()
  return time.time() if when is None else float(when)


def _stamp(path: Path) -> tuple[int, int]:
  status = path.stat()
  return status.st_size, status.st_mtime_ns


def is_locked(path: Path) -> bool:
  """Has another process locked a file, perhaps on another machine?"""
  if fcntl is None:
    return True
  try:
    with open(path, encoding='utf-8') as file:
      fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
  except BlockingIOError:
    return True
  except OSError:  # It has just been given back, or nothing can be locked.
    pass
  return False


@dataclasses.dataclass
class Remote:
  """A folder, or a file, of a URL.

  Attributes:
    url: without a slash at its end.
    fs: fsspec's file system.
    path: of the URL in it.
    mirror: its place on this disk.
    skip: names of folders whose files are not needed.
    lock: of this process, whose folder it may change.
    lease: by which it is published, see `Lease.name`; '' is none.
  """

  url: str
  fs: Any
  path: str
  mirror: Path
  skip: tuple[str, ...] = ()
  lock: Path | None = None
  lease: str = ''

  def __post_init__(self) -> None:
    """The index, and what keeps two threads from publishing at once."""
    self._index = _Index()
    self.cache = self._index.cache
    self.alone = threading.RLock()

  def key(self, name: str) -> str:
    """Path of a file in the file system; '' is the URL itself."""
    return f'{self.path}/{name}' if name else self.path

  def _url(self, name: str) -> str:
    return f'{self.url}/{name}' if name else self.url

  def _listed(self) -> dict[str, dict[str, Any]]:
    """Path -> what the file system says, of all files that are whole."""
    self.fs.invalidate_cache()
    listed = self.fs.find(self.path, detail=True)
    start = len(self.path) + 1
    names = {key[start:]: info for key, info in listed.items()}
    names = {n: i for n, i in names.items() if not _TEMPORARY.search(n)}
    whole = {
      self._url(name).rpartition('/')[0]
      for name in names
      if name.rpartition('/')[2] in _OF_WHOLE
    }

    def is_whole(name: str) -> bool:
      match = _WHOLE.match(self._url(name))
      return not (name and match) or match[0][:-1] in whole

    return {name: info for name, info in names.items() if is_whole(name)}

  def _files(self) -> dict[str, tuple[int, int]]:
    """Path -> size and time, of the files of the mirror."""
    if self.mirror.is_file():
      return {'': _stamp(self.mirror)}
    files = {}
    for path in self.mirror.rglob('*'):
      name = path.relative_to(self.mirror).as_posix()
      if not _TEMPORARY.search(name):
        with contextlib.suppress(FileNotFoundError):
          if path.is_file():
            files[name] = _stamp(path)
    return files

  def _busy(self) -> tuple[str, ...]:
    """Folders that another process of this machine writes to."""
    return tuple(
      f'{lock.parent.relative_to(self.mirror).as_posix()}/'.removeprefix('./')
      for lock in self.mirror.rglob('.?*.lock')
      if lock != self.lock and is_locked(lock)
    )

  def _skips(self, name: str) -> bool:
    return any(part in self.skip for part in name.split('/')[:-1])

  def fetch(self) -> None:
    """Brings the mirror up to date, unless it is published by this process.

    Raises:
      InputError: it cannot be read, or changes all the time.
    """
    if _is_covered(self.url):
      return
    with inputs.reading(self.url, 'a place that can be read'):
      # What is fetched may be newer than what was listed, so it lists again.
      for _ in range(2 * _TRIES):
        if not self._take(self._listed()):
          return
    raise core.InputError(f'{self.url} changes while it is read; try again')

  def _take(self, listed: dict[str, dict[str, Any]]) -> bool:
    """Makes the mirror what is listed; was there anything to do?"""
    busy = self._busy()
    rows = self._index.rows(self.url)
    rows = {n: row for n, row in rows.items() if not n.startswith(busy)}
    tags = {n: _tag(i) for n, i in listed.items() if not n.startswith(busy)}
    self._note_sent(tags, rows, busy)
    if tags == {name: row.tag for name, row in rows.items()}:
      # What somebody took out of the cache is no file that a run has removed.
      missing = [n for n in rows if not (self.mirror / n).exists()]
      todo = [name for name in missing if not self._skips(name)]
      self._index.put(
        {self._url(n): rows[n]._replace(time=0) for n in {*missing} - {*todo}}
      )
    else:
      todo = self._reset(tags, rows, busy)
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE, 'fetch') as pool:
      list(pool.map(lambda name: self._get(name, listed[name]), todo))
    return bool(todo)

  def _note_sent(
    self, tags: dict[str, str], rows: dict[str, _File], busy: tuple[str, ...]
  ) -> None:
    """Completes the rows of a process that was killed while it published."""
    sent = self._index.rows(f'{_SENDS}{self.url}')
    sent = {n: file for n, file in sent.items() if not n.startswith(busy)}
    held = {file.tag for file in sent.values()}
    held = {name for name in held if Lease.is_last_here(self, name)}
    for name, file in sent.items():
      if file.tag in held and name in tags and file.time:
        # An object that was cut is sent again.
        size = min(file.size, int(tags[name].rpartition(' ')[2]))
        if name not in rows or rows[name].tag != tags[name]:
          rows[name] = _File(tags[name], size, file.time)
          self._index.put({self._url(name): rows[name]})
      elif file.tag in held and name not in tags:
        rows.pop(name, None)
        self._index.drop([self._url(name)])
    self._index.drop(f'{_SENDS}{self._url(name)}' for name in sent)

  def _reset(
    self, tags: dict[str, str], rows: dict[str, _File], busy: tuple[str, ...]
  ) -> list[str]:
    """Removes what others have changed; names of what is to be fetched."""
    files, same = self._files(), set()
    for name, stamp in files.items():
      if name.startswith(busy):
        continue
      if name in tags and rows.get(name) == (tags[name], *stamp):
        same.add(name)
      elif name not in tags or self._skips(name):
        self._remove(name)
    self._index.drop(self._url(name) for name in rows.keys() - same)
    left = {name for name in tags.keys() - same if self._skips(name)}
    self._index.put(
      {
        self._url(n): _File(tags[n], int(tags[n].rpartition(' ')[2]))
        for n in left
      }
    )
    return sorted(tags.keys() - same - left)

  def _remove(self, name: str) -> None:
    path = self.mirror / name
    path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # Up to a folder that holds something.
      for folder in path.parents[: len(pathlib.PurePath(name).parts) - 1]:
        folder.rmdir()

  def _get(self, name: str, info: dict[str, Any]) -> None:
    """Fetches a file, whole or not at all; one that is gone is left out."""
    path = self.mirror / name if name else self.mirror
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f'.{path.name}.{os.getpid()}.{uuid.uuid4().hex}.tmp')
    try:
      for _ in range(_TRIES):
        self.fs.get_file(self.key(name), str(part))
        if part.stat().st_size == info['size']:
          break
        self.fs.invalidate_cache()  # It may be another version by now.
        info = self.fs.info(self.key(name))
      else:
        raise core.InputError(f'{self._url(name)} ends early each time')
      when = _changed(info)
      os.utime(part, (when, when))
      os.replace(part, path)
    except FileNotFoundError:
      return
    finally:
      part.unlink(missing_ok=True)
    self._index.put({self._url(name): _File(_tag(info), *_stamp(path))})

  def publish(self, check: Callable[[], None] = lambda: None) -> None:
    """Uploads what has changed in the mirror, and removes what is gone there.

    check: called before records are uploaded or files removed; raises Held
      where this process may do neither.

    Raises:
      OSError: or whatever else the file system raises; a second call goes on.
    """
    with self.alone:
      for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):  # Renamed meanwhile.
          return self._send(check)
      self._send(check)

  def _send(self, check: Callable[[], None]) -> None:
    if self.lock and not self.lock.exists():  # Else all would be removed.
      raise Cleared(errno.EIO, 'the cache was cleared', str(self.mirror))
    rows = self._index.rows(self.url)
    with self._snapshot(rows) as (files, records, links):
      self._say_sends({n: files[n] for n in (*records, *links)})
      with concurrent.futures.ThreadPoolExecutor(_AT_ONCE, 'send') as pool:
        stamps = (files[name] for name in links)
        list(pool.map(self._put, links, stamps, links.values()))
      check()
      for name, content in records.items():
        self._put(name, files[name], content)
      # What has gone since the snapshot is removed once its successor is sent.
      gone = [n for n, row in rows.items() if row.time and n not in files]
      self._say_sends(dict.fromkeys(gone, (0, 0)))
      for name in sorted(gone, key=lambda name: not name.endswith(_RECORDS)):
        with contextlib.suppress(FileNotFoundError):
          self.fs.rm_file(self.key(name))
        self._index.drop([self._url(name)])
      sent = [*records, *links, *gone]
      self._index.drop(f'{_SENDS}{self._url(name)}' for name in sent)

  @contextlib.contextmanager
  def _snapshot(
    self, rows: Mapping[str, _File]
  ) -> Iterator[tuple[dict[str, Any], dict[str, bytes], dict[str, Path]]]:
    """The mirror at one moment; FileNotFoundError where it changed meanwhile.

    A checkpoint may live shorter than it takes to send. So what has changed is
    linked, and sent from the links.

    Yields:
      Path -> size and time, of all files; path -> content, of changed records,
      the oldest first; path -> link, of other changed files.
    """
    files = self._files()
    changed = [n for n, stamp in files.items() if rows.get(n, ())[1:] != stamp]

    # Records are read before the files that they describe, the oldest first;
    # unlike st_mtime, st_ctime moves with a rename.
    described = [name for name in changed if name.endswith(_RECORDS)]
    described.sort(key=lambda name: (self.mirror / name).stat().st_ctime_ns)
    records = {name: (self.mirror / name).read_bytes() for name in described}
    base = self.mirror.parent if self.mirror.is_file() else self.mirror
    for old in base.glob(f'{_SENDING}*'):  # Of a process that was killed.
      if not stopping.lives(
        int(old.name.removeprefix(_SENDING).partition('.')[0])
      ):
        shutil.rmtree(old, ignore_errors=True)
    with tempfile.TemporaryDirectory(
      prefix=f'{_SENDING}{os.getpid()}.', dir=base, ignore_cleanup_errors=True
    ) as folder:
      others = [name for name in changed if name not in records]
      links = {name: Path(folder, str(n)) for n, name in enumerate(others)}
      for name, link in links.items():
        try:
          os.link(self.mirror / name, link)
        except OSError:  # It is gone, or the file system has no links.
          shutil.copyfile(self.mirror / name, link)
      lost = files.keys() - self._files().keys()
      if any(_WHOLE.match(self._url(name)) for name in lost):
        raise FileNotFoundError(errno.ENOENT, 'it went', str(self.mirror))
      yield files, records, links

  def _say_sends(self, stamps: dict[str, tuple[int, int]]) -> None:
    """Notes what is going to be sent, or at time 0 removed, by a lease."""
    if self.lease:
      self._index.put(
        {
          f'{_SENDS}{self._url(name)}': _File(self.lease, *stamp)
          for name, stamp in stamps.items()
        }
      )

  def _put(
    self, name: str, stamp: tuple[int, int], content: bytes | Path
  ) -> None:
    """Uploads bytes, or those of a file."""
    key = self.key(name)
    if isinstance(content, Path):
      self.fs.put_file(str(content), key)
    else:
      self.fs.pipe_file(key, content)
    self.fs.invalidate_cache(key)
    info = self.fs.info(key)
    least = stamp[0] if isinstance(content, Path) else len(content)
    if info['size'] < least:
      raise OSError(errno.EIO, 'it was cut while it was sent', self._url(name))
    self._index.put({self._url(name): _File(_tag(info), *stamp)})

  def size(self) -> int:
    """Bytes of all files, those that were not needed included."""
    return sum(row.size for row in self._index.rows(self.url).values())


def _machine() -> str:
  """Id of where a process number means one process: a boot, a container."""
  with contextlib.suppress(OSError):
    boot = Path('/proc/sys/kernel/random/boot_id').read_text().strip()
    return f'{boot} {os.readlink("/proc/self/ns/pid")}'
  return ''


def _started(process: int) -> str:
  """When a process of this machine started, in clock ticks; '' if unknown.

  The first process of a container has number 1 after each restart.
  """
  with contextlib.suppress(OSError):
    status = Path(f'/proc/{process}/stat').read_text(errors='replace')
    return status.rpartition(')')[2].split()[19]
  return ''


class Lease:
  """The right to publish what a stage makes; see the module."""

  def __init__(self, remote: Remote, stage: str) -> None:
    self.remote, self.stage, self._number = remote, stage, 0
    self._name = f'.{stage}.lease.'
    self._sign: dict[str, Any] = {
      'host': socket.gethostname(),
      'machine': _machine(),
      'process': os.getpid(),
      'started': _started(os.getpid()),
      'cache': remote.cache(),
      'token': uuid.uuid4().hex,
      'beat': 0,
    }
    self._alone, self._released = threading.Lock(), threading.Event()
    self._lost = False
    self._awaited = ''  # Token of a holder whose sign was announced.

  def _numbers(self) -> list[int]:
    fs, path = self.remote.fs, self.remote.path
    fs.invalidate_cache()
    names: list[str] = []
    with contextlib.suppress(FileNotFoundError):
      names = [key.rpartition('/')[2] for key in fs.ls(path, detail=False)]
    ends = [name.removeprefix(self._name) for name in names]
    return sorted(int(end) for end in ends if end.isdecimal())

  def _key(self, number: int) -> str:
    return self.remote.key(f'{self._name}{number}')

  @property
  def name(self) -> str:
    """Stage, number and token of the lease that is held."""
    return f'{self.stage} {self._number} {self._sign["token"]}'

  @classmethod
  def is_last_here(cls, remote: Remote, name: str) -> bool:
    """Is a lease there, and all later ones of its stage of the same cache?"""
    stage, first, token = name.rsplit(' ', 2)
    lease = cls(remote, stage)
    numbers = [n for n in lease._numbers() if n >= int(first)]
    signs = [lease._read(number) or {} for number in numbers]
    return bool(signs and signs[0].get('token') == token) and all(
      sign.get('cache') == lease._sign['cache'] for sign in signs
    )

  def _read(self, number: int) -> dict[str, Any] | None:
    """What a lease says; None if it is gone, {} if it cannot be read."""
    try:
      return json.loads(self.remote.fs.cat_file(self._key(number)))
    except FileNotFoundError:
      return None
    except ValueError:
      return {}

  def acquire(self, wait: bool) -> None:
    """Takes the lease.

    wait: for another holder, instead of refusing.

    Raises:
      Held: another process has it; an InputError.
    """
    with inputs.reading(self.remote.url, 'a place that can be written'):
      while True:
        last = max(self._numbers(), default=0)
        holder = self._holder(last) if last else None
        if holder and holder.get('token') == self._sign['token']:
          self._number = last  # The answer to its creation was lost.
          return
        if holder and not wait:
          raise Held(
            f'{self.remote.url}: another process ({holder["process"]} on '
            f'{holder["host"]}) is at its stage {self.stage!r}; wait for it, '
            'or choose another --out'
          )
        if holder:
          time.sleep(1)
          continue
        sign = json.dumps(self._sign).encode()
        try:
          self.remote.fs.pipe_file(self._key(last + 1), sign, mode='create')
        except OSError:  # Each store has an error of its own for a conflict.
          if last + 1 not in self._numbers():
            raise
          continue
        self._number = last + 1
        return

  def _holder(self, number: int) -> dict[str, Any] | None:
    """What a lease says of its holder; None if that is dead or has gone."""
    first = self._read(number)
    if first is None:
      return None
    if first.get('machine') == self._sign['machine'] and (
      first.get('host') == self._sign['host']
    ):
      process = first['process']
      lives_on = stopping.lives(process) and first.get('started') == _started(
        process
      )
      return first if lives_on else None
    if first.get('token') != self._awaited:
      self._awaited = first.get('token', '')
      progress.say(
        f'{self.remote.url}: a process on {first.get("host")} was at its stage '
        f'{self.stage!r}; waiting up to {LIFE:.0f} s for a sign of it'
      )
    end = time.monotonic() + LIFE
    while time.monotonic() < end:
      time.sleep(min(1.0, LIFE / 10))
      now = self._read(number)
      if now is None or (now and now != first):
        return now
    return None

  def check(self) -> None:
    """Raises Held where the lease has gone to another process."""
    if self._lost:
      raise Held(
        f'{self.remote.url}: another process has taken over its stage '
        f'{self.stage!r}; nothing more is published from here'
      )

  def beat(self) -> None:
    """Gives a sign; raises Held as `check`."""
    with self._alone:
      if self._released.is_set():
        return
      self._lost = self._lost or not self._is_ours(self._numbers())
      self.check()
      self._sign['beat'] += 1
      sign = json.dumps(self._sign).encode()
      self.remote.fs.pipe_file(self._key(self._number), sign)

  def _is_ours(self, numbers: list[int]) -> bool:
    """Is the last lease this one, and not another's of the same number?"""
    if numbers[-1:] != [self._number]:
      return False
    sign, token = self._read(self._number), self._sign['token']
    return sign is not None and sign.get('token', token) == token

  def keep(self) -> None:
    """Starts a thread that gives signs until the lease is released or lost."""
    threading.Thread(target=self._run, name='lease', daemon=True).start()

  def _run(self) -> None:
    while not (self._lost or self._released.wait(EVERY)):
      with self._faults():
        self.beat()

  @contextlib.contextmanager
  def _faults(self) -> Iterator[None]:
    """A context that a fault of the network ends early, and nothing more."""
    with (
      contextlib.suppress(core.InputError, OSError),
      inputs.reading(self.remote.url, 'a place that can be written'),
    ):
      yield

  def release(self) -> None:
    """Gives the lease back if it can, and removes those of the dead below."""
    self._released.set()
    with self._alone, self._faults():
      numbers = self._numbers()
      if self._is_ours(numbers):
        for number in numbers:
          with contextlib.suppress(FileNotFoundError):
            self.remote.fs.rm_file(self._key(number))


class _Publisher:
  """Publishes a folder every EVERY seconds, and at the end of a stage."""

  def __init__(self, remote: Remote, lease: Lease) -> None:
    self.remote, self.lease, self.ended = remote, lease, threading.Event()
    self.thread = threading.Thread(
      target=self._run, name='publish', daemon=True
    )

  def attempt(self) -> Exception | None:
    """Publishes; what went wrong, if anything did."""
    try:
      with inputs.reading(self.remote.url, 'a place that can be written'):
        self.lease.beat()
        self.remote.publish(self.lease.check)
    except (core.InputError, OSError) as error:
      cause = error.__cause__
      return cause if isinstance(cause, Cleared) else error
    return None

  def _run(self) -> None:
    failing = False
    while not self.ended.wait(EVERY):
      error = self.attempt()
      if isinstance(error, Held):
        progress.say(str(error))
        return
      if error is not None and not failing:
        progress.say(f'{shown(str(error))}; it is tried again')
      failing = error is not None

  def finish(self, failed: bool) -> None:
    """Publishes all that is left.

    failed: an error is being raised; publishes once, and raises nothing.

    Raises:
      Held: the lease was lost. OSError: the network is.
    """
    self.ended.set()
    self.thread.join()
    for wait in range(_TRIES):
      error = self.attempt()
      if failed or error is None:
        return
      if isinstance(error, Held | Cleared):
        raise error
      if wait + 1 < _TRIES:
        time.sleep(2**wait)
    raise OSError(
      errno.EIO,
      f'not all was published ({error}); it is in {self.remote.mirror}, and '
      'the same command goes on',
      self.remote.url,
    ) from error


_ACTIVE: dict[str, _Publisher] = {}  # URL -> what this process publishes.


def _is_covered(url: str) -> bool:
  """Does this process, or one that started it, publish a folder above?"""
  above = [*_ACTIVE, *filter(None, [os.environ.get(_HOLDS)])]
  return any(f'{url}/'.startswith(f'{other}/') for other in above)


@contextlib.contextmanager
def leased(folder: Path, stage: str, lock: Path, wait: bool) -> Iterator[None]:
  """A context that fetches a mirror first and then keeps publishing it.

  Args:
    folder: the mirror.
    stage: whose lease is held.
    lock: of this process, on this machine.
    wait: for the lease, instead of refusing.

  Raises:
    Held: another process has the lease, or took it over. InputError: the URL
      cannot be read or written. OSError: not all could be published.
  """
  remote = at(folder)
  if _is_covered(remote.url):
    yield
    return
  lease = Lease(remote, stage)
  lease.acquire(wait)
  publisher = _Publisher(remote, lease)
  remote.lock = lock
  failed = True
  try:
    lease.keep()
    remote.fetch()
    remote.lease = lease.name
    _ACTIVE[remote.url] = publisher
    above = os.environ.get(_HOLDS, '')
    os.environ[_HOLDS] = remote.url
    publisher.thread.start()
    try:
      yield
      failed = False
    finally:
      os.environ[_HOLDS] = above
      del _ACTIVE[remote.url]
      publisher.finish(failed)
  finally:
    remote.lock, remote.lease = None, ''
    lease.release()


def _last() -> None:
  """Publishes once more when a signal ends the process."""
  for publisher in [*_ACTIVE.values()]:
    if publisher.remote.alone.acquire(timeout=5):
      publisher.ended.set()
      publisher.attempt()
      publisher.lease.release()


stopping.at_end(_last)


def publish_now(place: Path) -> str:
  """Uploads what is ahead in the mirror of a folder, or of one above; its URL.

  '' where this process publishes none: a parent may.
  """
  url = f'{at(place).url}/'
  active = next((above for above in _ACTIVE if url.startswith(f'{above}/')), '')
  if active and (error := _ACTIVE[active].attempt()):
    raise error
  return active


def publish(place: Path) -> None:
  """Uploads what a call wrote outside its stages; OSError where it cannot.

  A process that publishes a folder above does it by itself.
  """
  remote = at(place)
  if _is_covered(remote.url):
    return
  try:
    with inputs.reading(remote.url, 'a place that can be written'):
      remote.publish()
  except core.InputError as error:
    raise OSError(errno.EIO, str(error), remote.url) from error
