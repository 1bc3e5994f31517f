"""Options, declared once: what a call takes and what a flag says.

A dataclass of options is the argument of a library call, or its fields are the
call's keywords. They carry their help and their limits, from which
`launch/common.py` makes flags:

  steps: int = option(1000, 'Training steps.', least=1)

Nothing here imports NumPy, so that `--help` is quick.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Collection
from dataclasses import MISSING
from typing import Any, NamedTuple, NoReturn, TypeVar, get_type_hints

from wm.options import typed

_KEY = 'option'
T = TypeVar('T')
F = TypeVar('F', bound=Callable[..., Any])


class Option(NamedTuple):
  """What is said of a field.

  Attributes:
    help: one or two sentences.
    least, most: limits of a number, themselves allowed; None is none.
    choices: all values that a text may have; empty is any.
    flag: where it is not called as the field is.
    many: the field is a sequence; its flag is repeated.
  """

  help: str
  least: float | None = None
  most: float | None = None
  choices: tuple[str, ...] = ()
  flag: str = ''
  many: bool = False


def option(default: Any, help: str, **more: Any) -> Any:
  """A dataclass field with this default, or MISSING; see Option."""
  about = Option(help, **more)
  return dataclasses.field(default=default, metadata={_KEY: about})


def declared(cls: type) -> dict[str, tuple[dataclasses.Field, Option]]:
  """Maps a name to (field, its Option), for fields made by `option`."""
  return {
    field.name: (field, field.metadata[_KEY])
    for field in dataclasses.fields(cls)
    if _KEY in field.metadata
  }


def details(field: dataclasses.Field) -> Option:
  """What is said of a field that `option` made."""
  about: Option = field.metadata[_KEY]
  return about


def _lines(cls: type, names: Collection[str] | None = None) -> list[str]:
  """A line for each option, or for those that are named."""
  return [
    f'  {name}: {field.type}'
    + ('' if field.default is MISSING else f', default {field.default!r}')
    + f'. {about.help}'
    for name, (field, about) in declared(cls).items()
    if names is None or name in names
  ]


def documented(cls: type[T]) -> type[T]:
  """Decorator: the class's docstring lists its options."""
  cls.__doc__ = '\n'.join([(cls.__doc__ or '').rstrip(), '', *_lines(cls)])
  return cls


def takes(cls: type) -> Callable[[F], F]:
  """Decorator: a call's docstring lists the options that are its keywords."""

  def listed(call: F) -> F:
    lines = _lines(cls, inspect.getfullargspec(call).kwonlyargs)
    head = inspect.cleandoc(call.__doc__ or ''), '', 'Options:'
    call.__doc__ = '\n'.join([*head, *lines])
    return call

  return listed


def check(options: Any) -> None:
  """Raises InputError where a value is not of its type, or beyond limits."""
  hints = get_type_hints(type(options))
  for field in dataclasses.fields(options):
    value = getattr(options, field.name)
    if wrong := typed.mismatch(value, hints[field.name], str(field.type)):
      refuse(f'{field.name}={typed.shown(value)}', wrong)
  for name, (_, about) in declared(type(options)).items():
    value = getattr(options, name)
    if expected := unmet(value, about):
      refuse(f'{name}={value!r}', expected)


def refuse(value: str, expected: str) -> NoReturn:
  """Raises InputError."""
  from wm.core import InputError

  raise InputError(f'{value}{expected}')


def unmet(value: Any, about: Option) -> str:
  """What was expected instead of a value; '' where it will do."""
  if about.choices and value not in (None, *about.choices):
    return f'; available: {", ".join(about.choices)}'
  if not isinstance(value, int | float):
    return ''
  if not math.isfinite(value):
    return ': expected a finite number'
  least = -math.inf if about.least is None else about.least
  most = math.inf if about.most is None else about.most
  if least <= value <= most:
    return ''
  upper = f', at most {most:.12g}' if most < math.inf else ''
  return f': expected at least {least:.12g}{upper}'
