"""Fields of plug-ins, declared once: default, help, limits and choices.

    @dataclasses.dataclass(frozen=True)
    class World(core.World):
      '''A board and the games played on it.'''

      size: int = field(8, 'squares a side', choices=(4, 6, 8))
      noise: float = field(0.0, 'share of random moves', least=0, most=1)
      depth: int = field(2, 'plies of look-ahead', least=1, unit='plies')

A declaration yields the check of values, the error for a bad value (`othello:
size=7; available: 4, 6, 8`) and the entry below 'Attributes:' in the class's
docstring, which `launch/list.py` prints. `core.Bounded` checks and documents
worlds, models and metrics; any other dataclass calls `check` in its
`__post_init__` and is decorated by `documented`. Help of several lines is
written below 'Attributes:', and its declaration has no help.

Rules about several fields are code in `__post_init__`, which raises
`field_error`.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import numbers
import operator
import textwrap
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from wm.core.basics import InputError, one_line, plug_in_name
from wm.core.inputs import suggest

_KEY = 'field'
_BITS = 63  # Integers are held as int64.
_SHOWN = 200  # Characters of a bad value in an error.
_WIDTH = 80

# Limit -> its relation to a value, and the words for it.
_RELATIONS = {
  'least': (operator.ge, 'at least'),
  'most': (operator.le, 'at most'),
  'above': (operator.gt, 'more than'),
  'below': (operator.lt, 'less than'),
}

T = TypeVar('T')
Limit = float | str | None


class Declared(NamedTuple):
  """The declaration of a field; limits apply to each element of a tuple.

  Attributes:
    help: help text, a phrase or sentences.
    least, most: inclusive limits. A limit may be the name of another field,
      whose value is then the limit.
    above, below: exclusive limits.
    choices: all allowed values; a mapping value -> effect adds to the help.
    also: further allowed values, such as 0 for a default.
    unit: unit of the limits in errors: 'tokens'.
    distinct: whether elements of a tuple must differ.
    ascending: whether elements of a tuple must ascend.
    fewest: least number of elements of a tuple.
    format: module or function whose docstring describes the file or folder that
      the field names.
  """

  help: str = ''
  least: Limit = None
  most: Limit = None
  above: Limit = None
  below: Limit = None
  choices: Collection[Any] = ()
  also: tuple[Any, ...] = ()
  unit: str = ''
  distinct: bool = False
  ascending: bool = False
  fewest: int = 0
  format: str = ''


def field(default: Any, help: str = '', **options: Any) -> Any:
  """A dataclass field that is checked and documented.

  Args:
    default: default of the field, or dataclasses.MISSING.
    help: a phrase or sentences; '' if the class's docstring describes the field
      below 'Attributes:', as suits a long text.
    **options: attributes of `Declared`, and `compare` and `kw_only` of
      `dataclasses.field`.
  """
  mine = {k: v for k, v in options.items() if k in Declared._fields}
  rest = {k: v for k, v in options.items() if k not in mine}
  metadata = {_KEY: Declared(help, **mine)}
  return dataclasses.field(default=default, metadata=metadata, **rest)


def documented(cls: type[T]) -> type[T]:
  """Adds the declared fields to 'Attributes:' in the docstring of a class.

  The class need not be a dataclass yet. Fields of base classes are left out.
  """
  fields = {**vars(cls), **vars(cls).get('__dataclass_fields__', {})}
  entries = [
    textwrap.fill(
      f'{name}: {_help(value.metadata[_KEY])}',
      _WIDTH,
      initial_indent='  ',
      subsequent_indent='    ',
    )
    for name, value in fields.items()
    if name in inspect.get_annotations(cls)
    and isinstance(value, dataclasses.Field)
    and _KEY in value.metadata
    and value.metadata[_KEY].help
  ]
  if entries:
    cls.__doc__ = _with_attributes(inspect.cleandoc(cls.__doc__ or ''), entries)
  return cls


def _with_attributes(text: str, entries: list[str]) -> str:
  """A docstring with entries below 'Attributes:', which precedes a glossary."""
  title = 'Attributes:\n'
  if title not in text:
    head, glossary, rest = text.partition('Glossary:\n')
    rest = f'\n{glossary}{rest}' if glossary else ''
    text = f'{head.rstrip()}\n\n{title}{rest}'
  head, _, rest = text.partition(title)
  return '\n'.join([head + title.rstrip(), *entries, rest])


def _help(about: Declared) -> str:
  """The help, with the choices if they are a mapping."""
  text = about.help
  if isinstance(about.choices, Mapping):
    values = (f'{key!r}, {use}' for key, use in about.choices.items())
    text = f'{text}: {"; ".join(values)}'
  return text if text.endswith('.') else f'{text}.'


def formats(cls: type) -> dict[str, list[str]]:
  """`Declared.format` -> names of the dataclass fields with this format."""
  names: dict[str, list[str]] = {}
  for field in dataclasses.fields(cls):
    about = field.metadata.get(_KEY)
    if about and about.format:
      names.setdefault(about.format, []).append(field.name)
  return names


def check(thing: Any) -> None:
  """Raises InputError if a field has a value that its declaration excludes.

  Numbers of every field, declared or not, must be finite and fit in 64 bits.

  thing: an instance of a dataclass.
  """
  for field in dataclasses.fields(thing):
    value = getattr(thing, field.name)
    if not all(map(_storable, _elements(value))):
      expected = 'a finite number, an integer of at most 64 bits'
      raise field_error(thing, field.name, expected)
    about = field.metadata.get(_KEY)
    if about is None or (value is None and field.default is None):
      continue
    if about.choices:
      _check_choices(thing, field.name, value, about)
    if expected := _unmet(thing, value, field.default, about):
      raise field_error(thing, field.name, expected)


def field_error(thing: Any, names: str, expected: str) -> InputError:
  """The error for bad field values: 'othello: size=7; expected 4 or 6'.

  names: names of the fields, separated by blanks.
  """
  values = ', '.join(
    f'{name}={_quoted(getattr(thing, name))}' for name in names.split()
  )
  return InputError(f'{_title(thing)}: {values}; expected {expected}')


def _title(thing: Any) -> str:
  cls = type(thing)
  core = cls.__module__.startswith('wm.core.')
  return cls.__name__ if core else plug_in_name(cls)


def _quoted(value: Any) -> str:
  return one_line(repr(value), _SHOWN)


def _elements(value: Any) -> tuple[Any, ...]:
  return value if isinstance(value, tuple) else (value,)


def _storable(value: Any) -> bool:
  if isinstance(value, int):
    return abs(value) < 1 << _BITS
  return not isinstance(value, float) or math.isfinite(value)


def _check_choices(thing: Any, name: str, value: Any, about: Declared) -> None:
  choices = (*about.choices, *about.also)
  for element in _elements(value):
    if element not in choices:
      relation = ' has ' if isinstance(value, tuple) else '='
      text = f'{_title(thing)}: {name}{relation}{_quoted(element)}'
      raise InputError(f'{text}; {suggest(element, choices)}')


def _unmet(thing: Any, value: Any, default: Any, about: Declared) -> str:
  """The expected value for the error, or '' if the value is as expected."""
  limits = {
    name: getattr(thing, limit) if isinstance(limit, str) else limit
    for name in _RELATIONS
    if (limit := getattr(about, name)) is not None
  }
  elements = [part for part in _elements(value) if part not in about.also]
  many = isinstance(value, tuple)
  # An empty default does not show the type of numbers; limits do.
  typical = default if default != () else tuple(limits.values())
  if limits and (kind := _other_kind(elements, typical)):
    return kind[many]
  met = len(_elements(value)) >= about.fewest and all(
    _RELATIONS[name][0](part, limit)
    for part in elements
    for name, limit in limits.items()
  )
  if about.ascending:
    met = met and all(a < b for a, b in itertools.pairwise(elements))
  if met and not (about.distinct and len({*elements}) < len(elements)):
    return ''
  return _description(many, limits, about)


def _other_kind(values: list[Any], default: Any) -> tuple[str, str] | None:
  """Singular and plural of the expected number type if a value lacks it.

  The type is that of the default; None if all values have it.
  """
  first = next(iter(_elements(default)), 0.0)
  whole = isinstance(first, int) and not isinstance(first, bool)
  kind = numbers.Integral if whole else numbers.Real
  if all(isinstance(value, kind) for value in values):
    return None
  return ('an integer', 'integers') if whole else ('a number', 'numbers')


def _description(
  many: bool, limits: Mapping[str, float], about: Declared
) -> str:
  """'at least 2 tokens, or 0', 'different values, each more than 0'."""
  shown = {name: str(limit) for name, limit in limits.items()}
  for name in shown:
    if isinstance(other := getattr(about, name), str):
      shown[name] = f'{other}={shown[name]}'
  text = ' and '.join(
    f'{_RELATIONS[name][1]} {limit}' for name, limit in shown.items()
  )
  if [*shown] == ['least', 'most']:
    text = f'{shown["least"]} to {shown["most"]}'
  text = f'{text} {about.unit}'.rstrip()
  text += ''.join(f', or {value!r}' for value in about.also)
  if not many:
    return text
  order = 'ascending ' * about.ascending or 'different ' * about.distinct
  num = f'{about.fewest} or more ' * (about.fewest > 0)
  return f'{num}{order}values' + f', each {text}' * bool(text)
