"""Compiles kernels, and keeps them between runs by what they are made from.

Numba's own cache looks at the file of a function alone: after an update it
would go on running what a helper in another file used to be. Here all kernels
of one state of the sources share a folder that is named after its hash.
"""

from __future__ import annotations

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


def _sources(folder: pathlib.Path) -> str:
  """Hash of all Python files in a folder, names included."""
  digest = hashlib.sha256()
  for path in sorted(folder.glob('*.py')):
    content = path.read_bytes()
    digest.update(f'{path.name} {len(content)} '.encode() + content)
  return digest.hexdigest()[:16]


@functools.cache
def folder() -> pathlib.Path:
  """Where kernels of these sources are kept; made, and old ones removed.

  `NUMBA_CACHE_DIR`, else the user's cache folder. One that cannot be written
  is no error: Numba then falls back on its own choice.
  """
  here = _home() / _sources(pathlib.Path(__file__).parent)
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
  """`numba.njit` with these options and the cache above."""
  if function is None:
    return functools.partial(njit, **options)
  before = config.CACHE_DIR
  config.CACHE_DIR = str(folder())  # Read where a function is decorated.
  try:
    return numba.njit(function, cache=True, **options)
  finally:
    config.CACHE_DIR = before
