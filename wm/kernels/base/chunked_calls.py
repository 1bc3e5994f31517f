"""Long compiled work in pieces: Python hears no Ctrl-C inside compiled code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

SECONDS = 0.3  # that one call of compiled code is to take


def slices(num: int, first: int = 64) -> Iterator[slice]:
  """Slices that cover `num` rows in order, each the work of one call.

  For rows that do not depend on each other. A slice follows the time that the
  one before it took, and is to take about SECONDS. There is one at least.

  first: rows of the first slice.
  """
  start, size = 0, first
  while True:
    began = time.monotonic()
    yield slice(start, min(start + size, num))
    spent, start = time.monotonic() - began, start + size
    if start >= num:
      return
    # At most four times as many rows as before; the first call may have
    # compiled, and a clock may stand still.
    share = SECONDS / max(spent, SECONDS / 4, 1e-9)
    size = max(int(size * share), 1)


def run(call: Callable[[slice], Any], num: int, first: int = 64) -> Any:
  """The array or tuple of arrays that `call` gives of all `num` rows."""
  parts = [call(rows) for rows in slices(num, first)]
  if len(parts) == 1:
    return parts[0]
  if isinstance(parts[0], np.ndarray):
    return np.concatenate(parts)
  return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def run_rows(
  call: Callable[..., Any], arrays: tuple[np.ndarray, ...], *rest: Any
) -> Any:
  """call(*arrays, *rest), where row n of a result is of row n of the arrays."""
  return run(
    lambda rows: call(*(array[rows] for array in arrays), *rest), len(arrays[0])
  )
