"""How a score goes with a number: Pearson's correlation over trials."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from wm.evaluation import statistics

# Fewer clusters than this say nothing of an interval.
FEWEST = 10
# Fisher's variance of models is that of more than 3.
FEWEST_MODELS = 4
_ROUNDING = 1e-12


class Correlation(NamedTuple):
  """Pearson's correlation of trials, with its 95 % interval.

  Attributes:
    value, low, high: each from -1 to 1.
    clusters: of trials that depend on each other.
  """

  value: float
  low: float
  high: float
  clusters: int


def _sums(
  x: np.ndarray, y: np.ndarray, weight: np.ndarray, cluster: np.ndarray
) -> np.ndarray:
  """[6, C] sums over each cluster, of what moments are made of.

  x, y, weight: [T]; cluster: [T] from 0 to C - 1, each at least once.
  """
  x, y = x - x.mean(), y - y.mean()
  powers = np.stack([np.ones(len(x)), x, y, x * x, y * y, x * y])
  return np.stack([np.bincount(cluster, weight * one) for one in powers])


def _moments(sums: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
  """Covariance [R] and variances [2, R] of sums [6, R]; see _sums."""
  mass, *moments = sums
  one, two, xx, yy, xy = (moment / mass for moment in moments)
  return xy - one * two, np.stack([xx - one * one, yy - two * two])


def pearson(
  x: np.ndarray, y: np.ndarray, weight: np.ndarray, group: np.ndarray
) -> Correlation | None:
  """The correlation of x and y [T], weighted, of trials in clusters.

  The interval is Student's on Fisher's scale (Fisher 1921, Metron 1), by the
  jackknife over clusters: trials of one may depend on each other, and neither
  x nor y need be normal.

  Args:
    x, y, weight: [T] float64.
    group: [T], equal in trials of one cluster.

  Returns:
    None where x or y is constant or all points are on a line, in all trials or
    without one cluster, and where clusters are fewer than FEWEST.
  """
  from scipy import special  # Heavy; not needed to list metrics.

  some = weight > 0
  x, y, weight, group = x[some], y[some], weight[some], group[some]
  names, cluster = np.unique(group, return_inverse=True)
  num = len(names)
  if num < FEWEST:
    return None
  sums = _sums(x, y, weight, cluster)
  total = sums.sum(1, keepdims=True)
  # Of all clusters, then without each.
  shared, spread = _moments(np.concatenate([total, total - sums], 1))
  if (spread < _ROUNDING).any():
    return None
  found = shared / np.sqrt(spread[0] * spread[1])
  if (np.abs(found) > 1 - _ROUNDING).any():
    return None
  center, *without = np.arctanh(found)
  variance = np.var(without) * (num - 1)
  tail = (1 + statistics.LEVEL) / 2
  width = special.stdtrit(num - 1, tail) * math.sqrt(variance)
  ends = math.tanh(center - width), math.tanh(center + width)
  return Correlation(float(found[0]), *ends, num)


def over_models(
  x: np.ndarray, y: np.ndarray, model: np.ndarray
) -> Correlation | None:
  """The correlation of x and y [T] over models, which may have several points.

  The interval is Fisher's (1921, Metron 1): normal on his scale, of variance
  1 / (models - 3), however many points a model has. Of 4 and more models that
  are normal, or uniform in x, it holds the truth in 94.5 % and more. It has no
  width where all points are on a line.

  model: [T], equal in points of one model, such as trained and untrained.

  Returns:
    None with fewer than FEWEST_MODELS models, or where x or y is constant.
  """
  from scipy import special

  names, of = np.unique(model, return_inverse=True)
  num = len(names)
  if num < FEWEST_MODELS:
    return None
  total = _sums(x, y, np.ones(len(x)), of).sum(1, keepdims=True)
  shared, spread = _moments(total)
  if (spread <= _ROUNDING).any():
    return None
  value = float((shared / np.sqrt(spread[0] * spread[1]))[0])
  inner = min(max(value, _ROUNDING - 1), 1 - _ROUNDING)
  width = special.ndtri((1 + statistics.LEVEL) / 2) / math.sqrt(num - 3)
  center = math.atanh(inner)
  ends = math.tanh(center - width), math.tanh(center + width)
  return Correlation(min(max(value, -1.0), 1.0), *ends, num)
