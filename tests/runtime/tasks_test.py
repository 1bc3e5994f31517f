"""Tasks in processes and on a Dask cluster: killed, and nothing is lost."""

import contextlib
import functools
import os
import pathlib
import signal
import subprocess
import sys
import time
import types

import pytest

from tests import cluster as clusters
from tests.runtime import task_calls
from wm import core
from wm.options.calls import Workers
from wm.runtime import exit_codes, remote, tasks

PATIENCE = 120  # Seconds: other work may have the processors.


def needs_dask() -> types.ModuleType:
  """Dask's configuration; skips by name without the extra."""
  reason = 'the extra cluster is not installed'
  pytest.importorskip('distributed', reason=reason)
  return pytest.importorskip('dask.config', reason=reason)


def writing(place: pathlib.Path, num: int) -> list[tasks.Task]:
  """Tasks that each write a file, which says that it is done."""
  return [
    tasks.Task(
      task_calls.write,
      {'path': str(place / str(k)), 'text': f'text {k}'},
      (place / str(k)).exists,
    )
    for k in range(num)
  ]


def calling(task: tasks.Task, call, **more) -> tasks.Task:
  """The task with another call, which takes more."""
  return task._replace(call=call, arguments={**task.arguments, **more})


def texts(place: pathlib.Path, num: int) -> list[str]:
  return [(place / str(k)).read_text() for k in range(num)]


def alive(process: int) -> bool:
  """Does it run? One that has ended and is not waited for does not."""
  with contextlib.suppress(FileNotFoundError):
    status = pathlib.Path(f'/proc/{process}/stat').read_text()
    return status.rpartition(')')[2].split()[0] != 'Z'
  return False


@pytest.mark.parametrize(
  'address',
  ['tcp://127.0.0.1:8786', 'tcp://[::1]:1', 'tcp://localhost:9', 'tls://h:2'],
)
def test_loopback_and_tls_are_safe(address):
  assert Workers(cluster=address).several


@pytest.mark.parametrize(
  ('address', 'words'),
  [
    ('tcp://10.0.0.7:8786', r'run code; expected tls://10.0.0.7:8786'),
    ('tcp://0.0.0.0:8786', 'expected tls://'),
    ('tcp://localhost.evil.org:8786', 'expected tls://'),
    ('tcp://127.0.0.1', 'expected tcp://127.0.0.1:PORT'),
    ('ucx://127.0.0.1:1', 'expected tcp://127.0.0.1:PORT'),
    ('tcp://127.0.0.1:99999', 'expected tcp://127.0.0.1:PORT'),
    ('tcp://[::1:5', 'expected tcp://127.0.0.1:PORT'),
    ('', 'expected tcp://127.0.0.1:PORT'),
  ],
)
def test_what_others_could_join_is_refused_in_a_line(address, words):
  with pytest.raises(core.InputError, match=words) as error:
    Workers(cluster=address)
  assert '\n' not in str(error.value)


def test_mirrors_of_urls_are_on_one_machine(tmp_path):
  todo = writing(tmp_path / remote.MIRRORS, 1)
  with pytest.raises(core.InputError, match='mirrored on this machine'):
    next(tasks.run(todo, cluster='tls://host:1'))


class Worker:
  """What `_check_process` asks a worker."""

  def __init__(self, address: str, nthreads: int) -> None:
    self.address, self.state = address, self
    self.nthreads = nthreads


@pytest.mark.parametrize(
  ('worker', 'changes', 'words'),
  [
    (None, {'code': 'other'}, 'has other code of wm'),
    (None, {'folder': '/no/such/folder'}, 'has no folder /no/such/folder'),
    (('tcp://127.0.0.1:5', 4), {}, '4 threads; expected one'),
    (('tcp://10.1.2.3:5', 1), {}, 'expected tls://'),
  ],
)
def test_a_process_that_could_do_harm_runs_nothing(
  monkeypatch, tmp_path, worker, changes, words
):
  monkeypatch.setattr(tasks, '_worker', lambda: worker and Worker(*worker))
  context = tasks.WorkerContext(str(tmp_path), {}, tasks.code())._replace(
    **changes
  )
  arguments = {'path': str(tmp_path / 'x'), 'text': 'x'}
  error, result = tasks._call(task_calls.write, arguments, context)
  assert isinstance(error, exit_codes.ClusterError)
  assert result is None
  assert words in str(error)
  assert not [*tmp_path.iterdir()]


def test_no_scheduler_is_a_line():
  config = needs_dask()
  with (
    config.set({'distributed.comm.timeouts.connect': '.2s'}),
    pytest.raises(core.InputError, match='cluster=tcp://127') as error,
  ):
    next(tasks.run(writing(pathlib.Path(), 1), cluster='tcp://127.0.0.1:9'))
  assert '\n' not in str(error.value)


@pytest.mark.process
def test_processes_do_what_is_missing_and_survive_a_kill(tmp_path):
  todo = writing(tmp_path, 6)
  (tmp_path / '2').write_text('text 2')
  todo[5] = calling(todo[5], task_calls.falls_once, signal=signal.SIGKILL)
  results = [result for _, result in tasks.run(todo, jobs=2)]
  assert texts(tmp_path, 6) == [f'text {k}' for k in range(6)]
  assert len(results) == 6
  assert not (tmp_path / '2.calls').exists()  # It was done.
  assert (tmp_path / '5.fell').exists()


@pytest.mark.process
def test_bad_input_ends_it(tmp_path):
  bad = [tasks.Task(task_calls.refuses, {'value': 3})]
  for jobs in (1, 2):
    with pytest.raises(core.InputError, match='value=3: expected another'):
      list(tasks.run(bad, jobs=jobs))


@pytest.mark.process
def test_processes_end_with_the_one_that_started_them(tmp_path):
  text = (
    'from tests.runtime import task_calls; from wm.runtime import tasks\n'
    "if __name__ == '__main__':\n"
    f'  path = {str(tmp_path / "pid")!r}\n'
    "  list(tasks.run([tasks.Task(task_calls.waits, {'path': path})], 2))\n"
  )
  (tmp_path / 'driver.py').write_text(text)
  environment = {**os.environ, 'PYTHONPATH': str(clusters.ROOT)}
  driver = subprocess.Popen(
    [sys.executable, str(tmp_path / 'driver.py')], env=environment
  )
  until(lambda: (tmp_path / 'pid').exists() and driver.poll() is None)
  until(lambda: (tmp_path / 'pid').read_text().isdigit())
  waiting = int((tmp_path / 'pid').read_text())
  driver.kill()
  driver.wait()
  until(lambda: not alive(waiting))


def until(condition) -> None:
  end = time.monotonic() + PATIENCE
  while not condition():
    assert time.monotonic() < end
    time.sleep(0.05)


@pytest.mark.process
def test_a_cluster_loses_workers_and_its_scheduler_and_nothing_else(tmp_path):
  needs_dask()
  place = tmp_path / 'files'
  place.mkdir()
  todo = writing(place, 12)
  todo[0] = calling(todo[0], task_calls.falls_once, signal=signal.SIGKILL)
  todo[1] = calling(todo[1], task_calls.falls_once, signal=signal.SIGSTOP)
  todo[2] = calling(todo[2], task_calls.fails_once)
  with clusters.Cluster(tmp_path) as cluster:
    cluster.work(3)
    run = functools.partial(tasks.run, cluster=cluster.address)
    results = [result for _, result in run(todo)]
    assert texts(place, 12) == [f'text {k}' for k in range(12)]
    assert len(results) == 12
    assert {path.name for path in place.glob('*.f*')} == {
      *('0.fell', '1.fell', '2.failed')
    }
    stopped = int((place / '1.fell').read_text())
    assert stopped in [worker.pid for worker in cluster.workers]
    again = tmp_path / 'again'
    again.mkdir()
    more = run(writing(again, 8))
    next(more)
    cluster.stop()
    cluster.restart()
    cluster.work(1)
    assert len([*more]) == 7
    assert texts(again, 8) == [f'text {k}' for k in range(8)]
