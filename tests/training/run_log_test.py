"""metrics.jsonl survives kills; TensorBoard gets the same numbers."""

import errno
import json
import math
import os
import sys
import threading

import numpy as np
import pytest

from tests import tiny
from wm.options.training import Training
from wm.training import loss, run_log


def test_cut_back_to_the_step_gone_on_from(tmp_path):
  first = run_log.Writer(tmp_path, 0)
  for step in (10, 20, 30):
    first.write(step, loss=step / 4)
  first.close()
  with (tmp_path / 'metrics.jsonl').open('a') as file:
    file.write('{"step": 40, "los')
  again = run_log.Writer(tmp_path, 20)
  again.write(25, heldout_loss=1.5)
  again.close()
  rows = run_log.read(tmp_path / 'metrics.jsonl')
  assert [row['step'] for row in rows] == [10, 20, 25]
  assert rows[-1] == {'step': 25, 'heldout_loss': 1.5}


def test_no_file_is_no_rows(tmp_path):
  assert run_log.read(tmp_path / 'metrics.jsonl') == []


def test_every_line_is_strict_json(tmp_path):
  metrics = run_log.Writer(tmp_path, 0)
  metrics.write(1, loss=float('inf'), tokens=3)
  metrics.close()
  line = (tmp_path / 'metrics.jsonl').read_text()
  assert json.loads(line) == {'step': 1, 'tokens': 3}


def test_tensorboard_events_hold_the_rows(tmp_path):
  metrics = run_log.Writer(tmp_path, 0)
  metrics.write(5, loss=0.25)
  metrics.chart(5, tokens_per_s=100.0)
  metrics.close()
  events = list((tmp_path / 'tensorboard').glob('events.out.tfevents.*'))
  assert len(events) == 1
  data = events[0].read_bytes()
  assert b'loss' in data
  assert b'tokens_per_s' in data
  assert 'tokens_per_s' not in (tmp_path / 'metrics.jsonl').read_text()


def test_no_thread_writes_for_tensorboard(tmp_path):
  before, metrics = threading.active_count(), run_log.Writer(tmp_path, 0)
  for step in range(1, 30):
    metrics.write(step, loss=0.5)
  assert threading.active_count() == before
  metrics.close()


def test_the_writer_is_imported_without_pytorch(monkeypatch):
  for name in [*sys.modules]:
    if name.partition('.')[0] in ('tensorboardX', 'torch'):
      monkeypatch.delitem(sys.modules, name)
  assert run_log._tensorboard()[0].EventsWriter
  assert 'torch' not in sys.modules
  monkeypatch.setitem(sys.modules, 'torch', math)
  run_log._tensorboard()
  assert sys.modules['torch'] is math


def test_the_best_is_by_the_loss_after_the_prompt(tmp_path):
  """What a held-out prompt costs says nothing of what follows it."""
  training, world = Training(), tiny.World()
  objective = loss.make(training, world)
  with run_log.RunLog(
    training, tmp_path, run_log.fresh(), str, 0.0, objective
  ) as log:
    #           loss, tokens, after the prompt.
    assert log.evaluated(np.array([9.0, 6, 3.0, 4]))
    assert log.evaluated(np.array([12.0, 6, 2.0, 4]))
    assert not log.evaluated(np.array([8.0, 6, 2.5, 4]))
    found = log.summary()
  assert (found['best_loss'], found['best_loss_moves']) == (2.0, 0.5)


def test_the_clock_counts_each_second_once(monkeypatch):
  now = iter([1.0, 3.0, 4.0, 8.0, 9.0, 12.0, 12.5, 13.0])
  monkeypatch.setattr(run_log.time, 'perf_counter', lambda: next(now))
  clock = run_log.PhaseTimer(0.0)
  with clock.at('evaluation'), clock.at('compiling'):  # At 1, 3, 4 and 8.
    pass
  assert [*clock.waiting(['batch'])] == ['batch']  # 9 and 12, 12.5 and 13.
  counted = {key: x for key, x in clock.seconds.items() if x}
  waited = {'evaluation': 6.0, 'compiling': 1.0, 'data': 3.5}
  assert counted == {'other': 2.5, **waited}


def test_the_line_at_the_end_is_what_was_counted(tmp_path, monkeypatch):
  """100 steps of 64 tokens in 2 s of the host and 6 s of waiting."""
  monkeypatch.setattr(run_log, 'peak_flops', lambda: 4e9)
  monkeypatch.setattr(run_log, 'memory', lambda: 512e6)
  training = Training()
  start = run_log.time.perf_counter()
  with run_log.RunLog(
    training,
    tmp_path,
    run_log.fresh(),
    str,
    start,
    loss.make(training, tiny.World()),
    size=10**6,
  ) as log:
    log.clock.seconds |= {'compiling': 2.0, 'data': 0.5, 'host': 1.5}
    log.clock.seconds['device'] = 6.0
    log.record |= {'step': 100, 'tokens': 6400}
    line = log.time_summary()
  assert '20 % compiling, 5 % waiting for data, 15 % steps, on the host' in line
  assert '60 % steps, waiting for the device' in line
  assert 'a step took 20.0 ms of the host and 60.0 ms of waiting' in line
  # 6 FLOPs for each of a million parameters and 800 tokens a second.
  assert '800 tokens/s, 120 % of 4 GFLOP/s; 512 MB at most' in line


def test_products_of_matrices_are_timed_and_memory_is_measured():
  assert 1e8 < run_log.peak_flops() < 1e15
  assert 1e7 < run_log.memory() < 1e12


def test_a_file_system_without_fsync_keeps_its_curves(tmp_path, monkeypatch):
  def refuse(handle):
    raise OSError(errno.EINVAL, 'no fsync')

  monkeypatch.setattr(os, 'fsync', refuse)
  monkeypatch.setattr(run_log, 'FLUSH', -1.0)
  board = run_log._Board(tmp_path, 0)
  board.write(1, {'loss': 1.0})
  board.close()
  (events,) = tmp_path.iterdir()
  assert b'loss' in events.read_bytes()
  monkeypatch.setattr(run_log.files, 'LACKS', ())
  with pytest.raises(OSError, match='no fsync'):
    run_log._Board(tmp_path / 'other', 0).close()
