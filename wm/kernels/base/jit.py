"""Compiles kernels on first use, and caches them by a hash of their sources.

`njit` returns a stand-in that imports Numba on its first call. Numba takes most
of a second to import, and modules with kernels are often imported only for
their constants and checks.

Numba's own cache checks only the file of a function: after an update, it would
run old helpers from other files. Here the kernels of a file are cached in a
folder named after a hash of this file and all files of wm/kernels that it
imports, directly or not.
"""

from __future__ import annotations

import ast
import collections
import contextlib
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

try:
  import fcntl
except ImportError:  # Not a Unix.
  fcntl = None  # type: ignore[assignment]  # It is asked for before use.

# Folders of other sources that were unused for this long are removed.
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
        # `from wm.kernels.chess import layout`: a file, or a name in a file.
        # Other imports of a package's __init__ do not affect the kernels.
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
  """Creates the cache folder of a file's kernels, and removes old folders.

  The folder is in `NUMBA_CACHE_DIR`, else in the user's cache folder. If it
  cannot be written, Numba falls back on its own choice. None if a source was
  edited after this process began: the code in memory may be older than the
  file, and must not be cached under the file's hash.
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

  Numba resolves calls through the globals of a module, and supports only its
  own objects there. Before a kernel is compiled, the stand-ins named in its
  code are therefore replaced, in their modules, by Numba's objects. Later calls
  from Python reach these objects directly, too.
  """

  def __init__(
    self, function: Callable[..., Any], make: Callable[..., Any]
  ) -> None:
    """make: function -> Numba's object."""
    self.function, self._make, self._object = function, make, None
    functools.update_wrapper(self, function)

  def __call__(self, *args: Any) -> Any:
    return self.compiled(*args)

  def __getattr__(self, name: str) -> Any:
    if name.startswith('_'):  # Only the protocols defined above.
      raise AttributeError(name)
    return getattr(self.compiled, name)

  @functools.cached_property
  def compiled(self) -> Any:
    """Numba's object, which compiles for the types of its first call."""
    with _LOCK:
      if self._object is None:
        # Set before its callees are bound, as a kernel may call itself.
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
  from numba.core import compiler_lock, config

  path = folder(function.__code__.co_filename)
  # Numba reads this option when it decorates a function; there is no other way
  # to set the cache folder. Options are not declared as attributes.
  settings = vars(config)
  before = settings['CACHE_DIR']
  settings['CACHE_DIR'] = str(path or before)
  # Releases the GIL, so that other threads run and the main thread handles
  # signals. Nothing calls kernels from C.
  options = {'nogil': True, 'no_cfunc_wrapper': True, **options}
  try:
    kernel: Any = numba.njit(function, cache=path is not None, **options)
  finally:
    settings['CACHE_DIR'] = before
  if path is not None and fcntl:
    compiled = kernel.compile

    def compile_once(signature: Any) -> Any:
      # Numba's lock comes first, as a thread that compiles has it already.
      with compiler_lock.global_compiler_lock, _alone(path):
        return compiled(signature)

    kernel.compile = compile_once  # Numba calls it for types that are new.
  return kernel


_DEPTHS = collections.Counter[pathlib.Path]()  # Of `_alone`, by folder.


@contextlib.contextmanager
def _alone(path: pathlib.Path) -> Iterator[None]:
  """Keeps other processes from compiling kernels of a folder.

  Processes that start together need the same kernels. One compiles them, and
  the others wait and load them from the cache.
  """
  # Files import each other in one direction, so no two processes wait for each
  # other.
  with contextlib.ExitStack() as stack:
    if not _DEPTHS[path]:
      with contextlib.suppress(OSError):  # The folder cannot be written.
        lock = stack.enter_context(open(path / '.lock', 'w'))
        fcntl.flock(lock, fcntl.LOCK_EX)
    _DEPTHS[path] += 1
    stack.callback(_DEPTHS.subtract, [path])
    yield


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
