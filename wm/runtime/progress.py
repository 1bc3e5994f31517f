"""Progress of long work: a bar on a terminal, lines on stderr elsewhere.

Without a terminal, a thread writes a line every minute during work, also while
the main thread is busy in compiled code.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Any

EVERY = 60.0  # Seconds between lines.


class Progress:
  """Context of one piece of work; of nested ones, the innermost is shown.

  Attributes:
    what: name of the work.
    total: units of the work; None is unknown.
    done: units so far.
    note: further text beside the counts.
  """

  def __init__(
    self,
    what: str,
    total: int | None = None,
    unit: str = '',
    *,
    done: int = 0,
    keep: bool = True,
  ) -> None:
    """keep: whether the bar stays on the terminal after the work."""
    self.what, self.total, self.unit, self.done = what, total, unit, done
    self.note, self._keep, self._begun = '', keep, done
    self._start = time.monotonic()
    self._bar: Any = None  # tqdm's, which has no types.
    _CLOCK.enter(self)

  def update(self, num: int = 1, note: str = '') -> None:
    """Adds `num` units."""
    self.reach(self.done + num, self.total, note)

  def reach(self, done: int, total: int | None, note: str = '') -> None:
    """Sets done and total; a lower `done` or another `total` starts anew."""
    if done < self.done or (total != self.total and done):
      self._begun, self._start = 0, time.monotonic()
    self.done, self.total = done, total
    self.note = note or self.note
    if sys.stderr.isatty():
      self._draw()

  def _draw(self) -> None:
    if self._bar is None:
      import tqdm

      self._bar = tqdm.tqdm(
        desc=self.what,
        total=self.total,
        initial=self._begun,
        unit=f' {self.unit}',
        unit_scale=self.unit == 'B',
        leave=self._keep,
        dynamic_ncols=True,
      )
    if self.done < self._bar.n:
      self._bar.reset()
    self._bar.total = self.total
    self._bar.set_postfix_str(self.note, refresh=False)
    self._bar.update(self.done - self._bar.n)

  def log(self, note: str = '') -> None:
    """Writes a line, unless there is a bar."""
    if not sys.stderr.isatty():
      say(f'{self}, {note}' if note else str(self))

  def __str__(self) -> str:
    seconds = time.monotonic() - self._start
    texts = [f'{_clock(seconds)} so far']
    if self.total is not None:
      texts.insert(0, f'{self.done:,}/{self.total:,} {self.unit}')
    elif self.done:
      texts.insert(0, f'{self.done:,} {self.unit}')
    new = self.done - self._begun
    if self.total and new > 0:
      left = (self.total - self.done) * seconds / new
      texts.append(f'{_clock(left)} left')
    return f'{self.what}: ' + ', '.join(texts + [self.note] * bool(self.note))

  def close(self) -> None:
    """Ends the work and closes the bar."""
    _CLOCK.leave(self)
    if self._bar is not None:
      self._bar.close()

  def __enter__(self) -> Progress:
    return self

  def __exit__(self, *error: object) -> None:
    self.close()


class _Clock:
  """Logs the innermost work every minute."""

  def __init__(self) -> None:
    self._open: list[Progress] = []
    self._lock = threading.Lock()
    self.ended = threading.Event()

  def enter(self, work: Progress) -> None:
    """Adds work, nested in the current work."""
    with self._lock:
      self._open.append(work)
      if len(self._open) > 1:
        return
      self.ended = threading.Event()
      run = threading.Thread(
        target=self._run, args=(self.ended,), name='progress', daemon=True
      )
      run.start()

  def leave(self, work: Progress) -> None:
    """Removes work."""
    with self._lock:
      if work in self._open:
        self._open.remove(work)
      if not self._open:
        self.ended.set()

  def innermost(self) -> Progress | None:
    """The innermost current work; None without work."""
    with self._lock:
      return self._open[-1] if self._open else None

  def _run(self, ended: threading.Event) -> None:
    while not ended.wait(EVERY):
      if work := self.innermost():
        work.log()


_CLOCK = _Clock()


def report(done: int, total: int, unit: str = '') -> None:
  """Sets the done and total units of the innermost current work, if any.

  For code without a reference to its `Progress`.
  """
  if work := _CLOCK.innermost():
    work.unit = unit or work.unit
    work.reach(done, total)


def say(line: str) -> None:
  """Writes a line to stderr; does nothing where stderr is closed."""
  with contextlib.suppress(OSError, ValueError):
    print(line, file=sys.stderr, flush=True)


def _clock(seconds: float) -> str:
  minutes, second = divmod(round(seconds), 60)
  hours, minute = divmod(minutes, 60)
  return (
    f'{hours}:{minute:02}:{second:02}' if hours else f'{minute}:{second:02}'
  )
