"""Runs jobs: processes, several at a time, each in a folder with a lock.

A list of `Job` comes in; what their processes leave in their folders goes out:

    FOLDER/STAGE.log      what the processes of a stage printed
    FOLDER/failed.json    how the last one ended, if it failed
    FOLDER/.lock          held by the process that works on it

A process inherits the lock and holds it as long as it lives, even when what
started it dies. So the same jobs can be started again at once, and several
pools, here or on other machines over one file system, share the work. On a
cluster each process is a task (`wm.runtime.tasks`), and the worker that starts
it takes the lock. What such a process runs is in `worker`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import IO, Any, NamedTuple

import wm
from wm.core import plugins
from wm.runtime import files, progress, stopping, tasks

try:
  import resource
except ImportError:  # Not a Unix: the memory of a process is not known.
  resource = None  # type: ignore[assignment]

LOCK = '.lock'  # A file of a job's folder.
_NOTE_EVERY = 15.0  # Seconds between notes of a cost: what a kill may lose.
_POLL = 1.0  # Seconds between looks at a lock that another process holds.
# Exit codes of a process that was stopped by a signal and can be started again.
_TOLD = (*stopping.CODES.values(), *(-number for number in stopping.CODES))
_RAISED = re.compile(r'[\w.]+(Error|Exception)\b')  # Last line of a traceback.

Log = Callable[[str], None]


def command(call: str, **arguments: Any) -> list[str]:
  """The process that makes a library call; arguments are JSON values."""
  order = json.dumps({'call': call, **arguments})
  return [sys.executable, '-m', 'wm.studies.worker', order]


class Job(NamedTuple):
  """One process.

  Attributes:
    name: in lines that are told.
    stage: 'train', 'score', ...
    folder: its own.
    command: gives its command line, once it may begin.
    done: whether there is nothing to do.
    begin: called before the process, while the job holds its lock; raises
      InputError where the folder is another job's.
    end: called after a process that ended well.
  """

  name: str
  stage: str
  folder: pathlib.Path
  command: Callable[[], list[str]]
  done: Callable[[], bool]
  begin: Callable[[], None]
  end: Callable[[], None] = lambda: None


class JobPool:
  """Runs jobs.

  Attributes:
    devices: CUDA_VISIBLE_DEVICES of the processes, in turn; empty leaves it.
    cluster: whose workers start the processes; None is this machine.
    finished: names of the jobs whose processes ended well.
  """

  def __init__(
    self, devices: Sequence[str] = (), cluster: str | None = None
  ) -> None:
    """Raises InputError where no cluster answers."""
    self.devices, self.cluster = devices, cluster
    tasks.num_workers(1, cluster)
    self.finished: set[str] = set()
    self._stop = threading.Event()
    self._running: dict[str, subprocess.Popen] = {}
    self._told: list[int] = []  # Exit codes of jobs that were told to stop.

  @property
  def running(self) -> list[str]:
    """Names of the jobs whose processes run here."""
    return list(self._running)

  def work(
    self,
    jobs: Sequence[Job],
    at_once: int,
    line: Callable[[Job], str],
    log: Log,
  ) -> None:
    """Does the jobs that are not done, `at_once` at a time.

    A job that failed before is tried again. A failure is recorded, and stops
    no other job.

    Args:
      jobs: of one stage, in this order.
      at_once: processes at a time on this machine; a cluster has its own.
      line: what to tell of a job that has ended.
      log: gets such lines, numbered.

    Raises:
      Stopped: this process was told to stop, and has told its jobs; or one of
        its jobs was told, and the others have been done.
    """
    todo = [job for job in jobs if not job.done()]
    ended = len(jobs) - len(todo)
    stage = jobs[0].stage if jobs else ''
    shown = progress.Progress(stage, len(jobs), 'runs', done=ended)
    with stopping.deferred(), shown:
      # First pass: skip every job whose lock another pool holds. Second pass:
      # wait for those locks; the other pool has most likely finished these
      # jobs by then, and there is nothing left to do.
      for wait in (False, True):
        waiting, todo = todo, []
        attempts = self._on_cluster if self.cluster else self._in_threads
        with contextlib.closing(attempts(waiting, at_once, wait)) as ends:
          for job, has_ended in ends:
            if not has_ended:
              todo.append(job)
              continue
            ended += 1
            # Not `update`: a bar would be drawn among the lines.
            shown.done = ended
            log(f'[{ended}/{len(jobs)}] {line(job)}')
    if self._told:
      code = max(stopping.CODES.get(-code, code) for code in self._told)
      raise stopping.Stopped(stopping.Exit(code))

  def _in_threads(
    self, jobs: Sequence[Job], at_once: int, wait: bool
  ) -> Generator[tuple[Job, bool]]:
    """Yields jobs and whether they have ended, as `_attempt` says."""
    slots: queue.SimpleQueue[int] = queue.SimpleQueue()
    for slot in range(at_once):
      slots.put(slot)
    pool = concurrent.futures.ThreadPoolExecutor(at_once, 'jobs')
    self._stop.clear()
    try:
      futures = {
        pool.submit(self._attempt, job, slots, at_once, wait): job
        for job in jobs
      }
      for future in tasks.as_completed(futures):
        yield futures[future], future.result()
    finally:
      self._stop.set()
      for process in list(self._running.values()):
        # SIGTERM: what `nohup` started ignores SIGINT.
        process.terminate()
      pool.shutdown(wait=True, cancel_futures=True)

  def _on_cluster(
    self, jobs: Sequence[Job], at_once: int, wait: bool
  ) -> Generator[tuple[Job, bool]]:
    """As `_in_threads`; the cluster's workers start the processes."""
    del at_once
    todo, by_path = [], {}
    for job in jobs:
      failed = job.folder / 'failed.json'
      with hold_lock(job.folder) as lock:
        skipped = lock is None and not wait
        settled = lock is not None and wait and (job.done() or failed.exists())
        if lock is not None and not settled:
          job.begin()
          failed.unlink(missing_ok=True)
      if skipped or settled:
        yield job, settled
        continue
      log = str(job.folder / f'{job.stage}.log')
      by_path[log] = job
      call = {'command': job.command(), 'log': log, 'wait': wait}
      todo.append(tasks.Task(run_locked, call, job.done))
    for task, result in tasks.run(todo, cluster=self.cluster):
      job = by_path[task.arguments['log']]
      if result:
        self._end(job, *result)
      yield job, wait or bool(result) or job.done()

  def _attempt(
    self, job: Job, slots: queue.SimpleQueue[int], at_once: int, wait: bool
  ) -> bool:
    """Does a job, unless it is done.

    wait: for another process that holds the job's lock.

    Returns:
      Whether the job has ended; False where another process holds its lock.
    """
    with hold_lock(job.folder, wait, self._stop.is_set) as lock:
      if lock is None:
        return False
      # A result or a failure of the lock's last holder settles the job.
      failed = job.folder / 'failed.json'
      if self._stop.is_set() or job.done() or (wait and failed.exists()):
        return True
      job.begin()
      failed.unlink(missing_ok=True)
      slot = slots.get()
      try:
        code, error = self._call(job, lock, slot, at_once)
      finally:
        slots.put(slot)
      self._end(job, code, error)
    return True

  def _end(self, job: Job, code: int, error: str) -> None:
    """Notes how a process ended: its exit code, and why it failed."""
    if not code:
      job.end()
      self.finished.add(job.name)
    if code in _TOLD:
      self._told.append(code)
    elif code and not self._stop.is_set():
      how = {'stage': job.stage, 'code': code, 'error': error}
      files.write_json(job.folder / 'failed.json', how)

  def _call(
    self, job: Job, lock: IO, slot: int, at_once: int
  ) -> tuple[int, str]:
    """Runs the process; its exit code, and why it failed."""
    devices = {}
    if self.devices:
      device = self.devices[slot % len(self.devices)]
      devices = {'CUDA_VISIBLE_DEVICES': device}
    path = job.folder / f'{job.stage}.log'
    with _process(job.command(), path, lock, **devices) as (process, start):
      _pin(process.pid, slot, at_once)
      self._running[job.name] = process
      if self._stop.is_set():  # It started while the others were stopped.
        process.terminate()
      code = process.wait()
      del self._running[job.name]
    return code, _error(path, start, code)


def run_locked(
  command: list[str], log: str, wait: bool
) -> tuple[int, str] | None:
  """Runs a job's process on a worker of a cluster; a task of `JobPool`.

  A process whose driver has been stopped, or lost, is told to stop, once: a
  second signal would end it without a checkpoint.

  Args:
    command: of the process; the first word is the worker's own Python.
    log: the job's, in the job's folder.
    wait: for another process that holds the job's lock.

  Returns:
    Exit code, and why it failed; None where another process holds the lock.
  """
  path = pathlib.Path(log)
  with hold_lock(path.parent, wait, tasks.cancelled) as lock:
    if lock is None:
      return None
    command = [sys.executable, *command[1:]]
    with _process(command, path, lock) as (process, start):
      while process.poll() is None and not tasks.cancelled():
        with contextlib.suppress(subprocess.TimeoutExpired):
          process.wait(_POLL)
      process.terminate()  # Nothing happens to one that has ended.
      code = process.wait()
    return code, _error(path, start, code)


@contextlib.contextmanager
def hold_lock(
  folder: pathlib.Path,
  wait: bool = False,
  stopped: Callable[[], bool] = lambda: False,
) -> Iterator[IO | None]:
  """The lock of a job's folder; None where another process holds it.

  wait: for that process, until `stopped`.
  """
  folder.mkdir(parents=True, exist_ok=True)
  with open(folder / LOCK, 'w') as lock:
    while not files.take_lock(lock.fileno(), folder):
      if not wait or stopped():
        yield None
        return
      time.sleep(_POLL)
    yield lock


@contextlib.contextmanager
def _process(
  command: list[str],
  path: pathlib.Path,
  lock: IO,
  **variables: str,
) -> Iterator[tuple[subprocess.Popen, int]]:
  """Starts a process that holds a lock; gives it, and how long its log was."""
  root = str(pathlib.Path(wm.__file__).resolve().parent.parent)
  paths = [root, *filter(None, [os.environ.get('PYTHONPATH')])]
  env = {**os.environ, **plugins.trust_environment(), **variables}
  env['PYTHONPATH'] = os.pathsep.join(paths)
  with open(path, 'ab') as log:
    start = log.tell()
    process = subprocess.Popen(
      command,
      stdin=subprocess.DEVNULL,
      stdout=log,
      stderr=log,
      env=env,
      pass_fds=[lock.fileno()],
      start_new_session=True,
    )
    yield process, start


def _pin(pid: int, slot: int, at_once: int) -> None:
  """Pins a job to its share of the processors: every n-th, from `slot`."""
  if not hasattr(os, 'sched_setaffinity'):
    return
  processors = sorted(os.sched_getaffinity(0))
  if 1 < at_once <= len(processors):
    with contextlib.suppress(ProcessLookupError):
      os.sched_setaffinity(pid, processors[slot::at_once])


def _error(log: pathlib.Path, start: int, code: int) -> str:
  """Line of a log, from byte `start`, that says why a process failed, or ''."""
  if not code:
    return ''
  text = log.read_bytes()[start:].decode('utf-8', 'replace')
  lines = [line.strip() for line in text.splitlines() if line.strip()]
  if code < 0:
    return f'killed by signal {-code}'
  reported = [line for line in lines if line.startswith('error: ')]
  raised = [line for line in lines if _RAISED.match(line)]
  reasons = reported or raised or lines or [f'exit code {code}']
  return reasons[-1].removeprefix('error: ')


class CostMeter:
  """A context that adds what this process spends to a file.

  The file holds `processes`, `cpu_seconds` and `wall_seconds` (sums), and
  `peak_mb` (the most that one of them held, MiB). It is written every
  `_NOTE_EVERY` seconds, and when a signal ends the process.
  """

  def __init__(self, path: str | pathlib.Path) -> None:
    self.path = pathlib.Path(path)
    self._before: dict[str, Any] = {}
    if self.path.exists():
      self._before = files.read_record(self.path, {})
    self._start = time.monotonic()
    self._ended, self._alone = threading.Event(), threading.Lock()

  def totals(self) -> dict[str, Any]:
    """The sums so far."""
    before = self._before
    # Linux counts kibibytes, macOS bytes.
    unit = 2**20 if sys.platform == 'darwin' else 2**10
    usage = resource and resource.getrusage(resource.RUSAGE_SELF)
    peak = usage.ru_maxrss / unit if usage else 0
    wall = time.monotonic() - self._start
    return {
      'processes': before.get('processes', 0) + 1,
      'cpu_seconds': round(before.get('cpu_seconds', 0) + time.process_time()),
      'wall_seconds': round(before.get('wall_seconds', 0) + wall),
      'peak_mb': round(max(before.get('peak_mb', 0), peak)),
    }

  def note(self) -> None:
    """Writes the file."""
    with self._alone:
      files.write_json(self.path, self.totals())

  def _run(self) -> None:
    while not self._ended.wait(_NOTE_EVERY):
      self.note()

  def __enter__(self) -> CostMeter:
    self.note()
    stopping.at_end(self.note)
    threading.Thread(target=self._run, name='cost-meter', daemon=True).start()
    return self

  def __exit__(self, *error: object) -> None:
    self._ended.set()
    self.note()
