"""Options of library calls and of flags, declared once.

A dataclass of options is the argument of a library call, or its fields are the
call's keywords. Fields have help and limits, from which `launch/common.py`
makes flags:

  steps: int = option(1000, 'Training steps.', least=1)

This package does not import NumPy, so that `--help` is quick.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import inspect
import itertools
import math
import numbers
import os
import pathlib
import types
import typing
from collections.abc import Callable, Collection, Sequence
from dataclasses import MISSING
from typing import Annotated, Any, NamedTuple, NoReturn, TypeVar, get_type_hints

_KEY = 'option'
_NUMBERS = {int: numbers.Integral, float: numbers.Real}
_LISTS = collections.abc.Sequence, list, tuple
_LONGEST = 60  # Characters of a value in an error's line.
_ONE = ': expected one of the two'
T = TypeVar('T')
R = TypeVar('R')


def launch_folder() -> pathlib.Path:
  """launch/ of the checkout, or its copy in the package as installed."""
  package = pathlib.Path(__file__).resolve().parents[1]
  installed = package / 'launch'
  return installed if installed.is_dir() else package.parent / 'launch'


class Option(NamedTuple):
  """Help and limits of a field.

  Attributes:
    help: one or two sentences.
    least, most: inclusive limits of a number; None is no limit.
    choices: all allowed values of a text; empty: any value.
    flag: name of the flag, if it is not the field's name.
    many: whether the field is a sequence, whose flag is repeated.
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
  """The Option of a field that `option` made."""
  about: Option = field.metadata[_KEY]
  return about


def _lines(cls: type, names: Collection[str] | None = None) -> list[str]:
  """A line of the docstring for each option, or for the fields `names`."""
  about = declared(cls)
  return [
    f'  {name}: {field.type}'
    + ('' if field.default is MISSING else f', default {field.default!r}')
    + (f'. {about[name][1].help}' if name in about else '.')
    for name, field in _fields(cls).items()
    if name in (about if names is None else names)
  ]


def documented(cls: type[T]) -> type[T]:
  """Decorator: the class's docstring lists its options."""
  head = inspect.cleandoc(cls.__doc__ or ''), '', 'Attributes:'
  cls.__doc__ = '\n'.join([*head, *_lines(cls)])
  return cls


def takes(
  **groups: type | tuple[Any, ...],
) -> Callable[[Callable[..., R]], Callable[..., R]]:
  """Decorator: a call takes the fields of option classes as keywords.

  Inside the call each group is one argument, an instance of its class. A caller
  passes its fields as keywords or, if the group has a default, the instance. A
  parameter of the call that is also a field of the class sets the field. The
  call's signature and docstring list the keywords.

  groups: argument -> its class, or (class, names of fields to take).
  """
  classes = {k: x[0] if isinstance(x, tuple) else x for k, x in groups.items()}
  fields = {name: _fields(cls) for name, cls in classes.items()}
  taken = {
    name: {k: fields[name][k] for k in x[1:]}
    if isinstance(x := groups[name], tuple)
    else fields[name]
    for name in groups
  }

  def decorate(call: Callable[..., R]) -> Callable[..., R]:
    """The call, with the keywords of its groups."""
    signature = inspect.signature(call)

    def regroup(args: Sequence[Any], keywords: dict[str, Any]) -> None:
      """Puts keywords into their groups."""
      direct = {k: x for k, x in keywords.items() if k in signature.parameters}
      passed = signature.bind_partial(*args, **direct).arguments
      for group in groups.keys() & passed.keys():
        both = keywords.keys() & taken[group].keys() - direct.keys()
        if both:
          refuse(f'{call.__name__}: {group} and {min(both)} were given', _ONE)
      for group in groups.keys() - passed.keys():
        values = {k: x for k, x in passed.items() if k in fields[group]}
        # None means "not given" if the class has a default.
        for name in taken[group].keys() & keywords.keys() - passed.keys():
          value = keywords.pop(name)
          if value is not None or fields[group][name].default is not MISSING:
            values[name] = value
        keywords[group] = classes[group](**values)

    @functools.wraps(call)
    def grouped(*args: Any, **keywords: Any) -> R:
      """Calls with keywords in their groups."""
      regroup(args, keywords)
      return call(*args, **keywords)

    undeclared: Any = grouped  # Functions have no declared attributes.
    undeclared.regroup = regroup
    _list(grouped, signature, classes, taken)
    return grouped

  return decorate


def _list(
  call: Any,
  signature: inspect.Signature,
  classes: dict[str, Any],
  taken: dict[str, dict[str, dataclasses.Field]],
) -> None:
  """Lists the keywords of groups in a call's signature and docstring."""
  others = [
    p
    for name, p in signature.parameters.items()
    if name not in classes or p.default is not p.empty
  ]
  new = {
    name: _parameter(field)
    for group in taken.values()
    for name, field in group.items()
    if name not in signature.parameters
  }
  call.__signature__ = signature.replace(parameters=[*others, *new.values()])
  types = {name: parameter.annotation for name, parameter in new.items()}
  call.__annotations__ = call.__annotations__ | types
  listed = [_lines(cls, taken[k].keys() & new) for k, cls in classes.items()]
  head = inspect.cleandoc(call.__doc__ or ''), '', 'Keyword Args:'
  call.__doc__ = '\n'.join([*head, *itertools.chain(*listed)])


def _fields(cls: Any) -> dict[str, dataclasses.Field]:
  return {field.name: field for field in dataclasses.fields(cls)}


def _parameter(field: dataclasses.Field) -> inspect.Parameter:
  """A field as a keyword parameter; None stands for its default_factory."""
  default, kind = field.default, str(field.type)
  if field.default_factory is not MISSING:
    default, kind = None, f'{kind} | None'
  elif default is MISSING:
    default = inspect.Parameter.empty
  keyword = inspect.Parameter.KEYWORD_ONLY
  return inspect.Parameter(
    field.name, keyword, default=default, annotation=kind
  )


def check(options: Any) -> None:
  """Raises InputError if a value has a wrong type, or exceeds its limits."""
  hints = get_type_hints(type(options))
  for field in dataclasses.fields(options):
    value = getattr(options, field.name)
    if wrong := mismatch(value, hints[field.name], str(field.type)):
      refuse(f'{field.name}={shown(value)}', wrong)
    if (kind := hints[field.name]) in _NUMBERS:  # NumPy numbers are not JSON.
      object.__setattr__(options, field.name, kind(value))
    elif isinstance(value, os.PathLike):
      object.__setattr__(options, field.name, os.fspath(value))
  for name, (_, about) in declared(type(options)).items():
    value = getattr(options, name)
    if expected := unmet(value, about):
      refuse(f'{name}={value!r}', expected)


def refuse(value: str, expected: str) -> NoReturn:
  """Raises InputError with the text `value` + `expected`."""
  from wm.core import InputError

  raise InputError(f'{value}{expected}')


def unmet(value: Any, about: Option) -> str:
  """Error text for a value outside its limits or choices, or ''."""
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


def shown(value: Any) -> str:
  """A value as errors show it."""
  return ' '.join(repr(value).split())[:_LONGEST]


def mismatch(value: Any, hint: Any, expected: str) -> str:
  """Error text for a value of a wrong type, or ''.

  Args:
    value: any object.
    hint: the type, from `typing.get_type_hints`.
    expected: the type as errors write it.
  """
  if not fits(value, hint):
    return f' is of type {type(value).__name__}; expected {expected}'
  if isinstance(value, str | os.PathLike) and '\0' in str(value):
    return ' holds NUL, which no file can'
  return ''


def fits(value: Any, hint: Any) -> bool:
  """Is a value of a type? Items of lists are tested; a text is not a list."""
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
