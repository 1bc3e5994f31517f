"""Copies of this checkout, for tests that add to it or edit it."""

import pathlib
import shutil

from numba.core import caching

from wm.kernels.base import jit

ROOT = pathlib.Path(__file__).resolve().parent.parent


def make(folder: pathlib.Path, *parts: str) -> pathlib.Path:
  """Copies files and folders of the checkout, and what is compiled of them."""
  # Bytecode of tests, as pytest makes it, would name the files it is of.
  unread = shutil.ignore_patterns('*-pytest-*')
  folder.mkdir(exist_ok=True)
  for part in parts:
    if (ROOT / part).is_dir():
      shutil.copytree(ROOT / part, folder / part, ignore=unread)
    else:
      shutil.copy2(ROOT / part, folder)
  for path in sorted((ROOT / 'wm' / 'kernels').rglob('*.py')):
    if 'njit' in path.read_text():
      _compiled(path, folder / path.relative_to(ROOT))
  return folder


def _compiled(path: pathlib.Path, copy: pathlib.Path) -> None:
  """Makes what is kept of a file of kernels known to its copy.

  Numba names a folder after the path of the source; the time of the copy's last
  change is that of the original.
  """
  kept = jit.folder(str(path))
  name = caching.UserProvidedCacheLocator.get_suitable_cache_subpath
  if kept and (kept / name(str(path))).is_dir():
    shutil.copytree(
      kept / name(str(path)), kept / name(str(copy)), dirs_exist_ok=True
    )
