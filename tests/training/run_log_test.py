"""metrics.jsonl survives kills; TensorBoard gets the same numbers."""

import errno
import json
import math
import os
import sys
import threading

import jax
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
    result = log.summary()
  assert (result['best_loss'], result['best_loss_moves']) == (2.0, 0.5)


def test_speed_is_of_tokens_and_of_the_peak(tmp_path, monkeypatch):
  kind = jax.local_devices()[0].device_kind
  monkeypatch.setitem(run_log.PEAKS, kind, 4e9 / jax.device_count())
  training = Training()
  objective = loss.make(training, tiny.World())
  with run_log.RunLog(
    training, tmp_path, run_log.fresh(), str, 0.0, objective, size=10**6
  ) as log:
    log.record |= {'tokens': 6400, 'seconds': 8.0}
    # 6 FLOPs for each of a million parameters and 800 tokens a second.
    assert log._speed() == pytest.approx({'tokens_per_s': 800.0, 'mfu': 1.2})


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
