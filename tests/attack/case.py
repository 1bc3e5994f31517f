"""One bad input as data: what is put into a folder, what is run, what it says.

A case starts in a folder of its own. `files` fill it: each is an action on the
current folder, such as `put('m.py', 'x = (')` or `flip('run/data.json', 3)`,
after the folders named by `bases` (see bases.py) were copied there.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Action = Callable[[], Any]
NOBODY = 65534  # Root may read anything; such cases run as nobody.


class Case(NamedTuple):
  """A bad input.

  Attributes:
    category: row of the table.
    name: unlike all others.
    run: binary and its flags, or a call of the library.
    files: actions that make the folder it starts in.
    bases: good folders that are copied there first.
    says: pattern that the error's line must hold.
    code: exit code.
    needs: a module without which the case is skipped.
    user: of the process, where root is not to run it.
  """

  category: str
  name: str
  run: tuple[str, ...] | Callable[[], Any]
  files: tuple[Action, ...] = ()
  bases: tuple[str, ...] = ()
  says: str = ''
  code: int = 2
  needs: str = ''
  user: int = 0

  @property
  def title(self) -> str:
    """As tables and `--only` have it."""
    return ascii(f'{self.category}/{self.name}')[1:-1][:120]


def put(path: str, content: str | bytes = '') -> Action:
  """Writes a file."""

  def act() -> None:
    place = pathlib.Path(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    data = content if isinstance(content, bytes) else content.encode()
    place.write_bytes(data)

  return act


def gone(path: str) -> Action:
  """Removes a file or an empty folder's file."""
  return lambda: pathlib.Path(path).unlink()


def folder(path: str) -> Action:
  """Makes a folder, in place of a file if there is one."""

  def act() -> None:
    pathlib.Path(path).unlink(missing_ok=True)
    pathlib.Path(path).mkdir(parents=True)

  return act


def fifo(path: str) -> Action:
  """Makes a pipe that nobody writes to, in place of a file if there is one."""

  def act() -> None:
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).unlink(missing_ok=True)
    os.mkfifo(path)

  return act


def loop(path: str) -> Action:
  """Makes a link to itself."""

  def act() -> None:
    pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(path).unlink(missing_ok=True)
    os.symlink(os.path.basename(path), path)

  return act


def closed(path: str) -> Action:
  """Takes away all rights to a file or folder."""
  return lambda: os.chmod(path, 0)


def cut(path: str, share: float = 0.5) -> Action:
  """Keeps a share of a file's bytes."""

  def act() -> None:
    data = pathlib.Path(path).read_bytes()
    pathlib.Path(path).write_bytes(data[: int(len(data) * share)])

  return act


def flip(path: str, seed: int, num: int = 3) -> Action:
  """Changes some bytes of a file."""

  def act() -> None:
    rng = np.random.default_rng(seed)
    data = bytearray(pathlib.Path(path).read_bytes())
    for place in rng.choice(len(data), min(num, len(data)), replace=False):
      data[place] ^= 1 + rng.integers(255)
    pathlib.Path(path).write_bytes(data)

  return act


def edit(path: str, *keys: str | int, to: Any) -> Action:
  """Puts a value at a place of a JSON file; of no keys, in place of all."""

  def act() -> None:
    place = pathlib.Path(path)
    whole = inner = json.loads(place.read_text()) if keys else to
    for key in keys[:-1]:
      inner = inner[key]
    if keys:
      inner[keys[-1]] = to
    place.write_text(json.dumps(whole))

  return act


def drop(path: str, *keys: str | int) -> Action:
  """Removes a place of a JSON file."""

  def act() -> None:
    whole = inner = json.loads(pathlib.Path(path).read_text())
    for key in keys[:-1]:
      inner = inner[key]
    del inner[keys[-1]]
    pathlib.Path(path).write_text(json.dumps(whole))

  return act


def replace(path: str, old: str, new: str) -> Action:
  """Replaces text that the file must hold."""

  def act() -> None:
    text = pathlib.Path(path).read_text()
    assert old in text, (path, old)
    pathlib.Path(path).write_text(text.replace(old, new))

  return act
