"""Runs: sample data, train, score and map for one row at one grid point.

A `Run` describes the work in one folder. `study`, `sweep` and `miniature` list
runs, and a `JobPool` executes several at a time in processes:

    FOLDER/run.log        output of the run's processes
    FOLDER/failed.json    reason why the last process failed, if it failed
    FOLDER/run.json       hash of all inputs of the scores, once scored
    FOLDER/.lock          held by the process that executes the run

A process inherits the lock and holds it until the process ends, even if the
parent dies first. So the same runs can be started again at once, and several
pools, on this machine or on others with the same file system, share the work.
`worker` is the program of a process.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import IO, Any

import wm
from wm import core
from wm.core import plugins, registry
from wm.data import exposure
from wm.data import store as stores
from wm.library import calls
from wm.library.calls import Log
from wm.options.calls import Scoring, Stages
from wm.options.training import Training
from wm.recon.routes import has_streets
from wm.runtime import compute, files, progress, provenance, stopping, tasks
from wm.studies.rows import Row, spec_of

FAILED = 'failed.json'  # Reason why a process of the run failed.
DONE = 'run.json'  # Hash of all inputs of the scores.
_READING = threading.Lock()  # Threads call `Run.mark` concurrently.
TRAIN, SCORE = 'train', 'score'
# Untrained models that generate routes for a map. Language models are left out:
# each token would cost a call.
_MAPPED = 'uniform', 'bayes'
LOCK = '.lock'  # File in a run folder.
LOG = 'run.log'
# Polling intervals in seconds: for another process's lock, and for a process.
_POLL, _TICK = 1.0, 0.05
# Exit codes of a process that a signal stopped; the process can be restarted.
_TOLD = (*stopping.CODES.values(), *(-number for number in stopping.CODES))
_RAISED = re.compile(r'[\w.]+(Error|Exception)\b')  # Last line of a traceback.


@dataclasses.dataclass(frozen=True)
class Run:
  """The work in one folder.

  Attributes:
    row: objects or specs.
    stages: options of all stages, with the row's settings.
    metrics: objects or specs; without metrics the row is only trained.
    folder: of the run.
    shared: folder of the sampled data; several runs may share the folder.
    mapped: whether to sample routes and reconstruct the map that they imply.
  """

  row: Row
  stages: Stages
  metrics: Sequence[core.Metric | str]
  folder: str
  shared: str
  mapped: bool = False

  @property
  def name(self) -> str:
    """Name in log lines."""
    return self.row.name

  @property
  def stage(self) -> str:
    """The last stage: SCORE or TRAIN."""
    return SCORE if self.metrics else TRAIN

  @property
  def specs(self) -> list[str]:
    """Specs of the metrics."""
    return [*map(spec_of, self.metrics)]

  def order(self) -> dict[str, Any]:
    """JSON values from which `of` rebuilds the run in another process."""
    run = dataclasses.replace(self, row=self.row.specs(), metrics=self.specs)
    return dataclasses.asdict(run)

  @classmethod
  def of(cls, order: dict[str, Any]) -> Run:
    """Rebuilds the run from the values of `order`."""
    parts = {'row': Row(**order['row']), 'stages': Stages.of(order['stages'])}
    return cls(**order | parts)

  @property
  def steps(self) -> int:
    """Training steps; 0 for an untrained row."""
    trained = self.row.trained_on is not None
    return self.stages.training.steps if trained else 0

  def done(self) -> bool:
    """Is the run trained to its last step and scored with today's inputs?

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
    """Hash of all inputs of the scores: specs, code, files and training."""
    row, seed = self.row.specs(), self.stages.sampling.seed
    before = os.path.isdir(str(row.model))  # The model is a run folder.
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
      origin = provenance.Reader().of(*things)
    asked = row.model, row.scored_in, row.title, seed, self.specs
    inputs = sorted(origin.inputs.items())
    return files.hash_of([asked, sorted(trained.items()), inputs])

  def _check_trained(self, path: pathlib.Path) -> None:
    """Raises InputError if the folder was trained with other settings.

    path: the record that `train` writes; may be absent.
    """
    if not path.exists():
      return
    world = registry.resolve('world', self.row.trained_on)
    model = registry.resolve('model', self.row.model)
    run = self.stages.training.run()
    run |= {'world': registry.spec(world), 'model': registry.spec(model)}
    del run['threads']  # JAX may have started with another number.
    before = {**Training.usual(), **files.read_record(path, {})}
    same = {key: before.get(key) for key in run}
    files.same(path.parent, TRAIN, json.loads(json.dumps(run)), same)

  def sample(self, log: Log) -> Training:
    """Samples the training data; returns the training options with its path."""
    training = self.stages.training
    if training.data is not None:
      return training
    assert self.row.trained_on is not None  # Only trained rows sample.
    log(f'== {self.name}: sample')
    with files.stage_lock(self.shared, 'share', wait=True):
      calls.sample(
        self.row.trained_on, self.shared, self.stages.sampling, log=log
      )
    return dataclasses.replace(training, data=f'{self.shared}/data')

  def distinct(self, log: Log, dry_run: bool = False) -> int | None:
    """Samples the training data; returns the number of distinct sequences.

    A dry run samples nothing; without data on disk a dry run returns None.
    """
    data = self.stages.training.data or f'{self.shared}/data'
    if not dry_run:
      self.sample(log)
    elif not pathlib.Path(data, TRAIN, 'manifest.json').is_file():
      return None
    return exposure.counts(stores.open(pathlib.Path(data, TRAIN))).distinct

  def do(self, log: Log) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Executes all stages, or the remaining ones.

    log: gets a title for each stage, and the messages of the stages.

    Returns:
      The score entries, and the summary of the map ({} without a map).
    """
    row, folder, stages = self.row, self.folder, self.stages
    # Must precede the first JAX array, also in an untrained row.
    compute.fix_threads(stages.training.threads)
    source: Any = row.model
    if row.trained_on is not None:
      training = self.sample(log)
      log(f'== {self.name}: train')
      source = calls.train(row.trained_on, row.model, folder, training, log=log)
    if not self.metrics:
      return [], {}
    log(f'== {self.name}: score')
    name, world = row.title or row.name, row.scored_in
    scoring = Scoring(
      metrics=list(self.metrics),
      world=world,
      seed=stages.sampling.seed,
      name=name,
    )
    entries = calls.entries_of(source, scoring, folder, log=log)
    summary = {}
    if self.mapped:
      log(f'== {self.name}: reconstruct')
      summary = calls.reconstruct(
        *(source, folder, world, stages.reconstruction),
        num=stages.num_samples,
        name=name,
        log=log,
      )
    pathlib.Path(folder, FAILED).unlink(missing_ok=True)
    files.write_json(pathlib.Path(folder, DONE), self.mark())
    return entries, summary


def do_all(runs: Sequence[Run], log: Log) -> None:
  """Executes runs in order.

  Raises:
    InputError: the first error of a run; raised after all other runs.
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
  """Does a row get a map, reconstructed from sampled routes?

  In worlds with streets, trained rows and their baselines do: untrained models,
  a uniform guesser, and the Bayes predictors.
  """
  assert row.scored_in is not None  # Of checked rows.
  if not has_streets(registry.resolve('world', row.scored_in)):
    return False
  if row.trained_on is not None:
    return True
  if isinstance(row.model, str) and os.path.isdir(row.model):
    return False  # A run folder may already have a map.
  model = registry.resolve('model', row.model)
  return isinstance(model, core.Trainable) or model.name in _MAPPED


Job = Sequence[Run]  # Runs of one process; the first run's folder is the job's.


def command(job: Job) -> list[str]:
  """Command line of the process that executes a job."""
  order = {'out': job[0].folder, 'runs': [run.order() for run in job]}
  return [sys.executable, '-m', 'wm.studies.worker', json.dumps(order)]


def _is_done(job: Job) -> bool:
  return all(run.done() for run in job)


class JobPool:
  """Executes jobs in processes.

  Attributes:
    at_once: processes at a time on this machine.
    devices: CUDA_VISIBLE_DEVICES values, assigned to processes in turn; empty
      leaves the variable unchanged.
    running: folders of the jobs whose processes run on this machine.
    finished: names of the runs that succeeded in the last call of `work`.
  """

  def __init__(self, at_once: int = 1, devices: Sequence[str] = ()) -> None:
    self.at_once, self.devices = at_once, devices
    self.running: set[str] = set()
    self.finished: set[str] = set()
    self._stop = threading.Event()

  def work(
    self, jobs: Sequence[Job], line: Callable[[Job], str], log: Log
  ) -> None:
    """Executes the jobs that are not done.

    Retries jobs that failed before. A failure is recorded and does not stop
    other jobs.

    Args:
      jobs: in this order.
      line: returns the log line for a job that has ended.
      log: gets these lines, numbered.

    Raises:
      Stopped: a signal stopped this process, which then stopped its jobs; or a
        signal stopped a single job, and all other jobs have ended.
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
        with contextlib.closing(self._in_threads(waiting, wait)) as ends:
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
            # Not `update`, which would draw a bar between the log lines.
            shown.done = ended
            log(f'[{ended}/{len(jobs)}] {line(job)}')
    if code := max(codes):
      raise stopping.Stopped(stopping.Exit(code))

  def _in_threads(
    self, jobs: Sequence[Job], wait: bool
  ) -> Generator[tuple[Job, int | None]]:
    """Yields (job, exit code); None if another process holds the job's lock."""
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
    """Runs a job's process in a free slot; see `run_locked` for the result."""
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


def run_locked(
  command: list[str],
  folder: str,
  stage: str,
  wait: bool,
  *,
  stopped: Callable[[float], bool],
  done: Callable[[], bool],
  started: Callable[[subprocess.Popen], None],
  variables: Mapping[str, str],
) -> int | None:
  """Runs a job's process under the job's lock.

  Sends one SIGTERM to a process that is no longer needed: a second signal would
  end the process without a checkpoint.

  Args:
    command: of the process.
    folder: of the job.
    stage: for the record of a failure.
    wait: whether to wait for another holder of the lock, and to accept that
      process's result or failure.
    stopped: waits so many seconds; returns whether to stop the process.
    done: whether the job is complete; called under the lock.
    started: gets the process.
    variables: added to the process's environment.

  Returns:
    Exit code; None if another process holds the lock.
  """
  failed, log = pathlib.Path(folder, FAILED), pathlib.Path(folder, LOG)
  with hold_lock(log.parent, wait, stopped) as lock:
    if lock is None:
      return None
    if stopped(0) or done() or (wait and failed.exists()):
      return 0 if done() else 1
    failed.unlink(missing_ok=True)
    with _process(command, log, lock, variables) as (process, start):
      started(process)
      while process.poll() is None and not stopped(_TICK):
        pass
      process.terminate()  # No effect on a process that has ended.
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
  """Yields the lock of a job's folder; None if another process holds the lock.

  wait: whether to wait for that process, until `stopped` returns True.
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
  """Starts a process that holds a lock; yields (process, log size before)."""
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
  """Reason of a process's failure, from its log after byte `start`."""
  text = log.read_bytes()[start:].decode('utf-8', 'replace')
  lines = [line.strip() for line in text.splitlines() if line.strip()]
  if code < 0:
    return f'killed by signal {-code}'
  reported = [line for line in lines if line.startswith('error: ')]
  raised = [line for line in lines if _RAISED.match(line)]
  reasons = reported or raised or lines or [f'exit code {code}']
  return reasons[-1].removeprefix('error: ')
