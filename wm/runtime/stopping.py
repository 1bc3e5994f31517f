"""How a process ends: exit codes and signals.

A binary calls `install`; without that call, signals keep Python's behaviour.
After `install`, SIGINT (Ctrl-C), SIGTERM and SIGUSR1 (schedulers, e.g. SLURM's
--signal=USR1@60) and SIGHUP (a closed terminal) end the process at once. This
is safe: every binary may be killed at any moment and resumes from complete
files. Work that would be lost runs within `deferred`, which stops at a safe
point; a second signal ends the process without waiting for that point.

No signal handler raises an exception: an exception could arise within a
callback, a destructor or a compiled dispatcher, which would swallow it or leave
an inconsistent state. A separate thread reads the signals, so signals also work
while the main thread compiles.
"""

from __future__ import annotations

import atexit
import contextlib
import enum
import os
import signal
import threading
from collections.abc import Callable, Iterator


class Exit(enum.IntEnum):
  """Exit codes of all binaries; the README names them too."""

  DONE = 0
  FAILED = 1  # A full disk or memory, a loss that is not finite, a sweep's run.
  BAD_INPUT = 2  # Or another process holds the lock of the folder.
  STOPPED = (
    75  # SIGTERM, SIGUSR1 or SIGHUP. The name of 75 in sysexits.h: try again.
  )
  INTERRUPTED = 130  # SIGINT, as a shell says it.


CODES: dict[int, Exit] = {
  signal.SIGINT: Exit.INTERRUPTED,
  **dict.fromkeys(
    (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1), Exit.STOPPED
  ),
}


class Stopped(KeyboardInterrupt):
  """Raised at a safe point after a signal came.

  Attributes:
    code: exit code for the signal.
  """

  def __init__(self, code: Exit = Exit.STOPPED) -> None:
    super().__init__(code.name.lower())
    self.code = code


class _State:
  """State shared by the main thread and the thread that reads signals."""

  def __init__(self) -> None:
    self.lock = threading.Lock()
    self.asked: Exit | None = None
    self.deferring: list[Callable[[], None] | None] = []


_STATE = _State()


_AT_END: list[Callable[[], None]] = []


def at_end(act: Callable[[], None]) -> None:
  """Registers `act` to be called when a signal ends the process.

  `act` must be brief, and the main thread may be in any state at that time.
  """
  _AT_END.append(act)


def farewell(code: Exit, again: bool) -> None:
  """Calls the `at_end` functions, and writes the last line on stderr.

  again: whether the same command resumes the work.
  """
  for act in _AT_END:
    try:
      act()
    # E.g. a full disk; the other functions still run.
    except OSError as error:
      with contextlib.suppress(OSError):
        os.write(2, f'error: {error}\n'.encode())
  line = code.name.lower()
  if again:
    line += '; run the same command again to go on'
  if os.isatty(2):
    line = f'\n{line}'  # Below the bar.
  with contextlib.suppress(OSError):
    os.write(2, f'{line}\n'.encode())


def install(again: Callable[[], bool]) -> None:
  """Makes the signals of CODES end this process; call from the main thread.

  A signal that the parent set to be ignored (`nohup`) stays ignored.

  again: whether the same command resumes the work; called on a signal.
  """
  reader, writer = os.pipe()
  os.set_blocking(writer, False)
  signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
  for number in CODES:
    if signal.getsignal(number) is not signal.SIG_IGN:
      # Python writes the signal number to the pipe.
      signal.signal(number, lambda *_: None)
  watch = threading.Thread(
    target=_watch, args=(reader, again), name='signals', daemon=True
  )
  watch.start()
  atexit.register(_ignore)  # Registered first, so it is called last.


def _ignore() -> None:
  """Ignores signals while Python shuts down, after all work is done."""
  for number in CODES:
    signal.signal(number, signal.SIG_IGN)


def _watch(reader: int, again: Callable[[], bool]) -> None:
  while True:
    code = CODES.get(os.read(reader, 1)[0])
    if code is None:
      continue
    with _STATE.lock:
      first, _STATE.asked = _STATE.asked is None, _STATE.asked or code
      waiting = list(_STATE.deferring)
    if not first or not waiting:
      try:
        farewell(_STATE.asked, again())
      finally:
        os._exit(_STATE.asked)
    for notify in filter(None, waiting):
      notify()


def requested() -> Exit | None:
  """The exit code of the signal that came, if one did."""
  return _STATE.asked


def check() -> None:
  """Raises Stopped if a signal came; call where stopping is safe."""
  if _STATE.asked is not None:
    raise Stopped(_STATE.asked)


@contextlib.contextmanager
def deferred(notify: Callable[[], None] | None = None) -> Iterator[None]:
  """A context that defers a first signal until the end of the block.

  notify: called by another thread when the signal comes.

  Raises:
    Stopped: a signal came, and the block did not call `check` afterwards.
  """
  with _STATE.lock:
    _STATE.deferring.append(notify)
  try:
    yield
  finally:
    with _STATE.lock:
      _STATE.deferring.remove(notify)
  check()


def lives(process: int) -> bool:
  """Is a process of this machine alive?"""
  try:
    os.kill(process, 0)
  except (ProcessLookupError, OverflowError):
    return False
  except PermissionError:  # A process of another user.
    pass
  return True
