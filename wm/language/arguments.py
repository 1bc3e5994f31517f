"""Values of `-T name=value` as tasks get them from Inspect's command line."""

from __future__ import annotations

import functools
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
  """The same task, whose InputErrors are lines on Inspect's command line."""

  @functools.wraps(task)
  def made(*args: Given.args, **kwargs: Given.kwargs) -> Made:
    """See what is wrapped."""
    try:
      return task(*args, **kwargs)
    except core.InputError as error:
      raise BadArgument(str(error)) from error

  return made


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
