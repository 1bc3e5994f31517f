"""Power: how many trials or seeds tell two models apart by so much.

Two models of independent trials are compared by the normal approximation,
two-sided at 5 %. A pilot says how trials vary, and by its clusters how much
less they tell than independent ones do: the design effect (Kish 1965, Survey
Sampling, 8.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wm import core
from wm.evaluation.statistics import LEVEL

POWER = 0.8
MOST_SEEDS = 10_000
_ROUNDING = 1e-9


class Sample(NamedTuple):
  """What a study has to have to show a difference.

  Attributes:
    n, clusters: of the pilot.
    value: of the pilot; None where nothing was measured.
    design_effect: trials of the pilot that tell as much as an independent one.
    trials: of each model; None where the pilot does not say.
    reason: why `trials` is None; '' where it is not.
  """

  n: int
  clusters: int
  value: float | None
  design_effect: float | None
  trials: int | None
  reason: str = ''


def _normal(power: float) -> float:
  """Standard errors that a difference has to have."""
  from scipy import special  # Heavy; not needed to list metrics.

  return float(special.ndtri((1 + LEVEL) / 2) + special.ndtri(power))


def trials(
  pilot: core.Scores, difference: float, power: float = POWER
) -> Sample:
  """Trials of each of two models that tell them apart by a difference.

  One model is the pilot's; the other is better or worse by the difference,
  whichever needs more trials. Shares vary as their values have it, other
  quantities alike in both models.

  Args:
    pilot: rows of one quantity of one model.
    difference: in units of the quantity, above 0.
    power: chance that the difference is shown.

  Raises:
    InputError: difference or power is out of range.
  """
  _check(difference, power)
  rows = pilot.measured & (pilot.weight > 0)
  n = int(rows.sum())
  value, weight = pilot.value[rows], pilot.weight[rows]
  names, index = np.unique(pilot.group[rows], return_inverse=True)
  num = len(names)
  if num < 2:
    mean = float(np.average(value, weights=weight)) if n else None
    return Sample(n, num, mean, None, None, 'too few clusters')
  mass = weight.sum()
  mean = float((weight * value).sum() / mass)
  off = weight * (value - mean) / mass
  error = float((np.bincount(index, off) ** 2).sum()) * num / (num - 1)
  alone = float((off**2).sum()) * n / (n - 1)
  least, most = pilot.limits
  bounded = math.isfinite(most - least)
  if error > (_ROUNDING * max(abs(mean), 1.0)) ** 2:
    effect, unit = error / alone, error * n
  elif bounded:
    # All agree: a cluster is taken for one trial.
    shares = np.bincount(index, weight) / mass
    effect, unit = n * float((shares**2).sum()), 0.0
  else:
    return Sample(n, num, mean, None, None, 'all trials agree')
  variances = 2 * unit
  if bounded:
    others = mean - difference, mean + difference
    variances = max(
      (
        unit + _other(mean, other, unit, effect, least, most)
        for other in others
        if least <= other <= most
      ),
      default=math.inf,
    )
  if not math.isfinite(variances):
    return Sample(n, num, mean, effect, None, 'no value is so far away')
  needed = math.ceil(_normal(power) ** 2 * variances / difference**2 - 1e-9)
  return Sample(n, num, mean, effect, max(needed, 2))


def _other(
  mean: float,
  other: float,
  unit: float,
  effect: float,
  least: float,
  most: float,
) -> float:
  """Variance of one trial of the other model, design effect included.

  Of the greatest variance that its mean allows it has the same part.
  """
  top = (mean - least) * (most - mean)
  part = min(unit / top, effect) if top > 0 and unit > 0 else effect
  return part * (other - least) * (most - other)


def _check(difference: float, power: float) -> None:
  if not (math.isfinite(difference) and difference > 0):
    raise core.InputError(
      f'difference={difference!r} was given; expected a number above 0'
    )
  if not 0.05 < power < 1:
    raise core.InputError(
      f'power={power!r} was given; expected a number between 0.05 and 1'
    )


def seeds(
  values: Sequence[float], difference: float, power: float = POWER
) -> int | None:
  """Training seeds of each of two models that tell them apart.

  By the noncentral t distribution, with the variance of a pilot's seeds in
  both models; it holds that of trials too.

  Args:
    values: of each seed of a pilot.
    difference, power: see `trials`.

  Returns:
    None where the pilot has one seed, its seeds agree exactly, or more than
    MOST_SEEDS are needed.
  """
  from scipy import special

  _check(difference, power)
  if len(values) < 2:
    return None
  spread = float(np.std(values, ddof=1))
  if spread <= _ROUNDING * max(map(abs, values)):
    return None
  number = np.arange(2, MOST_SEEDS + 1)
  degrees = 2.0 * (number - 1)
  bar = special.stdtrit(degrees, (1 + LEVEL) / 2)
  far = difference / spread * np.sqrt(number / 2)
  reached = 1 - special.nctdtr(degrees, far, bar)
  # Far beyond the bar the distribution function underflows to NaN.
  enough = np.flatnonzero((reached >= power) | (far > bar + 10))
  return int(number[enough[0]]) if len(enough) else None


def detectable(entry: Mapping[str, Any], power: float = POWER) -> float | None:
  """The smallest difference between two models that this n would show.

  Both have trials of their own, as many and as uncertain as the entry's:
  two-sided 5 %, power 0.8.

  Args:
    entry: of scores.json, with `low` and `high`.

  Returns:
    In units of the quantity; None where the entry has no interval, or is of
    several seeds, whose ends are no interval of trials.
  """
  from scipy import special

  low, high = entry.get('low'), entry.get('high')
  if entry.get('value') is None or low is None or high is None:
    return None
  if 'seeds' in entry or not high > low:
    return None
  error = (high - low) / (2 * float(special.ndtri((1 + LEVEL) / 2)))
  return _normal(power) * math.sqrt(2) * error
