"""Messages of several processes, and what happens where one is lost.

A process is a thread here, and a barrier stands for the network.
"""

import errno
import os
import pathlib
import threading

import numpy as np
import pytest

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
