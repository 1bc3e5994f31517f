"""Means and 95 % intervals of Scores, derived and never stored alone.

0/1 values of independent trials get Wilson's interval; anything else a
bootstrap over groups (clusters), percentiles widened for few groups. No
interval has zero width: where all values agree it is Wilson's for the number
of groups, or none at all for a quantity without bounds.
"""

from __future__ import annotations

import collections
import math
import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np

from wm import core

LEVEL = 0.95
RESAMPLES = 1000
# Bootstrap draws held at once.
_BLOCK = 1 << 22

Summary = dict[str, Any]


def wilson(
  value: float, num: float, level: float = LEVEL
) -> tuple[float, float]:
  """Wilson's interval for a proportion `value` of `num` trials.

  Never of zero width for num >= 1, and always holds `value`.
  """
  z = statistics.NormalDist().inv_cdf((1 + level) / 2)
  shrink = 1 + z * z / num
  middle = (value + z * z / (2 * num)) / shrink
  spread = value * (1 - value) / num + z * z / (4 * num * num)
  half = z * math.sqrt(spread) / shrink
  low = 0.0 if value <= 0 else max(middle - half, 0.0)
  high = 1.0 if value >= 1 else min(middle + half, 1.0)
  return low, high


def bootstrap(
  totals: np.ndarray,
  weights: np.ndarray,
  seed: int = 0,
  resamples: int = RESAMPLES,
) -> np.ndarray:
  """[R] sorted float64 ratios sum(totals) / sum(weights) over redrawn groups.

  totals, weights: [G] sums of each group. Draws without any weight are left
  out, so R may be below `resamples`. The same on every machine.
  """
  num = len(totals)
  block = max(1, _BLOCK // num)
  found = []
  for start in range(0, resamples, block):
    rows = np.arange(start, min(start + block, resamples))
    drawn = core.hash64(seed, rows[:, None], np.arange(num))
    # The remainder's bias is below num / 2**64.
    drawn = (drawn % np.uint64(num)).astype(np.int64)
    mass = weights[drawn].sum(1)
    ratio = totals[drawn].sum(1) / np.where(mass > 0, mass, 1)
    found.append(ratio[mass > 0])
  return np.sort(np.concatenate(found))


def _tail(num: int, level: float) -> float:
  """Share cut off each end: widened by Student's t and n / (n - 1)."""
  from scipy import special  # Heavy; only the bootstrap needs it.

  t = special.stdtrit(num - 1, (1 + level) / 2)
  normal = statistics.NormalDist()
  return normal.cdf(-math.sqrt(num / (num - 1)) * float(t))


def interval(
  totals: np.ndarray,
  weights: np.ndarray,
  value: float,
  bounds: tuple[float, float] | None,
  seed: int = 0,
  level: float = LEVEL,
) -> tuple[float | None, float | None, str]:
  """(low, high, method) by bootstrap over groups, see the module.

  totals, weights: [G] sums of each group.
  """
  num = len(totals)
  if num > 1:
    ratios = bootstrap(totals, weights, seed)
    tail = _tail(num, level)
    low, high = np.quantile(ratios, [tail, 1 - tail], method='nearest')
    # Sums of equal values differ in the last bits from draw to draw.
    if high - low > 1e-9 * max(abs(low), abs(high)):
      return min(float(low), value), max(float(high), value), 'bootstrap'
  if bounds is None:
    return None, None, 'none'
  least, most = bounds
  share = (value - least) / (most - least)
  low, high = wilson(min(max(share, 0.0), 1.0), num, level)
  scale = most - least
  return least + low * scale, least + high * scale, 'wilson'


def _groups(
  group: np.ndarray, value: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
  """Sums [G] of weight * value and of weight, groups without weight out."""
  _, index = np.unique(group, return_inverse=True)
  index = index.reshape(-1)
  totals = np.bincount(index, weight * value)
  weights = np.bincount(index, weight)
  return totals[weights > 0], weights[weights > 0]


def summarize(scores: core.Scores, seed: int = 0) -> Summary:
  """The derived numbers of one quantity.

  Returns:
    n (trials measured), clusters (groups with weight), value, low, high
    (None where nothing was measured), interval (method), unmeasured (reason
    -> trials).

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
  summary: Summary = {
    'n': int(rows.sum()),
    'clusters': 0,
    'value': None,
    'low': None,
    'high': None,
    'interval': 'none',
    'unmeasured': dict(sorted(reasons.items())),
  }
  totals, weights = _groups(scores.group[rows], value, weight)
  if not len(totals):
    return summary
  mean = float(totals.sum() / weights.sum())
  if _independent_binary(scores, rows):
    low, high, method = *wilson(mean, len(totals)), 'wilson'
  else:
    low, high, method = interval(totals, weights, mean, scores.bounds, seed)
  summary.update(
    clusters=len(totals), value=mean, low=low, high=high, interval=method
  )
  return summary


def _independent_binary(scores: core.Scores, rows: np.ndarray) -> bool:
  value, weight = scores.value[rows], scores.weight[rows]
  return bool(
    scores.bounds == (0.0, 1.0)
    and np.isin(value, (0, 1)).all()
    and (weight == weight[0]).all()
    and len(np.unique(scores.group[rows])) == len(value)
  )


def subset(scores: core.Scores, rows: np.ndarray) -> core.Scores:
  """The given rows (boolean [T]) of scores; counts stay with the whole."""
  return core.Scores(
    scores.quantity,
    scores.value[rows],
    scores.reason[rows],
    scores.group[rows],
    scores.weight[rows],
    {name: column[rows] for name, column in scores.columns.items()},
    {},
    scores.bounds,
  )


def by_column(
  scores: core.Scores, column: str, seed: int = 0
) -> Iterator[tuple[Any, Summary]]:
  """Summaries of the rows that share a value of a side column, ascending.

  Yields:
    (value as a plain Python object, summary) (Vafa et al. 2024, figure 7).

  Raises:
    InputError: there is no such column.
  """
  if column not in scores.columns:
    raise core.InputError(
      f'{scores.quantity} has no column {column!r}; available: '
      f'{", ".join(scores.columns) or "none"}'
    )
  values = scores.columns[column]
  for value in np.unique(values):
    yield value.item(), summarize(subset(scores, values == value), seed)
