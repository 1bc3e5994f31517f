"""Rows that are trained one or two at a time, or killed, give the same bits."""

import json
import signal
import sys

import wm
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
