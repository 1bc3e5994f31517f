"""The search in plain NumPy: every formula on every row, one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from wm.kernels.symbolic import (
  BETTER,
  BINARY,
  EXACT,
  UNARY,
  Law,
  fitted,
  values,
  written,
)

Code = tuple[int, ...]


def formulas(quantities: int, size: int) -> Iterator[list[Code]]:
  """All formulas of sizes 1, 2, ..., size, in order."""
  levels: list[list[Code]] = [[], [(q,) for q in range(quantities)]]
  yield levels[1]
  for n in range(2, size + 1):
    result = [(*code, op) for op in UNARY for code in levels[n - 1]]
    for op in BINARY:
      for a in range(1, (n - 1) // 2 + 1):
        b = n - 1 - a
        for i, left in enumerate(levels[a]):
          for right in levels[b][i if a == b else 0 :]:
            result.append((*left, *right, op))
    levels.append(result)
    yield result


def search(
  columns: Mapping[str, np.ndarray],
  targets: np.ndarray,
  size: int,
  loss: str = 'log',
) -> list[list[Law]]:
  """As `symbolic.search`."""
  x = np.array([*columns.values()], np.float64)
  logs, names = loss == 'log', tuple(columns)
  fronts: list[list[Law]] = [[] for _ in targets]
  for level in formulas(len(x), size):
    for front, y in zip(fronts, targets, strict=True):
      aim = np.log(y) if logs else y
      least = front[-1].error if front else math.inf
      best: Law | None = None
      for code in level:
        error, factor = fitted(values(code, x), aim, logs)
        if error < least * (1 - BETTER) and error < math.inf:
          least = error
          best = Law(code, len(code), error, factor, written(code, names))
      if best is not None:
        front.append(best)
  assert all(law.error >= EXACT for front in fronts for law in front)
  return fronts
