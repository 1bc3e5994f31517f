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
# Errors that the user can fix: a disk is full, broken or read-only, or a file
# system lacks an operation. Any other OSError is a bug of the program and keeps
# its traceback.
_PLAIN = (
  *('ENOSPC', 'EDQUOT', 'EFBIG', 'EACCES', 'EROFS', 'ENOTDIR', 'EIO'),
  *('ENOSYS', 'EOPNOTSUPP', 'ENODEV', 'EXDEV', 'ENOLCK'),
)
_FEW = 'EMFILE', 'ENFILE'  # Too many open files: of the process, of the system.


class Failed(RuntimeError):
  """Work failed; the message gives the reason in one line."""


class ProcessLost(Failed):
  """Another of the processes that run this program has ended.

  Attributes:
    wait: seconds by which this process ends later than the other survivors.
  """

  def __init__(self, message: str, wait: float = 0.0) -> None:
    super().__init__(message)
    self.wait = wait


# After these errors, rerunning the command resumes.
RESUMABLE = KeyboardInterrupt, Failed


def fail(message: str, code: Exit = Exit.FAILED) -> NoReturn:
  """Ends the process with a one-line error, shortened to _LONGEST."""
  line = plugins.shortened(' '.join(remote.shown(message).split()), _LONGEST)
  print('error:', line, file=sys.stderr)
  sys.exit(code)


def _end_alone(error: ProcessLost) -> NoReturn:
  """Ends like `fail`, but does not wait for other processes.

  At exit JAX would wait for all processes, 100 s if one was killed, and then
  abort. All files are complete at this point.
  """
  try:
    fail(str(error))
  except SystemExit as end:
    time.sleep(error.wait)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(end.code or Exit.FAILED))


def _fail_if_limited(error: Exception) -> None:
  """Ends if an address-space limit prevents the loading of a library."""
  try:
    resources.require_address_space(f'({inputs.reason(error)}) a library')
  except core.InputError as limited:
    fail(str(limited))


def is_of_disk(number: int | None) -> bool:
  """Is an error number a disk or file-system error that the user can fix?"""
  return errno.errorcode.get(number or 0) in _PLAIN


@contextlib.contextmanager
def exit_on_error(out: str | None = None) -> Iterator[None]:
  """Turns errors that end a binary into one line and an exit code.

  out: output folder, in which the same command resumes after a stop.

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
