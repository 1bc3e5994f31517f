"""Is a value of a type, as annotations write it?"""

from __future__ import annotations

import collections.abc
import numbers
import os
import types
import typing
from typing import Annotated, Any

_NUMBERS = {int: numbers.Integral, float: numbers.Real}
_LISTS = collections.abc.Sequence, list, tuple
_LONGEST = 60  # Characters of a value in an error's line.


def shown(value: Any) -> str:
  """A value in an error's line."""
  return ' '.join(repr(value).split())[:_LONGEST]


def mismatch(value: Any, hint: Any, expected: str) -> str:
  """What was expected instead of a value; '' where it will do.

  Args:
    value: of anything.
    hint: the type, as `typing.get_type_hints` gives it.
    expected: how errors write the type.
  """
  if not fits(value, hint):
    return f' is of type {type(value).__name__}; expected {expected}'
  if isinstance(value, str | os.PathLike) and '\0' in str(value):
    return ' holds NUL, which no file can'
  return ''


def fits(value: Any, hint: Any) -> bool:
  """Is a value of a type? Of lists, each part is asked; a text is no list."""
  if hint is Any:
    return True
  origin, args = typing.get_origin(hint), typing.get_args(hint)
  if origin is Annotated:
    return fits(value, args[0])
  if origin in (typing.Union, types.UnionType):
    return any(fits(value, alternative) for alternative in args)
  if hint in _NUMBERS:
    right = isinstance(value, _NUMBERS[hint])
    return right and not isinstance(value, bool)
  if origin is collections.abc.Callable:
    return callable(value)
  if origin in _LISTS:
    return _parts_fit(value, origin, args)
  if origin is not None and issubclass(origin, collections.abc.Mapping):
    return isinstance(value, origin) and all(
      fits(key, args[0]) and fits(part, args[1]) for key, part in value.items()
    )
  cls = origin or hint
  return not isinstance(cls, type) or isinstance(value, cls)


def _parts_fit(value: Any, origin: Any, args: tuple[Any, ...]) -> bool:
  if isinstance(value, str | bytes) or not isinstance(value, origin):
    return False
  if origin is not tuple or args[1:] == (...,):
    return all(fits(part, args[0]) for part in value)
  return len(value) == len(args) and all(map(fits, value, args))
