"""One interval for a quantity of several seeds, each with its own interval."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from wm.evaluation.statistics import LEVEL

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
  """Whether seeds fall in two groups, such as models that grok and others.

  Three or more do where the largest gap between sorted values is more than the
  rest of their range, and more than half of the greatest magnitude: of three
  values the largest gap is always more than the rest. Values near 0 that differ
  by the luck of their trials are no groups: the gap must also be free of the
  seeds' own intervals, and a tenth of the range that is possible.

  Args:
    values: of each seed.
    lows, highs: ends of each seed's interval; None is unknown.
    bounds: least and greatest value possible. Where one is None or infinite,
      no gap can be called large, and the answer is False.
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
    """What the seeds' intervals say of the mean, on one side."""
    squares = ((end - x) ** 2 for end, x in zip(ends, values, strict=True))
    return math.sqrt(math.fsum(squares)) / num

  between = 0.0
  if num > 1:
    from scipy import special  # Heavy; not needed to list metrics.

    spread = math.fsum((x - mean) ** 2 for x in values) / (num - 1)
    quantile = float(special.stdtrit(num - 1, (1 + LEVEL) / 2))
    between = quantile * math.sqrt(spread / num)
  low = mean - max(half(least), between)
  high = mean + max(half(most), between)
  if min(least) >= 0 and max(most) <= 1:
    return mean, max(low, 0.0), min(high, 1.0)
  return mean, low, high
