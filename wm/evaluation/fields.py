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
  for name, known in fields.items():
    if getattr(metric, name) not in known:
      raise core.InputError(
        f'{metric.name}: {name}={getattr(metric, name)!r} was given; '
        f'available: {", ".join(known)}'
      )


def tuning(metric: core.Metric) -> None:
  """Raises InputError where steps, rates, held, part or keep tune nothing."""
  one_of(metric, part=('all', 'head'), keep=('last', 'best'))
  steps, rates, held, keep = (
    getattr(metric, name) for name in ('steps', 'rates', 'held', 'keep')
  )
  whole = all(isinstance(step, int) and step > 0 for step in steps)
  if not (steps and whole and list(steps) == sorted({*steps})):
    raise core.InputError(
      f'{metric.name}: steps={steps} was given; expected numbers from 1, '
      'ascending'
    )
  if (len(rates) > 1 or keep == 'best') and not held:
    raise core.InputError(
      f'{metric.name}: rates={rates}, keep={keep!r} was given with held=0; '
      'expected held labels to choose by'
    )
  if not rates or min(rates) <= 0:
    raise core.InputError(
      f'{metric.name}: rates={rates} was given; expected learning rates above 0'
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
