"""Independent tasks: in this process, in several, or on a Dask cluster.

A task calls a function of a module with plain arguments. It may run on any
machine that sees the same folders under the same paths. A task may also run
twice, even at the same time, because it writes its files by rename. Therefore
neither workers nor the scheduler hold anything that matters: when they are
lost, tasks whose files are missing are submitted again.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import importlib
import multiprocessing
import os
import pathlib
import signal
import socket
import sys
import threading
from collections.abc import (
  Callable,
  Generator,
  Iterable,
  Iterator,
  Mapping,
  Sequence,
)
from concurrent.futures.process import BrokenProcessPool
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.core import inputs, plugins
from wm.options.calls import Workers, check_address
from wm.runtime import exit_codes, files, progress, remote, stopping

_POLL = 1.0  # Seconds between looks for a signal.
_LOSSES = 3  # Losses of all workers in a row, without any task ended.
_RETRIES = 2  # Of a task that fails by other than bad input; Dask's.
_COMES_BACK = 300  # Seconds that a scheduler may take to start again.
_LOST = concurrent.futures.CancelledError, BrokenProcessPool
Path = pathlib.Path


class Task(NamedTuple):
  """A call that can run anywhere, and twice.

  Attributes:
    call: function of a module of wm.
    arguments: its keywords, of plain types.
    done: says, in the process that submits, whether its files are complete.
  """

  call: Callable[..., Any]
  arguments: Mapping[str, Any]
  done: Callable[[], bool] = lambda: False


def run(
  tasks: Sequence[Task], jobs: int = 1, cluster: str | None = None
) -> Generator[tuple[Task, Any]]:
  """Runs tasks; yields each with what it returned, in the order they end.

  Args:
    tasks: independent of each other.
    jobs: processes on this machine; with one, all is done in this process.
    cluster: address of a Dask scheduler, whose workers do it instead.

  Yields:
    (task, result); the result is None where its files were complete before.

  Raises:
    InputError: a task raised it.
    ClusterError: the cluster is unsafe, unreachable or of other code.
    Failed: workers were lost again and again.
    Stopped: a signal came.
  """
  if jobs == 1 and not cluster:
    for task in tasks:
      yield task, None if task.done() else task.call(**task.arguments)
    return
  if cluster and cluster.startswith('tls'):
    _check_shared(tasks, cluster)
  left, losses = dict(enumerate(tasks)), 0
  while left:
    before = len(left)
    try:
      with _executor(jobs, cluster, again=losses > 0) as executor:
        for number, result in _results(executor, left):
          yield left.pop(number), result
    except _LOST as error:
      losses = 1 if len(left) < before else losses + 1
      where = cluster or f'{jobs} processes'
      if losses > _LOSSES:
        raise exit_codes.Failed(
          f'{where}: lost {losses} times without a task done: {error!r}'
        ) from error
      progress.say(f'{where}: lost; {len(left)} tasks are submitted again')


def _check_shared(tasks: Sequence[Task], cluster: str) -> None:
  """Raises ClusterError for folders that other machines do not have."""
  texts = (str(value) for task in tasks for value in task.arguments.values())
  if any(remote.MIRRORS in text for text in texts):
    raise exit_codes.ClusterError(
      f'cluster={cluster}: a folder at a URL is mirrored on this machine '
      'alone; expected folders that all machines share'
    )


def _results(
  executor: concurrent.futures.Executor, tasks: Mapping[int, Task]
) -> Iterator[tuple[int, Any]]:
  """Yields numbers of tasks with their results."""
  done = {number for number, task in tasks.items() if task.done()}
  context = _worker_context()
  futures = {
    executor.submit(_call, tasks[n].call, dict(tasks[n].arguments), context): n
    for n in sorted(tasks.keys() - done)
  }
  yield from ((number, None) for number in done)
  for future in as_completed(futures):
    error, result = future.result()
    if error is not None:
      raise error
    # Dask's workers keep a result as long as its future lives.
    yield futures.pop(future), result


def as_completed(
  futures: Iterable[concurrent.futures.Future],
) -> Iterator[concurrent.futures.Future]:
  """Yields futures as they end; raises Stopped once a signal has come."""
  waiting = set(futures)
  while waiting:
    done, waiting = concurrent.futures.wait(
      waiting, _POLL, concurrent.futures.FIRST_COMPLETED
    )
    stopping.check()
    while done:
      yield done.pop()


def _worker_context() -> WorkerContext:
  return WorkerContext(os.getcwd(), plugins.trust_environment(), code())


class WorkerContext(NamedTuple):
  """The process state that a task needs.

  Attributes:
    folder: where relative paths start.
    environment: variables, those of trust in plug-ins.
    code: hash of the code, see `code`.
  """

  folder: str
  environment: dict[str, str]
  code: str


@functools.cache
def code() -> str:
  """Hash of wm and of the versions of Python and NumPy, at the first call."""
  root = pathlib.Path(__file__).parent.parent
  texts = [path.read_bytes() for path in sorted(root.rglob('*.py'))]
  return files.hash_of([sys.version, np.__version__, *texts])


def _call(
  call: Callable[..., Any], arguments: dict[str, Any], context: WorkerContext
) -> tuple[core.InputError | None, Any]:
  """Runs a task; returns InputErrors, as Dask retries after raised errors."""
  try:
    with _cluster_errors():
      _check_process(context)
    os.environ.update(context.environment)
    os.chdir(context.folder)
    return None, call(**arguments)
  except core.InputError as error:
    return error, None


def _check_process(context: WorkerContext) -> None:
  """Raises InputError if this process cannot run tasks safely."""
  where = f'worker {socket.gethostname()}, process {os.getpid()}'
  if worker := _worker():
    check_address(worker.address)
    if worker.state.nthreads != 1:
      raise core.InputError(
        f'{where} has {worker.state.nthreads} threads; expected one: start it '
        'with --nthreads=1, and more of them with --nworkers'
      )
  if code() != context.code:
    raise core.InputError(
      f'{where} has other code of wm, or another Python or NumPy, than the '
      'process that sends it work; restart the workers from the same files'
    )
  if not os.path.isdir(context.folder):
    raise core.InputError(f'{where} has no folder {context.folder}')


def _worker() -> Any:
  """Dask's worker that runs this task; None elsewhere."""
  distributed = sys.modules.get('distributed')
  with contextlib.suppress(ValueError):
    return distributed and distributed.get_worker()
  return None


def cancelled() -> bool:
  """Is the cluster's task that calls this no longer needed here?

  Its driver was stopped or lost, or another worker runs it.
  """
  if (worker := _worker()) is None:
    return False
  state = worker.state.tasks.get(worker.get_current_task())
  return state is None or state.state == 'cancelled'


@contextlib.contextmanager
def _executor(
  jobs: int, cluster: str | None, again: bool
) -> Iterator[concurrent.futures.Executor]:
  """Local processes or a cluster client; cancels pending tasks at the end."""
  if cluster:
    with _client(cluster, again) as client:
      executor = client.get_executor(pure=False, retries=_RETRIES)
      try:
        yield executor
      finally:
        executor.shutdown(wait=False)
    return
  # JAX has threads, so that a fork of this process may hang.
  spawn = multiprocessing.get_context('spawn')
  pool = concurrent.futures.ProcessPoolExecutor(jobs, spawn, _begin)
  try:
    yield pool
  finally:
    pool.shutdown(cancel_futures=True)


def _begin() -> None:
  """Makes a process ignore Ctrl-C, and end when its parent has ended."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  parent = multiprocessing.parent_process()
  assert parent is not None  # It was started by `_executor`.

  def watch() -> None:
    parent.join()
    os._exit(stopping.Exit.FAILED)

  threading.Thread(target=watch, name='parent', daemon=True).start()


def run_shards(
  title: str,
  call: Callable[..., Any],
  arguments: Mapping[str, Any],
  num: int,
  workers: Workers,
) -> None:
  """Calls `call` for the shards (0, num) to (num - 1, num)."""
  todo = [Task(call, {**arguments, 'shard': (k, num)}) for k in range(num)]
  with progress.Progress(title, num, 'shards') as bar:
    for _ in run(todo, workers.jobs, workers.cluster):
      bar.update()


def num_workers(jobs: int = 1, cluster: str | None = None) -> int:
  """Number of tasks that run at a time, at least 1; raises like `run`."""
  if not cluster:
    return jobs
  with _client(cluster) as client:
    return max(1, len(client.nthreads()))


@contextlib.contextmanager
def _client(cluster: str, again: bool = False) -> Iterator[Any]:
  """A client of a scheduler; again: wait for a lost scheduler to restart.

  Raises:
    ClusterError: as `run` says. Failed: a task ended one worker after another.
  """
  flag, wait = f'--cluster={cluster}', {'timeout': _COMES_BACK} if again else {}
  with (
    _cluster_errors(),
    inputs.reading(flag, 'a scheduler that answers'),
    inputs.extra('cluster', flag),
  ):
    check_address(cluster)
    # By name: the extra may be absent.
    distributed = importlib.import_module('distributed')
    client = distributed.Client(cluster, set_as_default=False, **wait)
  with client:
    about = client.scheduler_info()
    with _cluster_errors():
      for address in (about['address'], *about['workers']):
        check_address(address)
    try:
      yield client
    except distributed.KilledWorker as error:
      raise exit_codes.Failed(f'{flag}: {error}') from error


@contextlib.contextmanager
def _cluster_errors() -> Iterator[None]:
  """Turns InputErrors into ClusterErrors."""
  try:
    yield
  except core.InputError as error:
    raise exit_codes.ClusterError(str(error)) from error
