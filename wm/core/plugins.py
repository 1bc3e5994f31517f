"""Code of a user's own: files are run, and where they fail is said in a line.

A file's module is called as its path was given, 'plugins/my_world.py', so
that a class in it knows what a spec calls it.
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
from typing import Any

import numpy as np

from wm import core
from wm.core import inputs


@contextlib.contextmanager
def import_path(folder: str | pathlib.Path) -> Iterator[None]:
  """Lets modules of a folder be imported, as `python file.py` does.

  Inside, they go before all others; afterwards, for what functions import
  when they are called, after all others.
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

  Python's cache takes a file for unchanged that was edited within a second to
  the same size.
  """

  def get_code(self, fullname: str) -> types.CodeType:
    """The file as it is."""
    del fullname
    return self.source_to_code(self.get_data(self.path), self.path)


def load(path: str, label: str) -> types.ModuleType:
  """Runs a Python file and gives its module, whose name is `path`.

  Args:
    path: of the file, from the current folder.
    label: what errors call it.

  Raises:
    InputError: no such file, or it fails; says in which line.
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
  """As `load`; a file that has not changed since then is not run again.

  So a class of it stays the same class.
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
  if not os.path.isfile(path):  # Of any text, too long a one included.
    raise core.InputError(
      f'{label}: no file {shortened(path)!r} in {os.getcwd()}'
    )
  with inputs.reading_file(path, 'a Python file') as file:
    return file.read_bytes()


def _mark(path: str, content: bytes) -> tuple[str, str]:
  return os.path.abspath(path), hashlib.sha256(content).hexdigest()


class user_code(contextlib.AbstractContextManager):
  """Turns what a user's code raises into an InputError of one line.

  The line begins with the file and the line number. An InputError, running
  out of memory or of disk, a closed pipe and a signal pass as they are.
  `sys.exit` and a `raise KeyboardInterrupt` of the user's do not, which would
  look like an end of all that was asked for.

  >>> with user_code("user model 'm.py:f'"):
  ...   f(tokens)
  InputError: m.py:7: ZeroDivisionError: division by zero (user model 'm.py:f')
  """

  def __init__(self, label: str = '', function: Callable | None = None) -> None:
    """Gives what is to be user_code.

    Args:
      label: what errors call the code; '' turns only errors that come through
        a file of the user's.
      function: that is called; its place is named where no line of the user's
        is.
    """
    self._label, self._function = label, function

  def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: types.TracebackType | None,
  ) -> None:
    """Raises InputError where the error is the user's."""
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
  """Did a line of the user's ask for an end, rather than a signal or memory?

  Python raises a KeyboardInterrupt in whatever line a signal comes to; the
  user's comes from a `raise`.
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
  """'file.py:7', the last line of the user's that the error came through."""
  if isinstance(error, SyntaxError) and error.filename and error.lineno:
    return f'{_shown(error.filename)}:{error.lineno}'
  frames = traceback.StackSummary.extract(
    traceback.walk_tb(error.__traceback__), lookup_lines=False
  )
  mine = [frame for frame in frames if is_own(frame.filename)]
  return f'{_shown(mine[-1].filename)}:{mine[-1].lineno}' if mine else ''


def placed(function: Callable | None) -> str:
  """'file.py:7: ' where a function of the user's is defined, else ''."""
  code = function and getattr(inspect.unwrap(function), '__code__', None)
  if code is None or not is_own(code.co_filename):
    return ''
  return f'{_shown(code.co_filename)}:{code.co_firstlineno}: '


def _shown(path: str) -> str:
  """A path from the current folder, where it is in it."""
  inside = pathlib.Path(path).is_relative_to(os.getcwd())
  return os.path.relpath(path) if inside else path


@functools.cache
def is_own(path: str) -> bool:
  """Is a file the user's: none of wm's, of Python's, or of a package?"""
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
  """A text, without its middle where it is long."""
  if len(text) <= longest:
    return text
  return f'{text[: longest - 25]} ... {text[-20:]}'


def check_world(world: core.World, label: str) -> None:
  """Raises InputError where a world's parts do not fit each other.

  Args:
    world: a user's; its first state is asked for.
    label: what errors call it.
  """
  vocab, end = world.vocab, world.end
  if not isinstance(vocab, tuple) or len(vocab) < 2 or vocab[0] != '<pad>':
    raise core.InputError(
      f'{label}: vocab is {shortened(repr(vocab))}; expected a tuple of '
      "'<pad>' and at least one token"
    )
  odd = [word for word in vocab if not _is_word(word)]
  if odd or len(set(vocab)) < len(vocab):
    what = repr(odd[0]) if odd else 'a word twice'
    raise core.InputError(
      f'{label}: vocab has {what}; expected different words without blanks'
    )
  if end != core.DEAD and not 1 <= end < len(vocab):
    raise core.InputError(
      f'{label}: end={end} is no token of vocab, which has {len(vocab)}; '
      f'expected 1..{len(vocab) - 1}, or {core.DEAD} for none'
    )
  if not isinstance(world.max_len, int) or world.max_len < 1:
    raise core.InputError(
      f'{label}: max_len={world.max_len!r}; expected an integer of at least 1'
    )
  legal = np.asarray(world.legal(world.init(1)))
  if legal.shape != (1, len(vocab)) or legal.dtype != bool:
    raise core.InputError(
      f'{label}: legal gives {legal.dtype} of shape {legal.shape} for one '
      f'state, vocab has {len(vocab)} tokens; expected bool of shape '
      f'(1, {len(vocab)})'
    )
  if legal[0, core.PAD] or not legal.any():
    what = 'padding' if legal[0, core.PAD] else 'no token'
    raise core.InputError(
      f'{label}: {what} is legal in the first state; expected some of '
      f'1..{len(vocab) - 1}'
    )
  _check_step(world, label, int(legal[0].argmax()))
  _check_abilities(world, label)


def _is_word(word: Any) -> bool:
  """Is it text without blanks, which files can hold?"""
  return (
    isinstance(word, str)
    and word.split() == [word]
    and not any('\ud800' <= char <= '\udfff' for char in word)
  )


# Abilities that a world with these methods has, so that it must inherit them.
_ABILITIES = (core.Prefixed, core.Labelled, core.Written)


def _check_abilities(world: core.World, label: str) -> None:
  """Raises InputError where an ability is written, but not inherited."""
  for ability in _ABILITIES:
    methods = ability.__abstractmethods__ - core.World.__abstractmethods__
    if methods <= {*dir(type(world))} and not isinstance(world, ability):
      raise core.InputError(
        f'{label} has {", ".join(sorted(methods))} and does not inherit '
        f'core.{ability.__name__}; add it to the bases of '
        f'{type(world).__name__}'
      )
  if isinstance(world, core.Labelled):
    labels, sizes = world.labels(world.init(2)), world.heads.sizes
    if np.shape(labels) != (2, len(sizes)) or not sizes:
      raise core.InputError(
        f'{label}: labels gives shape {np.shape(labels)} for two states, heads '
        f'has {len(sizes)} labels; expected (2, {max(len(sizes), 1)})'
      )


def _check_step(world: core.World, label: str, token: int) -> None:
  """Raises InputError where a first step gives no states."""
  before = np.asarray(world.init(2))
  after = np.asarray(world.advance(before, np.full(2, token, np.int32)))
  for name, states in (('init', before), ('advance', after)):
    fits = states.ndim == 2 and states.shape == (2, before.shape[-1])
    if not fits or states.dtype.kind != 'i':
      raise core.InputError(
        f'{label}: {name} gives {states.dtype} of shape {states.shape} for two '
        'states; expected integers of shape (2, words of a state)'
      )
  ids = np.asarray(world.state_id(after))
  if ids.shape != (2,) or (ids == core.DEAD).any():
    raise core.InputError(
      f'{label}: after token {world.vocab[token]!r}, which is legal first, '
      f'state_id gives {ids.tolist()}; expected two numbers, not {core.DEAD}'
    )


TRUST_VARIABLE = 'WM_TRUST'

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
  _trusted.update(map(_real_path, paths))


def allowed(path: str) -> bool:
  """May a file run that data name? path: as for `allow`."""
  place = _real_path(path)
  listed = filter(None, os.environ.get(TRUST_VARIABLE, '').split(os.pathsep))
  trusted = _trusted.union(map(_real_path, listed))
  return not trusted.isdisjoint((place, *place.parents))


def check_allowed(path: str, label: str) -> None:
  """Raises InputError where a file may not run; label: of what names it."""
  if not allowed(path):
    shown = shortened(str(_relative(path)))
    raise core.InputError(
      f'{label} is named by data, and what data name is not run; expected a '
      f'plug-in of wm, or --trust={shown} (the file or a folder that holds it; '
      f'in Python, wm.trust({shown!r}))'
    )


def trust_environment() -> dict[str, str]:
  """Variables of a process that trusts as much as this one."""
  listed = os.environ.get(TRUST_VARIABLE, '').split(os.pathsep)
  # A path once, as a process may have set the variable to what this gave.
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
  with contextlib.suppress(ValueError):  # Of a text that no file can have.
    path = pathlib.Path(os.path.realpath(path))
  return path
