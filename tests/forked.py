"""Processes for tests, forked from one that has imported what they need.

Each is a process of its own, with its own JAX, devices, signals and exit code;
imports, which take longer than a toy run does, are done once. What runs before
a process knows its order - how Python and a binary start - is not in it.
"""

from __future__ import annotations

import faulthandler
import importlib
import multiprocessing
import os
import pathlib
import subprocess
import tempfile

HANGS = 300  # Seconds.
_CONTEXT = multiprocessing.get_context('forkserver')
_CONTEXT.set_forkserver_preload(['wm.training.loop', 'tests.training.worker'])


class Process:
  """Calls `main(*arguments)` of a module; as subprocess.Popen otherwise."""

  def __init__(self, module: str, *arguments: str, env: dict[str, str]):
    self.folder = tempfile.TemporaryDirectory()
    inputs = module, arguments, env, os.getcwd(), self.folder.name
    self.process = _CONTEXT.Process(target=_work, args=inputs)
    self.process.start()

  def communicate(self, timeout: float) -> tuple[str, str]:
    """What it printed to stdout and to stderr, once it has ended."""
    self.process.join(timeout)
    parts = (pathlib.Path(self.folder.name, name) for name in ('out', 'err'))
    out, err = (part.read_text() for part in parts)
    if self.returncode is None:
      raise subprocess.TimeoutExpired(f'{self.process}: {err}', timeout)
    return out, err

  @property
  def returncode(self) -> int | None:
    """Its exit code, minus the number of the signal that ended it, or None."""
    return self.process.exitcode

  def kill(self) -> None:
    """Ends it, if it has not ended."""
    self.process.kill()


def _work(
  module: str,
  arguments: tuple[str, ...],
  env: dict[str, str],
  cwd: str,
  folder: str,
) -> None:
  os.chdir(cwd)
  os.environ.update(env)  # JAX reads its own on first use.
  for stream, name in ((1, 'out'), (2, 'err')):
    file = os.open(f'{folder}/{name}', os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(file, stream)
  # A process that hangs says where, before a test gives it up.
  faulthandler.dump_traceback_later(HANGS, exit=False)
  importlib.import_module(module).main(*arguments)
