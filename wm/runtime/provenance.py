"""Provenance of a result: hashes of code and files, and the commit.

A stored result is valid while its origin is unchanged. An origin holds

  wm          all files of this package, and the versions of the packages that
              compute.
  modules     of a user: the plug-in's module, and all that it imports, at the
              top or inside functions, read from source. Modules of installed
              packages count by the package's version instead.
  fields      each string in a plug-in's fields, in tuples too, that is the
              path of a file or folder: its bytes. A field that is named
              after a kind of plug-in holds the spec of another plug-in.
  declared    what `core.Model.code` names.

Imports by computed names, or from folders that code adds to `sys.path`, are
not seen. `Reader.with_loaded` adds what a user's code has loaded by then.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple

import wm
from wm import core
from wm.core import plugins, registry
from wm.runtime import files

Path = pathlib.Path

_ROOT = Path(wm.__file__).resolve().parent.parent
_SUFFIXES = importlib.machinery.all_suffixes()  # Of modules; '.py' is first.
_WM = 'wm'
# Files that trials are made by; pages have others.
_READ = '.py', '.j2', '.toml'
# What computes; other packages count where a user's module imports them.
_PACKAGES = 'numpy', 'scipy', 'numba', 'llvmlite', 'jax', 'jaxlib', 'flax'
# Path -> (import, hash) of a loaded module when it was first read.
_LOADED: dict[Path, tuple[Any, str]] = {}
# Root -> hash of this package when it was first read.
_WM_LOADED: dict[Path, str] = {}
# `importlib.invalidate_caches` in two threads at once ends in a KeyError.
_INVALIDATING = threading.Lock()
# How many names a difference gives in full.
_NAMED = 3


class Origin(NamedTuple):
  """All inputs of a result.

  Attributes:
    inputs: name -> hash of this package ('wm'), of a module ('mine.py') or a
      file (the path as a spec gives it), or version of a package ('numpy').
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

  @property
  def package(self) -> tuple[str, ...]:
    """Parts of the name of the package that it is or is in."""
    return self.path.parent.relative_to(self.home).parts

  @property
  def parts(self) -> tuple[str, ...]:
    """Of its dotted name."""
    stem = self.path.name.partition('.')[0]
    return self.package if stem == '__init__' else (*self.package, stem)


class Reader:
  """Reads origins; every file once, so make a new one for each run."""

  def __init__(self) -> None:
    with _INVALIDATING:
      importlib.invalidate_caches()
    self._hash = functools.cache(_hash)
    self._hash_of_wm = functools.cache(_hash_of_wm)
    step = functools.cache(_step)  # Names share the packages they are in.
    self._find = functools.cache(functools.partial(_find, step=step))
    self._imports = functools.cache(_imports)

  def of(self, *things: Any) -> Origin:
    """The origin of a result of several things together.

    things: plug-ins; classes; names of modules, with dots or as 'file.py';
      lists of paths; or inputs that are known, name -> hash.
    """
    inputs: dict[str, str] = {}
    roots: list[_Module] = []
    unknown: list[str] = []
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
      more = thing.code() if isinstance(thing, core.Model) else ()
      for root in (thing, *more):
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
    """Adds the modules that roots import, directly or not.

    Yields:
      What is wrong with one: that this process runs an older version of it.
    """
    if roots:
      value = self._hash_of_wm()
      _note(inputs, _WM, value)
      if _WM_LOADED.setdefault(_ROOT, value) != value:
        yield 'wm was edited after this process had loaded it'
      for package in _PACKAGES:
        _note(inputs, package, _version(package))
    packages = {module.parts[0] for module in roots}
    todo, seen = list(roots), set()
    while todo:
      module = todo.pop()
      top = module.parts[0]
      if module.path in seen or top == _WM:
        continue
      seen.add(module.path)
      installed = {'site-packages', 'dist-packages'} & {*module.path.parts}
      if top not in packages and installed and _version(top):
        _note(inputs, top, _version(top))
        continue
      value = self._hash(module.path)
      _note(inputs, module.name, value)
      if _is_outdated(module, value):
        yield f'{module.name} was edited after this process had loaded it'
      for parts in self._imports(module):
        todo += self._find(parts, module.home) if parts[0] != _WM else []


def _modules(thing: Any) -> list[_Module]:
  """The module of a thing, after the packages that it is in."""
  if isinstance(thing, str):
    path = Path(thing)
    parts: tuple[str, ...] = (path.stem,)
    if path.suffix != '.py':
      parts = tuple(thing.split('.'))
      return (
        _find(parts, Path.cwd()) if all(map(str.isidentifier, parts)) else []
      )
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


def _step(folder: Path, name: str) -> tuple[Path | None, bool]:
  """The file of a package or module in a folder, and whether more is inside."""
  inside = folder / name
  is_folder = inside.is_dir()
  stems = (inside / '__init__', inside) if is_folder else (inside,)
  paths = (Path(f'{stem}{suffix}') for stem in stems for suffix in _SUFFIXES)
  file = next((path for path in paths if path.is_file()), None)
  # A folder without a file is a namespace; a module has none inside.
  return file, is_folder and (file is None or file.parent == inside)


def _find(
  parts: tuple[str, ...],
  base: Path,
  step: Callable[[Path, str], tuple[Path | None, bool]] = _step,
) -> list[_Module]:
  """Modules that `import parts` loads in a file below base, outermost first.

  The last parts may be no module but something in one.
  """
  home = _ROOT if parts[0] == _WM else base
  paths = _walk(parts, home, step)
  if not paths and parts[0] not in sys.stdlib_module_names:
    home = _elsewhere(parts[0]) or home
    paths = _walk(parts, home, step)
  return [_Module(path, home) for path in paths]


def _walk(
  parts: tuple[str, ...],
  folder: Path,
  step: Callable[[Path, str], tuple[Path | None, bool]],
) -> list[Path]:
  """Files of the packages and the module that a dotted name loads."""
  paths: list[Path] = []
  for part in parts:
    file, more = step(folder, part)
    paths += [file] if file else []
    if not more:
      break
    folder = folder / part
  return paths


def _elsewhere(top: str) -> Path | None:
  """The folder of a top module that is not beside what imports it."""
  try:
    spec = importlib.util.find_spec(top)
  except (ImportError, ValueError):  # It fails, or is __main__.
    return None
  if spec is None:
    return None
  places = spec.submodule_search_locations or [spec.origin or '']
  return Path(next(iter(places))).parent


def _imports(module: _Module) -> Sequence[tuple[str, ...]]:
  """Parts of the dotted names that a module imports."""
  if module.path.suffix != '.py':
    return ()
  return _imports_in(module.path.read_bytes(), module.package)


@functools.lru_cache(maxsize=4096)
def _imports_in(
  source: bytes, package: tuple[str, ...]
) -> Sequence[tuple[str, ...]]:
  """See `_imports`; package: the one that relative imports count from."""
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
    elif isinstance(node, ast.Call) and _imports_by_call(node.func):
      words = [
        argument.value
        for argument in node.args[:1]
        if isinstance(argument, ast.Constant)
        and isinstance(argument.value, str)
      ]
    names |= {(*above, *word.split('.')): None for word in words if word}
  return [*names]


def _imports_by_call(function: ast.expr) -> bool:
  name = function.attr if isinstance(function, ast.Attribute) else ''
  name = function.id if isinstance(function, ast.Name) else name
  return name in ('import_module', '__import__')


def _is_outdated(module: _Module, value: str) -> bool:
  """Whether a loaded module differs from its file, as far as known.

  value: hash of the file.
  """
  # A module may have put another object in its own place, without a spec.
  loaded = sys.modules.get('.'.join(module.parts))
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


def _hash_of_wm() -> str:
  """Hash of the names and bytes of this package's files, but compiled ones."""
  total = hashlib.sha256()
  for path in sorted((_ROOT / _WM).rglob('*')):
    if path.suffix in _READ and path.is_file():
      total.update(f'{path.relative_to(_ROOT).as_posix()}\0'.encode())
      total.update(path.read_bytes())
  return total.hexdigest()


def _note(inputs: dict[str, str], name: str, value: str) -> None:
  """Adds an input; one of the same name that differs is another."""
  while inputs.setdefault(name, value) != value:
    name += "'"


def difference(old: dict[str, str], new: dict[str, str]) -> str:
  """Text that names changed, added and removed inputs; '' if none."""
  names = sorted(old.keys() | new.keys())
  # What the user wrote tells more than what is below it.
  names.sort(key=lambda name: name in (_WM, *_PACKAGES))
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


_distributions = functools.cache(importlib.metadata.packages_distributions)


@functools.cache
def _version(package: str) -> str:
  """Installed version of what an import name belongs to; '' if unknown."""
  try:
    return importlib.metadata.version(package)
  except importlib.metadata.PackageNotFoundError:
    names = sorted(set(_distributions().get(package, ())))
    return ', '.join(f'{n} {importlib.metadata.version(n)}' for n in names)


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
