"""Safe files: written to a temporary name and renamed, hashed, JSON; locks.

An output folder belongs to one run: `claim` writes a description of the run
and refuses a folder that holds another run. `stage_lock` lets one process at a
time write the files of a stage. The lock is an operating-system lock (`flock`),
so the lock ends with its process, even after a kill. The lock file,
`.<stage>.lock`, names the holder and is removed when the lock is released.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import glob
import hashlib
import inspect
import json
import os
import pathlib
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, ParamSpec, TypeVar

import numpy as np

from wm import core
from wm.core import inputs, schema
from wm.runtime import progress, remote, stopping

try:
  import fcntl
except ImportError:  # Not a Unix.
  fcntl = None  # type: ignore[assignment]  # It is asked for before use.

Path = pathlib.Path
P = ParamSpec('P')
R = TypeVar('R')


def check_folder(name: str, path: str) -> None:
  """Raises InputError if `path`, given as `name`, cannot be a folder."""
  if not path.strip():
    raise core.InputError(f'{name} is empty; expected a folder')
  try:
    other = not stat.S_ISDIR(os.stat(path).st_mode)
  except PermissionError:
    return  # The call that makes the folder reports the reason.
  except FileNotFoundError as error:
    # /proc and /sys are virtual file systems: nothing can be created there.
    virtual = os.path.realpath(path).startswith(('/proc/', '/sys/'))
    above = [Path(path), *Path(path).parents]
    dangling = any(x.is_symlink() and not x.exists() for x in above)
    if virtual or dangling:
      what = 'in /proc or /sys' if virtual else 'under a link to nothing'
      raise core.InputError(
        f'{name}={path} is {what}; expected a folder, or where one can be made'
      ) from error
    return
  except (OSError, ValueError) as error:
    shown = path if len(path) < 80 else f'{path[:80]}...'
    why = getattr(error, 'strerror', None) or str(error)
    raise core.InputError(f'{name}={shown!r}: {why}') from error
  if other:
    raise core.InputError(f'{name}={path} is a file; expected a folder')


# Errors of a file system that does not support an operation.
LACKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EXDEV)


def sync(file: IO[Any]) -> None:
  """Flushes a file to its disk (fsync).

  If the file system has no fsync, warns on stderr once per folder and returns.

  Raises:
    OSError: the disk is full or broken; names the file.
  """
  try:
    file.flush()
    os.fsync(file.fileno())
  except OSError as error:
    if error.errno not in LACKS:
      raise OSError(error.errno, error.strerror, file.name) from error
    _say_unsafe(Path(file.name).parent, str(error.strerror))


@functools.cache
def _say_unsafe(folder: Path, why: str) -> None:
  progress.say(
    f'{folder}: this file system has no fsync ({why}); files that a power cut '
    'comes soon after may be lost'
  )


def rename(source: str | Path, target: str | Path) -> None:
  """Renames a file or folder; replaces an existing target file.

  Raises:
    InputError: the file system has no such rename.
  """
  try:
    os.replace(source, target)
  except OSError as error:
    if error.errno not in LACKS:
      raise
    raise core.InputError(
      f'{target}: this file system cannot rename {Path(source).name} to it '
      f'({error.strerror}); choose another --out'
    ) from error


_UNFINISHED: set[Path] = set()  # Temporary files of this process.


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
  """Yields a temporary path beside `path`, and renames it to `path` on success.

  Also removes temporary files of `path` that killed processes of this machine
  left behind.
  """
  path = Path(path)
  path.parent.mkdir(parents=True, exist_ok=True)
  _sweep(path)
  host = socket.gethostname()
  temporary = path.with_name(f'.{path.name}.{host}.{os.getpid()}.tmp')
  _UNFINISHED.add(temporary)
  try:
    yield temporary
    rename(temporary, path)
  finally:
    _remove(temporary)
    _UNFINISHED.discard(temporary)


def remove_unfinished() -> None:
  """Removes the temporary files of this process, before it ends."""
  for temporary in list(_UNFINISHED):
    with contextlib.suppress(OSError):
      _remove(temporary)


stopping.at_end(remove_unfinished)


def _remove(path: Path) -> None:
  if path.is_dir():
    shutil.rmtree(path)
  path.unlink(missing_ok=True)


def _sweep(path: Path) -> None:
  """Removes temporary files of `path` whose process has ended."""
  for left in path.parent.glob(f'.{glob.escape(path.name)}.*.tmp'):
    *host, number = left.name[len(path.name) + 2 : -len('.tmp')].split('.')
    local = not host or '.'.join(host) == socket.gethostname()
    if local and number.isdigit() and not stopping.lives(int(number)):
      with contextlib.suppress(OSError):
        _remove(left)


def write_text(path: str | Path, text: str) -> None:
  """Writes text, whole or not at all."""
  with replacing(path) as name, open(name, 'w', encoding='utf-8') as file:
    file.write(text)
    sync(file)


def write_json(path: str | Path, value: Any) -> None:
  """Writes JSON (NaN and infinity are refused), whole or not at all."""
  # `dump` streams: `dumps` of a large value takes ten times its memory.
  with replacing(path) as name, open(name, 'w', encoding='utf-8') as file:
    json.dump(value, file, indent=1, allow_nan=False, ensure_ascii=False)
    file.write('\n')
    sync(file)


def read_json(path: str | Path) -> Any:
  """Reads JSON; raises InputError with the file's name."""
  return inputs.read_json(path)


def read_record(
  path: str | Path,
  needed: dict[str, Any],
  optional: dict[str, Any] | None = None,
) -> dict[str, Any]:
  """Reads a JSON object whose fields have known shapes; see `schema.Object`."""
  return dict(schema.read(path, schema.Object(needed, optional or {})))


def record(
  value: Any,
  where: str,
  needed: dict[str, Any],
  optional: dict[str, Any] | None = None,
) -> dict[str, Any]:
  """Applies the checks of `read_record` to a value read from `where`."""
  return dict(schema.check(value, schema.Object(needed, optional or {}), where))


@contextlib.contextmanager
def unclaim_on_bad_input(
  folder: str | Path, stage: str, *names: str
) -> Iterator[None]:
  """Removes a claim made inside the context if the context raises InputError.

  names: further files that the stage's first run creates.
  """
  paths = [Path(folder) / name for name in (f'{stage}.run.json', *names)]
  before = [path for path in paths if path.exists()]
  try:
    yield
  except core.InputError:
    for path in paths:
      if path not in before:
        path.unlink(missing_ok=True)
    raise


def sha256(path: str | Path) -> str:
  """Hex digest of a file's bytes."""
  with open(path, 'rb') as file:
    return hashlib.file_digest(file, 'sha256').hexdigest()


def digest(path: str | Path) -> str:
  """Hex digest of a file's bytes, or of the names and bytes in a folder.

  Follows links, each folder once. Of a pipe or other special file, only the
  name counts.
  """
  path = Path(path)
  if path.is_file():
    return sha256(path)
  total, seen = hashlib.sha256(), set()
  for folder, inner, names in os.walk(path, followlinks=True):
    place = os.path.realpath(folder)
    if place in seen:
      inner.clear()
      continue
    seen.add(place)
    inner.sort()
    for name in sorted(names):
      file = Path(folder, name)
      held = sha256(file) if file.is_file() else ''
      total.update(f'{file.relative_to(path).as_posix()}\0{held}\0'.encode())
  return total.hexdigest()


def same(
  folder: str | Path, stage: str, run: Mapping[str, Any], other: dict[str, Any]
) -> None:
  """Raises InputError if two runs differ; names the first differing value.

  Compares dictionaries among the values, such as a world's facts, only in their
  shared keys, as a later version may record more keys.
  """
  for key in sorted(run.keys() | other.keys()):
    if _differ(run.get(key), other.get(key)):
      raise core.InputError(
        f'{folder} holds another {stage} run: its {key} is '
        f'{other.get(key)!r}, not {run.get(key)!r}; choose another --out '
        'or remove the folder'
      )


def _differ(new: Any, old: Any) -> bool:
  if isinstance(new, dict) and isinstance(old, dict):
    return any(new[key] != old[key] for key in new.keys() & old.keys())
  return new != old


def claimed(
  folder: str | Path,
  stage: str,
  run: Mapping[str, Any],
  absent: Mapping[str, Any] | None = None,
) -> bool:
  """Whether a stage of `folder` already belongs to this run; see `claim`.

  Raises:
    InputError: the folder holds another run of this stage.
  """
  path = Path(folder) / f'{stage}.run.json'
  if not path.exists():
    return False
  other = read_json(path)
  if not isinstance(other, dict):
    raise core.InputError(f'{path} is not a run description')
  run = json.loads(json.dumps(run))
  same(folder, stage, run, {**(absent or {}), **other})
  return True


def claim(
  folder: str | Path,
  stage: str,
  run: Mapping[str, Any],
  absent: Mapping[str, Any] | None = None,
) -> None:
  """Claims a stage of `folder` for this run.

  Writes `<stage>.run.json`, or compares the run with an existing one.

  absent: defaults for keys that descriptions of earlier versions lack.

  Raises:
    InputError: the folder holds another run of this stage.
  """
  if not claimed(folder, stage, run, absent):
    write_json(Path(folder) / f'{stage}.run.json', run)


_POLL = 0.2  # Seconds between attempts to take a lock.
_TRIES = 100  # Attempts to make a folder that other processes may remove.
# Errors of a file system without locks, and of a read-only one. The latter
# needs no lock; the first write reports the error.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_NO_WRITING = (errno.EROFS, errno.EACCES, errno.EPERM)

_HELD: set[int] = set()  # Open files of the locks of this process.


def _in_child() -> None:
  """Closes the parent's lock files in a forked child."""
  for held in _HELD:
    os.close(held)
  _HELD.clear()


if hasattr(os, 'register_at_fork'):
  os.register_at_fork(after_in_child=_in_child)


Held = remote.Held


@contextlib.contextmanager
def stage_lock(
  folder: str | Path, stage: str, *, wait: bool = False
) -> Iterator[None]:
  """A context in which only this process writes the files of `stage`.

  Makes the folder if necessary, and removes the folder if it stays empty. On a
  file system without locks, warns on stderr and continues.

  Args:
    folder: of a run.
    stage: 'train', 'score', ...
    wait: whether to wait for the lock instead of raising.

  Raises:
    Held: another process has the lock; an InputError.
  """
  path = Path(folder) / f'.{stage}.lock'
  created = _make(path.parent)
  held = _acquire(path)
  while held is None:
    if not wait:
      raise Held(
        f'{folder}: {_holder(path)} is at its stage {stage!r}; wait for it, '
        'or choose another --out'
      )
    time.sleep(_POLL)
    held = _acquire(path)
  mirrored: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
  if remote.MIRRORS in path.absolute().parts:
    mirrored = remote.leased(path.parent, stage, path, wait)
  try:
    with mirrored:
      yield
  finally:
    _release(path, held)
    for place in reversed(created):
      with contextlib.suppress(OSError):  # A folder with files stays.
        place.rmdir()


def locked_stage(stage: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
  """Decorator: locks `stage` in the folder of the argument `out`."""

  def _decorate(function: Callable[P, R]) -> Callable[P, R]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def locked(*args: P.args, **kwargs: P.kwargs) -> R:
      out = signature.bind(*args, **kwargs).arguments['out']
      with stage_lock(out, stage):
        return function(*args, **kwargs)

    return locked

  return _decorate


def _make(folder: Path) -> list[Path]:
  """Makes a folder and its parents; returns new folders, outermost first."""
  missing = [place for place in (folder, *folder.parents) if not place.exists()]
  _mkdir(folder)
  return missing[::-1]


def _mkdir(folder: Path) -> None:
  """Makes a folder that another process may remove at the same time.

  If the folder or a parent disappears between two system calls, `mkdir` raises
  the same error as for a file in the way. Therefore this function retries.
  """
  for _ in range(_TRIES):
    with contextlib.suppress(FileExistsError, FileNotFoundError):
      return folder.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(folder) and not folder.is_dir():
      break
  folder.mkdir(parents=True, exist_ok=True)


def _acquire(path: Path) -> int | None:
  """Opens and locks a file; -1 if not writable, None if already locked."""
  while True:
    try:
      held = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError:  # The last holder removed the folder.
      _mkdir(path.parent)
      continue
    except OSError as error:
      if error.errno not in _NO_WRITING:
        raise
      return -1
    if not take_lock(held, path.parent):
      os.close(held)
      return None
    if _is(path, held):
      break
    os.close(held)  # The last holder removed the file before we locked it.
  _HELD.add(held)
  with contextlib.suppress(OSError):  # On a full disk the lock has no name.
    os.truncate(held, 0)
    os.write(held, f'{os.getpid()} {socket.gethostname()}\n'.encode())
  return held


def take_lock(held: int, folder: Path) -> bool:
  """Locks an open file of `folder`; False if another process holds the lock.

  If the system or file system has no locks, warns on stderr and returns True.
  """
  try:
    if fcntl is None:
      raise OSError(errno.ENOSYS, 'not a Unix')
    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    return False
  except OSError as error:
    if error.errno not in _NO_LOCKS:
      raise OSError(error.errno, error.strerror, str(folder)) from error
    progress.say(
      f'{folder}: this file system has no locks ({error.strerror}); take care '
      'that no second process writes there'
    )
  return True


def _is(path: Path, held: int) -> bool:
  """Whether the path still names this open file."""
  try:
    return os.path.samestat(os.stat(path), os.fstat(held))
  except FileNotFoundError:
    return False


def _release(path: Path, held: int) -> None:
  if held not in _HELD:  # No lock was taken, or this is a forked child.
    return
  path.unlink(missing_ok=True)
  _HELD.discard(held)
  os.close(held)


def _written(path: Path) -> tuple[str, str]:
  """Process id and host in a lock file; '' if the file names none."""
  with contextlib.suppress(OSError, UnicodeDecodeError):
    number, _, host = path.read_text(encoding='utf-8').strip().partition(' ')
    return number, host
  return '', ''


def _holder(path: Path) -> str:
  number, host = _written(path)
  # A holder locks the file first, and writes its name a moment later.
  for _ in range(_TRIES):
    if number:
      return f'another process ({number} on {host})'
    time.sleep(_POLL / _TRIES)
    number, host = _written(path)
  return 'another process'


def json_hash(value: Any) -> str:
  """Hash of a JSON value; equal values have equal hashes."""
  text = json.dumps(value, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()


def hash_of(things: Iterable[Any]) -> str:
  """Hash of arrays, by type, shape and content, and of other things' repr."""
  hasher = hashlib.sha256()
  for thing in things:
    if isinstance(thing, np.ndarray):
      hasher.update(f'{thing.dtype.str}{thing.shape}'.encode())
      hasher.update(np.ascontiguousarray(thing).data)
    else:
      hasher.update(repr(thing).encode())
    hasher.update(b'\0')
  return hasher.hexdigest()
