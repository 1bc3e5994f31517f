"""Training steps compiled for TPU pods, on a machine that has none.

Needs the extra `tpu`: its compiler, not its chips.
"""

import json
import os
import subprocess
import sys

import pytest

import wm
from tests.training import programs

# Chips -> the smallest topology of v5e that is compiled for.
TOPOLOGIES = {1: 'v5e:2x2', 4: 'v5e:2x2', 16: 'v5e:4x4'}
ROWS = 256


def figures(family: str) -> None:
  """Prints [chips, temporaries, operations, loops] of a step."""
  spec, objective = programs.FAMILIES[family]
  for chips, topology in TOPOLOGIES.items():
    plan = wm.plan(
      'connect4()', spec, topology, objective=objective, batch=ROWS * chips,
      mesh_data=chips, length=programs.LENGTH,
    )  # fmt: skip
    numbers = [chips, plan.temporaries, plan.flops, plan.loops]
    print(json.dumps(numbers), flush=True)


@pytest.mark.slow
@pytest.mark.parametrize('family', programs.FAMILIES)
def test_a_chip_does_the_same_on_a_pod_of_any_size(family):
  pytest.importorskip('libtpu', reason='the extra tpu is not installed')
  without = {'TPU_SKIP_MDS_QUERY': '1', 'JAX_PLATFORMS': 'cpu'}
  done = subprocess.run(
    [sys.executable, '-m', 'tests.training.tpu_test', family],
    env={**os.environ, **without},
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr[-2000:]
  rows = [json.loads(x) for x in done.stdout.splitlines() if x[:1] == '[']
  memory, flops, loops = ({row[0]: row[k] for row in rows} for k in (1, 2, 3))
  for chips in (4, 16):
    assert flops[chips] == pytest.approx(flops[1], rel=0.1)
    # No product is cut into a loop that goes round the chips.
    assert loops[chips] == loops[1]
  # One chip alone keeps small arrays where they are not counted.
  assert memory[4] <= 1.1 * memory[1] + 4e6
  assert memory[16] == pytest.approx(memory[4], rel=0.1, abs=1e6)


if __name__ == '__main__':
  figures(sys.argv[1])
