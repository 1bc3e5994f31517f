"""Checks of a world's fields; each raises InputError in one line."""

from __future__ import annotations

from collections.abc import Collection

from wm import core


def one_of(world: core.World, **fields: Collection[str]) -> None:
  """Raises InputError for a field that has none of its possible values."""
  for name, known in fields.items():
    if getattr(world, name) not in known:
      raise core.InputError(
        f'{world.name}: {name}={getattr(world, name)!r}; available: '
        + ', '.join(known)
      )


def at_least(world: core.World, expected: str = '{}', **fields: int) -> None:
  """Raises InputError for a field below its least value.

  expected: what to call the least value in the error.
  """
  for name, least in fields.items():
    if getattr(world, name) < least:
      raise core.InputError(
        f'{world.name}: {name}={getattr(world, name)}; expected at least '
        + expected.format(least)
      )
