"""Disagreements of answers on pairs of points, pair by pair in NumPy."""

from __future__ import annotations

import numpy as np

from wm.evaluation.coin_tasks import PairCounts


def count(
  answers: np.ndarray, states: np.ndarray, legal: np.ndarray
) -> PairCounts:
  """As `counts.count`; n x n arrays for each of the D answers."""
  first, second = np.triu_indices(len(states), 1)
  same = states[first] == states[second]
  alike = ~same & (legal[first] == legal[second])
  kinds = np.stack([same, alike, ~same & ~alike])
  apart = [
    (kinds & (row[first] != row[second])).sum(-1, dtype=np.int64)
    for row in np.asarray(answers)
  ]
  whole = kinds.sum(-1, dtype=np.int64)
  return PairCounts(np.reshape(apart, (-1, 3)).astype(np.int64), whole)
