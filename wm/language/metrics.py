"""Standard errors of means, for Inspect's scorers.

Where the package is installed, Inspect calls its metrics `wm/NAME`.
"""

from __future__ import annotations

import math
from typing import cast

from inspect_ai.scorer import (
  Metric,
  MetricProtocol,
  SampleScore,
  Value,
  metric,
)
from inspect_ai.scorer import stderr as by_clusters


@metric
def stderr(cluster: str) -> Metric:
  """Standard error of a mean, by clusters; NaN of fewer than two.

  One cluster says nothing of how uncertain it is: Inspect's own is 0 there.

  cluster: key of the samples' metadata that names what they share.
  """
  clustered = cast(MetricProtocol, by_clusters(cluster=cluster))

  def compute(scores: list[SampleScore]) -> Value:
    """Returns the error over the samples with a score."""
    groups = {
      str((score.sample_metadata or {}).get(cluster)) for score in scores
    }
    return clustered(scores) if len(groups) > 1 else math.nan

  return compute
