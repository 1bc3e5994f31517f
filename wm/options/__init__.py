"""Options, declared once: what a call takes and what a flag says.

A dataclass of options is the argument of a library call. Its fields carry
their help and their limits, from which `launch/common.py` makes flags:

  steps: int = option(1000, 'Training steps.', least=1)

Nothing here imports NumPy, so that `--help` is quick.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple, NoReturn, TypeVar

_KEY = 'option'
T = TypeVar('T')


class Option(NamedTuple):
  """What is said of a field.

  Attributes:
    help: one or two sentences.
    least, most: limits of a number, themselves allowed; None is none.
    choices: all values that a text may have; empty is any.
  """

  help: str
  least: float | None = None
  most: float | None = None
  choices: tuple[str, ...] = ()


def option(
  default: Any,
  help: str,
  *,
  least: float | None = None,
  most: float | None = None,
  choices: tuple[str, ...] = (),
) -> Any:
  """A dataclass field with this default; see Option."""
  about = Option(help, least, most, choices)
  return dataclasses.field(default=default, metadata={_KEY: about})


def declared(cls: type) -> dict[str, tuple[dataclasses.Field, Option]]:
  """Name -> field and what is said of it, for fields made by `option`."""
  return {
    field.name: (field, field.metadata[_KEY])
    for field in dataclasses.fields(cls)
    if _KEY in field.metadata
  }


def documented(cls: type[T]) -> type[T]:
  """Decorator: the class's docstring lists its options."""
  lines = [
    f'  {name}: {field.type}, default {field.default!r}. {about.help}'
    for name, (field, about) in declared(cls).items()
  ]
  cls.__doc__ = '\n'.join([(cls.__doc__ or '').rstrip(), '', *lines])
  return cls


def check(options: Any) -> None:
  """Raises InputError where a value is outside of its option's limits."""
  for name, (_, about) in declared(type(options)).items():
    value = getattr(options, name)
    if expected := _unmet(value, about):
      refuse(f'{name}={value!r}', expected)


def refuse(given: str, expected: str) -> NoReturn:
  """Raises InputError."""
  from wm.core import InputError

  raise InputError(f'{given}{expected}')


def _unmet(value: Any, about: Option) -> str:
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
