"""Means and 95 % intervals of Scores, derived and never stored alone.

A score is a ratio of sums over clusters (groups of dependent trials), so its
uncertainty is that of the clusters.

Shares, and all values that lie between bounds, get the interval of Korn &
Graubard (1998, Survey Methodology 24): the quantiles of beta distributions of
Clopper & Pearson (1934, Biometrika 26), at the number of independent trials
that would be as uncertain as these clusters. Up to FEW clusters may all miss
what is in a tenth of all clusters, so that no interval of the usual width holds
the mean: each cluster then counts as a trial that is right or wrong, whose sum
varies more than that of any other values of the same mean and bounds (Hoeffding
1963, Journal of the American Statistical Association 58).

Quantities without bounds get the bootstrap-t of clusters (Efron 1982; Hall
1988, Annals of Statistics 16) or, where a resample may have no variance, Hall's
transformation (1992, Journal of the Royal Statistical Society B 54). Fewer than
FEWEST_CLUSTERS clusters have no interval, and where single clusters may lie far
off fewer than OUTLIERS have none. No interval has zero width.

How often intervals hold the truth is measured by
tests/evaluation/coverage_study_test.py, with its tables beside it: of samples
of 5 clusters and more 94 % and more.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy

from wm import core
from wm.core import basics, inputs

LEVEL = 0.95
# Up to FEW clusters may all miss a tenth of the clusters.
FEW = 20
RESAMPLES = 999
# Counts of resampled clusters held at once: what stays in a cache.
_BLOCK = 1 << 16
# Fewer clusters of values without bounds have no interval; up to FEW it is
# wider, by so much for each that is missing. The longer side of any is longer
# by this over the root of the clusters: few show the end of a tail.
FEWEST_CLUSTERS, _WIDER, _TAIL = 10, 0.01, 1.0
# Relative differences below this are rounding.
ROUNDING = 1e-9


def residuals(
  totals: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Ratios [R] and each cluster's part [R, G] in their error.

  The sum of squares of these, times (G - 1) / G, is the jackknife's variance.
  """
  # A cluster's part in the error is its distance from the ratio, divided by the
  # weight of all others: leaving it out changes the ratio by that much.
  mass = weights.sum(1, keepdims=True)
  ratio = totals.sum(1, keepdims=True) / mass
  rest = np.maximum(mass - weights, ROUNDING * mass)
  return ratio[:, 0], (totals - ratio * weights) / rest


def resample(num: int, seed: int, rows: np.ndarray) -> np.ndarray:
  """[B, num] float64, how often each of num clusters is in resamples `rows`.

  A pure function of the integers, the same on every machine.
  """
  pairs = basics.hash64(seed, rows[:, None], np.arange((num + 1) // 2))
  # Two draws from each hash; their bias is below num / 2**32.
  halves = pairs >> np.uint64(32), pairs & np.uint64(0xFFFFFFFF)
  place = np.concatenate(halves, 1)[:, :num]
  # A number below 2**32, times num, over 2**32, is one below num. Each resample
  # has num places of its own in one long row, so that one bincount does all.
  place *= np.uint64(num)
  place >>= np.uint64(32)
  place += np.arange(len(rows), dtype=np.uint64)[:, None] * np.uint64(num)
  counts = np.bincount(
    place.astype(np.int64).reshape(-1), minlength=len(rows) * num
  )
  return counts.reshape(len(rows), num).astype(np.float64)


def bootstrap_t(
  totals: np.ndarray, weights: np.ndarray, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
  """(low [R], high [R]) of ratios sum(totals) / sum(weights), G >= 2 clusters.

  Clusters are resampled `RESAMPLES` times, identically for all R. Quantiles of
  the resamples' errors, divided by their own standard errors, replace Student's
  t. An end is infinite if too many resamples have a standard error of 0.

  Args:
    totals, weights: [R, G] float64 sums of each cluster, weights > 0.
    seed: seed of the resamples.
  """
  num = weights.shape[1]
  value, errors = residuals(totals, weights)
  # A resample's ratio and error follow from five sums over its clusters, which
  # are products with how often each cluster is in it:
  #   parts [5, R, G] @ counts [G, B] -> sums [5, R, B]
  plain = totals - value[:, None] * weights
  parts = np.stack(
    [plain, weights, plain * plain, plain * weights, weights * weights]
  )
  block = max(1, _BLOCK // num)
  errors_over_scale = []
  for start in range(0, RESAMPLES, block):
    rows = np.arange(start, min(start + block, RESAMPLES))
    counts = resample(num, seed, rows)
    sums = (parts.reshape(-1, num) @ counts.T).reshape(*parts.shape[:2], -1)
    total, mass, square, product, heavy = sums
    # `plain` sums to 0 over the sample, so this is how far the resample's ratio
    # is from the sample's.
    off = total / mass
    # Sum of (plain - off * weight)^2, without going through the clusters.
    left = square - 2 * off * product + off * off * heavy
    # A resample whose clusters all agree has no error to divide by.
    none = left <= ROUNDING * (square + off * off * heavy)
    # Times the mass, as is the total: it cancels.
    error = np.sqrt(np.where(none, 1, left) * num / (num - 1))
    errors_over_scale.append(
      np.where(none, np.copysign(np.inf, total), total / error)
    )
  # Large errors of resamples above mean that the truth is far below: the
  # quantiles change places.
  ratios = np.sort(np.concatenate(errors_over_scale, 1), 1)
  cut = max(round((RESAMPLES + 1) * (1 - LEVEL) / 2), 1)
  scale = np.sqrt((errors * errors).sum(1) * (1 - 1 / num))
  with np.errstate(invalid='ignore'):  # Where all clusters agree.
    low = value - ratios[:, -cut] * scale
    return low, value - ratios[:, cut - 1] * scale


def hall(
  totals: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """(low [R], high [R]) of ratios, G >= 2 clusters that are not all equal.

  Student's t, transformed by a cubic so that the skewness of the clusters'
  errors is gone to first order. Nothing is drawn, and both ends are finite.
  """
  num = weights.shape[1]
  value, errors = residuals(totals, weights)
  square = (errors * errors).sum(1)
  # Of the ratio's error: that of a cluster's, over the root of G.
  skew = (errors**3).sum(1) / square**1.5
  scale = np.sqrt(square * (1 - 1 / num))
  straight = np.abs(skew) < ROUNDING  # The cubic is then a line: no root.
  third = np.where(straight, 1, skew / 3)

  def end(t: float) -> np.ndarray:
    moved = t - skew / 6
    # The inverse of x -> x + third * x^2 + third^2 / 3 * x^3, Hall's cubic.
    bent = (np.cbrt(1 + 3 * third * moved) - 1) / third
    return value - np.where(straight, moved, bent) * scale

  t = float(scipy.special.stdtrit(num - 1, (1 + LEVEL) / 2))
  return end(t), end(-t)


def unbounded_interval(
  totals: np.ndarray, weights: np.ndarray, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """(low [R], high [R], is_bootstrap_t [R]); other rows have Hall's interval.

  Ends are NaN if all clusters agree.
  """
  low, high = bootstrap_t(totals, weights, seed)
  drawn = np.isfinite(low) & np.isfinite(high)
  value, errors = residuals(totals, weights)
  spread = np.sqrt((errors * errors).sum(1))
  varied = spread > ROUNDING * np.abs(value)
  # A resample without variance has no error: Hall's interval needs none.
  rest = np.flatnonzero(~drawn & varied)
  if rest.size:
    low[rest], high[rest] = hall(totals[rest], weights[rest])
  wider = 1 + _WIDER * max(FEW - weights.shape[1], 0)
  below = wider * np.maximum(value - low, 0)
  above = wider * np.maximum(high - value, 0)
  longer = 1 + _TAIL / math.sqrt(weights.shape[1])
  low = value - np.where(below > above, longer, 1) * below
  high = value + np.where(above >= below, longer, 1) * above
  low = np.where(varied, low, np.nan)
  return low, np.where(varied, high, np.nan), drawn


# The beta quantiles lie between those of Clopper & Pearson (0), which hold
# the truth too often, and those of Jeffreys (0.5), too rarely: at 0.15
# independent trials are covered in 94 % or more for every truth and num >= 50.
_SHIFT = 0.15
# Degrees of freedom, see `degrees`; chosen by the study.
_FACTOR, _POWER = 1.5, 1.25
# Up to FEW clusters say nothing of their variance: what goes wrong in a tenth
# of all may be in none of them. MANY do; between the two it is weighed.
MANY = 40
# Share of clusters at a bound that up to _FADE clusters may not have shown; of
# more, as the square of their number, fewer. Part of the unevenness of weights
# in the variance. Chosen by the study: the least that hold.
_UNSEEN, _UNEVEN, _FADE = 0.0134, 0.15, 50
TOO_FEW = 'too few clusters for an interval'
ALIKE = 'no interval, as all clusters have the same value'
# Where single clusters may lie far off, nothing bounds what was not drawn; of a
# twentieth, so many clusters show enough for an interval of the usual width.
OUTLIERS = 300
# Beta quantiles of more trials than this are no longer exact.
_MOST = 1e12
Summary = dict[str, Any]


def proportion(
  value: np.ndarray | float, num: np.ndarray | float
) -> tuple[np.ndarray, np.ndarray]:
  """(low, high) for shares `value` of `num` independent trials, broadcasting.

  Close to Clopper & Pearson's interval and inside it; `num` need not be whole.
  Never of zero width, and always holds `value`.
  """
  value, num = np.broadcast_arrays(value, np.asarray(num, np.float64))
  hits, misses = value * num, (1 - value) * num
  tail = (1 - LEVEL) / 2

  def least(hits: np.ndarray, misses: np.ndarray) -> np.ndarray:
    """Quantile of the beta distribution, shifted by a part of a trial."""
    # Beta(hits, misses + 1) is Clopper & Pearson's, Beta(hits + 0.5, misses +
    # 0.5) is Jeffreys'. Below one hit the shift shrinks with the hits, so that
    # the end goes to 0 without a jump.
    shift = _SHIFT * np.minimum(hits, 1)
    successes = np.where(hits > 0, hits + shift, 1)
    quantile = scipy.special.betaincinv(successes, misses + 1 - shift, tail)
    return np.where(hits > 0, quantile, 0)

  # The upper end is one minus the lower end of the share of misses.
  low, high = least(hits, misses), 1 - least(misses, hits)
  return np.minimum(low, value), np.maximum(high, value)


def degrees(errors: np.ndarray) -> np.ndarray:
  """[R] degrees of freedom of the sum of squares of errors [R, G].

  By the number of clusters that make up the sum (inverse participation), and
  not more than G - 1: few clusters that stand out tell little about variance.
  Of normal errors it is a third of G, and for a power of 1 and a factor of 2
  this is Satterthwaite's approximation; where one cluster is all, it is 0.
  """
  num = errors.shape[1]
  # (sum e^2)^2 / sum e^4 is G where all are equal, and 1 where one is all.
  square = errors * errors
  fourth = (square * square).sum(1)
  participating = np.divide(
    square.sum(1) ** 2, fourth, out=np.ones(len(errors)), where=fourth > 0
  )
  free = _FACTOR * np.maximum(participating - 1, 0) ** _POWER
  free = free / np.maximum(1 - participating / num, ROUNDING)
  return np.clip(free, 0.05, max(num - 1, 0.05))


def _within(errors: np.ndarray, strata: np.ndarray) -> np.ndarray:
  """Errors [R, G] less the mean of their stratum [G], which varies no further.

  Clusters that are drawn from each stratum in turn vary within it alone
  (Cochran 1977, Sampling Techniques, 5.9). Strata are joined to the next until
  they have two clusters, which makes errors no smaller on average (5A.12).
  """
  _, place, counts = np.unique(strata, return_inverse=True, return_counts=True)
  joined, size = np.zeros(len(counts), np.int64), 0
  for k, count in enumerate(counts):
    starts = size >= 2 and counts[k:].sum() >= 2
    joined[k] = joined[max(k - 1, 0)] + starts
    size = count if starts else size + count
  sizes = np.bincount(joined[place])
  left = errors.copy()
  for stratum, size in enumerate(sizes):
    mine = joined[place] == stratum
    left[:, mine] -= errors[:, mine].mean(1, keepdims=True)
    # The sum of squares of so many, less their mean, is that much too small.
    left[:, mine] *= math.sqrt(size / max(size - 1, 1) * (1 - 1 / len(place)))
  return left


def effective(
  totals: np.ndarray, weights: np.ndarray, strata: np.ndarray | None = None
) -> np.ndarray:
  """[2, R] numbers of independent trials as uncertain as R samples of clusters.

  The first is for the low end of an interval, the second for the high end.

  Args:
    totals, weights: [R, G] float64 sums of each cluster, weights > 0 and
      0 <= totals <= weights.
    strata: [G] from which clusters were drawn, as many as there are; None is
      one.

  The variance of the ratio is widened by Student's t, as Korn & Graubard do,
  and by a share of clusters that none was drawn of, at the bound beyond that
  end: what fails whole in one cluster of twenty is in none of 50 clusters in
  8 % of samples. It does not exceed that of clusters that are each all right
  or all wrong, unless it is estimated to, as where the heavy clusters are the
  wrong ones. Where all clusters agree, and up to FEW clusters, it is that; from
  there to MANY it is a weighted geometric mean of both.
  """
  num = weights.shape[1]
  mass = weights.sum(1)
  # One over Kish's effective number: 1 / G where all weights are equal.
  spread = (weights * weights).sum(1) / mass**2
  if num <= FEW:
    return np.stack([1 / spread] * 2)
  value, errors = residuals(totals, weights)
  value = np.clip(value, 0, 1)
  if strata is not None:
    errors = _within(errors, strata)
  # Squared, unlike in the jackknife: clusters of one trial each then have the
  # variance value (1 - value) / G, and count as G trials exactly.
  variance = (errors * errors).sum(1) * (1 - 1 / num) ** 2
  normal, tail = scipy.special.ndtri((1 + LEVEL) / 2), (1 + LEVEL) / 2
  wider = (scipy.special.stdtrit(degrees(errors), tail) / normal) ** 2
  # Clusters that are each all right or all wrong vary the most.
  most = value * (1 - value) * spread
  fade = min(1, _FADE / num)
  uneven = 1 + _UNEVEN * fade * (num * spread - 1)
  unseen = _UNSEEN * fade**2 * np.stack([value, 1 - value]) ** 2 / num
  used = np.minimum(most, (variance * uneven + unseen) * wider)
  used = np.maximum(variance, used)
  # Where all clusters agree, they say nothing of how uncertain they are.
  varied = variance > (ROUNDING * value) ** 2
  trials = np.minimum(value * (1 - value) / np.where(varied, used, 1), _MOST)
  trials = np.where(varied, trials, 1 / spread)
  trust = min((num - FEW) / (MANY - FEW), 1)
  return trials**trust / spread ** (1 - trust)


def korn_graubard(
  totals: np.ndarray, weights: np.ndarray, strata: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
  """(low [R], high [R]) of shares sum(totals) / sum(weights), see `effective`.

  The same as `proportion` for clusters of one trial, all of one weight.
  """
  value = np.clip(totals.sum(1) / weights.sum(1), 0, 1)
  lower, upper = effective(totals, weights, strata)
  return proportion(value, lower)[0], proportion(value, upper)[1]


def interval(
  totals: np.ndarray,
  weights: np.ndarray,
  limits: tuple[float, float],
  seed: int = 0,
  strata: np.ndarray | None = None,
) -> tuple[float | None, float | None, str]:
  """(low, high, method) from sums [G] of each cluster, see the module.

  Args:
    totals, weights: [G] float64.
    limits: least and greatest value possible, infinite where there is none; an
      interval does not go beyond them. Without both, (None, None, TOO_FEW) of
      fewer than FEWEST_CLUSTERS clusters, and (None, None, ALIKE) where all
      agree.
    seed: of resamples.
    strata: [G] see `effective`; of values with both limits.
  """
  totals, weights = totals[None], weights[None]
  least, most = limits
  if math.isfinite(most - least):
    # From [least, most] to [0, 1] and back.
    shares = (totals - least * weights) / (most - least)
    ends = korn_graubard(shares, weights, strata)
    low, high = (float(x[0]) for x in ends)
    scale = most - least
    return least + low * scale, least + high * scale, 'korn-graubard'
  if weights.shape[1] < FEWEST_CLUSTERS:
    return None, None, TOO_FEW
  lows, highs, drawn = unbounded_interval(totals, weights, seed)
  if np.isfinite(lows[0]):
    method = 'bootstrap-t' if drawn[0] else 'hall'
    low, high = float(lows[0]), float(highs[0])
    return max(low, least), min(high, most), method
  return None, None, ALIKE


def median(values: np.ndarray) -> Summary:
  """Median of independent values [G], its interval, and outliers.

  The interval is between order statistics, for any continuous distribution
  (Thompson 1936, Annals of Mathematical Statistics 7). With fewer than 6 values
  even the full range holds the median in less than 95 % of samples, and the
  interval is None.
  Outliers are beyond the quartiles by 3 interquartile ranges (Tukey 1977,
  Exploratory Data Analysis, "far out").
  """
  values = np.sort(values)
  num = len(values)
  # The most values that may be left out on each side.
  outer = np.arange((num + 1) // 2)
  spare = outer[scipy.special.bdtr(outer, num, 0.5) <= (1 - LEVEL) / 2]
  first, third = np.quantile(values, [0.25, 0.75])
  off = np.maximum(first - values, values - third) > 3 * (third - first)
  low, high = None, None
  if len(spare):
    low, high = float(values[spare[-1]]), float(values[-1 - spare[-1]])
  return {
    'median': float(np.median(values)),
    'median_low': low,
    'median_high': high,
    'outliers': int(off.sum()),
  }


def summarize(scores: core.Scores, seed: int = 0) -> Summary:
  """The derived numbers of one quantity.

  Returns:
    n (trials measured), clusters (groups with weight), value, low, high
    (None where nothing was measured), interval (method), unmeasured (reason
    -> trials); of `scores.outliers` those of `median` too, over clusters.

  Raises:
    ValueError: a measured value or weight is not finite, or a weight is
      negative.
  """
  rows = scores.measured
  value, weight = scores.value[rows], scores.weight[rows]
  if not (np.isfinite(value).all() and np.isfinite(weight).all()):
    raise ValueError(f'{scores.quantity}: a measured trial is not finite')
  if (weight < 0).any():
    raise ValueError(f'{scores.quantity}: a weight is negative')
  reasons = collections.Counter(str(r) for r in scores.reason[~rows])
  # Sums [G] of each cluster; one without weight says nothing.
  _, first, index = np.unique(
    scores.group[rows], return_index=True, return_inverse=True
  )
  weights = np.bincount(index, weight)
  heavy = weights > 0
  totals = np.bincount(index, weight * value)[heavy]
  weights = weights[heavy]
  mean, low, high, method = None, None, None, 'none'
  more = Summary()
  if len(totals):
    mean = float(totals.sum() / weights.sum())
    strata = None
    if 'stratum' in scores.columns:
      strata = scores.columns['stratum'][rows][first][heavy]
    few = scores.outliers and len(totals) < OUTLIERS
    low, high, method = (
      (None, None, TOO_FEW)
      if few
      else interval(totals, weights, scores.limits, seed, strata)
    )
    if scores.outliers:
      more |= median(totals / weights)
  return {
    'n': int(rows.sum()),
    'clusters': len(totals),
    'value': mean,
    'low': low,
    'high': high,
    'interval': method,
    'unmeasured': dict(sorted(reasons.items())),
    **more,
  }


def subset(scores: core.Scores, rows: np.ndarray) -> core.Scores:
  """Selects rows of scores by a boolean array [T]; counts become empty."""
  names = 'value', 'reason', 'group', 'weight'
  arrays = {name: getattr(scores, name)[rows] for name in names}
  columns = {name: column[rows] for name, column in scores.columns.items()}
  return dataclasses.replace(scores, **arrays, columns=columns, counts={})


def joined(
  parts: Sequence[core.Scores], name: str, values: Sequence[Any]
) -> core.Scores:
  """The rows of several scores of a quantity, and the value of each part in a
  column of this name.
  """
  arrays: dict[str, Any] = {
    field: np.concatenate([getattr(part, field) for part in parts])
    for field in ('value', 'reason', 'group', 'weight')
  }
  columns = {
    key: np.concatenate([part.columns[key] for part in parts])
    for key in parts[0].columns
  }
  columns[name] = np.repeat(values, [len(part.value) for part in parts])
  return dataclasses.replace(parts[0], **arrays, columns=columns)


def by_column(
  scores: core.Scores, column: str, seed: int = 0
) -> Iterator[tuple[Any, Summary]]:
  """Summaries of the rows that share a value of a side column, ascending.

  Yields:
    (value as a plain Python object, summary) (Vafa et al. 2024, figure 7).

  Raises:
    InputError: there is no such column.
  """
  text = f'{scores.quantity} has no column {column!r}'
  inputs.check_known(column, scores.columns, text)
  values = scores.columns[column]
  for value in np.unique(values):
    yield value.item(), summarize(subset(scores, values == value), seed)


# So many seeds are shown one by one.
SHOWN = 5
# Seeds of one mode lie closer than this part of the greatest of them.
_APART = 0.5
# A gap below this part of the range of possible values is of no interest.
_LEAST = 0.1


def bimodal(
  values: Sequence[float],
  lows: Sequence[float | None],
  highs: Sequence[float | None],
  bounds: tuple[float | None, float | None],
) -> bool:
  """Do seeds fall in two groups, such as models that grok and others?

  Three or more do where the largest gap between sorted values is more than the
  rest of their range, and more than half of the greatest magnitude: of three
  values the largest gap is always more than the rest. Values near 0 that differ
  by the luck of their trials are no groups: the gap must also be free of the
  seeds' own intervals, and a tenth of the range that is possible.

  Args:
    values: value of each seed.
    lows, highs: ends of each seed's interval; None is unknown.
    bounds: least and greatest possible value. If one is None or infinite, no
      gap counts as large, and the answer is False.
  """
  least, most = (math.inf if end is None else end for end in bounds)
  if len(values) < 3 or None in (*lows, *highs):
    return False
  if not math.isfinite(most - least):
    return False
  order = sorted(range(len(values)), key=values.__getitem__)
  ordered = [values[n] for n in order]
  gap, split = max(
    (after - before, n)
    for n, (before, after) in enumerate(itertools.pairwise(ordered), 1)
  )
  rest = ordered[-1] - ordered[0] - gap
  if gap <= max(rest, _APART * max(map(abs, values)), _LEAST * (most - least)):
    return False
  below = [high for n in order[:split] if (high := highs[n]) is not None]
  above = [low for n in order[split:] if (low := lows[n]) is not None]
  return max(below) < min(above)


def over_seeds(
  values: Sequence[float],
  lows: Sequence[float | None],
  highs: Sequence[float | None],
) -> tuple[float, float | None, float | None]:
  """The mean over seeds and its interval.

  The variance of seeds' values holds both that of training and, as each seed
  has trials of its own, that of trials: Student's t with one degree of freedom
  less than there are seeds. Few seeds may agree by chance, so the interval is
  never narrower than what the seeds' own intervals (of clusters) say of their
  mean. One seed has its own interval, of this model's trials and not of other
  seeds.

  Student's t is for seeds of one mode; it is wide enough where two are seen,
  see `bimodal`. Of a model that groks or not, few seeds may all be of one mode,
  and nothing then says so: four of five that grok are all of three seeds in
  half of all samples. Print each seed, and train more.

  Args:
    values: of each seed, one or more.
    lows, highs: ends of each seed's interval; None is unknown.

  Returns:
    (mean, low, high); within 0 and 1 where all of the seeds' intervals are.
    Ends are None where one seed's are unknown.
  """
  num = len(values)
  mean = math.fsum(values) / num
  if None in (*lows, *highs):
    return mean, None, None
  least = [low for low in lows if low is not None]
  most = [high for high in highs if high is not None]

  def half(ends: Sequence[float]) -> float:
    """Half the width of the mean's interval, by the seeds' own intervals."""
    squares = ((end - x) ** 2 for end, x in zip(ends, values, strict=True))
    return math.sqrt(math.fsum(squares)) / num

  between = 0.0
  if num > 1:
    spread = math.fsum((x - mean) ** 2 for x in values) / (num - 1)
    quantile = float(scipy.special.stdtrit(num - 1, (1 + LEVEL) / 2))
    between = quantile * math.sqrt(spread / num)
  low = mean - max(half(least), between)
  high = mean + max(half(most), between)
  if min(least) >= 0 and max(most) <= 1:
    return mean, max(low, 0.0), min(high, 1.0)
  return mean, low, high
