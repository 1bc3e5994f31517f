"""Calls for tasks_test.py, which run in other processes."""

import os
import pathlib
import time

from wm import core
from wm.runtime import files


def write(path: str, text: str) -> str:
  """Writes a file by rename, and adds to a count of such calls."""
  with open(f'{path}.calls', 'a') as calls:
    calls.write('x')
  files.write_text(path, text)
  return text


def falls_once(path: str, text: str, signal: int) -> str:
  """As `write`, but its process gets a signal at the first call."""
  mark = pathlib.Path(f'{path}.fell')
  if not mark.exists():
    mark.write_text(str(os.getpid()))
    os.kill(os.getpid(), signal)
    time.sleep(60)  # Of one that is stopped, and goes on when all is over.
  return write(path, text)


def refuses(value: int) -> None:
  """Bad input."""
  raise core.InputError(f'value={value}: expected another')


def waits(path: str) -> None:
  """Says which process waits."""
  pathlib.Path(path).write_text(str(os.getpid()))
  time.sleep(300)
