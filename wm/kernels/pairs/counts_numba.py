"""Agreeing pairs, compiled: see `wm.kernels.pairs.counts`."""

from __future__ import annotations

import numpy as np

from wm.kernels.base.jit import njit


@njit
def agreements(
  answers: np.ndarray, state: np.ndarray, legal: np.ndarray, classes: int
) -> np.ndarray:
  """[D, 3] int64 agreeing pairs within states, within legal sets, of all.

  answers: [D, n] uint8; state: [n] int32, dense; legal: [S] int32, dense, of
  each state; classes: above all answers.
  """
  num, points = answers.shape
  sets = 0
  for s in range(len(legal)):
    sets = max(sets, legal[s] + 1)
  found = np.zeros((num, 3), np.int64)
  by_state = np.zeros((len(legal), classes), np.int32)
  by_set = np.zeros((sets, classes), np.int64)
  for d in range(num):
    by_state[:] = 0
    by_set[:] = 0
    for k in range(points):
      by_state[state[k], answers[d, k]] += 1
    for s in range(len(legal)):
      for c in range(classes):
        n = np.int64(by_state[s, c])
        found[d, 0] += n * (n - 1) // 2
        by_set[legal[s], c] += n
    for c in range(classes):
      total = np.int64(0)
      for q in range(sets):
        n = by_set[q, c]
        found[d, 1] += n * (n - 1) // 2
        total += n
      found[d, 2] += total * (total - 1) // 2
  return found
