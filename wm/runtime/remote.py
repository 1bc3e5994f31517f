"""Folders that are not on this disk: s3://, gs:// and others that fsspec knows.

A URL has a mirror, a folder of the user's cache. All work is done there, on
ordinary files. `fetch` brings a mirror up to date, and `publish` uploads what
has changed in it. A JSON file beside the mirrors of a bucket says what both
sides were when they last agreed:

    s3://bucket/run/rows.parquet     ~/.cache/wm/remote-files/s3/bucket/run/...
      tag, e.g. its ETag   <- s3/bucket.tags.json ->   size and time

JSON files and pages describe other files. They are uploaded last, with the
bytes that they had before the others were read, and removed first. A machine
that is lost at any moment leaves at the URL no half-written store, and any
other machine goes on from there.

If another machine has written since, its files count, and what was not
published here is dropped. If none has, the mirror is ahead and its files count.

A process that writes what a stage makes says so in an object, the heartbeat
`.<stage>.lease`, which it rewrites every EVERY seconds. Another machine refuses
the stage until the object is LIFE seconds old, by clocks that agree. Two that
begin at the same moment are not kept apart.
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
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from wm import core
from wm.core import inputs
from wm.runtime import progress, stopping

try:
  import fcntl
except ImportError:  # Not a Unix.
  fcntl = None  # type: ignore[assignment]  # It is asked for before use.

Path = pathlib.Path

MIRRORS = 'remote-files'  # The folder of all mirrors; in the path of each.
EVERY = 15.0  # Seconds between uploads, and between signs of life.
LIFE = 60.0  # Seconds without a sign after which a process counts as dead.
_AT_ONCE = 8  # Files that are sent or fetched at a time.
_TRIES = 5  # Of what may fail by chance.
_SENDING = '.sending.'  # Before a process's number: links of what it sends.
# Environment: URLs that this process publishes, or one that started it.
_HOLDS = '_WM_LEASED'
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


def is_url(value: object) -> bool:
  """Is it a URL, as text, or a path into which it was put?"""
  is_text = isinstance(value, str) and '://' in value
  return (is_text or isinstance(value, os.PathLike)) and bool(
    inputs.URL.fullmatch(str(value))
  )


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
    # It tells of lost connections, which are tried again.
    logging.getLogger('asyncio').setLevel(logging.CRITICAL)
    return Remote(url, place.fs, place.path.rstrip('/'), root() / scheme / rest)


def local(place: str | os.PathLike[str], skip: tuple[str, ...] = ()) -> Path:
  """The mirror of a URL, brought up to date.

  skip: names of folders whose files are not needed.

  Raises:
    InputError: it cannot be read.
  """
  remote = at(place)
  remote.fetch(skip)
  return remote.mirror


def _tag(info: dict[str, Any]) -> str:
  """What tells a version of an object from others."""
  keys = 'ETag', 'etag', 'md5Hash', 'generation', 'mtime', 'created'
  mark = next((info[key] for key in keys if info.get(key) is not None), '')
  mark = mark.timestamp() if isinstance(mark, datetime.datetime) else mark
  return f'{mark} {info["size"]}'


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
    lock: of this process, whose folder it may change.
    alone: keeps two threads from publishing at once.
  """

  url: str
  fs: Any
  path: str
  mirror: Path
  lock: Path | None = None
  alone: Any = dataclasses.field(default_factory=threading.RLock)

  def key(self, name: str) -> str:
    """Path of a file in the file system; '' is the URL itself."""
    return f'{self.path}/{name}' if name else self.path

  def tags(
    self, changes: Mapping[str, list[Any] | None] | None = None
  ) -> dict[str, list[Any]]:
    """Path -> [tag, size, time] when both sides last agreed.

    Time 0 is of a file that is not on this disk.

    changes: made to the table first; None removes a row.
    """
    scheme, _, bucket, *_ = self.url.split('/')
    path = root() / scheme[:-1] / f'{bucket}.tags.json'
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_suffix('.lock'), 'w', encoding='utf-8') as lock:
      if fcntl:
        fcntl.flock(lock, fcntl.LOCK_EX)
      table: dict[str, Any] = {}
      with contextlib.suppress(FileNotFoundError, ValueError):
        table = json.loads(path.read_text(encoding='utf-8'))
      if changes:
        table |= {self._url(name): row for name, row in changes.items()}
        table = {url: row for url, row in table.items() if row}
        part = path.with_suffix('.tmp')
        part.write_text(json.dumps(table), encoding='utf-8')
        os.replace(part, path)
    within = {url.removeprefix(self.url): row for url, row in table.items()}
    return {n[1:]: row for n, row in within.items() if n[:1] in ('', '/')}

  def _url(self, name: str) -> str:
    return f'{self.url}/{name}' if name else self.url

  def _listed(self) -> dict[str, tuple[str, int]]:
    """Path -> tag and size, of all files that are whole."""
    self.fs.invalidate_cache()
    objects = self.fs.find(self.path, detail=True)
    start = len(self.path) + 1
    names = {key[start:]: (_tag(x), x['size']) for key, x in objects.items()}
    urls = {self._url(name) for name in names}

    def is_whole(name: str) -> bool:
      match = name and _WHOLE.match(self._url(name))
      return not match or any(match[0] + x in urls for x in _OF_WHOLE)

    return {
      name: row
      for name, row in names.items()
      if is_whole(name) and not _TEMPORARY.search(name)
    }

  def _files(self) -> dict[str, list[int]]:
    """Path -> size and time, of the files of the mirror."""
    paths = [self.mirror] if self.mirror.is_file() else self.mirror.rglob('*')
    files = {}
    for path in paths:
      name = path.relative_to(self.mirror).as_posix() * (path != self.mirror)
      if not _TEMPORARY.search(name):
        with contextlib.suppress(FileNotFoundError):
          status = path.stat()
          if path.is_file():
            files[name] = [status.st_size, status.st_mtime_ns]
    return files

  def fetch(self, skip: tuple[str, ...] = ()) -> None:
    """Brings the mirror up to date, unless it is published by this process.

    skip: names of folders whose files are not needed.

    Raises:
      InputError: it cannot be read, or changes all the time.
    """
    locks = [x for x in self.mirror.rglob('.?*.lock') if x != self.lock]
    # What a process of this machine writes to is read as it is.
    if _is_covered(self.url) or any(map(is_locked, locks)):
      return
    with inputs.reading(self.url, 'a place that can be read'):
      # What is fetched may be newer than what was listed, so it lists again.
      for _ in range(2 * _TRIES):
        if not self._take(self._listed(), skip):
          return
    raise core.InputError(f'{self.url} changes while it is read; try again')

  def _take(
    self, sizes: dict[str, tuple[str, int]], skip: tuple[str, ...]
  ) -> bool:
    """Makes the mirror what is listed; was there anything to do?"""
    rows, files = self.tags(), self._files()
    tags = {name: tag for name, (tag, _) in sizes.items()}
    if tags == {name: row[0] for name, row in rows.items()}:
      todo = tags.keys() - files.keys()  # The mirror may be ahead.
    else:
      same = {n for n, x in files.items() if rows.get(n) == [tags.get(n), *x]}
      todo = tags.keys() - same
      for name in files.keys() - same:
        self._remove(name)
    gone = dict.fromkeys(rows.keys() - tags.keys())
    # Not on this disk until they are fetched, so that nothing removes them.
    self.tags({**gone, **{name: [*sizes[name], 0] for name in todo}})
    todo = {n for n in todo if not {*n.split('/')[:-1]} & {*skip}}
    with concurrent.futures.ThreadPoolExecutor(_AT_ONCE, 'fetch') as pool:
      list(pool.map(self._get, todo, map(sizes.get, todo)))
    return bool(todo)

  def _remove(self, name: str) -> None:
    """Removes a file of the mirror, and folders that are empty then."""
    (self.mirror / name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # Up to a folder that holds something.
      for folder in pathlib.PurePath(name).parents[:-1]:
        (self.mirror / folder).rmdir()

  def _get(self, name: str, listed: tuple[str, int]) -> None:
    """Fetches a file, whole or not at all."""
    path = self.mirror / name if name else self.mirror
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f'.{path.name}.{uuid.uuid4().hex}.tmp')
    try:
      with contextlib.suppress(FileNotFoundError):  # It is listed again.
        self.fs.get_file(self.key(name), str(part))
        status = part.stat()
        if status.st_size == listed[1]:
          os.replace(part, path)
          self.tags({name: [listed[0], status.st_size, status.st_mtime_ns]})
    finally:
      part.unlink(missing_ok=True)

  def publish(self) -> None:
    """Uploads what has changed in the mirror, and removes what is gone there.

    Raises:
      OSError: or whatever else the file system raises; a second call goes on.
    """
    with self.alone:
      for _ in range(_TRIES):
        with contextlib.suppress(FileNotFoundError):  # Renamed meanwhile.
          return self._send()
      self._send()

  def _send(self) -> None:
    if self.lock and not self.lock.exists():  # Else all would be removed.
      raise OSError(errno.EIO, 'the cache was cleared', str(self.mirror))
    for old in root().glob(f'{_SENDING}*'):  # Of a process that was killed.
      if not stopping.lives(int(old.name.split('.')[2])):
        shutil.rmtree(old, ignore_errors=True)
    rows, files = self.tags(), self._files()
    changed = [n for n, stamp in files.items() if rows.get(n, [])[1:] != stamp]
    # The oldest first; unlike st_mtime, st_ctime moves with a rename.
    changed.sort(key=lambda name: (self.mirror / name).stat().st_ctime_ns)
    records = [name for name in changed if name.endswith(_RECORDS)]
    others = [name for name in changed if name not in records]
    with (
      tempfile.TemporaryDirectory(
        prefix=f'{_SENDING}{os.getpid()}.', dir=root()
      ) as folder,
      concurrent.futures.ThreadPoolExecutor(_AT_ONCE, 'send') as pool,
    ):
      # Links keep what lives shorter than it takes to send, as checkpoints do.
      links = {name: Path(folder, f'{n}') for n, name in enumerate(changed)}
      for name in (*records, *others):
        os.link(self.mirror / name, links[name])

      def put(name: str) -> None:
        """Uploads a file, and notes its tag."""
        key = self.key(name)
        self.fs.put_file(str(links[name]), key)
        self.fs.invalidate_cache(key)
        info = self.fs.info(key)
        if info['size'] < files[name][0]:
          cut = 'it was cut while it was sent'
          raise OSError(errno.EIO, cut, self._url(name))
        self.tags({name: [_tag(info), *files[name]]})

      list(pool.map(put, others))
      for name in records:
        put(name)
    # Records go first, so that none is left of what is half removed.
    gone = [n for n, row in rows.items() if row[2] and n not in files]
    for name in sorted(gone, key=lambda name: not name.endswith(_RECORDS)):
      with contextlib.suppress(FileNotFoundError):
        self.fs.rm_file(self.key(name))
      self.tags({name: None})


HEARTBEAT = 'heartbeat'  # Name of the threads that publish.


class Heartbeat:
  """Publishes a folder while this process says that it is at a stage of it."""

  def __init__(self, remote: Remote, stage: str) -> None:
    self.remote, self.stage = remote, stage
    self.key = remote.key(f'.{stage}.lease')
    self.ended, self.threads = threading.Event(), list[threading.Thread]()
    # A process of this cache has the lock of the stage, or has ended.
    self.cache = f'{socket.gethostname()} {root()}'

  def acquire(self, wait: bool) -> None:
    """Gives the first sign, once no other machine is at the stage.

    wait: for another process, instead of refusing.

    Raises:
      Held: another process is at the stage; an InputError.
    """
    while True:
      sign: dict[str, Any] = {}
      with contextlib.suppress(FileNotFoundError, ValueError):
        self.remote.fs.invalidate_cache()
        sign = json.loads(self.remote.fs.cat_file(self.key))
      lately = time.time() - sign.get('time', 0) < LIFE
      if not lately or sign.get('cache') == self.cache:
        return self.sign()
      if not wait:
        raise Held(
          f'{self.remote.url}: another process ({sign["name"]}) was at its '
          f'stage {self.stage!r} within {LIFE:.0f} s; wait for it, or choose '
          'another --out'
        )
      time.sleep(1)

  def sign(self) -> None:
    """Says that this process is at the stage."""
    name = f'{os.getpid()} on {socket.gethostname()}'
    about = {'name': name, 'cache': self.cache, 'time': time.time()}
    self.remote.fs.pipe_file(self.key, json.dumps(about).encode())

  def attempt(self, act: Callable[[], None]) -> Exception | None:
    """Does so; returns what went wrong, if anything did."""
    try:
      with inputs.reading(self.remote.url, 'a place that can be written'):
        act()
    except (core.InputError, OSError) as error:
      return error
    return None

  def start(self, act: Callable[[], None]) -> None:
    """Starts a thread that does so every EVERY seconds, until `finish`."""

    def repeat() -> None:
      before = None
      while not self.ended.wait(EVERY):
        error = self.attempt(act)
        if error and act != self.sign and not before:
          progress.say(f'{shown(str(error))}; it is tried again')
        before = error

    self.threads.append(
      threading.Thread(target=repeat, name=HEARTBEAT, daemon=True)
    )
    self.threads[-1].start()

  def finish(self, failed: bool) -> None:
    """Publishes all that is left, and removes the object.

    failed: an error is being raised; publishes once, and raises nothing.

    Raises:
      OSError: the network is lost.
    """
    for wait in range(1 if failed else _TRIES):
      time.sleep(2**wait - 1)
      if not (error := self.attempt(self.remote.publish)):
        break
    self.ended.set()
    for thread in self.threads:  # What it may write is removed below.
      thread.join(EVERY)
    self.attempt(lambda: self.remote.fs.rm_file(self.key))
    if error and not failed:
      raise OSError(
        errno.EIO,
        f'not all was published ({error}); it is in {self.remote.mirror}, and '
        'the same command goes on',
        self.remote.url,
      ) from error


def _is_covered(url: str) -> bool:
  """Does this process, or one that started it, publish a folder above?"""
  above = os.environ.get(_HOLDS, '').split('\n')[:-1]
  return any(f'{url}/'.startswith(f'{other}/') for other in above)


@contextlib.contextmanager
def leased(folder: Path, stage: str, lock: Path, wait: bool) -> Iterator[None]:
  """A context that fetches a mirror first and then keeps publishing it.

  Args:
    folder: the mirror.
    stage: that no other process is at meanwhile.
    lock: of this process, on this machine.
    wait: for another process, instead of refusing.

  Raises:
    Held: another process is at the stage. InputError: the URL cannot be read
      or written. OSError: not all could be published.
  """
  remote = at(folder)
  if _is_covered(remote.url):
    yield
    return
  heart = Heartbeat(remote, stage)
  with inputs.reading(remote.url, 'a place that can be written'):
    heart.acquire(wait)
  line, failed = f'{remote.url}\n', True
  try:
    # Signs are given during long uploads too.
    heart.start(heart.sign)
    remote.lock = lock
    remote.fetch()
    # Other processes of this run begin with what the first one has.
    if error := heart.attempt(remote.publish):
      raise error
    os.environ[_HOLDS] = os.environ.get(_HOLDS, '') + line
    heart.start(remote.publish)
    yield
    failed = False
  finally:
    os.environ[_HOLDS] = os.environ.get(_HOLDS, '').replace(line, '')
    try:
      heart.finish(failed)
    finally:
      remote.lock = None


def publish(place: Path) -> None:
  """Uploads what a call wrote outside its stages.

  A process that publishes a folder above does it by itself.

  Raises:
    InputError: it cannot be written.
  """
  remote = at(place)
  if not _is_covered(remote.url):
    with inputs.reading(remote.url, 'a place that can be written'):
      remote.publish()
