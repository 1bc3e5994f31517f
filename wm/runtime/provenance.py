"""Where a result comes from: code and files by hash, the commit, its cost.

A stored result is valid as long as its origin is the same. An origin holds

  modules     the plug-in's module, and all that it imports, at the top or
              inside functions, read from source. Modules of installed
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
import json
import os
import pathlib
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Any, NamedTuple

import wm
from wm import core
from wm.core import plugins, registry
from wm.runtime import files, stopping

try:
  import resource
except ImportError:  # Not a Unix: the memory of a process is not known.
  resource = None  # type: ignore[assignment]

Path = pathlib.Path

_ROOT = Path(wm.__file__).resolve().parent.parent
# Packages that others load without their source saying so.
_BELOW = {'jax': 'jaxlib', 'numba': 'llvmlite'}
# Path -> (import, hash) of a loaded module when it was first read.
_LOADED: dict[Path, tuple[Any, str]] = {}
# How many names a difference gives in full.
_NAMED = 3


class Origin(NamedTuple):
  """What something is made from.

  Attributes:
    inputs: name -> hash of a module ('wm/core/accept.py') or file (the path as
      a spec gives it), or version of a package ('numpy').
    unknown: why that may not be all; '' where it is.
  """

  inputs: dict[str, str]
  unknown: str = ''


UNKNOWN = Origin({}, 'what the model is made from is not given')


class _Module(NamedTuple):
  """A module, by where it is found.

  Attributes:
    parts: of its dotted name.
    path: its file.
    base: folder where its imports are looked up first.
  """

  parts: tuple[str, ...]
  path: Path
  base: Path

  @property
  def package(self) -> tuple[str, ...]:
    """Parts of the name of the package that it is or is in."""
    return self.parts if self.path.stem == '__init__' else self.parts[:-1]

  @property
  def name(self) -> str:
    """The same wherever the tree of modules lies."""
    return '/'.join((*self.package, self.path.name))


class _Imported(NamedTuple):
  """Modules that a dotted name imports.

  Attributes:
    modules: modules loaded from source, outermost first.
    places: folders of the last one's submodules; None where it is no package.
  """

  modules: list[_Module]
  places: Sequence[str] | None


class Reader:
  """Reads origins; every file once, so make a new one for each run."""

  def __init__(self) -> None:
    importlib.invalidate_caches()
    self._hashes: dict[Path, str] = {}
    self._imports: dict[Path, list[tuple[str, ...]]] = {}
    self._found: dict[tuple[tuple[str, ...], Path], _Imported] = {}

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
        modules = self._roots(root)
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
      path = Path(file)
      if self._hash(path) not in hashes:
        module = _Module(tuple(name.split('.')), path, path.parent)
        _note(inputs, module.name, self._hash(path))
    return origin._replace(inputs=inputs)

  def _roots(self, thing: Any) -> list[_Module]:
    """The module of a thing, and the packages that it is in."""
    if isinstance(thing, str):
      path = Path(thing)
      if path.suffix != '.py':
        if not all(part.isidentifier() for part in thing.split('.')):
          return []
        base = _ROOT if thing.split('.')[0] == 'wm' else Path.cwd()
        return self._find(tuple(thing.split('.')), base)
      parts: tuple[str, ...] = (path.stem,)
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
    base = place.parents[len(parts) - 1]
    return self._find(parts, base) or [_Module(parts, path, base)]

  def _close(
    self, roots: Sequence[_Module], inputs: dict[str, str]
  ) -> Iterator[str]:
    """Adds the modules that roots import, directly or not.

    Yields:
      What is wrong with one: that this process runs an older version of it.
    """
    packages = {'wm', *(module.parts[0] for module in roots)}
    todo, seen = list(roots), set()
    while todo:
      module = todo.pop()
      if module.path in seen:
        continue
      seen.add(module.path)
      top = module.parts[0]
      version = (
        '' if top in packages or not _installed(module.path) else _version(top)
      )
      if version:
        for package in (top, _BELOW.get(top)):
          if package:
            _note(inputs, package, _version(package))
        continue
      _note(inputs, module.name, self._hash(module.path))
      if self._outdated(module):
        yield f'{module.name} was edited after this process had loaded it'
      for parts in self._imported(module):
        todo += self._find(parts, module.base)

  def _outdated(self, module: _Module) -> bool:
    """Whether a module in memory is not what its file says, as far as known."""
    loaded = sys.modules.get('.'.join(module.parts))
    spec, value = getattr(loaded, '__spec__', None), self._hash(module.path)
    if getattr(spec, 'origin', None) != str(module.path):
      return False
    before = _LOADED.get(module.path)
    if before is None or before[0] is not spec:  # A reload has another spec.
      _LOADED[module.path] = spec, value
      return False
    return before[1] != value

  def _imported(self, module: _Module) -> list[tuple[str, ...]]:
    if module.path not in self._imports:
      modules = []
      if module.path.suffix == '.py':
        for level, name in _imports(module.path.read_bytes()):
          parts = tuple(name.split('.')) if name else ()
          if level == 0:
            modules.append(parts)
          elif level <= len(module.package):
            above = module.package[: len(module.package) - level + 1]
            modules.append((*above, *parts))
      self._imports[module.path] = list(dict.fromkeys(modules))
    return self._imports[module.path]

  def _find(self, parts: tuple[str, ...], base: Path) -> list[_Module]:
    """Modules that `import parts` loads from source, outermost first.

    The last parts may be no module but something in one.
    """
    return self._search(parts, _ROOT if parts[0] == 'wm' else base).modules

  def _search(self, parts: tuple[str, ...], base: Path) -> _Imported:
    """See _find; the packages that many names share are found once."""
    if not parts:
      return _Imported([], [str(base)])
    if (parts, base) not in self._found:
      modules, places = self._search(parts[:-1], base)
      if places is not None:
        spec = _spec(parts, places)
        places = spec and spec.submodule_search_locations
        if spec and spec.has_location and os.path.isfile(spec.origin or ''):
          modules = [*modules, _Module(parts, Path(spec.origin), base)]
      self._found[parts, base] = _Imported(modules, places)
    return self._found[parts, base]

  def _hash(self, path: Path) -> str:
    if path not in self._hashes:
      with core.inputs.reading(path, 'a file to measure by'):
        self._hashes[path] = files.digest(path)
    return self._hashes[path]


def _note(inputs: dict[str, str], name: str, value: str) -> None:
  """Adds an input; one of the same name that differs is another."""
  while inputs.setdefault(name, value) != value:
    name += "'"


def digest(origin: Origin) -> str:
  """Hex digest of all inputs."""
  text = json.dumps(origin.inputs, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()


def difference(old: dict[str, str], new: dict[str, str]) -> str:
  """What of some inputs changed, came or went, in words; '' if nothing."""
  names = sorted(old.keys() | new.keys())
  # What the user wrote tells more than what is below it.
  names.sort(key=lambda name: name.startswith('wm/'))
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
  """Strings in a value that are paths of what is there."""
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


@functools.lru_cache(maxsize=4096)
def _imports(source: bytes) -> tuple[tuple[int, str], ...]:
  """(level, name) of imports in a source."""
  try:
    tree = ast.parse(source)
  except (SyntaxError, ValueError):
    return ()
  names: list[tuple[int, str]] = []
  for node in ast.walk(tree):
    if isinstance(node, ast.Import):
      names += [(0, alias.name) for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
      head = f'{node.module}.' if node.module else ''
      names += [(node.level, head + a.name) for a in node.names]
    elif isinstance(node, ast.Call):
      function = node.func
      name = getattr(function, 'attr', getattr(function, 'id', ''))
      values = node.args[:1] if name in ('import_module', '__import__') else []
      names += [(0, v) for v in map(_text, values) if v]
  return tuple(dict.fromkeys(names))


def _text(node: ast.expr) -> str:
  value = getattr(node, 'value', None)
  return (
    value if isinstance(node, ast.Constant) and isinstance(value, str) else ''
  )


def _spec(parts: tuple[str, ...], places: Sequence[str]) -> Any:
  """The spec of a module in some folders; None where it is in none."""
  name = '.'.join(parts)
  spec = importlib.machinery.PathFinder.find_spec(name, [*places])
  return _elsewhere(name) if spec is None and len(parts) == 1 else spec


def _elsewhere(name: str) -> Any:
  """The spec of a top module that is not beside what imports it."""
  if name in sys.stdlib_module_names:
    return None
  for finder in sys.meta_path:
    find = getattr(finder, 'find_spec', None)
    spec = find(name, None) if find else None
    if spec is not None:
      return spec
  return None


def _installed(path: Path) -> bool:
  return bool({'site-packages', 'dist-packages'} & set(path.parts))


@functools.cache
def _distributions() -> dict[str, list[str]]:
  return dict(importlib.metadata.packages_distributions())


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


def _root() -> Path:
  return _ROOT


def _git(*words: str) -> str | None:
  """What git prints of this checkout, or None where there is no checkout."""
  root = _root()
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
  root, folder = _root(), Path(outside).resolve()
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
  """How to name a file that this checkout does not hold; '' if it does."""
  root, place = _root(), Path(path).resolve()
  if not place.is_relative_to(root):
    return str(place)
  name = str(place.relative_to(root))
  return '' if _git('ls-files', '-z', '--', f':(literal){name}') else name


def commit_outside(
  outside: str | Path, code: Iterable[str | Path] = ()
) -> str | None:
  """As `commit`, but dirty by what `uncommitted` lists alone."""
  text, changed = _git('rev-parse', 'HEAD'), uncommitted(outside, code)
  if text is None or changed is None:
    return None
  return text.strip() + (_DIRTY if changed else '')


def is_clean(name: str | None) -> bool:
  """Is a commit known, and of a checkout without changes?"""
  return bool(name) and not str(name).endswith(_DIRTY)


NOTE_EVERY = 15.0  # Seconds between notes: what a kill may lose.


class CostMeter:
  """A context that adds what this process spends to a file.

  The file holds `processes`, `cpu_seconds` and `wall_seconds` (sums), and
  `peak_mb` (the most that one of them held, MiB). It is written every
  `NOTE_EVERY` seconds, and when a signal ends the process.
  """

  def __init__(self, path: str | Path) -> None:
    self.path = Path(path)
    self._before: dict[str, Any] = {}
    if self.path.exists():
      self._before = files.read_record(self.path, {})
    self._start = time.monotonic()
    self._ended, self._alone = threading.Event(), threading.Lock()

  def spent(self) -> dict[str, Any]:
    """The sums so far."""
    before = self._before
    # Linux counts kibibytes, macOS bytes.
    unit = 2**20 if sys.platform == 'darwin' else 2**10
    usage = resource and resource.getrusage(resource.RUSAGE_SELF)
    peak = usage.ru_maxrss / unit if usage else 0
    wall = time.monotonic() - self._start
    return {
      'processes': before.get('processes', 0) + 1,
      'cpu_seconds': round(before.get('cpu_seconds', 0) + time.process_time()),
      'wall_seconds': round(before.get('wall_seconds', 0) + wall),
      'peak_mb': round(max(before.get('peak_mb', 0), peak)),
    }

  def note(self) -> None:
    """Writes the file."""
    with self._alone:
      files.write_json(self.path, self.spent())

  def _run(self) -> None:
    while not self._ended.wait(NOTE_EVERY):
      self.note()

  def __enter__(self) -> CostMeter:
    self.note()
    stopping.at_end(self.note)
    threading.Thread(target=self._run, name='spent', daemon=True).start()
    return self

  def __exit__(self, *error: object) -> None:
    self._ended.set()
    self.note()
