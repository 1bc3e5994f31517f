"""Every process that collects the suite finds the same tests.

Workers of pytest-xdist collect for themselves and refuse to run where they
differ: an id must not depend on the time, the process or the hash seed.
"""

import os
import pathlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

ROOT = pathlib.Path(__file__).resolve().parent.parent


def test_ids_do_not_depend_on_time_process_or_hash_seed(request):
  """This process collected seconds ago; another does so now, by a seed."""
  files = {str(item.path) for item in request.session.items}
  command = '-m', 'pytest', '--collect-only', '-q', '-m', 'slow or not slow'
  result = subprocess.run(
    [sys.executable, *command, '-p', 'no:cacheprovider', *sorted(files)],
    cwd=ROOT,
    env={**os.environ, 'PYTHONHASHSEED': '1'},
    capture_output=True,
    text=True,
    timeout=600,
  )
  assert result.returncode == 0, result.stdout[-2000:]
  collected = {line for line in result.stdout.splitlines() if '::' in line}
  ids = {item.nodeid for item in request.session.items}
  assert not ids - collected
