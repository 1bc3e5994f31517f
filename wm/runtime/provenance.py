"""Provenance of a result: hashes of code and files, and the commit.

A stored result is valid while its origin is unchanged. An origin holds

  wm          wm's own code but for rooms that make no numbers, as it was when
              this process first asked, and the versions of PACKAGES.
  modules     a user's file and those of the user's modules that it imports, at
              the top or inside functions, read from source.
  fields      each string in a plug-in's fields, in tuples too, that is the
              path of a file or folder: its bytes. A field that is named
              after a kind of plug-in holds the spec of another plug-in.
  declared    what `core.Model.code` names.

Imports by computed names, or from folders that code adds to `sys.path`, are
not seen. `Reader.with_loaded` adds what a user's code has loaded by then.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import hashlib
import importlib.metadata
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple

import wm
from wm import core
from wm.core import plugins, registry
from wm.runtime import files

Path = pathlib.Path

_ROOT = Path(wm.__file__).resolve().parent.parent
# Rooms that make no trials, and what is code in the others.
_APART = {'explorer', 'lab', 'library', 'reporting', 'studies'}
_SUFFIXES = '.py', '.toml', '.j2'
PACKAGES = (
  *('flax', 'jax', 'jaxlib', 'llvmlite', 'numba', 'numpy', 'pandas'),
  *('scipy', 'torch', 'transformers'),
)
# Path -> (spec, hash) of a loaded module when it was first read.
_LOADED: dict[Path, tuple[Any, str]] = {}
# How many names a difference gives in full.
_NAMED = 3


class Origin(NamedTuple):
  """All inputs of a result.

  Attributes:
    inputs: name -> hash of wm ('wm'), of a module ('helper.py') or of a file
      (the path as a spec gives it), or version of a package ('numpy').
    unknown: why `inputs` may be incomplete; '' if complete.
  """

  inputs: dict[str, str]
  unknown: str = ''


UNKNOWN = Origin({}, 'what the model is made from is not given')


class _Module(NamedTuple):
  """A module's file, and the folder from which its dotted name counts."""

  path: Path
  home: Path

  @property
  def name(self) -> str:
    """'pkg/module.py', the same wherever the tree of modules lies."""
    return self.path.relative_to(self.home).as_posix()


class Reader:
  """Reads origins; every file once, so make a new one for each run."""

  def __init__(self) -> None:
    self._hash = functools.cache(_hash)

  def of(self, *things: Any) -> Origin:
    """The origin of a result of several things together.

    things: plug-ins; classes; names of modules, with dots or as 'file.py';
      lists of paths; or inputs that are known, name -> hash.
    """
    inputs, roots, unknown = dict(_ours()), list[_Module](), list[str]()
    for thing in _with_nested(things):
      if isinstance(thing, dict):
        for name, value in thing.items():
          _note(inputs, name, value)
        continue
      values = thing if isinstance(thing, list) else _values(thing)
      for name in sorted(set(_paths(values))):
        _note(inputs, name, self._hash(Path(name)))
      if isinstance(thing, list):
        continue
      for root in (
        thing,
        *(thing.code() if isinstance(thing, core.Model) else ()),
      ):
        modules = _modules(root)
        if not modules:
          unknown.append(f'the source of {_label(root)} is not found')
        roots += modules
      if isinstance(thing, core.Model):
        unknown.append(thing.undeclared_inputs())
    unknown += self._close(roots, inputs)
    return Origin(inputs, next((why for why in unknown if why), ''))

  def with_loaded(self, origin: Origin, before: Set[str]) -> Origin:
    """An origin with the user's modules that were loaded since, if not in it.

    before: names of the modules that were loaded then.
    """
    inputs, hashes = dict(origin.inputs), set(origin.inputs.values())
    for name in sorted(sys.modules.keys() - before):
      file = getattr(sys.modules[name], '__file__', None)
      if not file or not plugins.is_own(file):
        continue
      if (value := self._hash(Path(file))) not in hashes:
        package = name.split('.')[:-1]
        _note(inputs, '/'.join([*package, Path(file).name]), value)
    return origin._replace(inputs=inputs)

  def _close(
    self, roots: Sequence[_Module], inputs: dict[str, str]
  ) -> Iterator[str]:
    """Adds the user's modules that roots import, directly or indirectly.

    Yields:
      What is wrong with one: that this process runs an older version of it.
    """
    todo, seen = list(roots), set()
    while todo:
      module = todo.pop()
      if module.path in seen or not _is_users(module.path):
        continue
      seen.add(module.path)
      value = self._hash(module.path)
      _note(inputs, module.name, value)
      if _is_outdated(module, value):
        yield f'{module.name} was edited after this process had loaded it'
      package = module.path.parent.relative_to(module.home).parts
      for parts in _imports_in(module.path.read_bytes(), package):
        todo += _find(parts, module.home)


def _is_users(path: Path) -> bool:
  """Is a module the user's, or an example of launch/?"""
  return plugins.is_own(str(path)) or path.is_relative_to(_ROOT / 'launch')


@functools.cache
def _ours() -> dict[str, str]:
  """Hash of wm and versions of packages, at the first call."""
  code, home = hashlib.sha256(), Path(wm.__file__).parent
  for path in sorted(home.rglob('*')):
    name = path.relative_to(home)
    if path.suffix in _SUFFIXES and name.parts[0] not in _APART:
      code.update(f'{name.as_posix()}\0'.encode() + path.read_bytes())
  versions = {'wm': code.hexdigest()}
  for package in PACKAGES:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
      versions[package] = importlib.metadata.version(package)
  return versions


def _modules(thing: Any) -> list[_Module]:
  """The module of a thing, after the packages that it is in; [] of none."""
  if isinstance(thing, str):
    path = Path(thing)
    parts: tuple[str, ...] = (path.stem,)
    if path.suffix != '.py':
      return _find(tuple(thing.split('.')), Path.cwd())
  else:
    kind = thing if isinstance(thing, type) else type(thing)
    file = getattr(sys.modules.get(kind.__module__), '__file__', None)
    path, parts = Path(file or ''), tuple(kind.__module__.split('.'))
  if not path.is_file():
    return []
  path = path.resolve()
  place = path.parent if path.stem == '__init__' else path.with_suffix('')
  if place.parts[-len(parts) :] != parts:
    parts = (path.stem,)  # No package of ours: a file that was named.
  home = place.parents[len(parts) - 1]
  return _find(parts, home) or [_Module(path, home)]


def _find(parts: tuple[str, ...], base: Path) -> list[_Module]:
  """The modules that a dotted name loads in a file below base, outermost first.

  The last parts may be no module but something in one.
  """
  for home in (base, *map(Path, sys.path)):
    modules, folder = list[_Module](), home
    for part in parts:
      for path in (folder / part / '__init__.py', folder / f'{part}.py'):
        if path.is_file():
          modules.append(_Module(path.resolve(), home.resolve()))
          break
      folder /= part
      if not folder.is_dir():
        break
    if modules:
      return modules
  return []


@functools.lru_cache(maxsize=4096)
def _imports_in(
  source: bytes, package: tuple[str, ...]
) -> Sequence[tuple[str, ...]]:
  """Parts of the dotted names that a module imports.

  package: the one that relative imports count from.
  """
  try:
    tree = ast.parse(source)
  except (SyntaxError, ValueError):
    return ()
  names: dict[tuple[str, ...], None] = {}
  for node in ast.walk(tree):
    above: tuple[str, ...] = ()
    words: list[str] = []
    if isinstance(node, ast.Import):
      words = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.level <= len(package):
      above = package[: len(package) - node.level + 1] if node.level else ()
      head = f'{node.module}.' if node.module else ''
      words = [head + alias.name for alias in node.names]
    names |= {(*above, *word.split('.')): None for word in words if word}
  return [*names]


def _is_outdated(module: _Module, value: str) -> bool:
  """Whether a loaded module differs from its file, as far as known.

  value: hash of the file.
  """
  # A module may have put another object in its own place, without a spec.
  dotted = module.name.removesuffix('.py').removesuffix('/__init__')
  loaded = sys.modules.get(dotted.replace('/', '.'))
  spec = getattr(loaded, '__spec__', None)
  if spec is None or spec.origin != str(module.path):
    return False
  before = _LOADED.get(module.path)
  if before is None or before[0] is not spec:  # A reload has another spec.
    _LOADED[module.path] = spec, value
    return False
  return before[1] != value


def _hash(path: Path) -> str:
  with core.inputs.reading(path, 'a file to measure by'):
    return files.digest(path)


def _note(inputs: dict[str, str], name: str, value: str) -> None:
  """Adds an input; one of the same name that differs is another."""
  while inputs.setdefault(name, value) != value:
    name += "'"


def difference(old: dict[str, str], new: dict[str, str]) -> str:
  """Text that names changed, added and removed inputs; '' if none."""
  names = sorted(old.keys() | new.keys())
  # What the user wrote tells more than what is below it.
  names.sort(key=lambda name: name == 'wm')
  names = [name for name in names if old.get(name) != new.get(name)]
  if not names:
    return ''
  more = len(names) - _NAMED
  shown = names[:_NAMED] + ([f'{more} more'] if more > 0 else [])
  first = ', '.join(shown[:-1])
  return (f'{first} and {shown[-1]}' if first else shown[-1]) + ' changed'


def _label(thing: Any) -> str:
  if isinstance(thing, str | type):
    return repr(thing) if isinstance(thing, str) else thing.__qualname__
  return type(thing).__qualname__


def _values(thing: Any) -> list[Any]:
  """Values of the fields of a plug-in; nothing else has any."""
  if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
    return []
  return [getattr(thing, field.name) for field in dataclasses.fields(thing)]


def _paths(value: Any) -> Iterator[str]:
  """Strings in a value that are existing paths."""
  if isinstance(value, str):
    if value and os.path.exists(value):  # False, too, where it is no path.
      yield value
  elif isinstance(value, list | tuple | set | frozenset):
    for item in value:
      yield from _paths(item)
  elif isinstance(value, dict):
    yield from _paths([*value.keys(), *value.values()])


def _with_nested(things: Sequence[Any]) -> Iterator[Any]:
  """Things, and the plug-ins that their fields name."""
  for thing in things:
    yield thing
    for kind in registry.KINDS if _values(thing) else ():
      if isinstance(thing, core.Model) and kind == 'model':
        continue  # A name that others gave to a model of theirs.
      value = getattr(thing, kind, '')
      if isinstance(value, str) and value:
        yield from _with_nested([registry.make(kind, value)])


_DIRTY = '-dirty'
# Where a file that was never committed is code or a setting all the same, and
# how the name of one ends that is code anywhere, such as a plug-in.
_SOURCES = 'wm/', 'launch/'
_CODE = '.py'


def _git(*words: str) -> str | None:
  """Output of git for this checkout; None without git or a checkout."""
  root = _ROOT
  if not (root / '.git').exists():
    return None
  try:
    done = subprocess.run(
      ['git', '-C', str(root), *words],
      capture_output=True,
      text=True,
      check=True,
    )
  except (FileNotFoundError, subprocess.CalledProcessError):
    return None
  return done.stdout


def commit() -> str | None:
  """Commit of the checkout this package is imported from, or None."""
  text = _git('describe', '--always', f'--dirty={_DIRTY}', '--abbrev=40')
  return text and text.strip()


def uncommitted(
  outside: str | Path, code: Iterable[str | Path] = ()
) -> list[str] | None:
  """Files of this checkout with changes that are not committed, sorted.

  Files that were never committed count where code and settings are, and Python
  files everywhere. None where git does not know, as without a checkout.

  Args:
    outside: folder whose files do not count, as a run writes its results there.
    code: files that a run takes its plug-ins from. They count where this
      checkout does not hold them: ignored by git, or elsewhere.
  """
  root, folder = _ROOT, Path(outside).resolve()
  where = ['.']
  if folder.is_relative_to(root) and folder != root:
    where.append(f':(exclude){folder.relative_to(root)}')
  words = '--porcelain', '--no-renames', '--untracked-files=all', '-z'
  text = _git('status', *words, '--', *where)
  if text is None:
    return None
  lines = [line for line in text.split('\0') if line]
  listed = {
    path
    for status, path in ((line[:2], line[3:]) for line in lines)
    if status != '??' or path.startswith(_SOURCES) or path.endswith(_CODE)
  }
  return sorted(listed | {name for name in map(_untracked, code) if name})


def _untracked(path: str | Path) -> str:
  """Name of a file that git does not track; '' for a tracked file."""
  root, place = _ROOT, Path(path).resolve()
  if not place.is_relative_to(root):
    return str(place)
  name = str(place.relative_to(root))
  return '' if _git('ls-files', '-z', '--', f':(literal){name}') else name


def commit_outside(
  outside: str | Path, code: Iterable[str | Path] = ()
) -> str | None:
  """Like `commit`, but only files that `uncommitted` lists make it dirty."""
  text, changed = _git('rev-parse', 'HEAD'), uncommitted(outside, code)
  if text is None or changed is None:
    return None
  return text.strip() + (_DIRTY if changed else '')


def is_clean(name: str | None) -> bool:
  """Is a commit known, and of a checkout without changes?"""
  return bool(name) and not str(name).endswith(_DIRTY)
