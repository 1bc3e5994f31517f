"""Many training runs in processes of their own, and a table that fills.

    OUT/sweep.json, sweep.md    how every run stands, rewritten as runs end
    OUT/runs/NAME/              a run: what `train` writes, and
      sweep.run.json            what it is, so that another is refused
      train.log                 what it printed
      failed.json               how it ended, if it failed
      .lock                     held by the process that trains it

A run holds its lock as long as its process lives, also when the sweep dies:
so a sweep can be started again at once, and several at a time, here or on
other machines over one file system, share the work.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import fcntl
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import IO

from wm import files
from wm.train import grid, standings

_POLL = 1.0  # Seconds between looks at a lock that another process holds.
_RAISED = re.compile(r'[\w.]+(Error|Exception)\b')  # Where a traceback ends.

Command = Callable[[grid.Run, pathlib.Path], list[str]]


class Sweep:
  """The runs of a sweep in a folder.

  Attributes:
    runs: what to do, in this order.
    per: axes for each of whose values there is a winner.
    command: (run, its folder) -> the process that trains it.
    keep: checkpoints are kept of the best so many candidates for each value
      of `per`; 0 is all.
    devices: CUDA_VISIBLE_DEVICES of the jobs, in turn; empty leaves it.
  """

  def __init__(
    self,
    out: pathlib.Path,
    runs: Sequence[grid.Run],
    per: Sequence[str],
    command: Command,
    keep: int = 0,
    devices: Sequence[str] = (),
  ) -> None:
    self.out, self.runs, self.per = out, runs, per
    self.command, self.keep, self.devices = command, keep, devices
    self._stop = threading.Event()
    self._running: dict[str, subprocess.Popen] = {}

  def check(self) -> None:
    """Raises InputError where a folder holds another run of the same name."""
    standings.groups(standings.read(self.out, self.runs), self.per)
    for run in self.runs:
      path = standings.folder(self.out, run)
      if (path / 'sweep.run.json').exists():
        files.claim(path, 'sweep', run.identity, grid.USUAL)

  def work(
    self, jobs: int, tell: Callable[[str], None]
  ) -> list[standings.Standing]:
    """Trains what is not done yet, `jobs` at a time; tells of each that ends.

    Failed runs are tried again; a failure is recorded and stops no other.
    """
    self.check()
    slots: queue.SimpleQueue[int] = queue.SimpleQueue()
    for slot in range(jobs):
      slots.put(slot)
    now = self.table()
    todo = [s.run for s in now if s.status != standings.DONE]
    pool = concurrent.futures.ThreadPoolExecutor(jobs, 'sweep')
    try:
      # Those that another sweep is at come last: it may finish them.
      for wait in (False, True):
        futures = {pool.submit(self._do, r, slots, jobs, wait): r for r in todo}
        todo = []
        for future in concurrent.futures.as_completed(futures):
          run = futures[future]
          if not future.result():
            todo.append(run)
            continue
          now = self.table()
          tell(self._line(run, now))
    finally:
      self._stop.set()
      for process in list(self._running.values()):
        process.send_signal(signal.SIGINT)
      pool.shutdown(wait=True, cancel_futures=True)
    return now

  def table(self) -> list[standings.Standing]:
    """Writes the table, by the folders as they are; gives up checkpoints."""
    now = standings.read(self.out, self.runs, list(self._running))
    standings.write(self.out, now, self.per)
    if self.keep:
      for candidates in standings.groups(now, self.per).values():
        ended = [c for c in candidates if c.ended]
        for candidate in ended[self.keep :]:
          for member in candidate.members:
            place = standings.folder(self.out, member.run)
            shutil.rmtree(place / 'checkpoints', ignore_errors=True)
    return now

  def _line(self, run: grid.Run, now: Sequence[standings.Standing]) -> str:
    ended = sum(s.status in (standings.DONE, standings.FAILED) for s in now)
    one = next(s for s in now if s.run.name == run.name)
    text = one.error if one.error else f'loss {one.loss:.6g}'
    return f'[{ended}/{len(now)}] {run.name}: {one.status}, {text}'

  def _do(
    self,
    run: grid.Run,
    slots: queue.SimpleQueue[int],
    jobs: int,
    wait: bool,
  ) -> bool:
    """Trains a run unless it is done; False where another process is at it."""
    place = standings.folder(self.out, run)
    place.mkdir(parents=True, exist_ok=True)
    with open(place / '.lock', 'w') as lock:
      while not _locked(lock):
        if not wait or self._stop.wait(_POLL):
          return False
      done = (place / 'train.json').exists()
      failed = place / 'failed.json'
      if self._stop.is_set() or done or (wait and failed.exists()):
        return True
      files.claim(place, 'sweep', run.identity, grid.USUAL)
      failed.unlink(missing_ok=True)
      with _taken(slots) as slot:
        self._train(run, place, lock, slot, jobs)
    return True

  def _train(
    self, run: grid.Run, place: pathlib.Path, lock: IO, slot: int, jobs: int
  ) -> None:
    env = dict(os.environ)
    if self.devices:
      env['CUDA_VISIBLE_DEVICES'] = self.devices[slot % len(self.devices)]
    with open(place / 'train.log', 'ab') as log:
      start = log.tell()
      process = subprocess.Popen(
        self.command(run, place),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=env,
        pass_fds=[lock.fileno()],
        start_new_session=True,
      )
      _pin(process.pid, slot, jobs)
      self._running[run.name] = process
      code = process.wait()
      del self._running[run.name]
    if code and not self._stop.is_set():
      error = _error(place / 'train.log', start, code)
      files.write_json(place / 'failed.json', {'code': code, 'error': error})


def _locked(lock: IO) -> bool:
  try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    return False
  return True


@contextlib.contextmanager
def _taken(slots: queue.SimpleQueue[int]) -> Iterator[int]:
  slot = slots.get()
  try:
    yield slot
  finally:
    slots.put(slot)


def _pin(pid: int, slot: int, jobs: int) -> None:
  """Gives each of several jobs an equal share of the processors."""
  if not hasattr(os, 'sched_setaffinity'):
    return
  processors = sorted(os.sched_getaffinity(0))
  if 1 < jobs <= len(processors):
    with contextlib.suppress(ProcessLookupError):
      os.sched_setaffinity(pid, processors[slot::jobs])


def _error(log: pathlib.Path, start: int, code: int) -> str:
  """The line that says what went wrong."""
  text = log.read_bytes()[start:].decode('utf-8', 'replace')
  lines = [line.strip() for line in text.splitlines() if line.strip()]
  if code < 0:
    return f'killed by signal {-code}'
  said = [line for line in lines if line.startswith('error: ')]
  raised = [line for line in lines if _RAISED.match(line)]
  found = said or raised or lines or [f'exit code {code}']
  return found[-1].removeprefix('error: ')
