"""What a process of a study runs: one library call, told as JSON.

  python -m wm.studies.worker '{"call": "train", "out": "runs/a", ...}'

`jobs.command` writes such a line and starts the process. It ends as a binary
does: one line on stderr and an exit code, see `wm.runtime.exit_codes`. Signals
stop it where it can go on.
"""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import wm
from wm.runtime import compute, exit_codes, progress, stopping


def run(order: dict[str, Any]) -> None:
  """Makes the call of an order."""
  call = order.pop('call')
  if call == 'train':
    order['training'] = wm.Training(**order['training'])
    wm.train(**order, log=print)
  elif call == 'score':
    wm.score(**order, log=print)
  else:  # Rows or a unit. Importing takes seconds: other calls do not wait.
    from wm.studies import miniature, study

    if call == 'rows':
      study.make_rows(order['orders'], print)
    else:
      assert call == miniature.STAGE, call
      miniature.make_unit(miniature.UnitSpec.of(order), print)


def main() -> None:
  """Makes the call that the command line holds."""
  stopping.install(lambda: True)
  if isinstance(sys.stdout, io.TextIOWrapper):
    sys.stdout.reconfigure(line_buffering=True)
  order = json.loads(sys.argv[1])
  compute.keep_freed_memory()
  with exit_codes.exit_on_error(order['out']), progress.Progress(order['call']):
    run(order)


if __name__ == '__main__':
  main()
