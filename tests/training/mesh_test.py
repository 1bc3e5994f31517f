"""A device's work is the same however many there are, and so are results."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.training import programs

FAMILIES = list(programs.FAMILIES)


@functools.cache
def lines() -> dict[tuple[str, int, int], dict]:
  """What 8 forced devices say, by family and mesh."""
  flags = (
    '--xla_force_host_platform_device_count=8 '
    '--xla_backend_optimization_level=0'
  )
  done = subprocess.run(
    [sys.executable, '-m', 'tests.training.programs'],
    env={**os.environ, 'XLA_FLAGS': flags},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  found = map(json.loads, done.stdout.splitlines())
  return {(line['family'], *line['mesh']): line for line in found}


@pytest.mark.parametrize('family', FAMILIES)
def test_more_devices_do_not_make_more_work(family):
  """Weights of a model axis are halves, so that there it may be less."""
  one = lines()[family, 1, 1]
  for (name, data, model), line in lines().items():
    if name == family and data > 1:
      for figure in ('memory', 'flops'):
        ratio = line[figure] / one[figure]
        assert ratio < 1.1, f'{figure} on {data} x {model}: {ratio:.2f} times'
        assert model > 1 or ratio > 0.9, f'{figure}: {ratio:.2f} times'


@pytest.mark.parametrize('family', FAMILIES)
def test_results_do_not_depend_on_the_mesh(family):
  for (name, data, _), line in lines().items():
    if name == family and data > 1:
      one, other = np.array(line['alike'])
      one[:4] *= data  # Sums; then the gradient's norm and the learning rate.
      np.testing.assert_allclose(other, one, rtol=1e-5)
      assert line['apart'] < 2e-5
      np.testing.assert_allclose(*line['sums'][::-1], rtol=1e-5)
