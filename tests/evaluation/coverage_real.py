"""How often intervals hold the truth: metrics of oracles with known faults.

    python -m tests.evaluation.coverage_real

runs each metric once for many trials, whose score is the truth, and draws
samples of them: trials of a metric are drawn alike and apart, so a sample of
its rows is what a short run gives. Tasks of so small a map recur, so whole
clusters do, and the truth is held more often than among ever new ones. The
rows go to coverage_real.csv.
"""

from __future__ import annotations

import csv
import pathlib
from collections.abc import Iterator

import numpy as np

from tests.evaluation import coverage
from wm import core
from wm.core import registry
from wm.evaluation import statistics
from wm.metrics import compression, detour, distinction, next_token
from wm.models.serving import oracles

TABLE = pathlib.Path(__file__).with_name('coverage_real.csv')
WORLD = 'maps(rows=6, columns=6)'
TRIALS = 2000
SIZES = (40, 100, 300)
REPEATS = 1000
# Share of prefixes taken for another state, and what is read.
MANY, SOME, FEW = 0.2, 0.02, 0.002


def _metrics(
  trials: int,
) -> list[tuple[core.Metric, tuple[float, ...], tuple[str, ...]]]:
  """Metric, faults of the oracle, quantities."""
  return [
    (
      next_token.Metric(num=trials),
      (MANY, SOME, FEW),
      ('validity', 'valid_mass', 'set_recall'),
    ),
    (
      compression.Metric(trials=trials, samples=8, k=4),
      (SOME, FEW, FEW / 10),
      ('precision',),
    ),
    (
      distinction.Metric(trials=trials, samples=8, k=3, sample_k=3),
      (MANY, SOME, FEW),
      ('precision', 'recall'),
    ),
    (
      detour.Metric(num=trials, probabilities=(0.05, 0.5)),
      (MANY, SOME, FEW),
      ('valid_0.05', 'detours_0.05', 'valid_0.5', 'detours_0.5'),
    ),
  ]


def runs(trials: int = TRIALS) -> Iterator[tuple[str, core.Scores]]:
  """Name of metric, quantity and oracle, and the long run's Scores."""
  world = registry.make('world', WORLD)
  for metric, faults, quantities in _metrics(trials):
    for wrong in faults:
      oracle = oracles.NoisyOracle(
        world, illegal=0.0, wrong=wrong, by='prefix', seed=1
      )
      for scores in metric(oracle, world, 7):
        if scores.quantity in quantities:
          name = f'{metric.name}: {scores.quantity}, {wrong:g} wrong'
          yield name, statistics.subset(scores, scores.measured)


def row(
  name: str, scores: core.Scores, num: int, repeats: int
) -> coverage.Row | None:
  """Coverage of samples of `num` trials; None where all trials agree."""
  truth = statistics.summarize(scores)['value']
  if np.ptp(scores.value) == 0:
    return None
  rng = np.random.default_rng(num)
  results = []
  for _ in range(repeats):
    drawn = np.bincount(
      rng.integers(0, len(scores.value), num), minlength=len(scores.value)
    )
    # The same trial twice is two trials of one cluster.
    item = statistics.summarize(
      statistics.subset(scores, np.repeat(np.arange(len(drawn)), drawn))
    )
    if item['low'] is not None:
      low, high = item['low'], item['high']
      results.append((high < truth, low > truth, high - low, item['clusters']))
  below, above, width, clusters = np.mean(results, 0)
  return {
    'run': name,
    'trials': num,
    'clusters': float(clusters),
    'truth': float(truth),
    'repeats': len(results),
    'coverage': float(1 - below - above),
    'below': float(below),
    'above': float(above),
    'width': float(width),
    'none': 1 - len(results) / repeats,
  }


def rows(trials: int, repeats: int) -> Iterator[coverage.Row]:
  """All rows."""
  for name, scores in runs(trials):
    for num in SIZES:
      # Bootstraps take longer.
      bounded = scores.bounds and scores.bounds[1] is not None
      sample = repeats if bounded else repeats * 2 // 5
      if result := row(name, scores, num, sample):
        yield result


def read() -> list[coverage.Row]:
  """The kept table, numbers as numbers."""
  with open(TABLE, encoding='utf-8', newline='') as file:
    return [
      {k: x if k == 'run' else float(x) for k, x in item.items()}
      for item in csv.DictReader(file)
    ]


def write(found: list[coverage.Row]) -> None:
  """Replaces the table."""
  with open(TABLE, 'w', encoding='utf-8', newline='') as file:
    writer = csv.DictWriter(file, found[0], lineterminator='\n')
    writer.writeheader()
    for item in found:
      writer.writerow(
        {k: f'{x:.5g}' if isinstance(x, float) else x for k, x in item.items()}
      )


if __name__ == '__main__':
  write(list(rows(TRIALS, REPEATS)))
