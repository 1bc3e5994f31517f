"""Compiles kernels on first use, and caches them by what they are made from.

`njit` gives a stand-in that imports Numba when it is first called: modules
that hold kernels may be imported for the sake of their constants and checks
alone, and Numba takes most of a second.

Numba's own cache looks at the file of a function alone: after an update it
would go on running what a helper in another file used to be. Here the kernels
of a file are cached in a folder named after a hash of that file and of all
that it imports of wm/kernels, directly or not.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import pathlib
import shutil
import threading
import time
import types
from collections.abc import Callable, Iterator
from typing import Any

# Folders of other sources are removed when nobody has opened them for so long.
KEPT_DAYS = 30
_STARTED = time.time()
_LOCK = threading.RLock()  # Numba's settings and our stand-ins are global.


def _home() -> pathlib.Path:
  folder = os.environ.get('NUMBA_CACHE_DIR')
  if folder:
    return pathlib.Path(folder) / 'wm'
  home = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
  return pathlib.Path(home) / 'wm' / 'kernels'


_ROOM = pathlib.Path(__file__).resolve().parents[1]  # wm/kernels


@functools.cache
def _imported(path: pathlib.Path) -> frozenset[pathlib.Path]:
  """Files of this room that a file of it imports from, itself included."""
  files: set[pathlib.Path | None] = {path}
  for node in ast.walk(ast.parse(path.read_bytes())):
    if isinstance(node, ast.ImportFrom) and node.module:
      for alias in node.names:
        # `from wm.kernels.chess import layout`: a file, or a name in one. What
        # else a package gathers in its __init__ compiles nothing anew.
        inside = _file(f'{node.module}.{alias.name}')
        files.add(inside or _file(node.module))
    elif isinstance(node, ast.Import):
      files |= {_file(alias.name) for alias in node.names}
  return frozenset(file for file in files if file)


def _file(name: str) -> pathlib.Path | None:
  """The file of this room that holds a module, by its dotted name."""
  inside = f'{name}.'.partition(f'{_ROOM.name}.')[2].rstrip('.')
  base = _ROOM / inside.replace('.', '/')
  files = base.with_suffix('.py'), base / '__init__.py'
  return next((f for f in files if inside and f.is_file()), None)


def _sources(path: pathlib.Path) -> list[pathlib.Path]:
  """A file and all that it imports of this room, directly or not; sorted."""
  closed: set[pathlib.Path] = set()
  new = {path}
  while new:
    closed |= new
    new = set().union(*map(_imported, new)) - closed
  return sorted(closed)


@functools.cache
def folder(path: str) -> pathlib.Path | None:
  """Where kernels of a file are cached; created, and old ones removed.

  In `NUMBA_CACHE_DIR`, else in the user's cache folder. One that cannot be
  written is no error: Numba then falls back on its own choice. None where a
  source was edited after this process began: what is in memory may be older
  than the file, and must not be cached under the file's hash.
  """
  sources = _sources(pathlib.Path(path).resolve())
  if any(source.stat().st_mtime > _STARTED for source in sources):
    return None
  digest = hashlib.sha256()
  for source in sources:
    content = source.read_bytes()
    digest.update(f'{source.name} {len(content)} '.encode() + content)
  cache = _home() / f'{pathlib.Path(path).stem}-{digest.hexdigest()[:16]}'
  try:
    cache.mkdir(parents=True, exist_ok=True)
    os.utime(cache)
    for other in cache.parent.iterdir():
      if time.time() - other.stat().st_mtime > KEPT_DAYS * 86400:
        shutil.rmtree(other, ignore_errors=True)
  except OSError:
    pass
  return cache


class Kernel:
  """A function of Python or of other kernels that Numba compiles when called.

  Numba finds what a function calls among the globals of its module, and knows
  its own objects only. Before a kernel is compiled, the stand-ins that its
  code names are therefore replaced, in their modules, by what they stand for;
  calls from Python then reach that directly, too.
  """

  def __init__(
    self, function: Callable[..., Any], make: Callable[..., Any]
  ) -> None:
    """make: gives Numba's object for the function."""
    self.function, self._make, self._object = function, make, None
    functools.update_wrapper(self, function)

  def __call__(self, *args: Any) -> Any:
    return self.compiled(*args)

  def __getattr__(self, name: str) -> Any:
    if name.startswith('_'):  # Of Python's protocols we have those above.
      raise AttributeError(name)
    return getattr(self.compiled, name)

  @functools.cached_property
  def compiled(self) -> Any:
    """Numba's object, which compiles for the types of its first call."""
    with _LOCK:
      if self._object is None:
        # Set before what it calls is bound: a kernel may call itself.
        self._object = self._make(self.function)
        _bind(self.function)
      return self._object


def _names(code: types.CodeType) -> Iterator[str]:
  """Globals and attributes that a function's code names, inner ones too."""
  yield from code.co_names
  for constant in code.co_consts:
    if isinstance(constant, types.CodeType):
      yield from _names(constant)


def _bind(function: Callable[..., Any]) -> None:
  """Replaces the kernels that a function names by Numba's objects."""
  names = set(_names(function.__code__))
  module = function.__globals__
  # `rules.step` names a module and something in it.
  inside = [vars(m) for m in module.values() if isinstance(m, types.ModuleType)]
  for scope in (module, *inside):
    for name in names & scope.keys():
      if isinstance(scope[name], Kernel):
        scope[name] = scope[name].compiled


def _dispatcher(function: Callable[..., Any], **options: Any) -> Any:
  import numba
  from numba.core import config

  path = folder(function.__code__.co_filename)
  # Numba reads this option where a function is decorated, and has no other way
  # to say where its cache is. Options are not declared as attributes.
  settings = vars(config)
  before = settings['CACHE_DIR']
  settings['CACHE_DIR'] = str(path or before)
  # The GIL is released: other threads run meanwhile, and the main one can hear
  # signals.
  try:
    return numba.njit(function, cache=path is not None, nogil=True, **options)
  finally:
    settings['CACHE_DIR'] = before


def njit(
  function: Callable[..., Any] | None = None, **options: Any
) -> Callable[..., Any]:
  """`numba.njit` with these options and the cache above, on first use."""
  if function is None:
    return functools.partial(njit, **options)
  return Kernel(function, functools.partial(_dispatcher, **options))


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
  """`numba.extending.intrinsic`, on first use."""

  def make(function: Callable[..., Any]) -> Any:
    from numba import extending

    extend: Callable[..., Any] = extending.intrinsic  # Numba has no types.
    return extend(function)

  return Kernel(function, make)
