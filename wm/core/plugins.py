"""Runs users' files; their errors become one line with file and line number.

The module of a file is named by its path as given, 'plugins/my_world.py', so
that a class in it knows its name in specs.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import importlib.machinery
import importlib.util
import inspect
import os
import pathlib
import sys
import sysconfig
import traceback
import types
from collections.abc import Callable, Iterator

from wm import core
from wm.core import inputs


@contextlib.contextmanager
def import_path(folder: str | pathlib.Path) -> Iterator[None]:
  """Makes the modules of a folder importable, as `python file.py` does.

  The folder is first on the path inside the context. Afterwards it is last, for
  functions that import when they are called.
  """
  folder = str(pathlib.Path(folder).resolve())
  sys.path.insert(0, folder)
  try:
    yield
  finally:
    sys.path.remove(folder)
    if folder not in sys.path:
      sys.path.append(folder)


class _Fresh(importlib.machinery.SourceFileLoader):
  """Compiles a file each time.

  Python's cache would miss an edit within a second that keeps the size.
  """

  def get_code(self, fullname: str) -> types.CodeType:
    """Compiles the file's present content."""
    del fullname
    return self.source_to_code(self.get_data(self.path), self.path)


def load(path: str, label: str) -> types.ModuleType:
  """Runs a Python file and returns its module, whose name is `path`.

  Args:
    path: path of the file, relative to the current folder.
    label: name of the plug-in in errors.

  Raises:
    InputError: no such file, or the file fails, with the line number.
  """
  content = _read(path, label)
  place = os.path.abspath(path)
  loader = _Fresh(path, place)
  spec = importlib.util.spec_from_file_location(path, place, loader=loader)
  assert spec is not None  # It is None for a file without a loader only.
  spec.loader_state = _mark(path, content)
  module = importlib.util.module_from_spec(spec)
  sys.modules[path] = module  # Where dataclasses look for their module.
  done = False
  try:
    with user_code(label), import_path(pathlib.Path(path).resolve().parent):
      loader.exec_module(module)
    done = True
  finally:
    if not done:
      del sys.modules[path]
  return module


def loaded(path: str, label: str) -> types.ModuleType:
  """The module of a file, which runs again only after changes; see `load`.

  Classes of an unchanged file therefore stay the same.
  """
  module = sys.modules.get(path)
  if module is not None:
    mark = _mark(path, _read(path, label))
    if module.__spec__ and module.__spec__.loader_state == mark:
      return module
  return load(path, label)


def _read(path: str, label: str) -> bytes:
  if inputs.URL.fullmatch(path):
    raise core.InputError(f'{label}: {inputs.missing(path)}')
  if not os.path.isfile(path):  # False also for texts too long for a path.
    raise core.InputError(
      f'{label}: no file {shortened(path)!r} in {os.getcwd()}'
    )
  with inputs.reading_file(path, 'a Python file') as file:
    return file.read_bytes()


def _mark(path: str, content: bytes) -> tuple[str, str]:
  return os.path.abspath(path), hashlib.sha256(content).hexdigest()


class user_code(contextlib.AbstractContextManager):
  """Turns exceptions of a user's code into an InputError of one line.

  The line begins with the file and the line number. An InputError, a lack of
  memory or disk, a closed pipe and a signal pass unchanged. `sys.exit` and
  `raise KeyboardInterrupt` in the user's code are turned too: they would look
  like an end of the whole program.

  >>> with user_code("user model 'm.py:f'"):
  ...   f(tokens)
  InputError: m.py:7: ZeroDivisionError: division by zero (user model 'm.py:f')
  """

  def __init__(self, label: str = '', function: Callable | None = None) -> None:
    """Takes names for the error.

    Args:
      label: name of the code in errors; '' turns only exceptions that pass
        through a user's file.
      function: the called function; the error names its definition if the
        traceback has no line of the user's.
    """
    self._label, self._function = label, function

  def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: types.TracebackType | None,
  ) -> None:
    """Raises InputError for an exception of the user's code."""
    if error is None:
      return
    passes = isinstance(error, MemoryError) or inputs.passes(error)
    if passes and not _is_users_end(error):
      return
    where = _where(error)
    if not (where or self._label):
      return
    text = f'{type(error).__name__}: {inputs.text_of(error)}'
    label = f' ({self._label})' if self._label else ''
    place = f'{where}: ' if where else placed(self._function)
    raise core.InputError(f'{place}{text}{label}') from error


def _is_users_end(error: BaseException) -> bool:
  """Did the user's code end the program, not a signal or a lack of memory?

  Python raises KeyboardInterrupt in the line that a signal interrupts; the
  user's own comes from a `raise`.
  """
  if isinstance(error, Exception) and not isinstance(error, MemoryError):
    return False
  if isinstance(error, SystemExit):
    return True
  last = error.__traceback__
  while last and last.tb_next:
    last = last.tb_next
  if last is None or not is_own(last.tb_frame.f_code.co_filename):
    return False
  instruction = last.tb_frame.f_code.co_code[last.tb_lasti]
  return instruction == dis.opmap['RAISE_VARARGS']


def _where(error: BaseException) -> str:
  """'file.py:7', the last line of a user's file in the traceback, or ''."""
  if isinstance(error, SyntaxError) and error.filename and error.lineno:
    return f'{_shown(error.filename)}:{error.lineno}'
  frames = traceback.StackSummary.extract(
    traceback.walk_tb(error.__traceback__), lookup_lines=False
  )
  mine = [frame for frame in frames if is_own(frame.filename)]
  return f'{_shown(mine[-1].filename)}:{mine[-1].lineno}' if mine else ''


def placed(function: Callable | None) -> str:
  """'file.py:7: ', the definition of a user's function; '' for others."""
  code = function and getattr(inspect.unwrap(function), '__code__', None)
  if code is None or not is_own(code.co_filename):
    return ''
  return f'{_shown(code.co_filename)}:{code.co_firstlineno}: '


def _shown(path: str) -> str:
  """A path, relative to the current folder if it is inside."""
  inside = pathlib.Path(path).is_relative_to(os.getcwd())
  return os.path.relpath(path) if inside else path


@functools.cache
def is_own(path: str) -> bool:
  """Is a file the user's, not one of wm, Python or an installed package?"""
  place = pathlib.Path(path).resolve()
  home = pathlib.Path(__file__).resolve().parent.parent
  theirs: list[str | pathlib.Path] = [
    home,
    home.parent / 'launch',
    *sysconfig.get_paths().values(),
  ]
  return (
    place.is_file()
    and not {'site-packages', 'dist-packages'} & set(place.parts)
    and not any(place.is_relative_to(folder) for folder in theirs)
  )


def shortened(text: str, longest: int = 100) -> str:
  """A text; a long text loses its middle."""
  if len(text) <= longest:
    return text
  return f'{text[: longest - 25]} ... {text[-20:]}'


TRUST_VARIABLE = 'WM_TRUST'

# Trusted files and folders, with links resolved.
_trusted: set[pathlib.Path] = set()


def trust(*paths: str | os.PathLike) -> None:
  """Allows files to run that results, logs and other data name.

  Args:
    *paths: Python files, or folders that hold them.

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
  """Trusts files that a user's own spec names; they need not exist.

  paths: files; or modules such as 'package.name', read as files in the current
    folder.
  """
  _trusted.update(map(_real_path, paths))


def allowed(path: str) -> bool:
  """May a file run that data name? path: see `allow`."""
  place = _real_path(path)
  listed = filter(None, os.environ.get(TRUST_VARIABLE, '').split(os.pathsep))
  trusted = _trusted.union(map(_real_path, listed))
  return not trusted.isdisjoint((place, *place.parents))


def check_allowed(path: str, label: str) -> None:
  """Raises InputError if a file may not run; label: the spec that names it."""
  if not allowed(path):
    shown = shortened(str(_relative(path)))
    raise core.InputError(
      f'{label} is named by data, and what data name is not run; expected a '
      f'plug-in of wm, or --trust={shown} (the file or a folder that holds it; '
      f'in Python, wm.trust({shown!r}))'
    )


def trust_environment() -> dict[str, str]:
  """Environment variables for a process with the same trusted files."""
  listed = os.environ.get(TRUST_VARIABLE, '').split(os.pathsep)
  # Each path once: the variable may already hold this function's result.
  every = dict.fromkeys([*filter(None, listed), *map(str, sorted(_trusted))])
  return {TRUST_VARIABLE: os.pathsep.join(every)}


def _relative(path: str | os.PathLike) -> pathlib.Path:
  """The file of a path, or of a module in the current folder."""
  text = os.fspath(path)
  parts = text.split('.')
  is_module = all(map(str.isidentifier, parts)) and parts[-1] != 'py'
  if is_module and not os.path.exists(text):
    return pathlib.Path(*parts).with_suffix('.py')
  return pathlib.Path(text)


def _real_path(path: str | os.PathLike) -> pathlib.Path:
  path = _relative(path)
  with contextlib.suppress(ValueError):  # For a text that is no possible path.
    path = pathlib.Path(os.path.realpath(path))
  return path
