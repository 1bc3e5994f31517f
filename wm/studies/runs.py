"""Runs: a row at a place of its grid, sampled for, trained, scored and mapped.

A `Run` says what is done in one folder. `study`, `sweep` and `miniature` list
runs, and a `JobPool` does them in processes, several at a time:

    FOLDER/run.log        what its processes printed
    FOLDER/failed.json    how the last one ended, if it failed
    FOLDER/run.json       what its scores depended on, once it was scored
    FOLDER/.lock          held by the process that works on it

A process inherits the lock and holds it as long as it lives, even when what
started it dies. So the same runs can be started again at once, and several
pools, here or on other machines over one file system, share the work. On a
cluster each process is a task (`wm.runtime.tasks`), and the worker that starts
it takes the lock. What such a process runs is in `worker`.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import IO, Any

import wm
from wm import core
from wm.core import plugins, registry
from wm.data import exposure
from wm.data import store as stores
from wm.library import calls
from wm.library.calls import Log
from wm.options.calls import Stages
from wm.options.training import Training
from wm.recon.routes import has_streets
from wm.runtime import (
  compute,
  files,
  progress,
  provenance,
  stopping,
  tasks,
)
from wm.studies.rows import Row, spec_of

FAILED = 'failed.json'  # How a process of the run ended, if it failed.
DONE = 'run.json'  # What its scores depended on.
# Besides worlds, models and metrics.
_CODE = 'wm.evaluation.scoring', 'wm.training.checkpoints'
_READING = threading.Lock()  # Runs are asked in threads.
TRAIN, SCORE = 'train', 'score'
# Names of models that generate routes untrained; language models would be asked
# for each token.
_MAPPED = 'uniform', 'bayes'
LOCK = '.lock'  # A file of a run's folder.
LOG = 'run.log'
# Seconds between looks at a lock that another process holds, and at a process.
_POLL, _TICK = 1.0, 0.05
# Exit codes of a process that was stopped by a signal and can be started again.
_TOLD = (*stopping.CODES.values(), *(-number for number in stopping.CODES))
_RAISED = re.compile(r'[\w.]+(Error|Exception)\b')  # Last line of a traceback.


@dataclasses.dataclass(frozen=True)
class Run:
  """What is done in one folder.

  Attributes:
    row: objects or specs.
    stages: options of all stages, with the row's settings.
    metrics: objects or specs; without any the row is only trained.
    folder: of the run.
    shared: folder of its sampled data, which may be that of several runs.
    mapped: are routes sampled, and the map reconstructed that they imply?
  """

  row: Row
  stages: Stages
  metrics: Sequence[core.Metric | str]
  folder: str
  shared: str
  mapped: bool = False

  @property
  def name(self) -> str:
    """In lines of the log."""
    return self.row.name

  @property
  def stage(self) -> str:
    """What it ends with."""
    return SCORE if self.metrics else TRAIN

  @property
  def specs(self) -> list[str]:
    """Of its metrics."""
    return [*map(spec_of, self.metrics)]

  def order(self) -> dict[str, Any]:
    """JSON values that another process makes the same run of."""
    run = dataclasses.replace(self, row=self.row.specs(), metrics=self.specs)
    return dataclasses.asdict(run)

  @classmethod
  def of(cls, order: dict[str, Any]) -> Run:
    """The run that `order` has written."""
    parts = {'row': Row(**order['row']), 'stages': Stages.of(order['stages'])}
    return cls(**order | parts)

  @property
  def steps(self) -> int:
    """That it is trained for."""
    trained = self.row.trained_on is not None
    return self.stages.training.steps if trained else 0

  def done(self) -> bool:
    """Is it trained to its last step, and scored by the same as now?

    Raises:
      InputError: the folder holds another training run.
    """
    folder = pathlib.Path(self.folder)
    mark, summary = folder / DONE, folder / 'train.json'
    if self.row.trained_on is not None:
      self._check_trained(folder / 'train.run.json')
      step = (
        files.read_record(summary, {}).get('step') if summary.exists() else -1
      )
      if step not in (0, self.steps):  # 0: counted, not trained.
        return False
    if not self.metrics:
      return True
    return mark.exists() and files.read_json(mark) == self.mark()

  def mark(self) -> str:
    """Hash of what its scores depend on: specs, code, files and training."""
    row, seed = self.row.specs(), self.stages.sampling.seed
    before = os.path.isdir(str(row.model))  # It was trained in a folder.
    summary = pathlib.Path(str(row.model if before else self.folder))
    summary /= 'train.json'
    trained = files.read_record(summary, {}) if summary.exists() else {}
    model = trained.get('model') if before else row.model
    things: list[Any] = [
      registry.resolve('world', row.scored_in),
      *([registry.resolve('model', model)] if model else []),
      *calls.metrics_of(self.metrics),
    ]
    with _READING:
      origin = provenance.Reader().of(*things, *_CODE)
    asked = row.model, row.scored_in, row.title, seed, self.specs
    inputs = sorted(origin.inputs.items())
    return files.hash_of([asked, sorted(trained.items()), inputs])

  def _check_trained(self, path: pathlib.Path) -> None:
    """Raises InputError where the folder was trained by other settings.

    path: what `train` has written, if it was called.
    """
    if not path.exists():
      return
    world = registry.resolve('world', self.row.trained_on)
    model = registry.resolve('model', self.row.model)
    run = self.stages.training.run()
    run |= {'world': registry.spec(world), 'model': registry.spec(model)}
    del run['threads']  # JAX may have started with others.
    before = {**Training.usual(), **files.read_record(path, {})}
    same = {key: before.get(key) for key in run}
    files.same(path.parent, TRAIN, json.loads(json.dumps(run)), same)

  def sample(self, log: Log) -> Training:
    """Samples what it is trained on; the options of its training."""
    training = self.stages.training
    if training.data is not None:
      return training
    assert self.row.trained_on is not None  # Others are not asked.
    log(f'== {self.name}: sample')
    with files.stage_lock(self.shared, 'share', wait=True):
      calls.sample(
        self.row.trained_on, self.shared, self.stages.sampling, log=log
      )
    return dataclasses.replace(training, data=f'{self.shared}/data')

  def distinct(self, log: Log, dry_run: bool = False) -> int | None:
    """Different training sequences, which are sampled first.

    Of a dry run, which samples nothing, None where they are not at hand.
    """
    data = self.stages.training.data or f'{self.shared}/data'
    if not dry_run:
      self.sample(log)
    elif not pathlib.Path(data, TRAIN, 'manifest.json').is_file():
      return None
    return exposure.counts(stores.open(pathlib.Path(data, TRAIN))).distinct

  def do(self, log: Log) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Does all stages, or what is left of them.

    log: gets a title for each stage, and what the stages say.

    Returns:
      The entries of the scores, and the summary of the map, {} without one.
    """
    row, folder, stages = self.row, self.folder, self.stages
    # Before a row that is not trained starts JAX.
    compute.fix_threads(stages.training.threads)
    source: Any = row.model
    if row.trained_on is not None:
      training = self.sample(log)
      log(f'== {self.name}: train')
      source = calls.train(row.trained_on, row.model, folder, training, log=log)
    if not self.metrics:
      return [], {}
    log(f'== {self.name}: score')
    where: dict[str, Any] = {'name': row.title or row.name, 'log': log}
    seed, world = stages.sampling.seed, row.scored_in
    entries = calls.score(
      source, list(self.metrics), world, out=folder, seed=seed, **where
    )
    summary = {}
    if self.mapped:
      log(f'== {self.name}: reconstruct')
      summary = calls.reconstruct(
        *(source, folder, world, stages.reconstruction),
        num=stages.num_samples,
        **where,
      )
    pathlib.Path(folder, FAILED).unlink(missing_ok=True)
    files.write_json(pathlib.Path(folder, DONE), self.mark())
    return entries, summary


def do_all(runs: Sequence[Run], log: Log) -> None:
  """Does runs one after the other.

  Raises:
    InputError: of the first that cannot be done, after the others.
  """
  errors = []
  for run in runs:
    try:
      run.do(log)
    except core.InputError as error:
      errors.append(error)
      log(f'{run.name}: failed: {error}')
  if errors:
    raise errors[0]


def is_mapped(row: Row) -> bool:
  """Are routes sampled from a row, and the map reconstructed that they imply?

  Where the world has streets, from what is trained, and from what stands beside
  it: untrained models, a uniform guesser, and the Bayes predictors.
  """
  assert row.scored_in is not None  # Of checked rows.
  if not has_streets(registry.resolve('world', row.scored_in)):
    return False
  if row.trained_on is not None:
    return True
  if isinstance(row.model, str) and os.path.isdir(row.model):
    return False  # The folder of a run, which may have a map of its own.
  model = registry.resolve('model', row.model)
  return isinstance(model, core.Trainable) or model.name in _MAPPED


Job = Sequence[Run]  # Runs of one process; its folder is the first's.


def command(job: Job) -> list[str]:
  """The process that does a job."""
  order = {'out': job[0].folder, 'runs': [run.order() for run in job]}
  return [sys.executable, '-m', 'wm.studies.worker', json.dumps(order)]


def _is_done(job: Job) -> bool:
  return all(run.done() for run in job)


class JobPool:
  """Does jobs in processes.

  Attributes:
    at_once: processes at a time on this machine; a cluster has its own.
    cluster: whose workers start the processes; None is this machine.
    devices: CUDA_VISIBLE_DEVICES of the processes, in turn; empty leaves it.
    running: folders of the jobs whose processes run here.
    finished: names of the runs that `work` did last, and that ended well.
  """

  def __init__(
    self,
    at_once: int = 1,
    cluster: str | None = None,
    devices: Sequence[str] = (),
  ) -> None:
    """Raises InputError where no cluster answers."""
    self.at_once, self.cluster, self.devices = at_once, cluster, devices
    tasks.num_workers(1, cluster)
    self.running: set[str] = set()
    self.finished: set[str] = set()
    self._stop = threading.Event()

  def work(
    self, jobs: Sequence[Job], line: Callable[[Job], str], log: Log
  ) -> None:
    """Does the jobs that are not done.

    A job that failed before is tried again. A failure is recorded, and stops
    no other job.

    Args:
      jobs: in this order.
      line: what to tell of a job that has ended.
      log: gets such lines, numbered.

    Raises:
      Stopped: this process was told to stop, and has told its jobs; or one of
        its jobs was told, and the others have been done.
    """
    self.finished.clear()
    todo = [job for job in jobs if not _is_done(job)]
    ended, codes = len(jobs) - len(todo), [0]
    shown = progress.Progress('runs', len(jobs), 'runs', done=ended)
    with stopping.deferred(), shown:
      # First pass: skip every job whose lock another pool holds. Second pass:
      # wait for those locks; the other pool has most likely finished these
      # jobs by then, and there is nothing left to do.
      for wait in (False, True):
        waiting, todo = todo, []
        attempts = self._on_cluster if self.cluster else self._in_threads
        with contextlib.closing(attempts(waiting, wait)) as ends:
          for job, code in ends:
            if code is None:
              todo.append(job)
              continue
            if code == 0:
              self.finished |= {run.name for run in job}
            codes.append(
              stopping.CODES.get(-code, code) if code in _TOLD else 0
            )
            ended += 1
            # Not `update`: a bar would be drawn among the lines.
            shown.done = ended
            log(f'[{ended}/{len(jobs)}] {line(job)}')
    if code := max(codes):
      raise stopping.Stopped(stopping.Exit(code))

  def _in_threads(
    self, jobs: Sequence[Job], wait: bool
  ) -> Generator[tuple[Job, int | None]]:
    """Yields jobs and exit codes, None where another process holds a lock."""
    slots: queue.SimpleQueue[int] = queue.SimpleQueue()
    for slot in range(self.at_once):
      slots.put(slot)
    pool = concurrent.futures.ThreadPoolExecutor(self.at_once, 'jobs')
    self._stop.clear()
    try:
      futures = {
        pool.submit(self._attempt, job, slots, wait): job for job in jobs
      }
      for future in tasks.as_completed(futures):
        yield futures[future], future.result()
    finally:
      self._stop.set()
      pool.shutdown(wait=True, cancel_futures=True)

  def _attempt(
    self, job: Job, slots: queue.SimpleQueue[int], wait: bool
  ) -> int | None:
    """Does a job in a process of a slot; its exit code, see `run_locked`."""
    folder, slot = job[0].folder, slots.get()
    variables = {}
    if self.devices:
      variables['CUDA_VISIBLE_DEVICES'] = self.devices[slot % len(self.devices)]

    def started(process: subprocess.Popen) -> None:
      self.running.add(folder)
      _pin(process.pid, slot, self.at_once)

    try:
      return run_locked(
        *(command(job), folder, job[0].stage, wait),
        stopped=self._stop.wait,
        done=lambda: _is_done(job),
        started=started,
        variables=variables,
      )
    finally:
      self.running.discard(folder)
      slots.put(slot)

  def _on_cluster(
    self, jobs: Sequence[Job], wait: bool
  ) -> Generator[tuple[Job, int | None]]:
    """As `_in_threads`; the cluster's workers start the processes."""
    by_folder, todo = {}, []
    for job in jobs:
      folder = job[0].folder
      by_folder[folder] = job
      call = {'command': command(job), 'folder': folder, 'wait': wait}
      call['stage'] = job[0].stage
      done = functools.partial(_is_done, job)
      todo.append(tasks.Task(run_locked, call, done))
    for task, code in tasks.run(todo, cluster=self.cluster):
      job = by_folder[task.arguments['folder']]
      yield job, 0 if code is None and (wait or _is_done(job)) else code


def _is_cancelled(seconds: float) -> bool:
  """Is the cluster's task no longer needed, after so many seconds?"""
  time.sleep(seconds)
  return tasks.cancelled()


def run_locked(
  command: list[str],
  folder: str,
  stage: str,
  wait: bool,
  *,
  stopped: Callable[[float], bool] = _is_cancelled,
  done: Callable[[], bool] = lambda: False,
  started: Callable[[subprocess.Popen], None] = lambda process: None,
  variables: Mapping[str, str] | None = None,
) -> int | None:
  """Runs a job's process; on a cluster, a task of its workers.

  A process that is no longer needed here is told to stop, once: a second signal
  would end it without a checkpoint.

  Args:
    command: of the process; the first word is this machine's Python.
    folder: the job's.
    stage: for the record of a failure.
    wait: for another process that holds the job's lock; a result or a failure
      of that one settles the job.
    stopped: waits so many seconds; is the process no longer needed then?
    done: asked once the lock is held.
    started: gets the process.
    variables: of its environment.

  Returns:
    Exit code; None where another process holds the lock.
  """
  failed, log = pathlib.Path(folder, FAILED), pathlib.Path(folder, LOG)
  with hold_lock(log.parent, wait, stopped) as lock:
    if lock is None:
      return None
    if stopped(0) or done() or (wait and failed.exists()):
      return 0 if done() else 1
    failed.unlink(missing_ok=True)
    command = [sys.executable, *command[1:]]
    with _process(command, log, lock, variables or {}) as (process, start):
      started(process)
      while process.poll() is None and not stopped(_TICK):
        pass
      process.terminate()  # Nothing happens to one that has ended.
      code = process.wait()
    if code and code not in _TOLD and not stopped(0):
      how = {'stage': stage, 'code': code, 'error': _error(log, start, code)}
      files.write_json(failed, how)
  return code


@contextlib.contextmanager
def hold_lock(
  folder: pathlib.Path,
  wait: bool = False,
  stopped: Callable[[float], bool] = lambda seconds: False,
) -> Iterator[IO | None]:
  """The lock of a job's folder; None where another process holds it.

  wait: for that process, until `stopped`.
  """
  folder.mkdir(parents=True, exist_ok=True)
  with open(folder / LOCK, 'w') as lock:
    while not files.take_lock(lock.fileno(), folder):
      if not wait or stopped(_POLL):
        yield None
        return
    yield lock


@contextlib.contextmanager
def _process(
  command: list[str], path: pathlib.Path, lock: IO, variables: Mapping[str, str]
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
  """Pins a process to its share of the processors: every n-th, from `slot`."""
  if not hasattr(os, 'sched_setaffinity'):
    return
  processors = sorted(os.sched_getaffinity(0))
  if 1 < at_once <= len(processors):
    with contextlib.suppress(ProcessLookupError):
      os.sched_setaffinity(pid, processors[slot::at_once])


def _error(log: pathlib.Path, start: int, code: int) -> str:
  """Line of a log, from byte `start`, that says why a process failed."""
  text = log.read_bytes()[start:].decode('utf-8', 'replace')
  lines = [line.strip() for line in text.splitlines() if line.strip()]
  if code < 0:
    return f'killed by signal {-code}'
  reported = [line for line in lines if line.startswith('error: ')]
  raised = [line for line in lines if _RAISED.match(line)]
  reasons = reported or raised or lines or [f'exit code {code}']
  return reasons[-1].removeprefix('error: ')
