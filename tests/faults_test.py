"""Work that meets a fault is lost in no way; see `tests.faults`."""

import json
import os
import subprocess
import sys

import pytest

from tests.attack import kills


def cells(root, *flags: str) -> list[dict]:
  """What each work under each fault leaves; none of it is lost or another."""
  done = subprocess.run(
    [sys.executable, '-m', 'tests.faults', *flags],
    cwd=root,
    env={**os.environ, 'PYTHONHASHSEED': '0'},
    capture_output=True,
    text=True,
  )
  results = [json.loads(line) for line in done.stdout.splitlines()]
  assert results, done.stderr[-2000:]
  bad = [cell for cell in results if cell['losses'] or cell['differences']]
  assert not bad, json.dumps(bad, indent=1)
  return results


@pytest.mark.slow
@pytest.mark.parametrize('name', kills.WORK)
def test_nothing_is_lost_and_nothing_is_different(root, name):
  assert len(cells(root, f'--work={name}', '--kills=3')) > 10


@pytest.mark.process
def test_killed_once_and_run_again_it_is_the_same(root):
  works = '--work=train', '--work=score'  # All of it takes over a minute.
  assert len(cells(root, *works, '--fault=kill', '--kills=1')) == 2
