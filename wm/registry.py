"""Specs: 'othello(size=6)' <-> object, found by module name.

A spec is a name and literal arguments. The name is a module's: `wm/worlds/
othello.py` defines the frozen dataclass `World` whose fields the arguments
set. Nothing is registered by hand; a new file is a new plug-in.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import importlib
import pkgutil
from typing import Any

from wm import core

# kind -> (package, class that each module defines)
KINDS = {
  'world': ('wm.worlds', 'World'),
  'model': ('wm.models', 'Model'),
  'metric': ('wm.metrics', 'Metric'),
  'accept': ('wm.accept', None),
}


def _suggest(name: str, known: list[str]) -> str:
  near = difflib.get_close_matches(name, known, n=1)
  hint = f'; did you mean {near[0]!r}?' if near else ''
  return f'available: {", ".join(known)}{hint}'


def names(kind: str) -> list[str]:
  """Sorted names of all plug-ins of a kind ('world', 'model', ...)."""
  package, attribute = KINDS[kind]
  module = importlib.import_module(package)
  if attribute is None:
    return sorted(
      name
      for name, value in vars(module).items()
      if dataclasses.is_dataclass(value) and isinstance(value, type)
    )
  found = []
  for info in pkgutil.iter_modules(module.__path__):
    plug_in = importlib.import_module(f'{package}.{info.name}')
    if hasattr(plug_in, attribute):
      found.append(info.name)
  return sorted(found)


def find(kind: str, name: str) -> type:
  """The dataclass behind a name; raises InputError with the nearest names."""
  package, attribute = KINDS[kind]
  if attribute is None:
    module = importlib.import_module(package)
    value = getattr(module, name, None)
    if dataclasses.is_dataclass(value) and isinstance(value, type):
      return value
  elif name.isidentifier():
    path = f'{package}.{name}'
    try:
      plug_in = importlib.import_module(path)
    except ModuleNotFoundError as error:
      if error.name != path:
        raise
      plug_in = None
    if hasattr(plug_in, attribute):
      return getattr(plug_in, attribute)
  raise core.InputError(
    f'no {kind} is named {name!r}; {_suggest(name, names(kind))}'
  )


def parse(text: str) -> tuple[str, list[Any], dict[str, Any]]:
  """Name, positional and keyword arguments of a spec; literals only."""
  wrong = f'bad spec {text!r}: expected name(field=literal, ...)'
  try:
    node = ast.parse(text.strip(), mode='eval').body
  except (SyntaxError, ValueError) as error:
    raise core.InputError(wrong) from error
  if isinstance(node, ast.Name):
    return node.id, [], {}
  if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
    raise core.InputError(wrong)
  try:
    args = [ast.literal_eval(value) for value in node.args]
    fields = {k.arg: ast.literal_eval(k.value) for k in node.keywords}
  except ValueError as error:
    raise core.InputError(f'{wrong}; values must be literals') from error
  if None in fields:
    raise core.InputError(wrong)
  return node.func.id, args, fields


def _fits(value: Any, default: Any) -> bool:
  """Does a literal suit a field with this default? Integers are floats too."""
  if default is None or default is dataclasses.MISSING or value is None:
    return default is None or default is dataclasses.MISSING
  if isinstance(default, bool) or isinstance(value, bool):
    return isinstance(value, bool) and isinstance(default, bool)
  if isinstance(default, float):
    return isinstance(value, int | float)
  return isinstance(value, type(default))


def make(kind: str, text: str) -> Any:
  """The object of a spec; raises InputError on unknown names and fields.

  >>> make('accept', 'epsilon(0.01)')
  epsilon(threshold=0.01)
  """
  name, args, keywords = parse(text)
  cls = find(kind, name)
  fields = {field.name: field for field in dataclasses.fields(cls)}
  if len(args) > len(fields):
    raise core.InputError(
      f'{kind} {text!r} has {len(args)} positional values; {name} has '
      f'{len(fields)} fields: {", ".join(fields)}'
    )
  given = dict(zip(fields, args, strict=False))
  for key, value in keywords.items():
    if key not in fields:
      raise core.InputError(
        f'{kind} {name!r} has no field {key!r}; '
        + _suggest(key, list(fields) or ['none'])
      )
    if key in given:
      raise core.InputError(f'{kind} {text!r} sets {key!r} twice')
    given[key] = value
  for key, value in given.items():
    default = fields[key].default
    if not _fits(value, default):
      raise core.InputError(
        f'{kind} {name!r}: {key}={value!r} is not of the type of its default '
        f'{default!r}'
      )
  missing = [
    key
    for key, field in fields.items()
    if field.default is dataclasses.MISSING
    and field.default_factory is dataclasses.MISSING
    and key not in given
  ]
  if missing:
    raise core.InputError(
      f'{kind} {text!r} needs a value for {", ".join(missing)}'
    )
  return cls(**given)


def spec(thing: Any) -> str:
  """Canonical spec of an object: its name and the fields not at default.

  Fields with `compare=False` say how fast, not what: they are left out.
  """
  name = getattr(thing, 'name', type(thing).__name__)
  parts = []
  for field in dataclasses.fields(thing):
    value = getattr(thing, field.name)
    if field.compare and value != field.default:
      parts.append(f'{field.name}={value!r}')
  return f'{name}({", ".join(parts)})'
