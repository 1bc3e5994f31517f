"""Values of `-T name=value` as tasks get them from Inspect's command line."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

# The only error that Inspect's command line shows as a line, not a traceback.
from inspect_ai._util.error import PrerequisiteError

from wm import core

Given = ParamSpec('Given')
Made = TypeVar('Made')

# What a task takes for a text that may hold commas.
Text = str | Sequence[Any]


class BadArgument(PrerequisiteError, core.InputError):
  """Bad input of a task, which Inspect shows as one line."""


def in_one_line(task: Callable[Given, Made]) -> Callable[Given, Made]:
  """Decorates a task: its InputErrors become lines of Inspect's command line.

  Arguments that are annotated as numbers or flags must be such.
  """
  signature = inspect.signature(task)

  @functools.wraps(task)
  def made(*args: Given.args, **kwargs: Given.kwargs) -> Made:
    """See what is wrapped."""
    try:
      for name, value in signature.bind(*args, **kwargs).arguments.items():
        _check(name, value, signature.parameters[name].annotation)
      return task(*args, **kwargs)
    except core.InputError as error:
      raise BadArgument(str(error)) from error

  return made


# Annotations, which are texts, and what they take.
_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
  'int': ('an integer', (int,)),
  'float': ('a number', (int, float)),
  'bool': ('true or false', (bool,)),
}


def _check(name: str, value: Any, annotation: Any) -> None:
  """Raises InputError where a value is not as it is annotated."""
  what, types = _TYPES.get(str(annotation), ('', (object,)))
  flag = isinstance(value, bool) and bool not in types and object not in types
  if flag or not isinstance(value, types):
    raise core.InputError(f'{name}={value!r}; expected {what}')


def joined(value: Text) -> str:
  """A text that the command line has split at its commas, whole again.

  >>> joined(['maps(rows=4', 'columns=5)'])
  'maps(rows=4,columns=5)'
  """
  if isinstance(value, str):
    return value
  return ','.join(map(str, value))


def listed(value: Text | None) -> list[str]:
  """Texts divided by semicolons; whatever is between them may hold commas."""
  text = joined(value or '')
  return [part.strip() for part in text.split(';') if part.strip()]


def integers(value: Any, name: str) -> list[int]:
  """Integers divided by commas; InputError names the argument."""
  parts = value if isinstance(value, list | tuple) else str(value).split(',')
  try:
    return [int(part) for part in parts]
  except ValueError as error:
    raise core.InputError(
      f'{name}={joined(value)!r}; expected integers, such as {name}=0,1,2'
    ) from error
