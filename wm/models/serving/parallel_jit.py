"""Compiled programs side by side on threads, with their results in order.

A program of small products leaves most cores of a CPU idle, and Python does
not wait for it: two programs at a time use two cores.

  thread 0   first | rest . . . . . | first | rest
  thread 1           first | rest . . . . . | first

`first` is what may compile: one at a time, so that no program is compiled by
two threads at once.
"""

from __future__ import annotations

import concurrent.futures
import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import jax

from wm.runtime import threads

Given = TypeVar('Given')
Result = TypeVar('Result')

MOST = 8  # Programs at a time: each has weights of its own.


def max_parallel(device: jax.Device) -> int:
  """Programs that a device is given at a time: one for each thread of a CPU.

  Not for each core: how many there are decides what is put together in a
  program, and so the last bits of what it gives.
  """
  return min(threads.number(), MOST) if device.platform == 'cpu' else 1


class ParallelCalls:
  """Calls at a time.

  Attributes:
    first: held by a call while it may compile.
  """

  def __init__(self, num: int) -> None:
    """num: calls at a time."""
    self.first = threading.Lock()
    self._num, self._stopped = num, threading.Event()

  def check(self) -> None:
    """Raises CancelledError where nobody waits for results any more."""
    if self._stopped.is_set():
      raise concurrent.futures.CancelledError

  def results(
    self, call: Callable[[Given], Result], arguments: Sequence[Given]
  ) -> Iterator[Result]:
    """Yields results in order; an error or an early end stops the others."""
    # No threads: results come one by one, as they are asked for.
    if self._num == 1 or len(arguments) == 1:
      yield from map(call, arguments)
      return
    pool = concurrent.futures.ThreadPoolExecutor(self._num, 'parallel_jit')
    futures = [
      # Threads see the caller's progress and folder of unfinished parts.
      pool.submit(contextvars.copy_context().run, call, argument)
      for argument in arguments
    ]
    try:
      for future in futures:
        yield future.result()
    finally:
      # A call that runs ends at its next `check`; those that wait do not begin.
      self._stopped.set()
      pool.shutdown(cancel_futures=True)
