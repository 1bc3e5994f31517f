"""Rows divided over processes: the same results to the bit.

In most tests a process is a thread, and a barrier stands for the network.
"""

import errno
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
from wm.runtime import compute, exit_codes

ROOT = pathlib.Path(__file__).parents[2]


def together(monkeypatch, num, work):
  """Results of `work()` in each of `num` processes, and bytes exchanged."""
  local, barrier = threading.local(), threading.Barrier(num, timeout=300)
  messages, results, errors = [None] * num, [None] * num, []

  def exchanged(message):
    messages[local.index] = message
    try:
      barrier.wait()
      everything = np.stack(messages)
      barrier.wait()
    except threading.BrokenBarrierError as error:
      raise exit_codes.Failed('another process has ended') from error
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
  METRICS,
  ids=lambda m: m.name,
)
def test_metrics_have_the_same_bits(monkeypatch, metric):
  alone = metric(_predictor(1), WORLD, 0)

  def work():
    return metric(_predictor(1).across_processes(), WORLD, 0)

  for rows in together(monkeypatch, 3, work):
    for first, other in zip(alone, rows, strict=True):
      np.testing.assert_array_equal(first.value, other.value)
      np.testing.assert_array_equal(first.reason, other.reason)


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
  config = adapting.FineTuneConfig(1e-2)

  def outputs(predictor):
    return predictor.adapt(*asked, config).tobytes()

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
    with scoring._together():
      if compute.process_index() == 0:
        raise failure

  def work():
    with pytest.raises((core.InputError, OSError)) as caught:
      write()
    return str(caught.value)

  def works():
    with scoring._together():
      return 1

  first, *others = together(monkeypatch, 3, work)
  assert first == str(failure)
  assert others == ['process 0 could not write to --out; it says why'] * 2
  assert together(monkeypatch, 2, works) == [1, 1]


def test_messages_of_any_lengths_come_in_order(monkeypatch):
  def work():
    index = compute.process_index()
    return compute.exchanged(bytes([index]) * index * 5000)

  messages = [b'', b'\1' * 5000, b'\2' * 10_000]
  assert together(monkeypatch, 3, work) == [messages] * 3


@pytest.mark.parametrize(
  'error',
  [
    exit_codes.ProcessLost('another of the 2 has ended: it was killed'),
    ValueError('UNKNOWN: Gloo AllGather failed: it was killed'),
    RuntimeError('UNKNOWN: Gloo all-reduce failed: it was killed'),
  ],
)
def test_the_rest_waits_for_no_process_that_is_lost(monkeypatch, capsys, error):
  monkeypatch.setattr(compute, 'num_processes', lambda: 2)
  monkeypatch.setattr(compute, 'process_index', lambda: 1)

  def leave(code):
    raise OSError(errno.EIO, f'left with {code}')

  monkeypatch.setattr(os, '_exit', leave)
  with (
    pytest.raises(OSError, match='left with 1'),
    exit_codes.exit_on_error(),
    compute.noticing_loss(),
  ):
    raise error
  lines = capsys.readouterr().err
  assert lines.startswith('error: another of the 2 ')
  assert 'it was killed' in lines
  assert lines.count('\n') == 1


def test_other_errors_go_on_as_they_are(monkeypatch):
  with pytest.raises(ValueError, match='UNKNOWN'), compute.noticing_loss():
    raise ValueError('UNKNOWN: Gloo of a single process')
  monkeypatch.setattr(compute, 'num_processes', lambda: 2)
  with pytest.raises(ValueError, match='a user'), compute.noticing_loss():
    raise ValueError('another of a user')


DEVICES = {'XLA_FLAGS': '--xla_force_host_platform_device_count=2'}
MODEL = '--model=transformer(layers=1, width=16)', '--checkpoint=none'


def start(binary, num, *flags):
  """So many processes of one program, of two devices each; 0: a plain one."""
  with socket.socket() as free:
    free.bind(('127.0.0.1', 0))
    port = free.getsockname()[1]
  joined = f'--coordinator=127.0.0.1:{port}', f'--num_processes={num}'
  return [
    subprocess.Popen(
      [
        *(sys.executable, f'launch/{binary}.py', *flags),
        *((*joined, f'--process_id={k}') if num else ()),
      ],
      cwd=ROOT,
      env={**os.environ, **(DEVICES if num else {})},
      stderr=subprocess.PIPE,
      text=True,
    )
    for k in range(num or 1)
  ]


def ended(*processes):
  for process in processes:
    _, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize('num', [2, 4])
def test_score_by_flags(tmp_path, num):
  """A result of an earlier run stands."""
  place = "--world=maps(rows=4, columns=4, max_moves=10, traversal='shortest')"

  def score(out, num, *flags):
    flags = place, *MODEL, *flags, f'--out={tmp_path / out}'
    ended(*start('score', num, *flags))

  sample = '--metric=next_token(num=20)'
  every = (
    *(sample, '--metric=compression(trials=20)'),
    *('--metric=distinction(trials=20)', '--metric=probe'),
  )
  score('several', 0, sample)
  score('one', 0, *every)
  score('several', num, *every)
  for name in ('rows.parquet', 'breakdown.json'):
    first, other = ((tmp_path / out / name) for out in ('one', 'several'))
    assert first.read_bytes() == other.read_bytes(), name
  first, other = (
    json.loads((tmp_path / out / 'scores.json').read_text())
    for out in ('one', 'several')
  )
  assert first == other
