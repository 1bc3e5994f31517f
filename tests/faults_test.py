"""Work that meets a fault is lost in no way; see `tests.faults`."""

import json
import os
import subprocess
import sys

import pytest

from tests.attack import kills


@pytest.mark.slow
@pytest.mark.parametrize('name', kills.WORK)
def test_nothing_is_lost_and_nothing_is_different(root, name):
  done = subprocess.run(
    [sys.executable, '-m', 'tests.faults', f'--work={name}', '--kills=3'],
    cwd=root,
    env={**os.environ, 'PYTHONHASHSEED': '0'},
    capture_output=True,
    text=True,
  )
  cells = [json.loads(line) for line in done.stdout.splitlines()]
  assert len(cells) > 10, done.stderr[-2000:]
  bad = [cell for cell in cells if cell['losses'] or cell['differences']]
  assert not bad, json.dumps(bad, indent=1)
