"""Checks the arguments of library calls against their annotations.

`wm.NAME` is the checked call. An argument of a wrong type, or outside the
limits of the option with its name, is an InputError of one line. Calls between
modules are not checked. URLs are replaced by their mirrors
(`wm.runtime.remote`), and files that a call wrote there are uploaded.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
import re
import typing
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import numpy as np

from wm import core
from wm.core import inputs, registry
from wm.core.accept import Accept
from wm.options import Option, declared, fits, mismatch, refuse, shown, unmet
from wm.options import calls as option_calls
from wm.options.calls import (
  Reconstruction,
  RouteSource,
  Sampling,
  Scoring,
  Sweeping,
  Units,
)
from wm.options.training import Training
from wm.runtime import compute, files, remote

F = TypeVar('F', bound=Callable[..., Any])
# In the text of what is a URL or a path of a mirror.
_REMOTE = re.compile(rf':/|{remote.MIRRORS}')
# Call -> folders of a run whose files it does not read.
_SKIPPED = {
  **dict.fromkeys(
    ('compare', 'findings', 'report', 'rows'), ('data', 'checkpoints')
  ),
  **dict.fromkeys(
    ('explore', 'load_predictor', 'reconstruct', 'score'), ('data',)
  ),
}
_MANY = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


@functools.cache
def checked(call: F) -> F:
  """The call, with its arguments checked first.

  Raises:
    InputError: when called: an argument does not match its annotation.
  """
  signature = inspect.signature(call)
  hints, parameters = _hints(call), signature.parameters
  takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
  # See `wm.options.takes`, whose own call is left out: it is one more frame.
  regroup = vars(call).get('regroup')
  inner: Callable[..., Any] = inspect.unwrap(call) if regroup else call

  @functools.wraps(call)
  def listed(*args: Any, **keywords: Any) -> Any:
    """Checks the arguments, then calls."""
    for name in () if takes_any else keywords.keys() - parameters.keys():
      available = inputs.suggest(name, parameters)
      refuse(f'{call.__name__} takes no {name!r}', f'; {available}')
    try:
      bound = signature.bind(*args, **keywords)
    except TypeError as error:
      needed = [p for p in parameters.values() if p.default is p.empty]
      names = ', '.join(p.name for p in needed if p.kind not in _MANY)
      refuse(f'{call.__name__}: {error}', f'; it needs {names}')
    bound.arguments = {
      k: _plain(x, hints.get(k)) for k, x in bound.arguments.items()
    }
    for name, value in bound.arguments.items():
      _check(call.__name__, parameters[name], value, hints.get(name))
    if _REMOTE.search(' '.join(map(_text, bound.arguments.values()))):
      return _with_mirrors(call, bound)
    named = bound.kwargs
    if regroup:
      regroup(bound.args, named)
    return inner(*bound.args, **named)

  return typing.cast(F, listed)


def _plain(value: Any, hint: Any) -> Any:
  """Converts UPaths, NumPy numbers, and runs given as paths to plain types."""
  if isinstance(value, np.generic):
    return value.item()
  if isinstance(value, dict):
    return {name: _plain(part, None) for name, part in value.items()}
  if type(value).__module__[:5] == 'upath':
    return str(value)
  if hint is None or fits(value, hint):
    return value
  if isinstance(value, list | tuple):
    return [os.fspath(x) if isinstance(x, os.PathLike) else x for x in value]
  return os.fspath(value) if isinstance(value, os.PathLike) else value


def _text(value: Any) -> str:
  """The text of an argument that may hold a path; '' for any other."""
  if isinstance(value, list | tuple):
    return ' '.join(map(_text, value))
  if dataclasses.is_dataclass(value) and not isinstance(value, type):
    return ' '.join(_text(x) for x in vars(value).values())
  return str(value) if isinstance(value, str | os.PathLike) else ''


def _with_mirrors(call: Callable[..., Any], bound: Any) -> Any:
  """Calls with mirrors in place of URLs, then uploads the written files."""
  skip = _SKIPPED.get(call.__name__, ())
  arguments = {k: _mirrored(x, skip) for k, x in bound.arguments.items()}
  if log := arguments.get('log'):
    arguments['log'] = lambda line: log(remote.shown(line))
  bound.arguments = arguments
  try:
    result = call(*bound.args, **bound.kwargs)
  except core.InputError as error:
    error.args = tuple(remote.shown(str(x)) for x in error.args)
    raise
  if compute.process_index():  # Of several processes the first one publishes.
    return result
  for name in ('out', 'results'):
    if (path := arguments.get(name)) and remote.url_of(path):
      remote.publish(path)
  return result


def _mirrored(value: Any, skip: tuple[str, ...]) -> Any:
  """Replaces the URLs in an argument by their mirrors."""
  if isinstance(value, list | tuple):
    return type(value)(_mirrored(x, skip) for x in value)
  if remote.is_url(value) and not [*registry.files(value)]:
    return remote.local(value, skip)
  if isinstance(value, str | os.PathLike) and remote.url_of(value):
    remote.local(value, skip)  # The result of an earlier call.
  elif isinstance(value, Sampling | Training | RouteSource | Scoring):
    changed = {k: _mirrored(x, ()) for k, x in vars(value).items()}
    changed = {
      k: str(x) for k, x in changed.items() if isinstance(x, os.PathLike)
    }
    return dataclasses.replace(value, **changed) if changed else value
  return value


def _check(
  call: str, parameter: inspect.Parameter, value: Any, hint: Any
) -> None:
  """Raises InputError if an argument has a wrong type or value."""
  label, name = f'{call}: {parameter.name}', parameter.name
  if hint is None:  # Not annotated.
    return
  if wrong := mismatch(value, hint, str(parameter.annotation)):
    refuse(f'{label}={shown(value)}', wrong)
  about = _limits(name, hint)
  if about and (wrong := unmet(value, about)):
    refuse(f'{label}={shown(value)}', wrong)
  if isinstance(value, list | tuple) and not value and parameter.default:
    refuse(f'{label}={value}', ' is empty; expected at least one')
  if name == 'name' and value is not None and not _printable(value):
    refuse(f'{label}={value!r}', ': expected a line of text')
  if name == 'out' and value is not None:
    files.check_folder('out', str(value))


def _printable(text: str) -> bool:
  return text.isprintable() and bool(text.strip())


def _hints(call: Callable[..., Any]) -> dict[str, Any]:
  """Types of the arguments; types of results may not be imported."""
  written = {k: x for k, x in call.__annotations__.items() if k != 'return'}
  holder = type('Arguments', (), {'__annotations__': written})
  names = {**vars(option_calls), 'core': core, 'Accept': Accept}
  names |= inspect.unwrap(call).__globals__
  hints = typing.get_type_hints(holder, names, include_extras=True)
  for parameter in inspect.signature(call).parameters.values():
    if parameter.kind is parameter.VAR_POSITIONAL:
      hint: Any = hints[parameter.name]
      hints[parameter.name] = tuple[hint, ...]
  return hints


@functools.cache
def _options() -> dict[str, Option]:
  """Name -> its Option, for all options that calls take."""
  kinds = (
    *(Sampling, Reconstruction, Training, Scoring, Sweeping),
    *(RouteSource, Units),
  )
  return {
    called: about
    for kind in kinds
    for name, (_, about) in declared(kind).items()
    for called in (name, about.flag or name)
  }


def _limits(name: str, hint: Any) -> Option | None:
  if typing.get_origin(hint) is Annotated:
    for about in typing.get_args(hint)[1:]:
      if isinstance(about, Option):
        return about
  return _options().get(name)
