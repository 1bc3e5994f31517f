"""A training process that tests start, and that dies when it is told to.

  python -m tests.training.worker OUT '{"config": {...}, "die": ["save", 21]}'

die: ["batch", n] SIGKILL while batch n is made; ["save", n] while checkpoint n
is being written; ["saved", n] once it is; ["line", n] within a line of
metrics.jsonl; ["SIGINT", n] or ["SIGTERM", n] that signal while batch n is
made, which is some steps before it is trained on; ["clock", n] the
clock steps three years back while batch n is made, and later to the year 2286;
["full", 0] takes no look at
how much room the disk has. "cores": [0] are those that it may use, and "model"
a spec other than the toy's.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import time
from typing import Any

from tests.training import mean_mlp
from wm.runtime import exit_codes, stopping


def _die() -> None:
  os.kill(os.getpid(), signal.SIGKILL)


def _arm(moment: str, number: int) -> None:
  """Makes one function of the training code deadly at its n-th step."""
  from wm.data import batches
  from wm.training import checkpoints, run_log

  at = batches.Batches.at
  save = checkpoints.Checkpoints.save
  write = run_log.Writer.write

  def deadly_at(self: Any, step: int) -> Any:
    if moment == 'batch' and step == number:
      _die()
    if moment == 'clock' and step == number:
      clock, nanoseconds = time.time, time.time_ns
      time.time = lambda: clock() - 1e8
      time.time_ns = lambda: nanoseconds() - 10**17
    if moment == 'clock' and step == number + 4:
      time.time = lambda: 1e10
      time.time_ns = lambda: 10**19
    if moment.startswith('SIG') and step == number:
      os.kill(os.getpid(), getattr(signal, moment))
    return at(self, step)

  def deadly_save(self: Any, step: int, *args: Any) -> None:
    save(self, step, *args)
    if moment == 'saved' and step == number:
      self.wait()
    if moment in ('save', 'saved') and step == number:
      _die()

  def deadly_write(self: Any, step: int, **values: float) -> None:
    if moment == 'line' and step == number:
      self._file.write('{"step": 1, "lo')
      self._file.flush()
      _die()
    write(self, step, **values)

  if moment == 'full':
    checkpoints.Checkpoints.need = lambda self, state: None
  batches.Batches.at = deadly_at
  checkpoints.Checkpoints.save = deadly_save
  run_log.Writer.write = deadly_write


def main(out: str, text: str) -> None:
  """Trains the toy network on OUT/data."""
  mean_mlp.install()
  from wm.training import loop

  order = json.loads(text)
  if order.get('cores'):
    os.sched_setaffinity(0, order['cores'])
    os.environ.pop('PJRT_NPROC', None)  # Nobody else has chosen threads.
  if order.get('die'):
    _arm(*order['die'])
  config = loop.Training(**order['config'])
  stopping.install(lambda: True)
  with exit_codes.exit_on_error(out):
    model = order.get('model', mean_mlp.MODEL)
    summary = loop.train(mean_mlp.WORLD, model, pathlib.Path(out), config)
    print(json.dumps(summary))


if __name__ == '__main__':
  main(*sys.argv[1:])
