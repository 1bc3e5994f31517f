"""Rows that are trained one or two at a time, or killed, give the same bits."""

import json
import pathlib
import queue
import signal
import sys

import pytest

import wm
from wm.runtime import tasks
from wm.studies import jobs as pools
from wm.training import run_log

WORLD = 'maps(rows=3, columns=3, max_moves=12)'
ROWS = [
  f'{name}: transformer(layers=1, width=64, {more}) on {WORLD}'
  for name, more in (('plain', ''), ('other', 'heads=2'))
]


def study(out, **workers) -> dict[str, list]:
  """Metrics of training and values of scores, of each row."""
  wm.study(
    ROWS,
    WORLD,
    'next_token(num=20)',
    out,
    **workers,
    sampling=wm.Sampling(num=300, num_heldout=20),
    training=wm.Training(steps=6, batch=128, eval_every=3, log_every=1),
    num_samples=20,
    baselines=False,
  )
  found = {}
  for name in ('plain', 'other'):
    entries = json.loads((out / name / 'scores.json').read_text())
    values = [(e['value'], e['low'], e['high']) for e in entries]
    found[name] = run_log.read(out / name / 'metrics.jsonl'), values
  return found


def test_jobs_and_kills_change_no_bit(tmp_path, monkeypatch):
  alone = study(tmp_path / 'alone', jobs=1)
  command = pools.command

  def deadly(call, **arguments) -> list[str]:
    """The first row's process kills itself."""
    if not arguments['out'].endswith('plain'):
      return command(call, **arguments)
    kill = f'import os; os.kill(os.getpid(), {signal.SIGKILL.value})'
    return [sys.executable, '-c', kill]

  monkeypatch.setattr(pools, 'command', deadly)
  assert study(tmp_path / 'jobs', jobs=2) == alone
  logs = [tmp_path / 'jobs' / row / 'row.log' for row in ('plain', 'other')]
  assert [log.read_text() == '' for log in logs] == [True, False]
  assert not [*tmp_path.rglob('failed.json')]


# Ends with the number of SIGTERMs that it has got, a second after the first.
COUNTING = """
import pathlib, signal, sys, time
got = []
signal.signal(signal.SIGTERM, lambda *_: got.append(1))
pathlib.Path(sys.argv[1]).touch()
while not got:
  time.sleep(.01)
end = time.monotonic() + 1
while time.monotonic() < end:
  time.sleep(.01)
sys.exit(len(got))
"""


def test_a_process_of_a_cluster_is_told_once_to_stop(tmp_path, monkeypatch):
  ready = tmp_path / 'ready'
  monkeypatch.setattr(tasks, 'cancelled', ready.exists)
  monkeypatch.setattr(pools, '_POLL', 0.02)
  command = ['python', '-c', COUNTING, str(ready)]
  ended = pools.run_locked(command, str(tmp_path / 'train.log'), wait=False)
  assert ended == (1, 'exit code 1')


def sleeping(folder: pathlib.Path, **callbacks) -> pools.Job:
  """A job whose process sleeps; it is not done."""
  callbacks = {
    'command': lambda: [sys.executable, '-c', 'import time; time.sleep(99)'],
    'done': lambda: False,
    'begin': lambda: None,
    **callbacks,
  }
  return pools.Job('row', 'train', folder, **callbacks)


def test_a_process_that_starts_while_others_are_stopped_is_stopped(tmp_path):
  pool, slots = pools.JobPool(), queue.SimpleQueue()
  slots.put(0)
  job = sleeping(tmp_path)
  late = job._replace(command=lambda: pool._stop.set() or job.command())
  assert pool._attempt(late, slots, 1, wait=False)
  assert pool._told == [-signal.SIGTERM]


def test_a_failure_of_another_pool_stands_on_a_cluster(tmp_path, monkeypatch):
  monkeypatch.setattr(tasks, 'num_workers', lambda *_: 1)
  (tmp_path / 'failed.json').write_text('{}')
  job = sleeping(tmp_path, begin=lambda: pytest.fail('it was begun'))
  pool = pools.JobPool(cluster='tcp://127.0.0.1:1')
  assert [*pool._on_cluster([job], 1, wait=True)] == [(job, True)]
  assert (tmp_path / 'failed.json').exists()
