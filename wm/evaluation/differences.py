"""Differences between two models: intervals, tests, and correction for many.

A difference that is not shown is told apart from one that is shown to be
absent: `beyond` asks for the first, `absent` (two one-sided tests, Schuirmann
1987, Journal of Pharmacokinetics 15) for the second.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from wm import core
from wm.evaluation import statistics
from wm.evaluation.statistics import LEVEL

# Fewer clusters than this have no interval of their difference.
FEWEST = 5
# Few clusters that differ say little of the variance, and yet not nothing:
# all others are known to be alike. Chosen by simulation.
_LEAST_DEGREES = 2.0
_ROUNDING = 1e-9


class Difference(NamedTuple):
  """The first's value less the second's.

  Attributes:
    value: the difference; None where nothing was measured in both.
    low, high: 95 % interval; None where clusters are too few for one.
    p: two-sided, of no difference; None as the interval.
    n: trials (of seeds: seeds of both).
    clusters: of trials that depend on each other (of seeds: the fewer seeds).
    error: standard error; None as the interval.
    degrees: of freedom of the error.
  """

  value: float | None
  low: float | None
  high: float | None
  p: float | None
  n: int
  clusters: int
  error: float | None = None
  degrees: float | None = None


def _upper(t: float, degrees: float) -> float:
  """Share of Student's t distribution above t."""
  from scipy import special  # Heavy; not needed to list metrics.

  return float(special.stdtr(degrees, -t))


def _quantile(degrees: float) -> float:
  from scipy import special

  return float(special.stdtrit(degrees, (1 + LEVEL) / 2))


def _tested(
  difference: Difference, error: float, degrees: float, most: float = math.inf
) -> Difference:
  """By Student's t; error above 0, no difference is greater than most."""
  value = difference.value or 0.0
  half = _quantile(degrees) * error
  return difference._replace(
    low=max(value - half, -most),
    high=min(value + half, most),
    p=2 * _upper(abs(value) / error, degrees),
    error=error,
    degrees=degrees,
  )


class Mean(NamedTuple):
  """The mean of a quantity over training seeds.

  Attributes:
    value: the mean.
    variance: of the mean; None where nothing is known of it.
    degrees: of freedom of the variance.
    seeds: how many; 0 is a number without error.
    size: greatest magnitude of a seed's value, to tell rounding from error.
  """

  value: float
  variance: float | None
  degrees: float
  seeds: int
  size: float


def variance(
  value: float, low: float | None, high: float | None, clusters: int
) -> float | None:
  """Of a value by its trials, from its 95 % interval; None without one.

  The interval is taken for one of Student's t over clusters, by its longer
  side: at a bound, the other has no length.
  """
  if low is None or high is None:
    return None
  half = max(value - low, high - value)
  return (half / _quantile(max(clusters - 1, 1))) ** 2


def number(value: float) -> Mean:
  """A number that is known exactly, to compare a mean with."""
  return Mean(value, 0.0, math.inf, 0, abs(value))


def mean(
  values: Sequence[float],
  within: Sequence[float] = (),
  trial_degrees: float | None = None,
) -> Mean:
  """The mean over seeds.

  Args:
    values: each seed's value, one or more.
    within: variances of each seed's value by its trials. Few seeds may agree
      by chance: the variance between seeds is taken to be no less than these,
      so a mean is no surer than its trials.
    trial_degrees: of freedom of `within`, for a quantity that does not depend
      on a training seed: one seed then has the variance of its trials. None
      leaves one seed without a variance.
  """
  side = np.asarray(values, np.float64)
  num = len(side)
  floor = float(np.mean(within)) if len(within) else 0.0
  size = float(np.abs(side).max())
  if num > 1:
    between = max(float(side.var(ddof=1)), floor)
    return Mean(float(side.mean()), between / num, num - 1, num, size)
  if trial_degrees is None or not len(within):
    return Mean(float(side[0]), None, 0.0, 1, size)
  return Mean(float(side[0]), floor, trial_degrees, 1, size)


def of_means(first: Mean, second: Mean) -> Difference:
  """The difference of two means (Welch 1947, Biometrika 34).

  With `number` as the second it is the one-sample t test.

  Returns:
    Without an interval where the variance of a mean is not known, or where
    seeds agree exactly and nothing is known of their trials.
  """
  counts = [side.seeds for side in (first, second) if side.seeds]
  difference = Difference(
    *(first.value - second.value, None, None, None),
    *(sum(counts), min(counts, default=0)),
  )
  if first.variance is None or second.variance is None:
    return difference
  total = first.variance + second.variance
  # Rounding alone makes equal seeds differ by this.
  if total <= (_ROUNDING * max(first.size, second.size)) ** 2:
    return difference
  degrees = total**2 / (
    first.variance**2 / first.degrees + second.variance**2 / second.degrees
  )
  return _tested(difference, math.sqrt(total), degrees)


def of_seeds(
  first: Sequence[float],
  second: Sequence[float],
  within: tuple[Sequence[float], Sequence[float]] = ((), ()),
) -> Difference:
  """The difference of means over training seeds, see `mean` and `of_means`.

  Args:
    first, second: each seed's value, in any order.
    within: variances of each seed's value by its trials.
  """
  if not (len(first) and len(second)):
    return Difference(None, None, None, None, len(first) + len(second), 0)
  return of_means(mean(first, within[0]), mean(second, within[1]))


def paired(
  first: core.Scores, second: core.Scores, seed: int = 0
) -> Difference:
  """The difference of two models' scores on the same trials.

  Of trials that are measured in both, clustered by group, by weight. Student's
  t with as many degrees of freedom as clusters that make up the error
  (`wm.evaluation.statistics`); where all clusters differ alike, the interval
  allows for those that were not drawn, as `statistics.proportion` does.

  Args:
    first, second: one quantity of two models, rows in the same order.
    seed: not used by an interval that draws nothing.

  Raises:
    InputError: rows are not of the same trials.
  """
  del seed
  if not np.array_equal(first.group, second.group):
    raise core.InputError(
      f'{first.quantity} and {second.quantity} have {len(first.group)} and '
      f'{len(second.group)} rows; expected the same trials in the same groups'
    )
  rows = first.measured & second.measured
  rows &= (first.weight > 0) & (second.weight > 0)
  n = int(rows.sum())
  names, index = np.unique(first.group[rows], return_inverse=True)
  num = len(names)
  if not num:
    return Difference(None, None, None, None, n, num)
  value, errors, weight = _linear(first, second, rows, index)
  difference = Difference(value, None, None, None, n, num)
  most = first.limits[1] - first.limits[0]
  error = math.sqrt(float((errors**2).sum()) * num / (num - 1 or 1))
  # Where all agree, what rounding leaves is no error.
  if error > _ROUNDING * max(abs(value), np.abs(first.value[rows]).max()):
    degrees = float(statistics.degrees(errors[None])[0])
    degrees = min(max(degrees, _LEAST_DEGREES), num - 1)
  else:
    degrees = float(max(num - 1, 1))
    share = statistics.proportion(0.0, 1 / float((weight**2).sum()))[1]
    error = most * float(share) / _quantile(degrees)
  if num < FEWEST or not math.isfinite(error):
    return difference
  return _tested(difference, error, degrees, most)


def _linear(
  first: core.Scores, second: core.Scores, rows: np.ndarray, index: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
  """The difference, each cluster's part [G] in its error, its share of weight.

  A score is a ratio of sums; its error is linear in these to first order, and
  that of a difference of two ratios is the difference of both.
  """
  values, errors, shares = [], [], []
  for scores in first, second:
    weight = scores.weight[rows]
    weights = np.bincount(index, weight)
    totals = np.bincount(index, weight * scores.value[rows])
    mass = weights.sum()
    values.append(float(totals.sum() / mass))
    errors.append((totals - values[-1] * weights) / mass)
    shares.append(weights / mass)
  return values[0] - values[1], errors[0] - errors[1], shares[0]


def beyond(difference: Difference, margin: float, direction: int) -> float:
  """One-sided p of a difference that exceeds a margin.

  Small where the difference is shown to be above `margin` (direction 1), or
  below `-margin` (direction -1); 1 where it has no interval.
  """
  value, error = difference.value, difference.error
  if value is None or error is None or difference.degrees is None:
    return 1.0
  sign = 1 if direction > 0 else -1
  return _upper((sign * value - margin) / error, difference.degrees)


def absent(difference: Difference, margin: float) -> float:
  """p of a difference that is shown to lie within -margin and margin.

  The larger one of two one-sided tests; 1 where it has no interval.
  """
  return max(beyond(difference, -margin, direction) for direction in (1, -1))


def holm(p_values: Sequence[float]) -> list[float]:
  """p values adjusted for their number, in the same order (Holm 1979)."""
  num = len(p_values)
  adjusted, least = [0.0] * num, 0.0
  for rank, place in enumerate(np.argsort(p_values, kind='stable')):
    least = max(least, min((num - rank) * p_values[place], 1.0))
    adjusted[place] = least
  return adjusted
