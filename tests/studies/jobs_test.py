"""Rows that are trained one or two at a time, or killed, give the same bits."""

import json
import signal
import sys
import threading
import time

import pytest

import wm
from wm.studies import runs as pools
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
  result = {}
  for name in ('plain', 'other'):
    entries = json.loads((out / name / 'scores.json').read_text())
    values = [(e['value'], e['low'], e['high']) for e in entries]
    result[name] = run_log.read(out / name / 'metrics.jsonl'), values
  return result


@pytest.mark.process
def test_jobs_and_kills_change_no_bit(tmp_path, monkeypatch):
  alone = study(tmp_path / 'alone', jobs=1)
  command = pools.command

  def deadly(job) -> list[str]:
    """The first row's process kills itself."""
    if not job[0].folder.endswith('plain'):
      return command(job)
    kill = f'import os; os.kill(os.getpid(), {signal.SIGKILL.value})'
    return [sys.executable, '-c', kill]

  monkeypatch.setattr(pools, 'command', deadly)
  assert study(tmp_path / 'jobs', jobs=2) == alone
  logs = [tmp_path / 'jobs' / row / 'run.log' for row in ('plain', 'other')]
  assert [log.read_text() == '' for log in logs] == [True, False]
  assert not [*tmp_path.rglob('failed.json')]


# Nothing stops or has done the job.
PLAIN = {
  'stopped': lambda seconds: bool(time.sleep(seconds)),
  'done': lambda: False,
  'started': lambda process: None,
  'variables': {},
}

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


@pytest.mark.process
def test_a_process_is_told_once_to_stop(tmp_path):
  ready = tmp_path / 'ready'
  command = [sys.executable, '-c', COUNTING, str(ready)]
  where = str(tmp_path), 'train', False
  more = {**PLAIN, 'stopped': lambda seconds: ready.exists()}
  ended = pools.run_locked(command, *where, **more)
  assert ended == 1


SLEEP = [sys.executable, '-c', 'import time; time.sleep(99)']


@pytest.mark.process
def test_a_process_that_starts_while_others_are_stopped_is_stopped(tmp_path):
  stop = threading.Event()
  more = {'stopped': stop.wait, 'started': lambda process: stop.set()}
  code = pools.run_locked(
    *(SLEEP, str(tmp_path), 'train', False), **{**PLAIN, **more}
  )
  assert code == -signal.SIGTERM
  assert not (tmp_path / 'failed.json').exists()


def test_a_failure_of_another_pool_stands(tmp_path):
  (tmp_path / 'failed.json').write_text('{}')
  where = str(tmp_path), 'train', True
  assert pools.run_locked(['no such program'], *where, **PLAIN) == 1
  assert (tmp_path / 'failed.json').exists()
