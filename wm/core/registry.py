"""Specs: 'othello(size=6)' <-> object, found by module name.

A spec is a name and literal arguments. The name is a module's: `wm/worlds/
othello.py` defines the frozen dataclass `World`, and the arguments set its
fields. No plug-in is registered by hand; a new file is a new plug-in. A user's
plug-in may be in any file: 'my_world.py:Stones(size=6)' is the class `Stones`
of a file. Its path is relative to the current folder and has no bracket.

`resolve` takes a user's own specs, and runs the files that they name. `make`
and `find` take specs that may come from data: they run a file only if it is
trusted; see `wm.core.plugins`.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import importlib
import math
import pathlib
import re
import warnings
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np

from wm import core
from wm.core import contract, plugins
from wm.core.basics import plug_in_name
from wm.core.inputs import check_known, suggest

T = TypeVar('T')

# kind -> (package, name of the class in each module).
KINDS = {
  'world': ('wm.worlds', 'World'),
  'model': ('wm.models', 'Model'),
  'metric': ('wm.metrics', 'Metric'),
  'accept': ('wm.core.accept', None),
}
# kind -> further packages, which are imported only by these names.
ROOMS = {'model': ('wm.language.models',)}
# kind -> base class of plug-ins in users' files.
BASES = {'world': core.World, 'model': core.Model, 'metric': core.Metric}

LONGEST = 10_000  # Characters of a spec; the parser's stack has limits.
_TYPES = {'bool': bool, 'int': int, 'float': float, 'str': str, 'tuple': tuple}


def _home(kind: str) -> tuple[str, str | None]:
  """Package of a kind of plug-in, and the class name in its modules."""
  check_known(kind, KINDS, f'no kind is called {kind!r}')
  return KINDS[kind]


def names(kind: str) -> list[str]:
  """Sorted names of all plug-ins of a kind ('world', 'model', ...).

  Modules are read, not imported: many load JAX or Flax.
  """
  package, attribute = _home(kind)
  if attribute is None:
    module = importlib.import_module(package)
    return sorted(
      name
      for name, value in vars(module).items()
      if dataclasses.is_dataclass(value) and isinstance(value, type)
    )
  defines = re.compile(rf'^class {attribute}\b', re.MULTILINE)
  folders = [
    folder
    for name in (package, *ROOMS.get(kind, ()))
    for folder in importlib.import_module(name).__path__
  ]
  sources = [
    path
    for folder in map(pathlib.Path, folders)
    for path in (*folder.glob('*.py'), *folder.glob('*/__init__.py'))
    if defines.search(path.read_text(encoding='utf-8', errors='replace'))
  ]
  # A package's name is its folder's.
  return sorted(
    path.parent.name if path.stem == '__init__' else path.stem
    for path in sources
  )


def find(kind: str, name: str) -> type[Any]:
  """The dataclass of a plug-in's name.

  name: a module of wm, or FILE.py:CLASS; the file runs if it is trusted.

  Raises:
    InputError: unknown name, with the nearest names; or an untrusted file.
  """
  if is_file(name) and kind in BASES:
    return _in_file(kind, name)
  package, attribute = _home(kind)
  if attribute is None:
    module = importlib.import_module(package)
    value = getattr(module, name, None)
    if dataclasses.is_dataclass(value) and isinstance(value, type):
      return value
  elif name.isidentifier():
    for room in (package, *ROOMS.get(kind, ())):
      path = f'{room}.{name}'
      try:
        plug_in = importlib.import_module(path)
      except ModuleNotFoundError as error:
        if error.name != path:
          raise
        continue
      if hasattr(plug_in, attribute):
        return getattr(plug_in, attribute)
  others = [k for k in KINDS if k != kind and name in names(k)]
  hint = f'; it is a {others[0]}' if others else ''
  raise core.InputError(
    f'no {kind} is named {plugins.shortened(name)!r}{hint}; '
    + suggest(name, names(kind))
  )


def is_file(name: str) -> bool:
  """Is it the name of a plug-in in a user's own file, 'FILE.py:CLASS'?"""
  path, _, attribute = name.rpartition(':')
  return path.endswith('.py') and attribute.isidentifier()


def _label(kind: str, name: str) -> str:
  return f'{kind} {plugins.shortened(name)!r}'


def _in_file(kind: str, name: str) -> type:
  path, _, attribute = name.rpartition(':')
  plugins.check_allowed(path, _label(kind, name))
  module = plugins.loaded(path, _label(kind, name))
  cls = getattr(module, attribute, None)
  base = BASES[kind]
  if not (isinstance(cls, type) and issubclass(cls, base)):
    classes = [
      key
      for key, value in vars(module).items()
      if isinstance(value, type)
      and issubclass(value, base)
      and value.__module__ == path
    ]
    raise core.InputError(
      f'{path} has no {kind} {attribute!r}, a class that inherits '
      f'wm.core.{base.__name__}; {suggest(attribute, classes)}'
    )
  if cls.__module__ != path or cls.__name__ != attribute:
    raise core.InputError(
      f'{name} is {cls.__name__} of {cls.__module__}; name that file or module'
    )
  frozen = getattr(cls, '__dataclass_params__', None)
  if '__dataclass_fields__' not in vars(cls) or not (frozen and frozen.frozen):
    raise core.InputError(
      f'{name} is no frozen dataclass; write @dataclasses.dataclass('
      'frozen=True) above it'
    )
  return cls


def parse(text: str) -> tuple[str, list[Any], dict[str, Any]]:
  """Name, positional and keyword arguments of a spec.

  Values are literals: texts, finite numbers (integers of 64 bits), booleans,
  None, and tuples, lists and dictionaries of these. Raises InputError.
  """
  short = plugins.shortened(text)
  wrong = f'bad spec {short!r}: expected name(field=literal, ...)'
  if text.strip().endswith('.py'):
    raise core.InputError(f'{wrong}, of a file {text.strip()}:CLASS(...)')
  if len(text) > LONGEST:
    raise core.InputError(f'{wrong}, at most {LONGEST} characters')
  name, bracket, rest = text.strip().partition('(')
  name = name.strip()
  in_file = is_file(name)
  try:
    with warnings.catch_warnings(action='ignore'):  # Of odd literals.
      source = f'_{bracket}{rest}' if in_file else text.strip()
      node = ast.parse(source, mode='eval').body
    if isinstance(node, ast.Name):
      return name, [], {}
    if isinstance(node, ast.Tuple):
      raise core.InputError(
        f'{wrong}, one; several are flags or a list of them'
      )
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
      raise core.InputError(wrong)
    args = [ast.literal_eval(value) for value in node.args]
    pairs = [(k.arg or '', ast.literal_eval(k.value)) for k in node.keywords]
  except (SyntaxError, RecursionError, MemoryError) as error:
    raise core.InputError(wrong) from error
  except (ValueError, TypeError) as error:
    if isinstance(error, core.InputError):
      raise
    raise core.InputError(f'{wrong}; values must be literals') from error
  keys = [key for key, _ in pairs]
  if '' in keys:  # **: of no name.
    raise core.InputError(wrong)
  for key in keys:
    if keys.count(key) > 1:
      raise core.InputError(f'spec {short!r} sets {key!r} twice')
  for value in (*args, *(value for _, value in pairs)):
    if bad := _unusable(value):
      raise core.InputError(f'bad spec {short!r}: {bad}')
  return (name if in_file else node.func.id), args, dict(pairs)


def _unusable(value: Any) -> str:
  """Reason why a literal cannot be a value of a spec, or ''."""
  if value is None or isinstance(value, bool):
    return ''
  if isinstance(value, str):
    odd = [c for c in value if c == '\0' or '\ud800' <= c <= '\udfff']
    return f'a text holds {odd[0]!r}, which no file can' if odd else ''
  if isinstance(value, int):
    return '' if abs(value) < 2**63 else 'an integer needs more than 64 bits'
  if isinstance(value, float):
    return '' if math.isfinite(value) else f'{value} is no finite number'
  if isinstance(value, dict):
    value = [*value, *value.values()]
  if not isinstance(value, list | tuple):
    return f'{value!r} is of type {type(value).__name__}'
  return next(filter(None, map(_unusable, value)), '')


def accepts(value: Any, field: dataclasses.Field) -> bool:
  """Is a literal of the type of a field's default, or else of its annotation?

  The annotation counts if the default is None, or a text beside which it names
  other types. Integers count as floats.
  """
  default = field.default
  named = [name.strip() for name in str(field.type).split('|')]
  if isinstance(default, str) and len(named) > 1:
    return any(_is_of(value, _TYPES[x.partition('[')[0]]) for x in named)
  if default is None or default is dataclasses.MISSING:
    types = [_TYPES[name] for name in named if name in _TYPES]
    if value is None or not types:
      return value is not None or default is None
    return any(_is_of(value, type_) for type_ in types)
  return _is_of(value, type(default))


def _is_of(value: Any, cls: type) -> bool:
  if isinstance(value, bool) or cls is bool:
    return isinstance(value, bool) and cls is bool
  return isinstance(value, int | float if cls is float else cls)


def files(value: Any) -> Iterator[str]:
  """Code files named in a spec, or in any text of a tuple, list or dict.

  >>> [*files("language('openai/gpt-5', before='my_world.py:World()')")]
  ['my_world.py']
  """
  if isinstance(value, dict):
    value = [*value, *value.values()]
  if isinstance(value, list | tuple):
    for part in value:
      yield from files(part)
  if not isinstance(value, str):
    return
  name, bracket, _ = value.partition('(')
  if is_file(name.strip()):
    yield name.strip().rpartition(':')[0]
  if bracket:
    with contextlib.suppress(core.InputError):  # It is another kind of text.
      yield from files(parse(value)[1:])


def make(kind: str, text: str) -> Any:
  """The object of a spec; raises InputError on unknown names and fields.

  Args:
    kind: 'world', 'model', 'metric' or 'accept'.
    text: the spec. It may come from data, so files and modules that it names
      must be trusted.

  >>> make('accept', 'epsilon(0.01)')
  epsilon(threshold=0.01)

  A user's file runs with its folder on the import path, and again only after
  changes. Its exceptions become one-line InputErrors.
  """
  for path in files(text):
    plugins.check_allowed(path, _label(kind, text))
  thing = _build(kind, text)
  for path in _code(thing):
    plugins.check_allowed(path, _label(kind, text))
  return thing


def resolve(kind: str, thing: T | str) -> T:
  """The object of a user's own spec; files that it names become trusted.

  Args:
    kind: 'world', 'model', 'metric' or 'accept'.
    thing: a spec, or an object, which is returned as it is.

  Raises:
    InputError: unknown names and fields, or a plug-in's file fails.

  >>> resolve('world', 'plugins/my_world.py:World(stones=4)').name
  'plugins/my_world.py:World'
  """
  built: Any = thing
  if isinstance(thing, str):
    plugins.allow(*files(thing))
    built = _build(kind, thing)
  elif dataclasses.is_dataclass(thing):
    plugins.allow(*files(list(vars(thing).values())))
    if isinstance(thing, core.World) and not is_ours(type(thing)):
      _check_world(thing, f'world {type(thing).__name__}')
  plugins.allow(*_code(built))
  return built


def _build(kind: str, text: str) -> Any:
  name, args, keywords = parse(text)
  cls = find(kind, name)
  values = _field_values(kind, plugins.shortened(text), cls, args, keywords)
  if not is_file(name):
    return cls(**values)
  label = _label(kind, name)
  with plugins.user_code(label):
    thing = cls(**values)
  if kind == 'world':
    _check_world(thing, label)
  return thing


_checked: set[tuple[type, str]] = set()  # Users' worlds that passed the checks.


def _check_world(world: core.World, label: str) -> None:
  """Checks a user's world once; see `contract.check_world`."""
  key = type(world), spec(world)
  if key not in _checked:
    with plugins.user_code(label):
      contract.check_world(world, label)
    _checked.add(key)


def is_ours(cls: type) -> bool:
  """Is it a class of wm, not of a user's file or session?"""
  return cls.__module__.partition('.')[0] == 'wm'


def _code(thing: Any) -> list[str]:
  """Files and modules that a model's fields name, for models of wm."""
  if not isinstance(thing, core.Model) or is_file(thing.name):
    return []
  return [path for path in thing.code() if path]


def _field_values(
  kind: str, text: str, cls: type, args: list[Any], keywords: dict[str, Any]
) -> dict[str, Any]:
  """Field -> value of a parsed spec; raises InputError for bad values."""
  name = text.partition('(')[0].strip()
  fields = {field.name: field for field in dataclasses.fields(cls)}
  if len(args) > len(fields):
    raise core.InputError(
      f'{kind} {text!r} has {len(args)} positional values; {name} has '
      f'{len(fields)} fields: {", ".join(fields)}'
    )
  values = dict(zip(fields, args, strict=False))
  for key, value in keywords.items():
    check_known(key, fields, f'{kind} {name!r} has no field {key!r}')
    if key in values:
      raise core.InputError(f'{kind} {text!r} sets {key!r} twice')
    values[key] = value
  for key, value in values.items():
    if not accepts(value, fields[key]):
      default, shown = fields[key].default, plugins.shortened(repr(value))
      expected = f'the type of its default {default!r}'
      if default is None or default is dataclasses.MISSING:
        expected = f'type {fields[key].type}'
      raise core.InputError(
        f'{kind} {name!r}: {key}={shown} is not of {expected}'
      )
  missing = [
    key
    for key, field in fields.items()
    if field.default is dataclasses.MISSING
    and field.default_factory is dataclasses.MISSING
    and key not in values
  ]
  if missing:
    raise core.InputError(
      f'{kind} {text!r} needs a value for {", ".join(missing)}'
    )
  return values


def spec(thing: Any) -> str:
  """Canonical spec of a thing: its name and the fields not at their default.

  Fields with `compare=False` affect speed, not results, and are left out.

  Raises:
    InputError: the thing is not a dataclass instance, but e.g. a text.
  """
  if not dataclasses.is_dataclass(thing):
    raise core.InputError(
      f'{thing!r:.60} is of type {type(thing).__name__}; expected a world, a '
      'model, a metric or an acceptance rule'
    )
  name = getattr(thing, 'name', type(thing).__name__)
  if isinstance(thing, core.World):  # A field may be called `name`.
    name = plug_in_name(type(thing))
  parts = []
  for field in dataclasses.fields(thing):
    value = getattr(thing, field.name)
    if isinstance(value, np.generic):  # Its text is no literal.
      value = value.item()
    if field.compare and value != field.default:
      parts.append(f'{field.name}={value!r}')
  return f'{name}({", ".join(parts)})'
