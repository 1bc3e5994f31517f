"""How a process ends: exit codes, and being told to stop.

A binary calls `install`; nothing happens on import, and without it signals do
what they do in Python. Once it is installed, SIGINT (Ctrl-C), SIGTERM and
SIGUSR1 (a scheduler, as SLURM's --signal=USR1@60) and SIGHUP (a terminal that
is closed) end the process at once: everything here may be killed at any
moment and goes on from what is complete. Work that would be lost is done
within `deferred`, which stops where it chooses; a second signal does not wait
for it.

No exception is raised from a handler. One that is may come up within a
callback, a destructor or a compiled dispatcher, where it is swallowed or
leaves half a state. A thread reads the signals, so it also acts while the
main one compiles.
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
  BAD_INPUT = 2  # Or another process is at it.
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
  """Raised at a safe point by work that was told to stop.

  Attributes:
    code: exit code, by the signal.
  """

  def __init__(self, code: Exit = Exit.STOPPED) -> None:
    super().__init__(code.name.lower())
    self.code = code


class _State:
  """What the thread that reads signals shares with the main thread."""

  def __init__(self) -> None:
    self.lock = threading.Lock()
    self.asked: Exit | None = None
    self.deferring: list[Callable[[], None] | None] = []


_STATE = _State()


_AT_END: list[Callable[[], None]] = []


def at_end(act: Callable[[], None]) -> None:
  """Has `act` called when a signal ends the process.

  It must be brief, and the main thread may be in the midst of anything then.
  """
  _AT_END.append(act)


def farewell(code: Exit, again: bool) -> None:
  """Writes the last line of a process that was told to stop.

  again: whether the same command resumes the work.
  """
  for act in _AT_END:
    try:
      act()
    # Such as a full disk: the others come all the same.
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
  """Makes the signals of CODES end this process; for its main thread to call.

  A signal that the process was started to ignore (`nohup`) stays ignored.

  again: whether the same command resumes the work; asked when a signal comes.
  """
  reader, writer = os.pipe()
  os.set_blocking(writer, False)
  signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
  for number in CODES:
    if signal.getsignal(number) is not signal.SIG_IGN:
      signal.signal(number, lambda *_: None)  # Python notes it in the pipe.
  watch = threading.Thread(
    target=_watch, args=(reader, again), name='signals', daemon=True
  )
  watch.start()
  atexit.register(_ignore)  # Registered first, so it is called last.


def _ignore() -> None:
  """Ignores signals while Python shuts down: all work is done by then."""
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
  """Raises Stopped if a signal came; to be called where it is safe to stop."""
  if _STATE.asked is not None:
    raise Stopped(_STATE.asked)


@contextlib.contextmanager
def deferred(notify: Callable[[], None] | None = None) -> Iterator[None]:
  """A context in which a first signal is noted, and stops at its end.

  notify: called by another thread when the signal comes.

  Raises:
    Stopped: a signal came, and the block did not raise it by `check`.
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
  except PermissionError:  # Somebody else's.
    pass
  return True
