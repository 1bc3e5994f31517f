"""Checks what calls of the library are given, by their own annotations.

`wm.NAME` is a call so checked: an argument of another type, or outside of the
limits of the option that it is called as, is bad input and one line. Calls of
one module by another are not checked.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import numbers
import os
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from wm.options import Option, declared, refuse, unmet
from wm.options.calls import Routes, Scoring, Sweeping, Units
from wm.options.reconstruction import Reconstruction
from wm.options.sampling import Sampling
from wm.options.training import Training

F = TypeVar('F', bound=Callable[..., Any])
_NUMBERS = {int: numbers.Integral, float: numbers.Real}
_LISTS = collections.abc.Sequence, list, tuple
_SHOWN = 60  # Characters of a value in an error's line.


@functools.cache
def checked(call: F) -> F:
  """The call, with its arguments checked first.

  Raises:
    InputError: by the call: an argument is not what it is annotated as.
  """
  signature = inspect.signature(call)
  hints = _hints(call)

  @functools.wraps(call)
  def listed(*args: Any, **keywords: Any) -> Any:
    given = signature.bind(*args, **keywords).arguments
    for name, value in given.items():
      _check(call.__name__, signature.parameters[name], value, hints.get(name))
    return call(*args, **keywords)

  return typing.cast(F, listed)


def _check(
  call: str, parameter: inspect.Parameter, value: Any, hint: Any
) -> None:
  """Raises InputError where an argument of a call will not do."""
  label, name = f'{call}: {parameter.name}', parameter.name
  if hint is None:  # Not annotated.
    return
  check(label, value, hint, str(parameter.annotation))
  shown = f'{label}={repr(value)[:_SHOWN]}'
  about = _limits(name, hint)
  if about and (wrong := unmet(value, about)):
    refuse(shown, wrong)
  if isinstance(value, list | tuple) and not value and parameter.default:
    refuse(shown, ' is empty; expected at least one')
  if name == 'name' and value is not None and not _printable(value):
    refuse(shown, ': expected a line of text')
  if name == 'out' and value is not None:
    from wm.runtime import files

    files.check_folder('out', str(value))


def _printable(text: str) -> bool:
  return text.isprintable() and bool(text.strip())


def _hints(call: Callable[..., Any]) -> dict[str, Any]:
  """Types of the arguments; those of results may not be imported."""
  written = {k: x for k, x in call.__annotations__.items() if k != 'return'}
  holder = type('Arguments', (), {'__annotations__': written})
  return typing.get_type_hints(holder, call.__globals__, include_extras=True)


@functools.cache
def _options() -> dict[str, Option]:
  """Name -> what is said of it, for the options that calls take."""
  kinds = Sampling, Reconstruction, Training, Scoring, Sweeping, Routes, Units
  return {
    called: about
    for kind in kinds
    for name, (_, about) in declared(kind).items()
    for called in (name, about.flag or name)
  }


def _limits(name: str, hint: Any) -> Option | None:
  for about in getattr(hint, '__metadata__', ()):
    if isinstance(about, Option):
      return about
  return _options().get(name)


def check(label: str, value: Any, hint: Any, expected: str = '') -> None:
  """Raises InputError where a value is not of a type.

  Args:
    label: what errors call it.
    value: of anything.
    hint: the type, as `typing.get_type_hints` gives it.
    expected: how errors write the type.
  """
  if not fits(value, hint):
    shown = f'{label}={repr(value)[:_SHOWN]} is of type {type(value).__name__}'
    refuse(shown, f'; expected {expected or hint}')
  if isinstance(value, str | os.PathLike) and '\0' in str(value):
    refuse(f'{label}={repr(value)[:_SHOWN]}', ' holds NUL, which no file can')


def fits(value: Any, hint: Any) -> bool:
  """Is a value of a type? Of lists, each part is asked; a text is no list."""
  if hint is Any:
    return True
  origin, args = typing.get_origin(hint), typing.get_args(hint)
  if origin is Annotated:
    return fits(value, args[0])
  if origin in (typing.Union, types.UnionType):
    return any(fits(value, one) for one in args)
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
