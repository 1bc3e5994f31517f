"""Prints the rungs of ladder.sh and the law that they give.

  python launch/docs/ladder.py runs/sizes/ladder

A rung is (intersections, tokens until 96 % of held-out routes arrive), between
the runs of two numbers of steps. The law is a line through logarithms for each
traversal, with Student's 95 % interval where there are three rungs or more; it
predicts the next rung, and Manhattan.
"""

from __future__ import annotations

import itertools
import json
import math
import pathlib
import sys
from typing import Any, NamedTuple

import numpy as np
import scipy

SHARE = 0.96
MANHATTAN = 4_580
# The paper's model, and a GPU's rate of it: 40 % of 989 TFLOP/s.
PARAMETERS, RATE = 89.4e6, 0.4 * 989e12


class Run(NamedTuple):
  """A trained model: its training, and the share of routes that arrive."""

  traversal: str
  intersections: int
  steps: int
  tokens: float
  minutes: float
  valid: float


class Rung(NamedTuple):
  """Tokens until SHARE; NaN where no run has it, or all have."""

  traversal: str
  intersections: int
  tokens: float


def read(folder: pathlib.Path) -> Run:
  """Reads a run."""
  train: dict[str, Any] = json.loads((folder / 'train.json').read_text())
  entries = json.loads((folder / 'scores.json').read_text())
  valid = next(x['value'] for x in entries if x['quantity'] == 'valid')
  return Run(
    folder.name.partition('_')[0],
    intersections(train['world']),
    *(train['step'], train['tokens'], train['seconds'] / 60, valid),
  )


def rungs_of(runs: list[Run]) -> list[Rung]:
  """Where SHARE lies between two runs, by a line over log tokens."""
  result = []
  for key in sorted({run[:2] for run in runs}):
    steps = sorted((run.tokens, run.valid) for run in runs if run[:2] == key)
    tokens = float('nan')
    for (x, low), (y, high) in itertools.pairwise(steps):
      if low < SHARE <= high:
        part = (SHARE - low) / (high - low)
        tokens = math.exp((1 - part) * math.log(x) + part * math.log(y))
        break
    result.append(Rung(*key, tokens))
  return result


def intersections(spec: str) -> int:
  """Of a world."""
  from wm.core import registry

  world: Any = registry.resolve('world', spec)
  return len(world.graph)


def law(rungs: list[Rung], at: float) -> tuple[float, float, float, float]:
  """Exponent, and tokens at so many intersections with a 95 % interval."""
  x = np.log([r.intersections for r in rungs])
  y = np.log([r.tokens for r in rungs])
  slope, start = np.polyfit(x, y, 1)
  value = start + slope * np.log(at)
  free = len(x) - 2
  if free < 1:
    return slope, float(np.exp(value)), float('nan'), float('nan')
  rest = y - (start + slope * x)
  spread = np.sqrt((rest**2).sum() / free)
  middle = x.mean()
  lever = 1 + 1 / len(x)
  lever += (np.log(at) - middle) ** 2 / ((x - middle) ** 2).sum()
  width = scipy.special.stdtrit(free, 0.975) * spread * np.sqrt(lever)
  return slope, *(float(np.exp(value + k * width)) for k in (0, -1, 1))


def main(folder: pathlib.Path) -> None:
  """Prints both tables."""
  runs = sorted(read(path.parent) for path in folder.glob('*/scores.json'))
  print('traversal  intersections   steps  M tokens  minutes  arrive')
  for run in runs:
    print(
      f'{run.traversal:9}  {run.intersections:13}  {run.steps:6,}  '
      f'{run.tokens / 1e6:8.2f}  {run.minutes:7.1f}  {run.valid:6.3f}'
    )
  rungs = rungs_of(runs)
  for traversal in sorted({r.traversal for r in rungs}):
    good = [r for r in rungs if r.traversal == traversal and r.tokens > 0]
    if len(good) < 2:
      continue
    for at in (145, 326, 575, MANHATTAN):
      if at in {r.intersections for r in good}:
        continue
      slope, *ends = law(good, at)
      tokens, low, high = (f'{end / 1e6:.3g}' for end in ends)
      hours = 6 * PARAMETERS * ends[0] / RATE / 3600
      print(
        f'{traversal}: intersections ** {slope:.2f}; {at}: {tokens} M tokens '
        f'[{low}, {high}], {hours:.2g} H100-hours of the 89 M model'
      )


if __name__ == '__main__':
  main(pathlib.Path(sys.argv[1]))
