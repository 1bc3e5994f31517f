"""Disagreements on all pairs of points: 10,000 points, 100 data sets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.bench import harness
from tests.kernels import pairs_ref as ref
from wm.kernels import pairs

POINTS, SETS, FEW = 10_000, 100, 1_000


def _points(num: int) -> tuple[np.ndarray, ...]:
  """Answers to points of 64 states that share 8 legal sets."""
  rng = np.random.default_rng(0)
  states = rng.integers(64, size=num)
  return rng.integers(2, size=(SETS, num)), states, states % 8


def _pairwise(
  answers: np.ndarray, states: np.ndarray, legal: np.ndarray
) -> np.ndarray:
  """[D, 3] disagreements by a matrix of all ordered pairs of each data set."""
  same = states[:, None] == states
  alike = ~same & (legal[:, None] == legal)
  kinds = np.stack([same, alike, ~same & ~alike])
  result = []
  for row in answers:
    apart = row[:, None] != row
    result.append(np.count_nonzero(kinds & apart, axis=(1, 2)) // 2)
  return np.array(result)


def bench_pairs() -> Iterator[harness.Line]:
  """R and D of all points; the baseline has a tenth of them for memory."""
  inputs, few = _points(POINTS), _points(FEW)
  if not np.array_equal(pairs.count(*few).apart, _pairwise(*few)):
    raise AssertionError('the compiled kernel differs from the pairs')
  if not np.array_equal(
    pairs.count(*few).apart[:2], ref.count(few[0][:2], *few[1:]).apart
  ):
    raise AssertionError('the compiled kernel differs from the reference')
  fast = harness.measure(lambda: pairs.count(*inputs))
  same = harness.measure(lambda: pairs.count(*few))
  slow = harness.measure(lambda: _pairwise(*few), runs=1)
  yield harness.Line(
    name='pairs, 10,000 points x 100 data sets',
    value=fast.wall,
    unit='s',
    compile_s=fast.compile_s,
    target='.02 s',
  )
  yield harness.Line(
    name='pairs, 1,000 points x 100 data sets',
    value=same.wall,
    unit='s',
    baseline='pairwise NumPy, same run',
    ratio=slow.wall / same.wall,
  )
