"""How often intervals hold the truth: made-up data, and real metrics.

    python -m tests.evaluation.coverage [DESIGN ...]

measures designs (all of them) anew and keeps the rows in coverage.csv, beside
this file; coverage_study_test.py holds them to what is asked of intervals.
"""

from __future__ import annotations

import concurrent.futures
import csv
import functools
import pathlib
import sys
import zlib
from collections.abc import Callable

import numpy as np
from scipy import special

from wm.evaluation import statistics

TABLE = pathlib.Path(__file__).with_name('coverage.csv')
CLUSTERS = (50, 100, 300, 1000)
FEW = (2, 5, 10, 20, 40)
TRUTHS = (0.03, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.96, 0.98, 0.99, 0.995)
REPEATS = 10_000
_BLOCK = 100_000  # Clusters held at once.
_DRAWN = 1000  # Repetitions of the bootstrap held at once.

# Sums of value times weight, and of weight, [R, G] each.
Sample = tuple[np.ndarray, np.ndarray]
Design = Callable[[np.random.Generator, np.ndarray, int], Sample]
Shape = tuple[int, int]
Row = dict[str, str | float]


def _rates(
  rng: np.random.Generator, truth: np.ndarray, num: int, icc: float
) -> np.ndarray:
  """[R, G] each cluster's own rate, of intra-cluster correlation `icc`."""
  truth = np.broadcast_to(truth[:, None], (len(truth), num))
  if icc == 0:
    return truth
  if icc == 1:
    return (rng.random(truth.shape) < truth).astype(float)
  size = 1 / icc - 1
  return rng.beta(truth * size, (1 - truth) * size)


def _even(size: int, icc: float) -> Design:
  """Clusters of `size` trials of 0 or 1."""

  def draw(rng: np.random.Generator, truth: np.ndarray, num: int) -> Sample:
    hits = rng.binomial(size, _rates(rng, truth, num, icc))
    return hits.astype(float), np.full(hits.shape, float(size))

  return draw


def _sizes(rng: np.random.Generator, shape: Shape) -> np.ndarray:
  """1 to 60, a third of them 5 and less, a tenth 22 and more."""
  return np.minimum(np.ceil(rng.lognormal(2.2, 0.7, shape)), 60).astype(int)


def _uneven(icc: float) -> Design:
  """Clusters of unequal numbers of trials."""

  def draw(rng: np.random.Generator, truth: np.ndarray, num: int) -> Sample:
    sizes = _sizes(rng, (len(truth), num))
    hits = rng.binomial(sizes, _rates(rng, truth, num, icc))
    return hits.astype(float), sizes.astype(float)

  return draw


def _weighted(rng: np.random.Generator, truth: np.ndarray, num: int) -> Sample:
  """Independent trials of unequal weight."""
  hits = _rates(rng, truth, num, 1)
  weight = rng.gamma(4, 0.25, hits.shape) + 0.05
  return hits * weight, weight


def _long_fail(rng: np.random.Generator, truth: np.ndarray, num: int) -> Sample:
  """Longer clusters fail (or hit, below one half) more often."""
  sizes = _sizes(rng, (len(truth), num))
  few = np.minimum(truth, 1 - truth)[:, None]
  many = _sizes(np.random.default_rng(0), (1, 100_000)).astype(float)
  tilt = 0.4 * (sizes / (many**2).mean() * many.mean() - 1)
  failing = rng.binomial(sizes, np.clip(few * (1 + tilt), 0, 1)).astype(float)
  return np.where(truth[:, None] > 0.5, sizes - failing, failing), sizes * 1.0


def _broken(share: float) -> Design:
  """Clusters of 20 trials; so many of them fail whole, as seldom ones do."""

  def draw(rng: np.random.Generator, truth: np.ndarray, num: int) -> Sample:
    failing = np.minimum(share, 1 - truth)
    hits = rng.binomial(
      20, np.clip(truth / (1 - failing), 0, 1)[:, None], (len(truth), num)
    )
    whole = rng.random(hits.shape) >= failing[:, None]
    return (hits * whole).astype(float), np.full(hits.shape, 20.0)

  return draw


def _fractions(size: float) -> Design:
  """Trials between 0 and 1, the less alike the smaller `size`."""

  def draw(rng: np.random.Generator, truth: np.ndarray, num: int) -> Sample:
    value = _rates(rng, truth, num, 1 / (1 + size))
    return value, np.ones_like(value)

  return draw


def _mixed(rng: np.random.Generator, truth: np.ndarray, num: int) -> Sample:
  """Half of the trials 0 or 1, half fractions of a few: recall, precision."""
  shape = len(truth), num
  fraction = rng.binomial(
    several := rng.integers(2, 13, shape), _rates(rng, truth, num, 0.25)
  )
  pure = rng.random(shape) < 0.5
  value = np.where(pure, _rates(rng, truth, num, 1), fraction / several)
  return value, np.ones(shape)


BOUNDED: dict[str, Design] = {
  'independent': _even(1, 0),
  'even clusters of 5, icc 0': _even(5, 0),
  'even clusters of 20, icc .05': _even(20, 0.05),
  'even clusters of 20, icc .3': _even(20, 0.3),
  'uneven clusters, icc 0': _uneven(0),
  'uneven clusters, icc .1': _uneven(0.1),
  'uneven clusters, icc .3': _uneven(0.3),
  'uneven clusters, icc 1': _uneven(1),
  'unequal weights': _weighted,
  'long clusters fail more': _long_fail,
  'a tenth of clusters fail whole': _broken(0.1),
  'one cluster in twenty fails whole': _broken(0.05),
  'fractions, alike': _fractions(5),
  'fractions, unlike': _fractions(0.5),
  'mixed 0, 1 and fractions': _mixed,
}


def _poisson(
  rng: np.random.Generator, shape: Shape, *, mean: float
) -> np.ndarray:
  return rng.poisson(mean, shape)


def _geometric(
  rng: np.random.Generator, shape: Shape, *, mean: float
) -> np.ndarray:
  return rng.geometric(1 / (1 + mean), shape) - 1


def _trips(rng: np.random.Generator, shape: Shape) -> np.ndarray:
  """Detours, one in ten steps, on trips of which half end at once."""
  steps = rng.geometric(0.08, shape)
  return rng.binomial(steps, 0.1) * (rng.random(shape) < 0.5)


def _gamma(
  rng: np.random.Generator, shape: Shape, *, order: float
) -> np.ndarray:
  """Mean 1, skewness 2 / sqrt(order)."""
  return rng.gamma(order, 1 / order, shape)


def _lognormal(
  rng: np.random.Generator, shape: Shape, *, sigma: float
) -> np.ndarray:
  return rng.lognormal(-sigma * sigma / 2, sigma, shape)


def _tokens(rng: np.random.Generator, shape: Shape) -> Sample:
  """Nats of sequences of unequal length, some harder than others."""
  sizes = _sizes(rng, shape)
  return rng.gamma(sizes, rng.lognormal(-0.08, 0.4, shape)), sizes * 1.0


def _clustered(rng: np.random.Generator, shape: Shape) -> Sample:
  """Counts in clusters of 1 to 8 trials with a common rate."""
  sizes = rng.integers(1, 9, shape)
  rate = rng.gamma(1, 1, shape)
  return rng.poisson(rate * sizes).astype(float), sizes * 1.0


def _alone(
  draw: Callable[[np.random.Generator, Shape], np.ndarray],
) -> Callable[[np.random.Generator, Shape], Sample]:
  """Each value is its own cluster, of weight 1."""

  def sample(rng: np.random.Generator, shape: Shape) -> Sample:
    return draw(rng, shape).astype(float), np.ones(shape)

  return sample


# Name -> mean and what draws.
FREE: dict[str, tuple[float, Callable[..., Sample]]] = {
  'Poisson counts of .1': (0.1, _alone(functools.partial(_poisson, mean=0.1))),
  'Poisson counts of 2': (2, _alone(functools.partial(_poisson, mean=2))),
  'geometric counts of .2': (
    0.2,
    _alone(functools.partial(_geometric, mean=0.2)),
  ),
  'geometric counts of 2': (2, _alone(functools.partial(_geometric, mean=2))),
  'detours, half of the trips end at once': (0.625, _alone(_trips)),
  'counts in clusters': (1, _clustered),
  'nats, by token': (1, _tokens),
  'gamma, skewness 2': (1, _alone(functools.partial(_gamma, order=1))),
  'gamma, skewness 2.8': (1, _alone(functools.partial(_gamma, order=0.5))),
  'lognormal, skewness 1.7': (
    1,
    _alone(functools.partial(_lognormal, sigma=0.5)),
  ),
  'lognormal, skewness 6.2': (
    1,
    _alone(functools.partial(_lognormal, sigma=1)),
  ),
}


def _exact_width(totals: np.ndarray, num: int) -> np.ndarray:
  """[R] widths of Clopper & Pearson's interval."""
  hits = totals.sum(1)
  tail = (1 - statistics.LEVEL) / 2
  low = special.betaincinv(np.maximum(hits, 1), num - hits + 1, tail)
  high = special.betaincinv(hits + 1, np.maximum(num - hits, 1), 1 - tail)
  return np.where(hits < num, high, 1) - np.where(hits > 0, low, 0)


def _rng(*key: object) -> np.random.Generator:
  return np.random.default_rng(zlib.crc32(repr(key).encode()))


def bounded(design: str, num: int, truth: float, repeats: int) -> Row:
  """One row: coverage at the truth, and on average over those beside it."""
  rng = _rng(design, num, truth)
  reach = num**-0.5
  at, near, exact = [], [], []
  for start in range(0, repeats, step := max(_BLOCK // num, 1)):
    size = min(step, repeats - start)
    totals, weights = BOUNDED[design](rng, np.full(size, truth), num)
    at.append(_judged(totals, weights, truth))
    if design == 'independent':
      exact.append(_exact_width(totals, num))
    # Half as many, of truths drawn beside this one.
    least, most = max(truth - reach, 1e-3), min(truth + reach, 1 - 1e-3)
    several = rng.uniform(least, most, -(-size // 2))
    near.append(_judged(*BOUNDED[design](rng, several, num), several))
  row = _row(design, num, truth, np.concatenate(at, 1))
  row['near'] = 1 - float(np.concatenate(near, 1)[:2].sum(0).mean())
  if exact:
    row['width_ratio'] = row['width'] / float(np.concatenate(exact).mean())
  return row


def _judged(
  totals: np.ndarray, weights: np.ndarray, truth: np.ndarray | float
) -> np.ndarray:
  """[4, R] whether intervals lie below, or above the truth; widths; values."""
  low, high = statistics.korn_graubard(totals, weights)
  value = totals.sum(1) / weights.sum(1)
  return np.stack([high < truth, low > truth, high - low, value])


def free(design: str, num: int, repeats: int) -> Row:
  """One row; coverage is of those samples that have an interval at all."""
  mean, draw = FREE[design]
  rng = _rng(design, num)
  blocks = []
  for start in range(0, repeats, _DRAWN):
    shape = min(_DRAWN, repeats - start), num
    totals, weights = draw(rng, shape)
    low, high, _ = statistics.unbounded_interval(totals, weights)
    value = totals.sum(1) / weights.sum(1)
    blocks.append((high < mean, low > mean, high - low, value))
  at = np.concatenate(blocks, 1)
  several = np.isfinite(at[2])
  row = _row(design, num, mean, at[:, several])
  row['none'] = 1 - float(several.mean())
  return row


def _row(design: str, num: int, truth: float, at: np.ndarray) -> Row:
  below, above = at[:2].mean(1)
  # Of a normal mean whose standard error is known.
  ideal = 2 * special.ndtri((1 + statistics.LEVEL) / 2) * at[3].std()
  return {
    'design': design,
    'clusters': num,
    'truth': truth,
    'repeats': at.shape[1],
    'coverage': float(1 - below - above),
    'below': float(below),
    'above': float(above),
    'width': float(at[2].mean()),
    'ideal_ratio': float(at[2].mean() / ideal),
  }


def rows(design: str, repeats: int = REPEATS) -> list[Row]:
  """All rows of a design."""
  if design in FREE:
    return [free(design, num, repeats) for num in (*FEW, *CLUSTERS)]
  return [
    bounded(design, num, truth, repeats)
    for num in (*FEW, *CLUSTERS)
    for truth in TRUTHS
  ]


def read(table: pathlib.Path = TABLE) -> list[Row]:
  """A kept table, numbers as numbers; the first column is a name."""
  with open(table, encoding='utf-8', newline='') as file:
    lines = csv.DictReader(file)
    name = (lines.fieldnames or [''])[0]
    return [
      {key: x if key == name else float(x) for key, x in line.items() if x}
      for line in lines
    ]


def write(
  measured: list[Row], names: list[str], table: pathlib.Path = TABLE
) -> None:
  """Replaces the rows of the names that were measured; in order of names."""
  key = next(iter(measured[0]))
  new = {row[key] for row in measured}
  rows = [row for row in read(table) if row[key] not in new] + measured
  rows.sort(key=lambda row: names.index(str(row[key])))
  columns = dict.fromkeys(column for row in rows for column in row)
  with open(table, 'w', encoding='utf-8', newline='') as file:
    writer = csv.DictWriter(file, [*columns], lineterminator='\n')
    writer.writeheader()
    for row in rows:
      writer.writerow(
        {
          column: f'{x:.5g}' if isinstance(x, float) else x
          for column, x in row.items()
        }
      )


if __name__ == '__main__':
  designs = [*BOUNDED, *FREE]
  with concurrent.futures.ProcessPoolExecutor() as pool:
    for made in pool.map(rows, sys.argv[1:] or designs):
      write(made, designs)
