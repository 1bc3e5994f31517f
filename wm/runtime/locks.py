"""A stage of a run folder has one writer at a time.

The operating system holds the lock (`flock`), so a lock ends with its process,
however that ends. The lock's file, `.<stage>.lock`, names the holder and is
removed when the lock is released.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import os
import pathlib
import socket
import time
from collections.abc import Callable, Iterator
from typing import ParamSpec, TypeVar

from wm import core
from wm.runtime import progress

try:
  import fcntl
except ImportError:  # Not a Unix.
  fcntl = None  # type: ignore[assignment]  # It is asked for before use.

Path = pathlib.Path
P = ParamSpec('P')
R = TypeVar('R')

_POLL = 0.2  # Seconds between tries, where one waits.
_TRIES = 100  # Of making a folder that others remove.
# Errors of a file system without locks, and of one that may not be written. On
# the latter nobody writes; the first file to be written reports it.
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)
_NO_WRITING = (errno.EROFS, errno.EACCES, errno.EPERM)

_HELD: set[int] = set()  # Open files of the locks of this process.


def _in_child() -> None:
  """A forked child holds none of its parent's locks."""
  for held in _HELD:
    os.close(held)
  _HELD.clear()


if hasattr(os, 'register_at_fork'):
  os.register_at_fork(after_in_child=_in_child)


class Held(core.InputError):
  """Another process works on that stage of the folder."""


@contextlib.contextmanager
def writer(
  folder: str | Path, stage: str, part: str = '', *, wait: bool = False
) -> Iterator[None]:
  """A context in which this process alone writes what `stage` makes.

  The folder is made if need be, and removed again if it stays empty. On a
  file system without locks a line on stderr says so, and the work goes on.

  Args:
    folder: of a run.
    stage: 'train', 'score', ...
    part: of the stage, where several processes share it.
    wait: for the lock, instead of refusing.

  Raises:
    Held: another process has the lock; an InputError.
  """
  path = Path(folder) / f'.{stage}{part and "-"}{part}.lock'
  created = _make(path.parent)
  held = _acquire(path)
  while held is None:
    if not wait:
      doing = f'{stage}, part {part}' if part else stage
      raise Held(
        f'{folder}: {_holder(path)} is at its stage {doing!r}; wait for it, '
        'or choose another --out'
      )
    time.sleep(_POLL)
    held = _acquire(path)
  try:
    yield
  finally:
    _release(path, held)
    for place in reversed(created):
      with contextlib.suppress(OSError):  # What is written keeps it.
        place.rmdir()


def alone(stage: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
  """Decorator: holds the lock of `stage` in the folder `out` of the call."""

  def _decorate(function: Callable[P, R]) -> Callable[P, R]:
    signature = inspect.signature(function)

    @functools.wraps(function)
    def locked(*args: P.args, **kwargs: P.kwargs) -> R:
      out = signature.bind(*args, **kwargs).arguments['out']
      with writer(out, stage):
        return function(*args, **kwargs)

    return locked

  return _decorate


def _make(folder: Path) -> list[Path]:
  """Makes a folder; those that had to be made, the outermost first."""
  missing = [place for place in (folder, *folder.parents) if not place.exists()]
  _mkdir(folder)
  return missing[::-1]


def _mkdir(folder: Path) -> None:
  """Makes a folder that another holder may remove at the same time.

  Between two system calls of `mkdir` the folder, or one above it, may go: then
  it raises what it raises where a file is in the way. So it is tried again.
  """
  for _ in range(_TRIES):
    with contextlib.suppress(FileExistsError, FileNotFoundError):
      return folder.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(folder) and not folder.is_dir():
      break
  folder.mkdir(parents=True, exist_ok=True)


def _acquire(path: Path) -> int | None:
  """Opens and locks a file; -1 where nobody may write, None if it is held."""
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
    if not take(held, path.parent):
      os.close(held)
      return None
    if _is(path, held):
      break
    os.close(held)  # Its holder removed the file before we locked it.
  _HELD.add(held)
  with contextlib.suppress(OSError):  # A full disk: nobody reads a name.
    os.truncate(held, 0)
    os.write(held, f'{os.getpid()} {socket.gethostname()}\n'.encode())
  return held


def take(held: int, folder: Path) -> bool:
  """Locks an open file of `folder`; False where another process holds it.

  Without locks in the system or the file system it counts as locked, and a
  line on stderr says so.
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
  if held not in _HELD:  # There was no lock, or this is a forked child.
    return
  path.unlink(missing_ok=True)
  _HELD.discard(held)
  os.close(held)


def _holder(path: Path) -> str:
  with contextlib.suppress(OSError, UnicodeDecodeError):
    number, _, host = path.read_text(encoding='utf-8').strip().partition(' ')
    if number:
      return f'another process ({number} on {host})'
  return 'another process'
