"""Progress of long work: a bar on a terminal, lines on stderr elsewhere.

Without a terminal, a thread writes a line every minute during work, also while
the main thread is busy in compiled code.

Work consists of one or several passes over units. The rate of a pass excludes
the time before the first report, which is mostly compilation. The remaining
time is the rest of this pass, plus the mean time of a pass for each further
expected pass.

    |--- compilation ---|- a pass -|---|- this pass ....|......|......|
                        ^ first units       ^ now       ^ two expected
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
    total: units of a pass; None is unknown.
    done: units so far, of this pass.
    note: further text beside the counts.
    passes: expected number of passes.
    ended: seconds of each pass that has ended.
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
    self.note, self.passes, self._keep, self._begun = '', 1, keep, done
    self._start = self._last = time.monotonic()
    self.ended: list[float] = []
    # Units and time of the first report of this pass.
    self._first: tuple[int, float] | None = None
    self._bar: Any = None  # tqdm's, which has no types.
    _CLOCK.enter(self)

  def update(self, num: int = 1, note: str = '') -> None:
    """Adds `num` units."""
    self.reach(self.done + num, self.total, note)

  def reach(self, done: int, total: int | None, note: str = '') -> None:
    """Sets done and total; a lower `done` or another `total` starts a pass."""
    now = time.monotonic()
    if self._first and (done < self.done or total != self.total):
      self.ended.append(self._last - self._first[1])
      self._first = done, now
    elif self._first is None and done > self._begun:
      self._first = done, now
    self._last, self.done, self.total = now, done, total
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
        bar_format='{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]',
        unit_scale=self.unit == 'B',
        leave=self._keep,
        dynamic_ncols=True,
      )
    if self.done < self._bar.n:
      self._bar.reset()
    self._bar.total = self.total
    shown = ', '.join([*self._pace(), *[self.note] * bool(self.note)])
    self._bar.set_postfix_str(shown, refresh=False)
    self._bar.update(self.done - self._bar.n)

  def log(self, note: str = '') -> None:
    """Writes a line, unless there is a bar."""
    if not sys.stderr.isatty():
      say(f'{self}, {note}' if note else str(self))

  def __str__(self) -> str:
    parts = []
    if self.total is not None:
      parts.append(f'{self.done:,}/{self.total:,} {self.unit}')
    elif self.done:
      parts.append(f'{self.done:,} {self.unit}')
    parts += self._pace()
    if not parts or not parts[-1].endswith(('/s', 'left')):
      parts.append(f'{_clock(time.monotonic() - self._start)} so far')
    return f'{self.what}: ' + ', '.join(parts + [self.note] * bool(self.note))

  def _pace(self) -> list[str]:
    """The pass, its rate and the remaining time, as far as known."""
    number = len(self.ended) + 1
    texts = []
    if max(self.passes, number) > 1:
      texts.append(f'pass {number} of {max(self.passes, number)}')
    first, since = self._first or (self.done, 0.0)
    new, spent = self.done - first, time.monotonic() - since
    if not new or self.done == self.total:  # No rate yet, or the pass ended.
      return texts
    texts.append(f'{new / max(spent, 1e-9):,.3g}/s')
    if self.total is not None:
      rest = (self.total - self.done) * spent / new
      each = (sum(self.ended) + spent + rest) / number
      left = rest + each * max(self.passes - number, 0)
      texts.append(f'{_clock(left)} left')
    return texts

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
