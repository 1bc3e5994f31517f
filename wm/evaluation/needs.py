"""What metrics need, and the row that says that it is not there."""

from __future__ import annotations

import numpy as np

from wm import core


def lacks(
  metric: core.Metric, predictor: core.Predictor, world: core.World
) -> list[str]:
  """What the metric needs that predictor and world leave at the default."""
  missing = []
  for need in metric.needs:
    of_model = hasattr(core.Predictor, need)
    thing, base = (
      (predictor, core.Predictor) if of_model else (world, core.World)
    )
    if getattr(type(thing), need, None) is getattr(base, need, None):
      missing.append(need)
  return missing


def unmeasurable(missing: list[str]) -> core.Scores:
  """A row that says why a metric could not be run at all."""
  return core.scores('all', [np.nan], reason=[f'needs_{missing[0]}'])
