"""Entries of scores.json and breakdown.json: rows summed up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import wm
from wm import core
from wm.core import registry
from wm.evaluation import statistics

# A side column is broken down only where it takes no more values than this.
MOST_VALUES = 128

Entry = dict[str, Any]


def entry(
  metric: core.Metric,
  scores: core.Scores,
  world: core.World,
  *,
  seed: int,
  model_name: str,
  summary: statistics.Summary | None = None,
  extra: Entry | None = None,
) -> Entry:
  """One object of scores.json; `summary` defaults to that of all trials."""
  summary = statistics.summarize(scores, seed) if summary is None else summary
  return {
    'metric': metric.name,
    'quantity': scores.quantity,
    'world': registry.spec(world),
    'model': model_name,
    **summary,
    'seed': seed,
    'spec': registry.spec(metric),
    'accept': getattr(metric, 'accept', None),
    'counts': {cause: int(num) for cause, num in scores.counts.items()},
    'metric_version': metric.version,
    'world_version': world.version,
    'wm_version': wm.__version__,
    **(extra or {}),
  }


def breakdown(
  metric: core.Metric,
  scores: core.Scores,
  world: core.World,
  *,
  seed: int,
  model_name: str,
  extra: Entry | None = None,
) -> Iterator[Entry]:
  """Entries of subsets: by each of the world's tags, and as the metric says.

  A metric names further columns in `breakdown`. Each entry has
  `where`, the column and its value.
  """
  names = [*world.tags(world.init(1)), *metric.breakdown]
  for name in names:
    column = scores.columns.get(name)
    if column is None or not 1 < len(np.unique(column)) <= MOST_VALUES:
      continue
    for value, summary in statistics.by_column(scores, name, seed):
      yield {
        **entry(
          metric,
          scores,
          world,
          seed=seed,
          model_name=model_name,
          summary=summary,
          extra=extra,
        ),
        'counts': {},
        'where': {name: value},
      }


def summed_up(
  metric: core.Metric,
  found: Sequence[core.Scores],
  world: core.World,
  **named: Any,
) -> tuple[list[Entry], list[Entry]]:
  """Entries of all trials of a metric, and of its breakdown.

  named: as in `entry`.
  """
  entries = [entry(metric, scores, world, **named) for scores in found]
  parts = [
    part
    for scores in found
    for part in breakdown(metric, scores, world, **named)
  ]
  return entries, parts
