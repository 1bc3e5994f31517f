"""Worker process of a study: executes runs, given as JSON, in order.

  python -m wm.studies.worker '{"out": "runs/a", "runs": [...]}'

A `runs.JobPool` starts the process. On an error the process prints one line on
stderr and exits with a code of `wm.runtime.exit_codes`. A signal stops the
process at a point from which a rerun resumes.
"""

from __future__ import annotations

import importlib
import io
import json
import sys

from wm.runtime import compute, exit_codes, progress, stopping
from wm.studies import runs


def main() -> None:
  """Executes the runs on the command line."""
  stopping.install(lambda: True)
  if isinstance(sys.stdout, io.TextIOWrapper):
    sys.stdout.reconfigure(line_buffering=True)
  order = json.loads(sys.argv[1])
  compute.keep_freed_memory()
  with exit_codes.exit_on_error(order['out']), progress.Progress('runs'):
    kind = runs.Run
    if 'results' in order['runs'][0]:
      # Imported by name: packages below wm.lab must not depend on wm.lab.
      kind = importlib.import_module('wm.lab.miniature').UnitRun
    runs.do_all([kind.of(run) for run in order['runs']], print)


if __name__ == '__main__':
  main()
