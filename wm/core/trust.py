"""Which files of code may run: those that a user names, none that data name.

A spec may name a file, 'my_world.py:World()', and making it runs the file. A
user's own specs, of a command line or a call, are trusted. Results, logs,
manifests and checkpoints are data, and may come from anywhere: a file that
stands in them runs only where the user has named it too, by a spec, by
--trust, by `wm.trust` or in the environment, WM_TRUST=PATH:PATH.

It holds for the process, and by `environment` for those that it starts.
"""

from __future__ import annotations

import contextlib
import os
import pathlib

from wm import core
from wm.core import plugins

VARIABLE = 'WM_TRUST'

# Files, and folders whose files are trusted; without links.
_trusted: set[pathlib.Path] = set()


def trust(*paths: str | os.PathLike) -> None:
  """Lets files run that results, logs and other data name.

  Args:
    paths: Python files, or folders that hold them.

  Raises:
    InputError: there is no such file or folder.
  """
  for path in paths:
    if not os.path.exists(path):
      raise core.InputError(
        f'--trust={os.fspath(path)}: no such file or folder in {os.getcwd()}'
      )
  allow(*paths)


def allow(*paths: str | os.PathLike) -> None:
  """As `trust`, of what a user's own spec names; it need not exist.

  paths: files; or modules such as 'package.name', which are taken for files
    in the current folder.
  """
  _trusted.update(map(_place, paths))


def allowed(path: str) -> bool:
  """May a file run that data name? path: as for `allow`."""
  place = _place(path)
  listed = filter(None, os.environ.get(VARIABLE, '').split(os.pathsep))
  trusted = _trusted.union(map(_place, listed))
  return not trusted.isdisjoint((place, *place.parents))


def check(path: str, label: str) -> None:
  """Raises InputError where a file may not run; label: of what names it."""
  if not allowed(path):
    shown = plugins.shortened(str(_relative(path)))
    raise core.InputError(
      f'{label} is named by data, and what data name is not run; expected a '
      f'plug-in of wm, or --trust={shown} (the file or a folder that holds it; '
      f'in Python, wm.trust({shown!r}))'
    )


def environment() -> dict[str, str]:
  """Variables of a process that trusts as much as this one."""
  listed = [os.environ.get(VARIABLE, ''), *map(str, sorted(_trusted))]
  return {VARIABLE: os.pathsep.join(filter(None, listed))}


def _relative(path: str | os.PathLike) -> pathlib.Path:
  """The file of a path, or of a module in the current folder."""
  text = os.fspath(path)
  parts = text.split('.')
  is_module = all(map(str.isidentifier, parts)) and parts[-1] != 'py'
  if is_module and not os.path.exists(text):
    return pathlib.Path(*parts).with_suffix('.py')
  return pathlib.Path(text)


def _place(path: str | os.PathLike) -> pathlib.Path:
  path = _relative(path)
  with contextlib.suppress(ValueError):  # Of a text that no file can have.
    path = pathlib.Path(os.path.realpath(path))
  return path
