"""Compiles kernels, and keeps them between runs by what they are made from.

Numba's own cache looks at the file of a function alone: after an update it
would go on running what a helper in another file used to be. Here the kernels
of a file are kept in a folder named after a hash of that file and of all that
it imports of wm/kernels, directly or not.
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

# Folders of other sources are removed when nobody has opened them for so long.
KEPT_DAYS = 30


def _home() -> pathlib.Path:
  given = os.environ.get('NUMBA_CACHE_DIR')
  if given:
    return pathlib.Path(given) / 'wm'
  home = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
  return pathlib.Path(home) / 'wm' / 'kernels'


_ROOM = pathlib.Path(__file__).resolve().parents[1]  # wm/kernels


@functools.cache
def _imported(path: pathlib.Path) -> frozenset[pathlib.Path]:
  """Files of this room that a file of it imports from, itself included."""
  found: set[pathlib.Path | None] = {path}
  for node in ast.walk(ast.parse(path.read_bytes())):
    if isinstance(node, ast.ImportFrom) and node.module:
      for alias in node.names:
        # `from wm.kernels.chess import tables`: a file, or a name in one. What
        # else a package gathers in its __init__ compiles nothing anew.
        inside = _file(f'{node.module}.{alias.name}')
        found.add(inside or _file(node.module))
    elif isinstance(node, ast.Import):
      found |= {_file(alias.name) for alias in node.names}
  return frozenset(file for file in found if file)


def _file(name: str) -> pathlib.Path | None:
  """The file of this room that holds a module, by its dotted name."""
  inside = f'{name}.'.partition(f'{_ROOM.name}.')[2].rstrip('.')
  base = _ROOM / inside.replace('.', '/')
  files = base.with_suffix('.py'), base / '__init__.py'
  return next((f for f in files if inside and f.is_file()), None)


def _sources(path: pathlib.Path) -> list[pathlib.Path]:
  """A file and all that it imports of this room, directly or not; sorted."""
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

  It releases the GIL: other threads run meanwhile, and the main one can hear
  signals.
  """
  if function is None:
    return functools.partial(njit, **options)
  # Numba reads this option where a function is decorated, and has no other way
  # to say where its cache is. Options are not declared as attributes.
  numbas = vars(config)
  before = numbas['CACHE_DIR']
  numbas['CACHE_DIR'] = str(folder(function.__code__.co_filename))
  try:
    return numba.njit(function, cache=True, nogil=True, **options)
  finally:
    numbas['CACHE_DIR'] = before
