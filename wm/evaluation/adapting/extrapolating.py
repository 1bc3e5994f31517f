"""What a model's answers at one point say of its answers at another.

Vafa et al. 2025, section 2: with answers m_D of D data sets, the inductive bias
of a pair of points is I(i, j) = -min over h of E[loss(h(m_D(i)), m_D(j))]. For
affine h and squared loss it has a closed form: minus the share of the variance
of m(j) that m(i) leaves, 1 - correlation squared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_ROUNDING = 1e-12


class Pairs(NamedTuple):
  """K pairs of points, each in one of Q bins by what an oracle says of it.

  Attributes:
    first, second: [K] points.
    bin: [K], DEAD for none.
    num: Q.
  """

  first: np.ndarray
  second: np.ndarray
  bin: np.ndarray
  num: int

  def means(self, value: np.ndarray) -> np.ndarray:
    """[Q] of values [K]; NaN in an empty bin."""
    some = self.bin >= 0
    total = np.bincount(self.bin[some], value[some], self.num)
    count = np.bincount(self.bin[some], minlength=self.num)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def affine(
  answers: np.ndarray, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
  """[K] I of pairs for affine h, in variances of the second: -1 to 0.

  answers: [D, M]. It is the same in both directions. An answer that no data
  set changes is known from anything: 0.
  """
  z = answers - answers.mean(0)
  length = np.sqrt((z * z).sum(0))
  still = length <= _ROUNDING * np.maximum(np.abs(answers).max(0), 1)
  z = z / np.where(still, 1, length)
  rho = np.einsum('dk,dk->k', z[:, first], z[:, second])
  known = still[first] | still[second]
  return np.where(known, 0.0, np.minimum(rho * rho, 1) - 1)


def identity(
  answers: np.ndarray, first: np.ndarray, second: np.ndarray
) -> np.ndarray:
  """[K] I for h that changes nothing: minus the mean absolute difference."""
  return -np.abs(answers[:, first] - answers[:, second]).mean(0)


def equal_counts(value: np.ndarray, num: int) -> np.ndarray:
  """[K] bins of as many pairs each, by value, ascending."""
  order = np.argsort(value, kind='stable')
  found = np.empty(len(value), np.int64)
  found[order] = np.arange(len(value)) * num // len(value)
  return found


def equal_widths(value: np.ndarray, num: int) -> np.ndarray:
  """[K] bins of equal width; -1 on an edge, as the published program has it."""
  edges = np.linspace(value.min(), value.max(), num + 1)
  found = np.searchsorted(edges, value, side='left') - 1
  return np.where(np.isin(value, edges), -1, found)


class Calibration(NamedTuple):
  """A model's I against an oracle's, in Q bins by the oracle's.

  Attributes:
    model, oracle: [Q] means; NaN in empty bins.
  """

  model: np.ndarray
  oracle: np.ndarray

  @property
  def error(self) -> float:
    """Mean absolute difference over bins; 0 is perfect."""
    return float(np.nanmean(np.abs(self.model - self.oracle)))

  @property
  def slope(self) -> float:
    """Of the line of least squares of the model's means on the oracle's.

    1 is perfect, 0 a model whose I does not depend on the oracle's; NaN where
    the oracle's does not vary.
    """
    some = np.isfinite(self.model) & np.isfinite(self.oracle)
    x, y = self.oracle[some], self.model[some]
    x = x - x.mean()
    spread = float((x * x).sum())
    return float((x * y).sum()) / spread if spread > _ROUNDING else np.nan

  def numbers(self) -> np.ndarray:
    """Error, slope, the model's means, the oracle's."""
    return np.concatenate([[self.error, self.slope], self.model, self.oracle])


def jackknife(
  calibrate: Callable[[np.ndarray], Calibration], num: int, folds: int
) -> np.ndarray:
  """[F, 2 + 2 Q] pseudo-values of all numbers of a calibration.

  Their mean estimates the number without the bias that goes with 1 / D, and
  their spread says how uncertain it is with data sets (Tukey 1958).

  calibrate: of the data sets [D] bool that are used.
  num: data sets, D.
  folds: F, groups of data sets that are left out at a time.
  """
  folds = min(folds, num)
  fold = np.arange(num) % folds
  every = calibrate(np.ones(num, bool)).numbers()
  without = [calibrate(fold != f).numbers() for f in range(folds)]
  return folds * every - (folds - 1) * np.stack(without)
