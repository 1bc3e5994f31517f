"""What metrics need, and the row that says that it is not there."""

from __future__ import annotations

import numpy as np

from wm import core

_OF_MODEL = {'hidden': core.HiddenStates, 'states': core.NamesStates}


def lacks(
  metric: core.Metric, predictor: core.Predictor, world: core.World
) -> list[str]:
  """What the metric needs that predictor and world do not have."""
  missing = []
  # A metric that asks for nothing else of the model draws next tokens.
  other = {*metric.needs} & {*_OF_MODEL}
  if not other and not isinstance(predictor, core.Predictor):
    missing.append('next_tokens')
  for need in metric.needs:
    if isinstance(need, type):
      if not isinstance(world, need):
        missing.append(need.__name__.lower())
    elif not isinstance(predictor, _OF_MODEL[need]):
      missing.append(need)
  return missing


def unmeasurable(missing: list[str]) -> core.Scores:
  """A row that says why a metric could not be run at all."""
  return core.scores('all', [np.nan], reason=[f'needs_{missing[0]}'])
