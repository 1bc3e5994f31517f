"""Intervals of values without bounds: the bootstrap-t, and Hall's.

The bootstrap-t of clusters (Efron 1982; Hall 1988, Annals of Statistics 16)
and, where a resample may leave no variance, Hall's transformation (1992,
Journal of the Royal Statistical Society B 54).
"""

from __future__ import annotations

import math

import numpy as np

from wm import core

LEVEL = 0.95
# Up to FEW clusters say nothing of what is in a tenth of all.
FEW = 20
RESAMPLES = 999
# Counts of resampled clusters held at once: what stays in a cache.
_BLOCK = 1 << 16
# Fewer clusters of values without bounds have no interval; up to FEW it is
# wider, by so much for each that is missing. The longer side of any is longer
# by this over the root of the clusters: few show the end of a tail.
LEAST, _WIDER, _TAIL = 10, 0.01, 1.0
# Relative differences below this are rounding.
ROUNDING = 1e-9


def residuals(
  totals: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Ratios [R] and each cluster's part [R, G] in their error.

  The sum of squares of these, times (G - 1) / G, is the jackknife's variance.
  """
  # What a cluster adds to the error is its distance from the ratio, over the
  # weight of all others: the ratio without it differs by that much.
  mass = weights.sum(1, keepdims=True)
  ratio = totals.sum(1, keepdims=True) / mass
  rest = np.maximum(mass - weights, ROUNDING * mass)
  return ratio[:, 0], (totals - ratio * weights) / rest


def resample(num: int, seed: int, rows: np.ndarray) -> np.ndarray:
  """[B, num] float64, how often each of num clusters is in resamples `rows`.

  A pure function of the integers, the same on every machine.
  """
  pairs = core.hash64(seed, rows[:, None], np.arange((num + 1) // 2))
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

  Clusters are drawn anew `RESAMPLES` times, the same for all R; each resample
  gives its error over its own standard error, whose quantiles take the place
  of Student's t. An end is infinite where too many resamples have no error.

  Args:
    totals, weights: [R, G] float64 sums of each cluster, weights > 0.
    seed: of the resamples.
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
  found = []
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
    found.append(np.where(none, np.copysign(np.inf, total), total / error))
  # Large errors of resamples above mean that the truth is far below: the
  # quantiles change places.
  ratios = np.sort(np.concatenate(found, 1), 1)
  cut = round((RESAMPLES + 1) * (1 - LEVEL) / 2)
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
  from scipy import special

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

  t = float(special.stdtrit(num - 1, (1 + LEVEL) / 2))
  return end(t), end(-t)


def unbounded(
  totals: np.ndarray, weights: np.ndarray, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
  """(low [R], high [R], whether by the bootstrap-t [R]); else it is Hall's.

  Raises nothing; where all clusters agree, ends are NaN.
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
