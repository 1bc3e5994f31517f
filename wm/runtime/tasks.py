"""Independent tasks: in this process, or in several of this machine.

A task calls a function of a module with plain arguments. It may run twice, as
it writes its files by rename. Therefore processes hold nothing that matters:
when one is lost, tasks whose files are missing are submitted again.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import os
import signal
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

from wm.core import plugins
from wm.runtime import exit_codes, progress, stopping

_POLL = 1.0  # Seconds between looks for a signal.
_LOSSES = 3  # Losses of all processes in a row, without any task ended.


class Task(NamedTuple):
  """A call that can run in any process, and twice.

  Attributes:
    call: function of a module of wm.
    arguments: its keywords, of plain types.
    done: says, in the process that submits, whether its files are complete.
  """

  call: Callable[..., Any]
  arguments: Mapping[str, Any]
  done: Callable[[], bool] = lambda: False


def run(tasks: Sequence[Task], jobs: int = 1) -> Generator[tuple[Task, Any]]:
  """Runs tasks; yields each with what it returned, in the order they end.

  Args:
    tasks: independent of each other.
    jobs: processes; with one, all is done in this process.

  Yields:
    (task, result); the result is None where its files were complete before.

  Raises:
    InputError: a task raised it.
    Failed: processes were lost again and again.
    Stopped: a signal came.
  """
  if jobs == 1:
    for task in tasks:
      yield task, None if task.done() else task.call(**task.arguments)
    return
  left, losses = dict(enumerate(tasks)), 0
  while left:
    before = len(left)
    try:
      with _processes(jobs) as pool:
        for number, result in _results(pool, left):
          yield left.pop(number), result
    except BrokenProcessPool as error:
      losses = 1 if len(left) < before else losses + 1
      if losses > _LOSSES:
        raise exit_codes.Failed(
          f'{jobs} processes: lost {losses} times without a task done: '
          f'{error!r}'
        ) from error
      progress.say(
        f'{jobs} processes: lost; {len(left)} tasks are submitted again'
      )


def _results(
  pool: concurrent.futures.Executor, tasks: Mapping[int, Task]
) -> Iterator[tuple[int, Any]]:
  """Yields numbers of tasks with their results."""
  done = {number for number, task in tasks.items() if task.done()}
  futures = {
    pool.submit(tasks[n].call, **tasks[n].arguments): n
    for n in sorted(tasks.keys() - done)
  }
  yield from ((number, None) for number in done)
  for future in as_completed(futures):
    yield futures.pop(future), future.result()


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


@contextlib.contextmanager
def _processes(jobs: int) -> Iterator[concurrent.futures.Executor]:
  """A pool of processes; cancels pending tasks at the end."""
  # JAX has threads, so that a fork of this process may hang.
  spawn = multiprocessing.get_context('spawn')
  trusted = (plugins.trust_environment(),)
  pool = concurrent.futures.ProcessPoolExecutor(jobs, spawn, _begin, trusted)
  try:
    yield pool
  finally:
    pool.shutdown(cancel_futures=True)


def _begin(trusted: dict[str, str]) -> None:
  """Makes a process ignore Ctrl-C, and end when its parent has ended.

  trusted: environment variables of trust in plug-ins.
  """
  os.environ.update(trusted)
  signal.signal(signal.SIGINT, signal.SIG_IGN)
  parent = multiprocessing.parent_process()
  assert parent is not None  # It was started by `_processes`.

  def watch() -> None:
    parent.join()
    os._exit(stopping.Exit.FAILED)

  threading.Thread(target=watch, name='parent', daemon=True).start()


def run_shards(
  title: str, call: Callable[..., Any], arguments: Mapping[str, Any], num: int
) -> None:
  """Calls `call` for the shards (0, num) to (num - 1, num), in processes."""
  todo = [Task(call, {**arguments, 'shard': (k, num)}) for k in range(num)]
  with progress.Progress(title, num, 'shards') as bar:
    for _ in run(todo, num):
      bar.update()
