"""Comparisons of two models, their power, and correlations of scores.

Differences come with intervals, tests and a correction for many of them. A
difference that is not shown is told apart from one that is shown to be absent:
`beyond` asks for the first, `absent` (two one-sided tests, Schuirmann 1987,
Journal of Pharmacokinetics 15) for the second.

Correlations are Pearson's, over trials or over models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy

from wm import core
from wm.evaluation import statistics
from wm.evaluation.statistics import LEVEL

# Fewer clusters than this have no interval of their difference.
FEWEST_PAIRED = 5
# Fewest degrees of freedom: even if few clusters differ, the others are known
# to agree. Chosen by simulation.
_LEAST_DEGREES = 2.0
_ROUNDING = 1e-9


class Difference(NamedTuple):
  """The first model's value minus the second's.

  Attributes:
    value: the difference; None if no trial was measured in both.
    low, high: 95 % interval; None with too few clusters.
    p: two-sided p value of no difference; None without an interval.
    n: number of trials (for seeds: seeds of both).
    clusters: number of clusters of dependent trials (for seeds: the smaller
      number of seeds).
    error: standard error; None without an interval.
    degrees: degrees of freedom of the error.
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
  return float(scipy.special.stdtr(degrees, -t))


def _quantile(degrees: float) -> float:
  return float(scipy.special.stdtrit(degrees, (1 + LEVEL) / 2))


def _tested(
  difference: Difference, error: float, degrees: float, most: float = math.inf
) -> Difference:
  """Adds interval and p by Student's t; `most` bounds the difference."""
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
    variance: variance of the mean; None if it is not known.
    degrees: degrees of freedom of the variance.
    seeds: number of seeds; 0 for an exact number.
    size: greatest magnitude of a seed's value, to distinguish rounding from
      error.
  """

  value: float
  variance: float | None
  degrees: float
  seeds: int
  size: float


def variance(
  value: float, low: float | None, high: float | None, clusters: int
) -> float | None:
  """The variance of a value, from its 95 % interval; None without one.

  The longer side of the interval is taken as Student's t over clusters: at a
  bound, the other side has no length.
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
  *,
  floored: bool = True,
) -> Mean:
  """The mean over seeds.

  Args:
    values: each seed's value, one or more.
    within: variances of each seed's value from its trials. They bound the
      variance between seeds from below, as few seeds may agree by chance.
    trial_degrees: degrees of freedom of `within`, for a quantity that does not
      depend on a training seed: one seed then has the variance of its trials.
      None leaves one seed without a variance.
    floored: whether `within` bounds the variance between seeds from below. If
      not, it is used only if seeds agree exactly.
  """
  side = np.asarray(values, np.float64)
  num = len(side)
  floor = float(np.mean(within)) if len(within) else 0.0
  size = float(np.abs(side).max())
  if num > 1:
    # The variance between seeds contains that of their trials: a smaller
    # estimate is luck.
    between = float(side.var(ddof=1))
    if floored or between <= (_ROUNDING * size) ** 2:
      between = max(between, floor)
    return Mean(float(side.mean()), between / num, num - 1, num, size)
  if trial_degrees is None or not len(within):
    return Mean(float(side[0]), None, 0.0, 1, size)
  return Mean(float(side[0]), floor, trial_degrees, 1, size)


def of_means(first: Mean, second: Mean) -> Difference:
  """The difference of two means (Welch 1947, Biometrika 34).

  With `number` as the second it is the one-sample t test.

  Returns:
    The difference, without an interval if the variance of a mean is not known,
    or if seeds agree exactly and their trials' variance is not known.
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
  # Welch and Satterthwaite: (v1 + v2)^2 / (v1^2 / df1 + v2^2 / df2).
  degrees = total**2 / (
    first.variance**2 / first.degrees + second.variance**2 / second.degrees
  )
  return _tested(difference, math.sqrt(total), degrees)


def paired(first: core.Scores, second: core.Scores) -> Difference:
  """The difference of two models' scores on the same trials.

  It uses trials that are measured in both, clustered by group, and weighted.
  Student's t has as many degrees of freedom as clusters that make up the error
  (`wm.evaluation.statistics`). If all clusters have equal differences, the
  interval allows for undrawn clusters, as `statistics.proportion` does.

  Args:
    first, second: one quantity of two models, rows in the same order.

  Raises:
    InputError: rows are not of the same trials.
  """
  if not np.array_equal(first.group, second.group):
    raise core.InputError(
      f'{first.quantity} and {second.quantity} have {len(first.group)} and '
      f'{len(second.group)} rows; expected the same trials in the same groups'
    )
  # Only trials that both models measured are pairs.
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
  # Var = G / (G - 1) * sum of squares of the clusters' parts.
  error = math.sqrt(float((errors**2).sum()) * num / (num - 1 or 1))
  # Where all agree, what rounding leaves is no error.
  if error > _ROUNDING * max(abs(value), np.abs(first.value[rows]).max()):
    degrees = float(statistics.degrees(errors[None])[0])
    degrees = min(max(degrees, _LEAST_DEGREES), num - 1)
  else:
    degrees = float(max(num - 1, 1))
    # As for 0 misses of n independent clusters, n being Kish's effective number
    # 1 / sum of squared shares of weight.
    share = statistics.proportion(0.0, 1 / float((weight**2).sum()))[1]
    error = most * float(share) / _quantile(degrees)
  if num < FEWEST_PAIRED or not math.isfinite(error):
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
    # Delta method: d(T / W) = (dT - T / W dW) / W.
    errors.append((totals - values[-1] * weights) / mass)
    shares.append(weights / mass)
  return values[0] - values[1], errors[0] - errors[1], shares[0]


def beyond(difference: Difference, margin: float, direction: int) -> float:
  """One-sided p of a difference that exceeds a margin.

  It is small if the difference is shown to be above `margin` (direction 1), or
  below `-margin` (direction -1); 1 without an interval.
  """
  value, error = difference.value, difference.error
  if value is None or error is None or difference.degrees is None:
    return 1.0
  # Tests sign * difference <= margin.
  sign = 1 if direction > 0 else -1
  return _upper((sign * value - margin) / error, difference.degrees)


# Seeds whose distances from a bound vary by less than this part of their mean
# are far enough from it for a t test; chosen by simulation.
_UNEVEN = 0.15
PERMUTATIONS = 100_000  # Of a test of permutations, if there are more.


def nearer(values: Sequence[float], number: float, bound: float) -> float:
  """One-sided p that a mean lies nearer to a bound than a number does.

  Near a bound few seeds are far off, and those that are decide the mean: t
  tests of few seeds then err up to four times as often as they state. Where
  distances from the bound are uneven, this test is exact if they are
  exponential, and errs less often if they vary less. Where they are even, a t
  test is right, and this returns 0.

  Args:
    values: of independent seeds, two or more, none beyond the bound.
    number: that the mean is compared with.
    bound: least or greatest possible value.
  """
  distances = np.abs(bound - np.asarray(values, np.float64))
  scale = abs(bound - number)
  if not scale:
    return 1.0
  if distances.std(ddof=1) < _UNEVEN * distances.mean():
    return 0.0
  total = 2 * float(distances.sum()) / scale
  return float(scipy.special.chdtr(2 * len(distances), total))


def permuted(
  first: Sequence[float], second: Sequence[float], margin: float, direction: int
) -> float:
  """One-sided p that the means of two sets of seeds differ by a margin.

  Seeds change sides in all ways, or in PERMUTATIONS random ones of more; no
  distribution is assumed, so that it holds for seeds of two modes too (Fisher
  1935, The Design of Experiments).

  margin, direction: see `beyond`.
  """
  sign = 1 if direction > 0 else -1
  sides = (
    sign * np.asarray(first, np.float64) - margin,
    sign * np.asarray(second),
  )
  tested = scipy.stats.permutation_test(
    sides,
    lambda x, y, axis: x.mean(axis) - y.mean(axis),
    vectorized=True,
    n_resamples=PERMUTATIONS,
    alternative='greater',
    rng=np.random.default_rng(0),
  )
  return float(tested.pvalue)


def absent(difference: Difference, margin: float) -> float:
  """p value of a difference within -margin and margin (equivalence test).

  It is the larger of two one-sided p values; 1 without an interval.
  """
  return max(beyond(difference, -margin, direction) for direction in (1, -1))


def holm(p_values: Sequence[float]) -> list[float]:
  """p values adjusted for their number, in the same order (Holm 1979)."""
  num = len(p_values)
  adjusted, least = [0.0] * num, 0.0
  for rank, place in enumerate(np.argsort(p_values, kind='stable')):
    # Step down: the k-th smallest p counts num - k + 1 times, and no p is below
    # the one before it.
    least = max(least, min((num - rank) * p_values[place], 1.0))
    adjusted[place] = least
  return adjusted


POWER = 0.8


def p_value(difference: Difference | str) -> float | None:
  """The p value of a difference; None for a text, the reason for none."""
  return None if isinstance(difference, str) else difference.p


def adjusted(differences: Sequence[Difference | str]) -> list[Difference | str]:
  """Differences with p values adjusted for all of them by `holm`."""
  p_values = [p for x in differences if (p := p_value(x)) is not None]
  left = iter(holm(p_values))
  return [
    x if isinstance(x, str) or x.p is None else x._replace(p=next(left))
    for x in differences
  ]


def detectable_errors(alpha: float, degrees: float = math.inf) -> float:
  """Number of standard errors that a detectable difference must have.

  alpha: one-sided. degrees: of freedom of the error.
  """
  bars = [1 - alpha, POWER]
  if math.isinf(degrees):
    return float(scipy.special.ndtri(bars).sum())
  return float(scipy.special.stdtrit(degrees, bars).sum())


# Fisher's variance of models is that of more than 3.
FEWEST_MODELS = 4
_NO_SPREAD = 1e-12


class Correlation(NamedTuple):
  """Pearson's correlation over models, with its 95 % interval.

  Attributes:
    value, low, high: each from -1 to 1.
    clusters: number of models.
  """

  value: float
  low: float
  high: float
  clusters: int


def pearson_over_models(
  x: np.ndarray, y: np.ndarray, model: np.ndarray
) -> Correlation | None:
  """The correlation of x and y [T] over models, which may have several points.

  The interval is Fisher's (1921, Metron 1): normal on his scale, with variance
  1 / (models - 3), for any number of points of a model. For 4 or more models
  that are normal, or uniform in x, it holds the truth in at least 94.5 % of
  samples. Its width is 0 if all points are on a line.

  model: [T], equal in points of one model, such as trained and untrained.

  Returns:
    The correlation; None with fewer than FEWEST_MODELS models, or if x or y is
    constant.
  """
  num = len(np.unique(model))
  # A constant column has rounding errors in place of a spread.
  constant = any(np.ptp(z) <= _NO_SPREAD * np.abs(z).max() for z in (x, y))
  if num < FEWEST_MODELS or constant:
    return None
  value = float(np.corrcoef(x, y)[0, 1])
  # Points on a line have a correlation of 1, whose arctanh is infinite.
  inner = min(max(value, _NO_SPREAD - 1), 1 - _NO_SPREAD)
  width = scipy.special.ndtri((1 + statistics.LEVEL) / 2) / math.sqrt(num - 3)
  center = math.atanh(inner)
  ends = math.tanh(center - width), math.tanh(center + width)
  return Correlation(min(max(value, -1.0), 1.0), *ends, num)
