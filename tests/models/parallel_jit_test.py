"""Calls side by side on threads: their order, their faults, and who waits."""

import concurrent.futures
import contextvars
import threading

import pytest

from wm.models.serving import adaptation

WORD = contextvars.ContextVar('word', default='')


@pytest.mark.parametrize('num', [1, 3])
def test_results_come_in_order_and_calls_know_the_context(num):
  side, late = adaptation.ParallelCalls(num), threading.Event()
  WORD.set('given')

  def call(one: int) -> tuple[int, str]:
    if one == 0 and num > 1:
      assert late.wait(30)  # The first ends last of three.
    if one == 2:
      late.set()
    return one, WORD.get()

  result = [*side.results(call, range(7))]
  assert result == [(one, 'given') for one in range(7)]


def test_a_fault_stops_the_others_and_is_told():
  side, begun, ended = adaptation.ParallelCalls(2), threading.Event(), []

  def call(one: int) -> None:
    if one == 0:
      assert begun.wait(30)
      raise KeyError(one)
    begun.set()
    while True:
      try:
        side.check()
      except concurrent.futures.CancelledError:
        ended.append(one)
        raise

  with pytest.raises(KeyError):
    list(side.results(call, range(50)))
  assert 1 in ended
  assert len(ended) <= 2, 'what waits for a thread never begins'


def test_who_asks_for_no_more_results_waits_for_none():
  side = adaptation.ParallelCalls(2)

  def call(one: int) -> int:
    while one:
      side.check()
    return one

  results = side.results(call, range(9))
  assert next(results) == 0
  results.close()
  with pytest.raises(concurrent.futures.CancelledError):
    side.check()
