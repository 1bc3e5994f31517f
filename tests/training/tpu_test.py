"""Training steps compiled for TPU pods, on a machine that has none.

Needs the extra `tpu`: its compiler, not its chips.
"""

import json
import os
import subprocess
import sys

import pytest

from tests.training import programs

# Chips -> the smallest topology of v5e that is compiled for.
TOPOLOGIES = {1: 'v5e:2x2', 4: 'v5e:2x2', 16: 'v5e:4x4'}
ROWS = 256


def figures(family: str) -> None:
  """Prints [chips, bytes of temporaries, operations] of a chip, as JSON."""
  from jax.experimental import topologies

  for chips, name in TOPOLOGIES.items():
    found = topologies.get_topology_desc(platform='tpu', topology_name=name)
    mesh = programs.mesh(found.devices, chips)
    program = programs.compiled(
      *programs.FAMILIES[family],
      mesh,
      rows=ROWS,
      # A product that goes round the chips is a loop, counted once.
      options={'xla_jf_spmd_threshold_for_windowed_einsum_mib': 1_000_000},
    )
    print(json.dumps([chips, program.memory, program.flops]), flush=True)


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
  memory, flops = ({row[0]: row[k] for row in rows} for k in (1, 2))
  for chips in (4, 16):
    assert flops[chips] == pytest.approx(flops[1], rel=0.1)
  # One chip alone keeps small arrays where they are not counted.
  assert memory[4] <= 1.1 * memory[1] + 4e6
  assert memory[16] == pytest.approx(memory[4], rel=0.1, abs=1e6)


if __name__ == '__main__':
  figures(sys.argv[1])
