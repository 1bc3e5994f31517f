"""Rows divided over processes: the same results to the bit.

In most tests a process is a thread, and a barrier stands for the network.
"""

import dataclasses
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading

import numpy as np
import pytest

from tests.evaluation.network_test import METRICS, WORLD, _predictor
from wm import core
from wm.core import adapting
from wm.evaluation import scoring
from wm.models.serving import adaptation
from wm.runtime import compute

ROOT = pathlib.Path(__file__).parents[2]


def together(monkeypatch, num, work):
  """Results of `work()` in each of `num` processes, and bytes exchanged."""
  local, barrier = threading.local(), threading.Barrier(num, timeout=300)
  messages, results, errors = [None] * num, [None] * num, []

  def exchanged(message):
    messages[local.index] = message
    barrier.wait()
    everything = np.stack(messages)
    barrier.wait()
    return everything

  def run(index):
    local.index = index
    try:
      results[index] = work()
    except BaseException as error:
      errors.append(error)
      barrier.abort()

  monkeypatch.setattr(compute, 'num_processes', lambda: num)
  monkeypatch.setattr(compute, 'process_index', lambda: local.index)
  monkeypatch.setattr(compute, '_exchanged', exchanged)
  threads = [threading.Thread(target=run, args=(k,)) for k in range(num)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  if errors:
    raise errors[0]
  return results


@pytest.mark.parametrize('total', [0, 1, 2, 3, 7, 4000])
@pytest.mark.parametrize('num', [2, 4])
def test_rows_are_gathered_in_order(monkeypatch, num, total):
  rng = np.random.default_rng(0)
  arrays = (
    rng.normal(size=(total, 3)),
    rng.integers(-(2**62), 2**62, (total,)),
    rng.random((total, 2, 2)) < 0.5,
    np.zeros((total, 0), np.float32),
  )

  def work():
    own = compute.own_rows(total)
    return [compute.gathered(x[own].copy(), total) for x in arrays], own

  results = together(monkeypatch, num, work)
  for gathered, _ in results:
    for array, whole in zip(arrays, gathered, strict=True):
      assert whole.dtype == array.dtype
      np.testing.assert_array_equal(whole, array)
  counts = [own.stop - own.start for _, own in results]
  # Fewer rows than processes are computed by all.
  assert counts == [total] * num if total < num else sum(counts) == total
  assert max(counts) - min(counts) <= 1


def test_a_single_process_has_all_rows():
  assert compute.num_processes() == 1
  assert compute.process_index() == 0
  assert compute.own_rows(5) == slice(0, 5)


@pytest.mark.parametrize(
  'metric',
  [*METRICS, dataclasses.replace(METRICS[0], loop='device')],
  ids=lambda m: f'{m.name}-{m.loop}',
)
def test_metrics_have_the_same_bits(monkeypatch, metric):
  alone = metric(_predictor(1), WORLD, 0)

  def work():
    return metric(_predictor(1).across_processes(), WORLD, 0)

  for rows in together(monkeypatch, 3, work):
    for one, other in zip(alone, rows, strict=True):
      np.testing.assert_array_equal(one.value, other.value)
      np.testing.assert_array_equal(one.reason, other.reason)


def test_whole_sequences_have_the_same_bits(monkeypatch):
  sequences = WORLD.sample(11, 3, 'train')
  read = sequences.tokens, sequences.lengths
  alone = _predictor(1)

  def work():
    shared = _predictor(1).across_processes()
    return shared.log_probs(*read), shared.untrained(4).hidden(*read, -1)

  for log_probs, hidden in together(monkeypatch, 2, work):
    assert log_probs.tobytes() == alone.log_probs(*read).tobytes()
    expected = alone.untrained(4).hidden(*read, -1)
    assert hidden.tobytes() == expected.tobytes()


@pytest.mark.parametrize('num', [2, 3])
def test_adapting_has_the_same_bits(monkeypatch, num):
  """Chunks are those of a single process, whoever tunes them."""
  rng = np.random.default_rng(0)
  tokens = rng.integers(1, len(WORLD.vocab), (5, 2, 6)).astype(np.int32)
  places = np.full((5, 2, 1), 5, np.int32)
  labels = rng.integers(0, 2, (5, 2, 1, 1))
  tasks = adapting.FewShotTasks(tokens, places, labels)
  queries = adapting.QueryPoints(tokens[:, :1], places[:, :1])
  asked = tasks, queries, adapting.Classes(2), (1, 2), 3
  config = adapting.FineTuneConfig((1e-3, 1e-2), validation=tasks)

  def outputs(predictor):
    adapted = predictor.adapt(*asked, config)
    return adapted.outputs.tobytes(), adapted.rates.tobytes()

  monkeypatch.setattr(adaptation, 'chunk_size', lambda *_: 2)
  expected = outputs(_predictor(1))

  def work():
    return outputs(_predictor(1).across_processes())

  assert together(monkeypatch, num, work) == [expected] * num


@pytest.mark.parametrize(
  'failure', [core.InputError('in use'), OSError(28, 'full')]
)
def test_all_end_where_process_0_cannot_write(monkeypatch, failure):
  """None waits for one that has gone; the others point at process 0."""

  def write():
    if compute.process_index() == 0:
      raise failure
    return 'memory'

  def work():
    with pytest.raises((core.InputError, OSError)) as caught:
      scoring._if_process_0_can(write)
    return str(caught.value)

  first, *others = together(monkeypatch, 3, work)
  assert first == str(failure)
  assert others == ['process 0 could not write to --out; it says why'] * 2
  assert together(
    monkeypatch, 2, lambda: scoring._if_process_0_can(lambda: 1)
  ) == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize('num', [2, 4])
def test_score_by_flags(tmp_path, num):
  """Whole processes, of two devices each; a result of an earlier run stands."""
  place = "--world=maps(rows=4, columns=4, max_moves=10, traversal='shortest')"
  model = '--model=transformer(layers=1, width=16)', '--checkpoint=none'
  with socket.socket() as free:
    free.bind(('127.0.0.1', 0))
    port = free.getsockname()[1]
  devices = {'XLA_FLAGS': '--xla_force_host_platform_device_count=2'}

  def start(out, *flags, **environment):
    command = [sys.executable, 'launch/score.py', place, *model, *flags]
    return subprocess.Popen(
      [*command, f'--out={tmp_path / out}'],
      cwd=ROOT,
      env={**os.environ, **environment},
      stderr=subprocess.PIPE,
      text=True,
    )

  def ended(process):
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors[-2000:]

  some = '--metric=next_token(num=20)'
  every = (
    *(some, "--metric=compression(trials=20, loop='host')"),
    *("--metric=distinction(trials=20, loop='device')", '--metric=probe'),
  )
  ended(start('several', some))
  ended(start('one', *every))
  group = [
    start(
      'several',
      *every,
      f'--coordinator=127.0.0.1:{port}',
      f'--num_processes={num}',
      f'--process_id={k}',
      **devices,
    )
    for k in range(num)
  ]
  for process in group:
    ended(process)
  for name in ('rows.csv', 'breakdown.json'):
    one, other = ((tmp_path / out / name) for out in ('one', 'several'))
    assert one.read_bytes() == other.read_bytes(), name
  one, other = (
    json.loads((tmp_path / out / 'scores.json').read_text())
    for out in ('one', 'several')
  )
  assert one == other
