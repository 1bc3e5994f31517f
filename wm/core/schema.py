"""Schemas of data files; errors name the wrong value in one line.

A shape describes the JSON or CSV values that a file may hold:

  int, float, str, bool, list, dict   a type; None is null, object is anything
  int | None                          one of several types
  Number(int, 1, 64)                  a number within bounds
  String(20, ('N', 'S'))                a text: its length, its choices
  List(shape, 1, 100)                 a list: its items, its length
  Object({'id': int}, {'name': str})  an object: required keys, optional keys
  Dictionary(shape)                   an object with any keys, values of a shape

A whole number is accepted as a float. Booleans are not numbers. Whole numbers
have at most 64 bits, and no number is NaN or infinite. Unlisted keys of an
object are ignored.

>>> check([{'from': 1}, {'from': 'a'}], List(Object({'from': int})), 'g.json')
InputError: g.json: [1].from: expected a whole number, has 'a'
"""

from __future__ import annotations

import os
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wm.core import inputs
from wm.core.basics import InputError

LONGEST = 1 << 20  # Characters of a text.
MOST = 1 << 24  # Items of a list, and keys of an object.
LARGEST = 1 << 30  # Bytes of a file.
_LARGE, _WHOLE = 1e300, 1 << 63  # Limits of numbers and of whole numbers.

_WORDS: Mapping[Any, str] = {
  int: 'a whole number',
  float: 'a number',
  str: 'a text',
  bool: 'true or false',
  list: 'a list',
  dict: 'an object with named fields',
  None: 'null',
  types.NoneType: 'null',
  object: 'a value',
}
Shape = Any  # A type, a union of types, or one of the classes below.


class Number(NamedTuple):
  """A number of a type, int or float, from `least` to `most`."""

  kind: type = float
  least: float = -_LARGE
  most: float = _LARGE


class String(NamedTuple):
  """A text of up to `longest` characters; one of `choices`, if any."""

  longest: int = LONGEST
  choices: Sequence[str] = ()


class List(NamedTuple):
  """A list of `least` to `most` items."""

  item: Shape = object
  least: int = 0
  most: int = MOST


class Object(NamedTuple):
  """An object with all keys of `needed` and any keys of `optional`.

  A closed object has no further keys.
  """

  needed: Mapping[str, Shape]
  optional: Mapping[str, Shape] = types.MappingProxyType({})
  closed: bool = False


class Dictionary(NamedTuple):
  """An object of `least` to `most` values with any keys."""

  value: Shape = object
  least: int = 0
  most: int = MOST


def words(shape: Shape) -> str:
  """Description of a shape for errors, e.g. 'a list of 2 to 5 items'."""
  if isinstance(shape, Number):
    bounds = ('from', shape.least), ('to', shape.most)
    limits = [f' {word} {x:g}' for word, x in bounds if abs(x) < _LARGE]
    return _WORDS[shape.kind] + ''.join(limits)
  if isinstance(shape, String):
    choices = ', '.join(map(repr, shape.choices))
    return choices or f'a text of up to {shape.longest:,} characters'
  if isinstance(shape, List | Dictionary):
    size = f' of {shape.least:,} to {shape.most:,} items'
    kind = _WORDS[list] if isinstance(shape, List) else 'an object'
    return kind + size * bool(shape.least or shape.most < MOST)
  if isinstance(shape, Object):
    return _WORDS[dict]
  parts = typing.get_args(shape) or [shape]
  parts = [part for part in parts if part is not int or float not in parts]
  return ' or '.join(_WORDS[part] for part in parts)


def _fits(value: Any, shape: Shape) -> bool:
  """Does a value match a shape, its items and fields aside?"""
  if isinstance(shape, Number):
    if not _fits(value, shape.kind):
      return False
    return bool(shape.least <= value <= shape.most)
  if isinstance(shape, String):
    fits = isinstance(value, str) and len(value) <= shape.longest
    return fits and (not shape.choices or value in shape.choices)
  if isinstance(shape, List | Dictionary):
    kind = list if isinstance(shape, List) else dict
    return isinstance(value, kind) and shape.least <= len(value) <= shape.most
  if isinstance(shape, Object):
    return isinstance(value, dict)
  if parts := typing.get_args(shape):
    return any(_fits(value, part) for part in parts)
  if isinstance(value, bool):
    return shape in (bool, object)
  if shape is float:
    return isinstance(value, int | float) and abs(value) <= _LARGE
  if shape is int:
    return isinstance(value, int) and -_WHOLE <= value < _WHOLE
  if shape is None or shape is types.NoneType:
    return value is None
  return isinstance(value, shape)


def check(value: Any, shape: Shape, where: str = '', place: str = '') -> Any:
  """Returns the value if it matches a shape.

  Args:
    value: a value as read from JSON or CSV.
    shape: see the module.
    where: the file, for errors.
    place: path of the value in the file, such as 'moves[3].from'.

  Raises:
    InputError: the value does not match; names file, place, shape and value.
  """
  before = f'{where}: {place}' if where and place else where or place
  if not _fits(value, shape):
    raise InputError(f'{before}: expected {words(shape)}, has {_shown(value)}')
  if isinstance(shape, List):
    for number, item in enumerate(value):
      check(item, shape.item, where, f'{place}[{number}]')
  elif isinstance(shape, Dictionary):
    for name, item in value.items():
      check(item, shape.value, where, _inside(place, name))
  elif isinstance(shape, Object):
    if missing := [name for name in shape.needed if name not in value]:
      raise InputError(f'{before} lacks {", ".join(missing)}')
    fields = {**shape.needed, **shape.optional}
    for name in value:
      if name in fields:
        check(value[name], fields[name], where, _inside(place, name))
      elif shape.closed:
        text = f'{before} has an unknown {name!r:.60}'
        inputs.check_known(name, sorted(fields), text)
  return value


def _inside(place: str, name: Any) -> str:
  name = str(name)
  if not name.isidentifier():
    return f'{place}[{name!r:.60}]'
  return f'{place}.{name}' if place else name


def _shown(value: Any) -> str:
  """A value in errors: its beginning, or the size of a large value."""
  if isinstance(value, list | dict | str) and len(value) > 60:
    kind = {list: 'a list', dict: 'an object', str: 'a text'}[type(value)]
    return f'{kind} of {len(value):,}'
  return f'{value!r:.60}'


def parse(text: str, shape: Shape, where: str) -> Any:
  """Parses and checks a JSON text; InputErrors name `where` it is from."""
  with inputs.reading(where, 'JSON'):
    value = inputs.parse_json(text)
  return check(value, shape, where)


def read(path: str | os.PathLike[str], shape: Shape) -> Any:
  """Reads and checks a JSON file; InputErrors name the file."""
  with inputs.reading_file(path, 'JSON') as file:
    size = file.stat().st_size
    if size > LARGEST:
      raise InputError(f'{path} has {size:,} bytes; expected up to {LARGEST:,}')
  return check(inputs.read_json(path), shape, os.fspath(path))
