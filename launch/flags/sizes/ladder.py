"""Prints the rungs of ladder.sh and the law that they give.

  python launch/flags/sizes/ladder.py runs/sizes/ladder

A rung is (intersections, tokens until 96 % of held-out routes arrive). The law
is a line through logarithms for each traversal, with Student's 95 % interval
where there are three rungs or more; it predicts the next rung, and Manhattan.
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

SHARE = 0.96
MANHATTAN = 4_580
# The paper's model, and a GPU's rate of it: 40 % of 989 TFLOP/s.
PARAMETERS, RATE = 89.4e6, 0.4 * 989e12


class Rung(NamedTuple):
  """A run; `tokens` and `seconds` are until SHARE, NaN where it is below."""

  traversal: str
  intersections: int
  sequences: int
  tokens: float
  seconds: float
  last: float


def rung(folder: pathlib.Path) -> Rung:
  """Reads a run and its course."""
  course = pd.read_csv(folder / 'course' / 'course.csv')
  valid = course[course.quantity == 'valid'].sort_values('step')
  steps, values = valid.step.to_numpy(), valid.value.to_numpy()
  train: dict[str, Any] = json.loads((folder / 'train.json').read_text())
  sample = json.loads((folder / 'sample.run.json').read_text())
  reached = reach(steps, values)
  share = reached / train['step']
  return Rung(
    folder.name.partition('_')[0],
    intersections(folder),
    int(sample.get('num', 0)),
    train['tokens'] * share,
    train['seconds'] * share,
    float(values[-1]),
  )


def reach(steps: np.ndarray, values: np.ndarray) -> float:
  """The step from which on all values are at least SHARE; NaN if none is.

  Between two checkpoints it is where a line through both has SHARE.
  """
  below = np.flatnonzero(values < SHARE)
  if not below.size:
    return float(steps[0])
  last = below[-1]
  if last == len(steps) - 1:
    return float('nan')
  x, y = steps[last : last + 2], values[last : last + 2]
  return float(np.interp(SHARE, y, x))


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
  print('traversal  intersections  M tokens  minutes  arrive at the end')
  for r in rungs:
    print(
      f'{r.traversal:9}  {r.intersections:13}  {r.tokens / 1e6:8.2f}  '
      f'{r.seconds / 60:7.1f}  {r.last:17.3f}'
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
