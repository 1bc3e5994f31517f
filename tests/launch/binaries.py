"""Binaries run in this process: their flags, lines and exit codes.

A process of its own costs seconds of imports; tests that start one are about
signals, `--help`, or processes that share work.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pathlib
import signal
import subprocess
import sys
import types
from unittest import mock

from absl.testing import flagsaver

from tests import compiler

LAUNCH = str(pathlib.Path(__file__).resolve().parents[2] / 'launch')


def heard() -> None:
  """Signals that a process in the background, or under nohup, ignores else."""
  signal.signal(signal.SIGINT, signal.default_int_handler)
  signal.signal(signal.SIGHUP, signal.SIG_DFL)


def start(
  binary: str, *flags: str, stdout: int = subprocess.PIPE
) -> subprocess.Popen:
  """A process of its own."""
  return subprocess.Popen(
    [sys.executable, f'{LAUNCH}/{binary}.py', *flags],
    stdout=stdout,
    stderr=subprocess.PIPE,
    text=True,
    env={**os.environ, 'XLA_FLAGS': compiler.flags()},
    preexec_fn=heard,
  )


def common() -> types.ModuleType:
  """launch/common.py, which holds all flags."""
  if LAUNCH not in sys.path:
    sys.path.insert(0, LAUNCH)
  return importlib.import_module('common')


def run(
  binary: str, *flags: str, cwd: str | os.PathLike = '.'
) -> tuple[int, str, str]:
  """Exit code, and what it printed to stdout and to stderr."""
  parser = common()
  from wm.core import plugins
  from wm.runtime import compute

  main = importlib.import_module(binary).main
  out, err, code = io.StringIO(), io.StringIO(), 0
  pipe = signal.getsignal(signal.SIGPIPE)
  with (
    contextlib.chdir(cwd),
    flagsaver.flagsaver(),
    mock.patch.object(compute, 'keep_freed_memory'),
    mock.patch.object(plugins, '_trusted', set()),  # As in a new process.
    mock.patch.object(sys, 'argv', [f'{LAUNCH}/{binary}.py', *flags]),
    contextlib.redirect_stdout(out),
    contextlib.redirect_stderr(err),
  ):
    try:
      parser.guarded(main, parser.parse(sys.argv))
    except SystemExit as ended:
      code = int(ended.code or 0)
    finally:
      signal.signal(signal.SIGPIPE, pipe)
  return code, out.getvalue(), err.getvalue()


def refused(binary: str, *flags: str, cwd: str | os.PathLike = '.') -> str:
  """The one line of a run that must end with code 2."""
  code, out, err = run(binary, *flags, cwd=cwd)
  assert code == 2, err
  assert out == ''
  lines = err.strip().splitlines()
  assert len(lines) == 1, err
  return lines[0]


def printed(binary: str, *flags: str, cwd: str | os.PathLike = '.') -> str:
  """What a run prints to stdout that must end well."""
  code, out, err = run(binary, *flags, cwd=cwd)
  assert code == 0, err
  return out
