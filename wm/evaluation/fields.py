"""Checks of a metric's fields; each raises InputError in one line."""

from __future__ import annotations

from collections.abc import Sequence

from wm import core


def at_least(metric: core.Metric, **fields: int) -> None:
  """Raises InputError for a field of a metric below its least value."""
  for name, least in fields.items():
    if getattr(metric, name) < least:
      raise core.InputError(
        f'{metric.name}: {name}={getattr(metric, name)} was given; '
        f'expected at least {least}'
      )


def one_of(metric: core.Metric, **fields: Sequence[str]) -> None:
  """Raises InputError for a field that has none of its possible values."""
  for name, choices in fields.items():
    if getattr(metric, name) not in choices:
      raise core.InputError(
        f'{metric.name}: {name}={getattr(metric, name)!r} was given; '
        f'available: {", ".join(choices)}'
      )


def renamed(metric: core.Metric, field: str, old: str, new: str) -> None:
  """Raises InputError where a spec of before has a value's former name."""
  if getattr(metric, field) == old:
    raise core.InputError(
      f'{metric.name}: {field}={old!r} is called {field}={new!r} now'
    )


def layers(metric: core.Metric, given: Sequence[int], least: int = 0) -> None:
  """Raises InputError where a field `layers` holds no different layers."""
  whole = all(isinstance(one, int) and one >= -1 for one in given)
  if not whole or len(set(given)) < len(given) or len(given) < least:
    raise core.InputError(
      f'{metric.name}: layers={given} was given; expected '
      f'{"one or more " if least else ""}different layers, each -1 or more'
    )
