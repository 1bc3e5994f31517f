"""Formulas of a front, and which of them is taken for the law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wm.kernels import symbolic

# Errors so many times the least one are good enough, as of PySR's 'best'.
ENOUGH = 1.5
SAME = 1e-6  # Relative difference of two laws that are the same.


class Formula(NamedTuple):
  """A formula that was fitted to a target.

  Attributes:
    text: with its factor.
    size: leaves and operators, but for the factor.
    error: share of the target's variance that is left; of its logarithm's where
      the loss is 'log'.
    values: [n] on the rows, up to a factor.
    same: relative difference of two laws that are the same.
  """

  text: str
  size: int
  error: float
  values: np.ndarray
  same: float = SAME


def exhaustive(
  columns: Mapping[str, np.ndarray],
  targets: np.ndarray,
  size: int,
  loss: str,
) -> list[list[Formula]]:
  """The front of each target, of all formulas up to a size.

  A front has formulas of ascending size, each with a smaller error than all
  before. Arguments and errors are those of `symbolic.search`.
  """
  x = np.array([*columns.values()])
  return [
    [
      Formula(str(law), law.size, law.error, symbolic.values(law.code, x))
      for law in front
    ]
    for front in symbolic.search(columns, targets, size, loss)
  ]


def best(front: Sequence[Formula]) -> Formula:
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


def follows(law: Formula, truth: np.ndarray) -> bool:
  """Is a law the true one, up to its factor, on its rows [n]?"""
  ratio = law.values / truth
  return bool(np.ptp(ratio) <= law.same * np.abs(ratio).max())
