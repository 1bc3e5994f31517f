"""How a binary ends: one line on stderr, and an exit code."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import time
from collections.abc import Iterator
from typing import NoReturn

from absl import logging

from wm import core
from wm.core import inputs, plugins, resources
from wm.runtime import remote, stopping
from wm.runtime.stopping import Exit, Stopped

_LONGEST = 800  # Characters of an error's line.
# Errors of a disk that is full, broken or may not be written, or of a file
# system that lacks something: the user's to mend. Any other OSError is a fault
# of the program and keeps its traceback.
_PLAIN = (
  *('ENOSPC', 'EDQUOT', 'EFBIG', 'EACCES', 'EROFS', 'ENOTDIR', 'EIO'),
  *('ENOSYS', 'EOPNOTSUPP', 'ENODEV', 'EXDEV', 'ENOLCK'),
)
_FEW = 'EMFILE', 'ENFILE'  # Of this process, and of the whole system.


class Failed(RuntimeError):
  """Work that failed for a reason that its one line says."""


class ProcessLost(Failed):
  """Another of the processes that run this program has ended.

  Attributes:
    wait: seconds by which this one ends later than the others that are left.
  """

  def __init__(self, message: str, wait: float = 0.0) -> None:
    super().__init__(message)
    self.wait = wait


class ClusterError(core.InputError):
  """A cluster that cannot do the work; what is done by then is kept."""


# The same command goes on after these.
RESUMABLE = KeyboardInterrupt, Failed, ClusterError


def fail(message: str, code: Exit = Exit.FAILED) -> NoReturn:
  """Ends the process with an error of one line, cut where it is very long."""
  line = plugins.shortened(' '.join(remote.shown(message).split()), _LONGEST)
  print('error:', line, file=sys.stderr)
  sys.exit(code)


def _end_alone(error: ProcessLost) -> NoReturn:
  """Ends as `fail` does, but waits for no other process.

  At its exit JAX waits for all, for 100 s where one has been killed, and then
  aborts. What is written by now is complete.
  """
  try:
    fail(str(error))
  except SystemExit as end:
    time.sleep(error.wait)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(end.code or Exit.FAILED))


def _fail_if_limited(error: Exception) -> None:
  """Ends where a library cannot be loaded for a limit of address space."""
  try:
    resources.require_address_space(f'({inputs.reason(error)}) a library')
  except core.InputError as limited:
    fail(str(limited))


def is_of_disk(number: int | None) -> bool:
  """Is an error number one of a disk or a file system, the user's to mend?"""
  return errno.errorcode.get(number or 0) in _PLAIN


@contextlib.contextmanager
def exit_on_error(out: str | None = None) -> Iterator[None]:
  """Turns the errors that end a binary into one line and an exit code.

  out: folder that it writes to; the same command resumes there after a stop.

  Raises:
    SystemExit: bad input, a full disk or memory, too many open files, or a
      signal.
  """
  try:
    yield
    sys.stdout.flush()
  except core.InputError as error:
    logging.debug('%s', error, exc_info=True)  # Seen with --verbosity=1.
    fail(str(error), Exit.BAD_INPUT)
  except BrokenPipeError:  # The reader has ended, as `head` does.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.raise_signal(signal.SIGPIPE)
  except OSError as error:
    if error.errno == errno.ENAMETOOLONG:  # A flag, or a spec's field.
      name = plugins.shortened(str(error.filename))
      fail(f'{error.strerror}: {name}', Exit.BAD_INPUT)
    few = errno.errorcode.get(error.errno or 0) in _FEW
    if not few and not is_of_disk(error.errno):
      _fail_if_limited(error)
      raise
    place = error.filename or out
    message = error.strerror or str(error)
    if few:
      message += ' (`ulimit -n` says how many may be)'
    fail(f'{message}: {place}' if place else message)
  except ProcessLost as error:
    _end_alone(error)
  except Failed as error:
    fail(str(error))
  except ImportError as error:
    _fail_if_limited(error)
    raise
  except MemoryError as error:
    fail(f'out of memory: {error}')
  except RuntimeError as error:  # XLA's errors; JAX may not be imported here.
    first = str(error).partition('\n')[0]
    if 'out of memory' not in first.lower():
      raise
    fail(first)
  except Stopped as error:
    stopping.farewell(error.code, again=bool(out))
    sys.exit(error.code)
