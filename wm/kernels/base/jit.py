"""Compiles kernels, and keeps them between runs by what they are made from.

Numba's own cache looks at the file of a function alone: after an update it
would go on running what a helper in another file used to be. Here the kernels
of a file are kept in a folder named after a hash of that file and of all that
it imports beside it, directly or not.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import pathlib
import shutil
import time
from collections.abc import Callable
from typing import Any

import numba
from numba.core import config

KEPT_DAYS = (
  30  # Folders of other sources that nobody has opened for so long go.
)


def _home() -> pathlib.Path:
  given = os.environ.get('NUMBA_CACHE_DIR')
  if given:
    return pathlib.Path(given) / 'wm'
  home = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
  return pathlib.Path(home) / 'wm' / 'kernels'


@functools.cache
def _imported(path: pathlib.Path) -> frozenset[pathlib.Path]:
  """Files of the same folder that a file imports from, itself included."""
  names: set[str] = set()
  for node in ast.walk(ast.parse(path.read_bytes())):
    if isinstance(node, ast.ImportFrom):
      names.add((node.module or '').rpartition('.')[2])
    if isinstance(node, ast.Import | ast.ImportFrom):
      names |= {alias.name.rpartition('.')[2] for alias in node.names}
  beside = (path.with_name(f'{name}.py') for name in names if name)
  return frozenset([path, *(other for other in beside if other.is_file())])


def _sources(path: pathlib.Path) -> list[pathlib.Path]:
  """A file and all that it imports beside it, directly or not; sorted."""
  found: set[pathlib.Path] = set()
  new = {path}
  while new:
    found |= new
    new = set().union(*map(_imported, new)) - found
  return sorted(found)


@functools.cache
def folder(path: str) -> pathlib.Path:
  """Where kernels of a file are kept; made, and old ones removed.

  In `NUMBA_CACHE_DIR`, else in the user's cache folder. One that cannot be
  written is no error: Numba then falls back on its own choice.
  """
  digest = hashlib.sha256()
  for source in _sources(pathlib.Path(path).resolve()):
    content = source.read_bytes()
    digest.update(f'{source.name} {len(content)} '.encode() + content)
  here = _home() / f'{pathlib.Path(path).stem}-{digest.hexdigest()[:16]}'
  try:
    here.mkdir(parents=True, exist_ok=True)
    os.utime(here)
    for other in here.parent.iterdir():
      if time.time() - other.stat().st_mtime > KEPT_DAYS * 86400:
        shutil.rmtree(other, ignore_errors=True)
  except OSError:
    pass
  return here


def njit(
  function: Callable[..., Any] | None = None, **options: Any
) -> Callable[..., Any]:
  """`numba.njit` with these options and the cache above.

  Other threads run meanwhile, the one that hears signals among them.
  """
  if function is None:
    return functools.partial(njit, **options)
  before = config.CACHE_DIR
  # Read where a function is decorated.
  config.CACHE_DIR = str(folder(function.__code__.co_filename))
  try:
    return numba.njit(function, cache=True, nogil=True, **options)
  finally:
    config.CACHE_DIR = before
