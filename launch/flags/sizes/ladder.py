"""Prints the rungs of ladder.sh and the law that they give.

  python launch/flags/sizes/ladder.py runs/sizes/ladder

A rung is (intersections, tokens until 90 and 96 % of held-out routes arrive).
The law of 96 % is a line through logarithms for each traversal, with Student's
95 % interval where there are three rungs or more; it predicts the next rung,
and Manhattan.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy

SHARES = 0.9, 0.96
MANHATTAN = 4_580
# The paper's model, and a GPU's rate of it: 40 % of 989 TFLOP/s.
PARAMETERS, RATE = 89.4e6, 0.4 * 989e12


class Rung(NamedTuple):
  """A run; `tokens` are until each of SHARES, NaN where it stays below."""

  traversal: str
  intersections: int
  sequences: int
  early: float
  tokens: float
  minutes: float
  last: float


def rung(folder: pathlib.Path) -> Rung:
  """Reads a run and its course."""
  course = pd.read_csv(folder / 'course' / 'course.csv')
  valid = course[course.quantity == 'valid'].sort_values('step')
  steps, values = valid.step.to_numpy(), valid.value.to_numpy()
  train: dict[str, Any] = json.loads((folder / 'train.json').read_text())
  sample = json.loads((folder / 'sample.run.json').read_text())
  early, reached = (
    train['tokens'] * reach(steps, values, share) / train['step']
    for share in SHARES
  )
  return Rung(
    folder.name.partition('_')[0],
    intersections(folder),
    int(sample.get('num', 0)),
    early,
    reached,
    train['seconds'] / 60,
    float(values[-1]),
  )


def reach(steps: np.ndarray, values: np.ndarray, share: float) -> float:
  """The first step whose value and the next two have this mean; NaN if none.

  Values of single checkpoints vary by as much as .02 with 500 routes.
  """
  means = np.convolve(values, np.ones(3) / 3, 'valid')
  above = np.flatnonzero(means >= share)
  return float(steps[above[0]]) if above.size else float('nan')


def intersections(folder: pathlib.Path) -> int:
  """Of the run's world."""
  from wm.core import registry

  train = json.loads((folder / 'train.json').read_text())
  world: Any = registry.resolve('world', train['world'])
  return sum(bool(re.fullmatch(r'\d+', token)) for token in world.vocab)


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
  done = sorted(folder.glob('*/course/course.csv'))
  rungs = sorted(rung(path.parents[1]) for path in done)
  print('traversal  intersections  M tokens to .90, .96  minutes  last')
  for r in rungs:
    print(
      f'{r.traversal:9}  {r.intersections:13}  {r.early / 1e6:14.2f} '
      f'{r.tokens / 1e6:6.2f}  {r.minutes:7.1f}  {r.last:.3f}'
    )
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
