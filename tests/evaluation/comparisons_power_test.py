"""Power: the formula of books."""

import math

import numpy as np
import pytest

from wm import core
from wm.evaluation import comparisons, statistics


def _share(hits, num):
  return core.scores('q', (np.arange(num) < hits).astype(float))


def test_the_smallest_difference_that_an_entry_would_show():
  entry = statistics.summarize(_share(1400, 2000))
  detectable = comparisons.detectable(entry)
  z = 1.959964 + 0.841621
  assert detectable == pytest.approx(
    z * math.sqrt(2 * 0.7 * 0.3 / 2000), rel=0.03
  )
  assert (
    comparisons.detectable({'value': 0.5, 'low': None, 'high': None}) is None
  )
