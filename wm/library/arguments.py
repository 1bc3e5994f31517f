"""Checks what calls of the library are given, by their own annotations.

`wm.NAME` is a call so checked: an argument of another type, or outside of the
limits of the option that it is called as, is bad input and one line. Calls of
one module by another are not checked.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from wm import core
from wm.core import inputs
from wm.core.accept import Accept
from wm.options import Option, declared, mismatch, refuse, shown, unmet
from wm.options import calls as option_calls
from wm.options.calls import RouteSource, Scoring, Sweeping, Units
from wm.options.reconstruction import Reconstruction
from wm.options.sampling import Sampling
from wm.options.training import Training
from wm.runtime import files

F = TypeVar('F', bound=Callable[..., Any])
_MANY = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


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
    """Checks what it is given, and calls."""
    for name in keywords.keys() - signature.parameters.keys():
      available = inputs.suggest(name, signature.parameters)
      refuse(f'{call.__name__} takes no {name!r}', f'; {available}')
    try:
      arguments = signature.bind(*args, **keywords).arguments
    except TypeError as error:
      needed = [
        p for p in signature.parameters.values() if p.default is p.empty
      ]
      names = ', '.join(p.name for p in needed if p.kind not in _MANY)
      refuse(f'{call.__name__}: {error}', f'; it needs {names}')
    for name, value in arguments.items():
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
  """Types of the arguments; those of results may not be imported."""
  written = {k: x for k, x in call.__annotations__.items() if k != 'return'}
  holder = type('Arguments', (), {'__annotations__': written})
  names = {**vars(option_calls), 'core': core, 'Accept': Accept}
  names |= inspect.unwrap(call).__globals__
  return typing.get_type_hints(holder, names, include_extras=True)


@functools.cache
def _options() -> dict[str, Option]:
  """Name -> what is said of it, for the options that calls take."""
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
