"""metrics.jsonl survives kills; TensorBoard gets the same numbers."""

import json

import numpy as np

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
