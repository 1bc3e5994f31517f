"""Many training runs, each in a process of its own, and a table of them.

Every run is trained and, where that is asked for, scored.

    OUT/sweep.json, sweep.md    how every run stands, rewritten as runs end
    OUT/runs/NAME/              a run: what `train` writes, and
      sweep.run.json            what it is, so that another is refused
      train.log, score.log      what its processes printed
      sweep.scored.json         what it has been scored by
      failed.json               how it ended, if it failed
      .lock                     held by the process that works on it

A run's process inherits the lock and holds it as long as it lives, even when
the sweep dies. So a sweep can be started again at once, and several sweeps,
here or on other machines over one file system, share the work.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import pathlib
import queue
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple

import wm
from wm import core
from wm.runtime import files, locks, progress, stopping
from wm.tasks import grid, standings

_POLL = 1.0  # Seconds between looks at a lock that another process holds.
# Exit codes of a process that was told to stop and can be started again.
_TOLD = (*stopping.CODES.values(), *(-number for number in stopping.CODES))
_RAISED = re.compile(r'[\w.]+(Error|Exception)\b')  # Last line of a traceback.

Command = Callable[[grid.Run, pathlib.Path], list[str]]
Tell = Callable[[str], None]


class _Stage(NamedTuple):
  """One thing that is done to every run: training or scoring.

  Attributes:
    name: 'train' or 'score'.
    command: (run, its folder) -> command line of the process that does it.
    mark: (run) -> content of the file that says it is done, written by the
      sweep; None where the process itself writes that file.
  """

  name: str
  command: Command
  mark: Callable[[grid.Run], Any] | None = None

  def path(self, place: pathlib.Path) -> pathlib.Path:
    """The file that says it is done."""
    return place / ('sweep.scored.json' if self.mark else 'train.json')

  def done(self, run: grid.Run, place: pathlib.Path) -> bool:
    """Whether it has been done, and with the same mark."""
    path = self.path(place)
    if not (self.mark and path.exists()):
      return path.exists()
    return files.read_json(path) == self.mark(run)


class Sweep:
  """The runs of a sweep in a folder.

  Attributes:
    runs: what to do, in this order.
    per: axes; there is a best run for each of their values.
    command: (run, its folder) -> command line of the process that trains it.
    keep: how many of the best candidates, for each value of `per`, keep their
      checkpoints; 0 is all.
    devices: CUDA_VISIBLE_DEVICES of the jobs, in turn; empty leaves it alone.
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
    self._told: list[int] = []  # Exit codes of runs that were told to stop.

  def check(self) -> None:
    """Raises InputError where a run lacks a setting or a folder is taken."""
    for run in self.runs:
      for name in ('world', 'model'):
        if not run.flags[name]:
          raise core.InputError(f'{run.name} has no --{name}')
    standings.groups(standings.read(self.out, self.runs), self.per)
    for run in self.runs:
      path = standings.folder(self.out, run)
      if (path / 'sweep.run.json').exists():
        files.claim(path, 'sweep', run.identity, grid.USUAL)

  def work(self, jobs: int, tell: Tell) -> list[standings.Standing]:
    """Trains the runs that are not done, `jobs` at a time.

    A run that failed before is tried again. A failure is recorded, and stops
    no other run. `tell` gets a line on each run that ends.

    Raises:
      Stopped: this process was told to stop, and has told its runs; or one of
        its runs was told, and the others have been done.
    """
    self.check()
    self._all(_Stage(standings.TRAIN, self.command), self.runs, jobs, tell)
    return self.table()

  def score(
    self,
    command: Command,
    mark: Callable[[grid.Run], Any],
    jobs: int,
    tell: Tell,
  ) -> list[pathlib.Path]:
    """Scores the runs that are trained, have a checkpoint and are not scored.

    Args:
      command: (run, its folder) -> command line of the process that scores it.
      mark: (run) -> JSON value of all that its scores depend on; a run whose
        mark is the one it was scored by is not scored again.
      jobs: runs at a time.
      tell: gets a line on each run that ends.

    Returns:
      Folders of the runs that are scored, in order. Failures and signals are
      as in `work`.
    """
    stage = _Stage(standings.SCORE, command, mark)
    trained = self._with_checkpoints()
    todo = [run for run in self.runs if run.name in trained]
    self._all(stage, todo, jobs, tell)
    places = {run.name: standings.folder(self.out, run) for run in todo}
    return [places[r.name] for r in todo if stage.done(r, places[r.name])]

  def _with_checkpoints(self) -> set[str]:
    ranked = standings.groups(self.table(), self.per).values()
    kept = [group[: self.keep or None] for group in ranked]
    members = [m for group in kept for c in group for m in c.members]
    return {member.run.name for member in members if member.found}

  def _all(
    self, stage: _Stage, runs: Sequence[grid.Run], jobs: int, tell: Tell
  ) -> None:
    slots: queue.SimpleQueue[int] = queue.SimpleQueue()
    for slot in range(jobs):
      slots.put(slot)
    self.table()
    places = {run.name: standings.folder(self.out, run) for run in runs}
    todo = [run for run in runs if not stage.done(run, places[run.name])]
    ended = len(runs) - len(todo)
    pool = concurrent.futures.ThreadPoolExecutor(jobs, 'sweep')
    self._stop.clear()
    shown = progress.Progress(stage.name, len(runs), 'runs', done=ended)
    with stopping.deferred(), shown:
      try:
        # First pass: skip every run whose lock another sweep holds. Second
        # pass: wait for those locks; the other sweep has most likely finished
        # these runs by then, and there is nothing left to do.
        for wait in (False, True):
          futures = {
            pool.submit(self._attempt, stage, run, slots, jobs, wait): run
            for run in todo
          }
          todo = []
          for future in _as_completed(futures):
            run = futures[future]
            if not future.result():
              todo.append(run)
              continue
            ended += 1
            # Not `update`: a bar would be drawn among the lines.
            shown.done = ended
            tell(f'[{ended}/{len(runs)}] {self._line(stage, run)}')
      finally:
        self._stop.set()
        for process in list(self._running.values()):
          # SIGTERM: what `nohup` started ignores SIGINT.
          process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)
    if self._told:
      code = max(stopping.CODES.get(-code, code) for code in self._told)
      raise stopping.Stopped(stopping.Exit(code))

  def table(self) -> list[standings.Standing]:
    """Reads how all runs stand, writes the table, and deletes checkpoints that
    `keep` does not keep."""
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

  def _line(self, stage: _Stage, run: grid.Run) -> str:
    one = next(s for s in self.table() if s.run.name == run.name)
    if one.error:
      return f'{run.name}: {one.status}, {one.error}'
    if not stage.done(run, standings.folder(self.out, run)):
      return f'{run.name}: was told to stop'
    if stage.name == standings.SCORE:
      return f'{run.name}: scored'
    return f'{run.name}: {one.status}, loss {one.loss:.6g}'

  def _attempt(
    self,
    stage: _Stage,
    run: grid.Run,
    slots: queue.SimpleQueue[int],
    jobs: int,
    wait: bool,
  ) -> bool:
    """Runs a stage of a run, unless it is done.

    wait: for another process that holds the run's lock.

    Returns:
      Whether the run has ended; False where another process holds its lock.
    """
    place = standings.folder(self.out, run)
    place.mkdir(parents=True, exist_ok=True)
    with open(place / '.lock', 'w') as lock:
      while not locks.take(lock.fileno(), place):
        if not wait or self._stop.wait(_POLL):
          return False
      # What the holder of the lock did, or how it failed, stands.
      done = stage.done(run, place)
      failed = place / 'failed.json'
      if self._stop.is_set() or done or (wait and failed.exists()):
        return True
      files.claim(place, 'sweep', run.identity, grid.USUAL)
      failed.unlink(missing_ok=True)
      with _taken(slots) as slot:
        code, start = self._call(stage, run, place, lock, slot, jobs)
      if not code and stage.mark:
        files.write_json(stage.path(place), stage.mark(run))
      if code in _TOLD:
        self._told.append(code)
      elif code and not self._stop.is_set():
        error = _error(place / f'{stage.name}.log', start, code)
        how = {'stage': stage.name, 'code': code, 'error': error}
        files.write_json(failed, how)
    return True

  def _call(
    self,
    stage: _Stage,
    run: grid.Run,
    place: pathlib.Path,
    lock: IO,
    slot: int,
    jobs: int,
  ) -> tuple[int, int]:
    """Runs the process; its exit code, and where its part of the log begins."""
    root = str(pathlib.Path(wm.__file__).resolve().parent.parent)
    paths = [root, *filter(None, [os.environ.get('PYTHONPATH')])]
    env = {**os.environ, 'PYTHONPATH': os.pathsep.join(paths)}
    if self.devices:
      env['CUDA_VISIBLE_DEVICES'] = self.devices[slot % len(self.devices)]
    with open(place / f'{stage.name}.log', 'ab') as log:
      start = log.tell()
      process = subprocess.Popen(
        stage.command(run, place),
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
    return code, start


def _as_completed(
  futures: Iterable[concurrent.futures.Future],
) -> Iterator[concurrent.futures.Future]:
  """Yields futures as they end; raises Stopped once a signal has come."""
  waiting = set(futures)
  while waiting:
    done, waiting = concurrent.futures.wait(
      waiting, _POLL, concurrent.futures.FIRST_COMPLETED
    )
    stopping.check()
    yield from done


@contextlib.contextmanager
def _taken(slots: queue.SimpleQueue[int]) -> Iterator[int]:
  """Takes a free slot, a number below `jobs`, and gives it back."""
  slot = slots.get()
  try:
    yield slot
  finally:
    slots.put(slot)


def _pin(pid: int, slot: int, jobs: int) -> None:
  """Pins a job to its share of the processors: every `jobs`-th, from `slot`."""
  if not hasattr(os, 'sched_setaffinity'):
    return
  processors = sorted(os.sched_getaffinity(0))
  if 1 < jobs <= len(processors):
    with contextlib.suppress(ProcessLookupError):
      os.sched_setaffinity(pid, processors[slot::jobs])


def _error(log: pathlib.Path, start: int, code: int) -> str:
  """The line of a log, from byte `start`, that says why a process failed."""
  text = log.read_bytes()[start:].decode('utf-8', 'replace')
  lines = [line.strip() for line in text.splitlines() if line.strip()]
  if code < 0:
    return f'killed by signal {-code}'
  said = [line for line in lines if line.startswith('error: ')]
  raised = [line for line in lines if _RAISED.match(line)]
  found = said or raised or lines or [f'exit code {code}']
  return found[-1].removeprefix('error: ')
