"""Makes tasks of Inspect from dataclasses of options: `-T name=value`.

A function of a dataclass comes in; a task goes out. Its options are the fields
of the dataclass, and a bad one is refused in one line (`with_options`). The
standard error of all tasks is here too. `world_task` uses both.
"""

from __future__ import annotations

import functools
import inspect
import math
import typing
from collections.abc import Callable
from typing import Any, cast

import click
from inspect_ai import Task
from inspect_ai.scorer import Metric, MetricProtocol, SampleScore, Value, metric
from inspect_ai.scorer import stderr as by_clusters

from wm import core
from wm.core import inputs
from wm.options import mismatch


class BadArgument(click.ClickException, core.InputError):
  """Bad input of a task, which Inspect's command line shows as one line."""


def with_options(make: Callable[[Any], Task]) -> Callable[..., Task]:
  """Decorates a task that takes a dataclass, whose fields are its options.

  `-T name=value` sets a field. Fields of type `int`, `float` and `bool` take
  nothing else; texts that the command line has split are joined. An InputError
  becomes a line of Inspect's command line, also where there is no such option.

  make: takes a dataclass, which its annotation names.
  """
  (options,) = (
    kind
    for name, kind in typing.get_type_hints(make).items()
    if name != 'return'
  )
  kinds = typing.get_type_hints(options)
  # Inspect takes the names of options from the signature, and writes all of
  # them into its logs, defaults too. It drops those that no signature has with
  # a warning, which is easily missed: `unknown` gets them, to refuse them.
  unknown = inspect.Parameter('unknown_options', inspect.Parameter.VAR_KEYWORD)
  fields = inspect.signature(options).parameters.values()
  signature = inspect.Signature([*fields, unknown], return_annotation=Task)

  @functools.wraps(make)
  def task(*args: Any, **kwargs: Any) -> Task:
    """See what is wrapped."""
    values = signature.bind(*args, **kwargs).arguments
    try:
      for name in values.pop(unknown.name, ()):
        text = f'no option {name!r} of wm/{make.__name__}'
        inputs.check_known(name, kinds, text)
      checked = {
        name: _checked(name, kinds[name], values[name]) for name in values
      }
      return make(options(**checked))
    except core.InputError as error:
      raise BadArgument(str(error)) from error

  task.__signature__ = signature  # type: ignore[attr-defined]
  return task


def _checked(name: str, kind: type, value: Any) -> Any:
  """The value of an option; InputError where it is not of its kind."""
  if kind is str:
    return joined(value)
  if wrong := mismatch(value, kind, kind.__name__):
    raise core.InputError(f'{name}={value!r}{wrong}')
  return value


def joined(value: Any) -> str:
  """The text of an option, of which Inspect's command line may make a list at
  its commas, or a number.

  >>> joined(['maps(rows=4', 'columns=5)'])
  'maps(rows=4,columns=5)'
  """
  if isinstance(value, list | tuple):
    return ','.join(map(str, value))
  return str(value)


def listed(text: str, mark: str = ',') -> list[str]:
  """Texts between marks; of others, such as ';', each may hold commas."""
  parts = text.split(mark)
  return [part.strip() for part in parts if part.strip()]


def numbers(
  text: str, name: str, kind: type[int] | type[float] = int
) -> list[Any]:
  """Numbers between commas; InputError names the option."""
  try:
    return [kind(part) for part in listed(text)]
  except ValueError as error:
    example = 'integers, such as 0,1,2' if kind is int else 'numbers, as 0,0.5'
    raise core.InputError(
      f'{name}={text!r}: {error}; expected {example}'
    ) from error


@metric
def stderr(cluster: str) -> Metric:
  """Standard error of a mean, by clusters; NaN of fewer than two.

  One cluster says nothing of how uncertain it is: Inspect's own is 0 there.
  Where the package is installed, Inspect calls it `wm/stderr`.

  cluster: key of the samples' metadata that names what they share.
  """
  clustered = cast(MetricProtocol, by_clusters(cluster=cluster))

  def compute(scores: list[SampleScore]) -> Value:
    """Returns the error over the samples with a score."""
    groups = {
      str((score.sample_metadata or {}).get(cluster)) for score in scores
    }
    return clustered(scores) if len(groups) > 1 else math.nan

  return compute
