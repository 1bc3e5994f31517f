"""How often intervals hold the truth where they were short: named cases.

    python -m tests.evaluation.coverage_cases [CASE ...]

measures cases (all of them) anew and keeps the rows in coverage_cases.csv,
beside this file; coverage_study_test.py holds them to what is asked. A case
draws small samples, as a metric gives them.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys
import zlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tests.evaluation import coverage
from tests.evaluation.coverage import Row
from wm import core
from wm.evaluation import coin_tasks, comparisons, statistics

TABLE = pathlib.Path(__file__).with_name('coverage_cases.csv')
REPEATS = 2000
NORMAL = 1.959964
Interval = tuple[float, float | None, float | None]


class Case(NamedTuple):
  """What is drawn, its true value, and the sizes of samples.

  Attributes:
    draw: (generator, size) -> value, low and high; None is refused.
    truth: of the value.
    sizes: of samples, in clusters.
    held: whether 94 % are asked for; where they are not, see
      statistics.over_seeds.
  """

  draw: Callable[[np.random.Generator, int], Interval]
  truth: float
  sizes: tuple[int, ...]
  held: bool = True


def _mean(scores: core.Scores) -> Interval:
  summary = statistics.summarize(scores)
  return summary['value'], summary['low'], summary['high']


def _r_ib(rng: np.random.Generator, num: int) -> Interval:
  """Pairs of one state told apart: 1 %, and half in a tenth of data sets."""
  rate = np.where(rng.random(num) < 0.1, 0.5, 0.01)
  value = 1 - 2 * rng.binomial(32, rate) / 32
  return _mean(core.scores('r_ib', value, bounds=(-1.0, 1.0)))


def _whole(rng: np.random.Generator, num: int, *, share: float) -> Interval:
  """Clusters of 20 trials, of which so many fail whole, others seldom."""
  rate = np.where(rng.random(num) < share, 0.0, 0.98)
  return _mean(core.scores('validity', rng.binomial(20, rate) / 20))


def _heavy(rng: np.random.Generator, num: int) -> Interval:
  """Lognormal weights; the chance to fail goes with their root."""
  weight = rng.lognormal(0, 1, num)
  value = rng.random(num) >= np.minimum(0.05 * np.sqrt(weight), 1)
  return _mean(core.scores('q', value, weight=weight))


def _heavy_truth() -> float:
  weight = np.random.default_rng(0).lognormal(0, 1, 4_000_000)
  failing = np.minimum(0.05 * np.sqrt(weight), 1)
  return float(1 - (weight * failing).sum() / weight.sum())


def _outliers(rng: np.random.Generator, num: int) -> core.Scores:
  """Exponents about -2; one in twenty is above, by 1 on average."""
  off = (rng.random(num) < 0.05) * rng.exponential(size=num)
  value = -2 + 0.02 * rng.normal(size=num) + off
  scores = core.scores('exponent_r', value, bounds=None)
  return dataclasses.replace(scores, outliers=True)


def _exponent(rng: np.random.Generator, num: int) -> Interval:
  return _mean(_outliers(rng, num))


def _median(rng: np.random.Generator, num: int) -> Interval:
  summary = statistics.summarize(_outliers(rng, num))
  return (summary['median'], summary['median_low'], summary['median_high'])


def _median_truth() -> float:
  value = _outliers(np.random.default_rng(0), 4_000_000).value
  return float(np.median(value))


def _r2(rng: np.random.Generator, num: int, *, outliers: bool) -> Interval:
  """One less a lognormal share that is left, of sigma 1 and mean 0.1."""
  value = 1 - 0.1 * rng.lognormal(-0.5, 1, num)
  scores = core.scores('r2', value, bounds=(-np.inf, 1.0))
  return _mean(dataclasses.replace(scores, outliers=outliers))


def _models(rng: np.random.Generator, num: int, *, rho: float) -> Interval:
  x, noise = rng.normal(size=(2, num))
  y = rho * x + np.sqrt(1 - rho**2) * noise
  result = comparisons.pearson_over_models(x, y, np.arange(num))
  return (
    (result.value, result.low, result.high) if result else (0.0, None, None)
  )


def _over(value: np.ndarray, half: float) -> Interval:
  low, high = np.maximum(value - half, 0), np.minimum(value + half, 1)
  return statistics.over_seeds(value.tolist(), low.tolist(), high.tolist())


def _one_mode(rng: np.random.Generator, num: int) -> Interval:
  return _over(rng.normal(0.8, 0.04, num), 0.01)


def _grokking(
  rng: np.random.Generator, num: int, *, seen: bool = False
) -> Interval:
  """Four of five seeds get there; seen: samples that have both kinds."""
  value = np.where(rng.random(num) < 0.8, 0.98, 0.2)
  value = value + rng.uniform(-0.01, 0.01, num)
  low, high = np.maximum(value - 0.005, 0), np.minimum(value + 0.005, 1)
  ends = value.tolist(), low.tolist(), high.tolist()
  if seen and not statistics.bimodal(*ends, (0, 1)):
    return float(value.mean()), None, None
  return statistics.over_seeds(*ends)


def _lattice(rng: np.random.Generator, num: int) -> Interval:
  """d_ib of a lattice of five states, all assignments of labels in turn.

  num: clusters, of a data set and its complement.
  """
  coins = coin_tasks.Coins(2 * num, 0, np.arange(5), 2)
  visited = rng.choice(5, (num, 32), p=[0.3, 0.25, 0.2, 0.15, 0.1])
  labels = coins.labels(visited)
  states = np.repeat(visited, 2, axis=0)
  first, second = np.triu_indices(32, 1)
  other = states[:, first] != states[:, second]
  apart = other & (labels[:, first] != labels[:, second])
  columns = {}
  if (strata := coins.strata) is not None:
    columns['stratum'] = strata
  return _mean(
    core.scores(
      'd_ib',
      2 * apart.sum(1) / other.sum(1),
      group=np.arange(2 * num) // 2,
      weight=coins.weight,
      columns=columns,
      bounds=(0.0, 2.0),
    )
  )


def _alike(rng: np.random.Generator, num: int, *, size: float) -> Interval:
  """Trials between 0 and 1 of mean .9 that differ little."""
  value = rng.beta(0.9 * size, 0.1 * size, num)
  return _mean(core.scores('q', value))


CASES: dict[str, Case] = {
  'r_ib, a tenth of data sets broken': Case(_r_ib, 0.882, (10, 20, 40, 100)),
  'a twentieth of clusters fail whole': Case(
    functools.partial(_whole, share=0.05), 0.931, (10, 20, 30, 40, 50, 100)
  ),
  'a tenth of clusters fail whole': Case(
    functools.partial(_whole, share=0.1), 0.882, (10, 20, 40, 100)
  ),
  'heavy weights that fail more': Case(_heavy, _heavy_truth(), (50, 100, 500)),
  'exponents, one in twenty far off': Case(
    _exponent, -1.95, (4, 10, 40, 100, 300)
  ),
  'median of exponents, one in twenty far off': Case(
    _median, _median_truth(), (4, 10, 40, 100)
  ),
  'r2': Case(functools.partial(_r2, outliers=True), 0.9, (10, 20, 100, 300)),
  'correlation over models, 0': Case(
    functools.partial(_models, rho=0.0), 0.0, (3, 4, 6, 10, 40)
  ),
  'correlation over models, .8': Case(
    functools.partial(_models, rho=0.8), 0.8, (3, 4, 6, 10, 40)
  ),
  'seeds of one mode': Case(_one_mode, 0.8, (2, 3, 5)),
  'seeds that grok or not': Case(_grokking, 0.824, (3, 5, 10), False),
  'seeds that grok or not, where both are seen': Case(
    functools.partial(_grokking, seen=True), 0.824, (3, 5, 10)
  ),
  'd_ib, all assignments in turn': Case(_lattice, 1.0, (16, 24, 40, 50)),
  'interventions, alike': Case(
    functools.partial(_alike, size=15), 0.9, (20, 40, 100)
  ),
  'validities, alike': Case(
    functools.partial(_alike, size=3), 0.9, (20, 40, 100)
  ),
}


def row(name: str, num: int, repeats: int = REPEATS) -> Row:
  """Coverage of samples that have an interval, and the share that has none."""
  case = CASES[name]
  rng = np.random.default_rng(zlib.crc32(f'{name} {num}'.encode()))
  drawn = [case.draw(rng, num) for _ in range(repeats)]
  values = np.array([value for value, _, _ in drawn])
  ends = np.array(
    [(low, high) for _, low, high in drawn if low is not None]
  ).reshape(-1, 2)
  below, above = ends[:, 1] < case.truth, ends[:, 0] > case.truth
  measured: Row = {
    'case': name,
    'size': num,
    'truth': case.truth,
    'repeats': repeats,
    'none': 1 - len(ends) / repeats,
  }
  if len(ends):
    width = float(np.ptp(ends, axis=1).mean())
    measured |= {
      'coverage': 1 - float(below.mean() + above.mean()),
      'below': float(below.mean()),
      'above': float(above.mean()),
      'width': width,
      # Of a normal mean whose standard error is known.
      'ideal_ratio': width / (2 * NORMAL * float(values.std())),
    }
  return measured


if __name__ == '__main__':
  for case_name in sys.argv[1:] or CASES:
    made = [row(case_name, num) for num in CASES[case_name].sizes]
    coverage.write(made, [*CASES], TABLE)
