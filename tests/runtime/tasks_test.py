"""Tasks in processes: killed, and nothing is lost."""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from tests.runtime import task_calls
from wm import core
from wm.runtime import tasks

ROOT = pathlib.Path(__file__).parents[2]
PATIENCE = 120  # Seconds: other work may have the processors.


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
  environment = {**os.environ, 'PYTHONPATH': str(ROOT)}
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
