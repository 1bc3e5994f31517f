"""Symbolic regression: Pareto fronts of formulas, and the choice of a law.

`exhaustive` tries all formulas of the grammar of `symbolic` up to a size. The
published program uses PySR, which needs Julia (Vafa et al. 2025).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from wm.kernels import symbolic

# Errors up to this multiple of the least are good enough, as in PySR's 'best'.
ENOUGH = 1.5
SAME = 1e-6  # Relative difference of two laws that are the same.


class Formula(NamedTuple):
  """A formula that was fitted to a target.

  Attributes:
    text: the formula with its factor.
    size: number of leaves and operators, without the factor.
    error: unexplained share of the target's variance, or of its logarithm's if
      the loss is 'log'.
    values: [n] values on the rows, up to a factor.
  """

  text: str
  size: int
  error: float
  values: np.ndarray


def exhaustive(
  columns: Mapping[str, np.ndarray], targets: np.ndarray, size: int, loss: str
) -> list[list[Formula]]:
  """The Pareto front of each target among all formulas up to a size.

  A front has formulas of ascending size and descending error. See
  `symbolic.search` for arguments and errors.
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
  """The law of small error at which the error drops most.

  The rule is PySR's (Cranmer 2023, model_selection='best'): among laws with at
  most 1.5 times the least error, choose the one with the greatest drop of the
  log error per unit of size.
  """
  least = min(law.error for law in front)
  before = [front[0], *front]

  def fall(k: int) -> float:
    last, law = before[k], front[k]
    if law.size == last.size:
      return 0.0
    # PySR's score: the drop of log error per unit of size.
    return float(np.log(last.error / law.error)) / (law.size - last.size)

  good = [k for k, law in enumerate(front) if law.error <= ENOUGH * least]
  return front[max(good, key=fall)]


def follows(law: Formula, truth: np.ndarray) -> bool:
  """Does a law equal the truth on its rows [n], up to a factor?"""
  # Equal up to a factor where the ratio is constant.
  ratio = law.values / truth
  return bool(np.ptp(ratio) <= SAME * np.abs(ratio).max())
