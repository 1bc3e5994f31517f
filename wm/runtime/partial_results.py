"""Parts of long work that are kept on disk until the whole is there.

Whoever starts the work names a folder (`kept`); whoever does it asks for each
part by a hash of all that it depends on (`part`). Work that was killed finds
the parts that it has, and work that differs in anything finds none. Elsewhere
nothing is kept.
"""

from __future__ import annotations

import contextlib
import contextvars
import hashlib
import pathlib
import shutil
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from wm.runtime import files

Path = pathlib.Path

_STORE: contextvars.ContextVar[tuple[Path, str] | None] = (
  contextvars.ContextVar('unfinished', default=None)
)


@contextlib.contextmanager
def kept(folder: str | Path, mark: str) -> Iterator[None]:
  """Keeps parts in a folder; removes it once the work is whole.

  mark: what all parts depend on besides, such as versions of the code.
  """
  token = _STORE.set((Path(folder), mark))
  try:
    yield
  finally:
    _STORE.reset(token)
  shutil.rmtree(folder, ignore_errors=True)


def active() -> bool:
  """Are parts kept? If not, nothing needs a hash."""
  return _STORE.get() is not None


def digest(things: Iterable[Any]) -> str:
  """Hash of arrays, by type, shape and content, and of other things' repr."""
  hasher = hashlib.sha256()
  for thing in things:
    if isinstance(thing, np.ndarray):
      hasher.update(f'{thing.dtype.str}{thing.shape}'.encode())
      hasher.update(np.ascontiguousarray(thing).data)
    else:
      hasher.update(repr(thing).encode())
    hasher.update(b'\0')
  return hasher.hexdigest()


def part(
  name: str, make: Callable[[], tuple[np.ndarray, ...]]
) -> tuple[np.ndarray, ...]:
  """Loads the arrays cached under `name`, or computes and caches them.

  name: `digest` of all that they depend on. A file that is damaged is made
    anew.
  """
  store = _STORE.get()
  if store is None:
    return make()
  folder, mark = store
  path = folder / f'{digest([mark, name])}.npz'
  try:
    with np.load(path, allow_pickle=False) as file:
      return tuple(file[f'arr_{k}'] for k in range(len(file.files)))
  except (FileNotFoundError, zipfile.BadZipFile, ValueError, EOFError):
    arrays = make()
  with files.replacing(path) as temporary, open(temporary, 'wb') as file:
    np.savez(file, *arrays)
  return arrays
