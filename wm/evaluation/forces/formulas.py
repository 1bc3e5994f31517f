"""Which formula of a front is taken for the law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from wm.kernels import symbolic

# Errors so many times the least one are good enough, as of PySR's 'best'.
ENOUGH = 1.5
SAME = 1e-6  # Relative difference of two laws that are the same.


def best(front: Sequence[symbolic.Law]) -> symbolic.Law:
  """The law at which the error falls most, of those with little error.

  The rule is PySR's (Cranmer 2023, model_selection='best'): of laws with at
  most 1.5 times the least error that with the greatest fall of the error's
  logarithm for each unit of size.
  """
  least = min(law.error for law in front)
  before = [front[0], *front]

  def fall(k: int) -> float:
    last, law = before[k], front[k]
    if law.size == last.size:
      return 0.0
    return float(np.log(last.error / law.error)) / (law.size - last.size)

  good = [k for k, law in enumerate(front) if law.error <= ENOUGH * least]
  return front[max(good, key=fall)]


def follows(
  law: symbolic.Law, given: Mapping[str, np.ndarray], truth: np.ndarray
) -> bool:
  """Is a law the true one, up to its factor, on rows [n]?"""
  found = symbolic.values(law.code, np.array([*given.values()]))
  ratio = found / truth
  return bool(np.ptp(ratio) <= SAME * np.abs(ratio).max())
