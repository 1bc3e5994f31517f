"""What a process of a study runs: runs, told as JSON, one after the other.

  python -m wm.studies.worker '{"out": "runs/a", "runs": [...]}'

A `runs.JobPool` starts it. It ends as a binary does: one line on stderr and an
exit code, see `wm.runtime.exit_codes`. Signals stop it where it can go on.
"""

from __future__ import annotations

import importlib
import io
import json
import sys

from wm.runtime import compute, exit_codes, progress, stopping
from wm.studies import runs


def main() -> None:
  """Does the runs that the command line holds."""
  stopping.install(lambda: True)
  if isinstance(sys.stdout, io.TextIOWrapper):
    sys.stdout.reconfigure(line_buffering=True)
  order = json.loads(sys.argv[1])
  compute.keep_freed_memory()
  with exit_codes.exit_on_error(order['out']), progress.Progress('runs'):
    kind = runs.Run
    if 'results' in order['runs'][0]:
      # By name, as rooms below lab/ do not depend on it.
      kind = importlib.import_module('wm.lab.miniature').UnitRun
    runs.do_all([kind.of(run) for run in order['runs']], print)


if __name__ == '__main__':
  main()
