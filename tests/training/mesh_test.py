"""A device's work is the same however many there are, and so are results."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests import compiler
from tests.training import programs

# Attention, as a scan over layers, and a recurrence.
SOME = ['transformer, scan', 'lstm']
REST = [name for name in programs.FAMILIES if name not in SOME]
FAMILIES = SOME + [pytest.param(x, marks=pytest.mark.slow) for x in REST]


@functools.cache
def lines(group: tuple[str, ...]) -> dict[tuple[str, int, int], dict]:
  """What 8 forced devices say, by family and mesh."""
  done = subprocess.run(
    [sys.executable, '-m', 'tests.training.programs', *group],
    env={**os.environ, 'XLA_FLAGS': compiler.flags(devices=8)},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  results = map(json.loads, done.stdout.splitlines())
  return {(line['family'], *line['mesh']): line for line in results}


def of(family: str) -> dict[tuple[str, int, int], dict]:
  """The lines of a family; those it is run with are made at once."""
  result = lines(tuple(SOME if family in SOME else REST))
  return {key: line for key, line in result.items() if key[0] == family}


@pytest.mark.process
@pytest.mark.parametrize('family', FAMILIES)
def test_more_devices_do_not_make_more_work(family):
  """Weights of a model axis are halves, so that there it may be less."""
  item = of(family)[family, 1, 1]
  for (_, data, model), line in of(family).items():
    if data > 1:
      for figure in ('memory', 'flops'):
        ratio = line[figure] / item[figure]
        assert ratio < 1.1, f'{figure} on {data} x {model}: {ratio:.2f} times'
        assert model > 1 or ratio > 0.9, f'{figure}: {ratio:.2f} times'


@pytest.mark.process
@pytest.mark.parametrize('family', FAMILIES)
def test_results_do_not_depend_on_the_mesh(family):
  for (_, data, _), line in of(family).items():
    if data > 1:
      first, other = np.array(line['alike'])
      first[:4] *= data  # Sums; then the gradient's norm and the learning rate.
      np.testing.assert_allclose(other, first, rtol=1e-5)
      assert line['apart'] < 2e-5
      np.testing.assert_allclose(*line['sums'][::-1], rtol=1e-5)
