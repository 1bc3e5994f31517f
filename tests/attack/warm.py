"""The warm process, as tests start it."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

ENV = {**os.environ, 'PYTHONHASHSEED': '0'}


def attack(root: pathlib.Path, *arguments: str) -> list[dict]:
  """What the warm process says, a line each."""
  done = subprocess.run(
    [sys.executable, '-m', 'tests.attack', '--json', *arguments],
    cwd=root,
    env=ENV,
    capture_output=True,
    text=True,
  )
  results = [json.loads(line) for line in done.stdout.splitlines()]
  failed = any(result['faults'] for result in results)
  assert done.returncode == int(failed), done.stderr[-4000:]
  return results


def check(results: list[dict]) -> None:
  """Fails with the cases that failed."""
  failed = {r['case']: r['faults'] for r in results if r['faults']}
  assert not failed, json.dumps(failed, indent=1)
