"""Refuses work that needs too much memory or time, before it starts.

Worlds, models and metrics are `Bounded`: `cost` gives a lower bound of their
memory and time from their fields alone, and `require` compares it with the
machine.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import pathlib
import shutil
import sys
from typing import Any, ClassVar, NamedTuple

from wm.core import fields
from wm.core.basics import InputError, plug_in_name

try:
  import resource  # Unix has it.
except ModuleNotFoundError:
  resource = None  # type: ignore[assignment]

# Files with the limit of a control group, of a container or a scheduler.
_LIMITS = (
  '/sys/fs/cgroup/memory.max',
  '/sys/fs/cgroup/memory/memory.limit_in_bytes',
)
# Fewest sequences that a user of a world holds at once: a training batch.
AT_ONCE = 64
WORD = 64  # Bytes of a token's text.
# Seconds; longer work that cannot be resumed is taken for a mistake.
LONGEST = 7 * 86_400
_DAY = 86_400


class Cost(NamedTuple):
  """Lower bound of the memory and time of a piece of work, from its fields.

  Attributes:
    memory: bytes held at once.
    seconds: time on one core, to the order of magnitude.
    fields: names of the fields that the cost grows with; the error for a cost
      that is too high proposes to lower one of them.
  """

  memory: float = 0
  seconds: float = 0
  fields: tuple[str, ...] = ()

  def __str__(self) -> str:
    """Text for tables and errors: '3.0 GB of memory, 5 minutes'."""
    parts = [f'{_gigabytes(self.memory)} of memory']
    parts += [_time(self.seconds)] if self.seconds else []
    return ', '.join(parts)


class Bounded:
  """Base class that refuses instances whose cost exceeds the machine.

  Subclasses are frozen dataclasses; their `__post_init__` must call this one.

  Attributes:
    version: raised by one when a change alters results.
  """

  version: ClassVar[str] = '1'

  @property
  def name(self) -> str:
    """Registry name; see `plug_in_name`."""
    return plug_in_name(type(self))

  def __init_subclass__(cls, **keywords: Any) -> None:
    """Adds the declared fields to the docstring of a class."""
    super().__init_subclass__(**keywords)
    fields.documented(cls)

  def cost(self, world: Any = None) -> Cost:
    """Lower bound of the cost of use, computed from the fields alone.

    world: the world that a model or a metric is used in; None: the smallest.
    """
    del world
    return Cost()

  def __post_init__(self) -> None:
    """Raises InputError for a bad field value, or for too high a cost."""
    fields.check(self)
    require(self)


def sequences_cost(
  length: int, *fields: str, vocab: int = 0, words: int = 1, more: int = 0
) -> Cost:
  """Cost of a world while `AT_ONCE` of its sequences are held.

  Args:
    length: tokens of a sequence.
    *fields: names of the fields that the cost grows with.
    vocab: number of tokens, if the fields determine it.
    words: integers of a state.
    more: bytes of further tables.
  """
  each = 4 * length + 4 * words + vocab
  return Cost(WORD * vocab + AT_ONCE * each + more, 0, fields)


def require(thing: Bounded, world: Any = None) -> None:
  """Raises InputError if a thing's cost exceeds the machine or `LONGEST`.

  world: the world that a model or a metric is used in.
  """
  cost = thing.cost(world)
  if _fits(cost):
    return
  names = _to_lower(thing, world, cost.fields)
  settings = ', '.join(f'{name}={getattr(thing, name)}' for name in names)
  what = f'{plug_in_name(type(thing))}({settings})'
  lower = f'; lower {" or ".join(names)}' if names else ''
  _need(cost.memory, memory(), 'memory', what, lower)
  raise InputError(
    f'{what}: {_time(cost.seconds)} are needed at least, more than '
    f'{_time(LONGEST)}{lower}'
  )


def _fits(cost: Cost) -> bool:
  return cost.seconds <= LONGEST and (
    cost.memory <= 0 or cost.memory <= memory()
  )


def _to_lower(
  thing: Bounded, world: Any, names: tuple[str, ...]
) -> tuple[str, ...]:
  """Fields that suffice if reset to their default; else all changed ones."""
  fields = dataclasses.fields(thing)  # type: ignore[arg-type]
  defaults = {field.name: field.default for field in fields}
  other = [name for name in names if getattr(thing, name) != defaults[name]]
  enough = []
  for name in other:
    usual = copy.copy(thing)
    object.__setattr__(usual, name, defaults[name])
    if _fits(usual.cost(world)):
      enough.append(name)
  return tuple(enough or other or names)


def memory() -> int:
  """Bytes of memory: the machine's, or a lower limit of this process.

  Limits come from a control group, or from the process as by `ulimit -v`.
  """
  names = getattr(os, 'sysconf_names', {})
  if 'SC_PHYS_PAGES' not in names:
    return sys.maxsize  # The size is unknown: nothing is refused.
  sizes = [os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')]
  for name in _LIMITS:
    path = pathlib.Path(name)
    text = path.read_text() if path.is_file() else ''
    if text.strip().isdecimal():
      sizes.append(int(text))
  if resource is not None:
    limits = [resource.getrlimit(resource.RLIMIT_AS)[0]]
    sizes += [size for size in limits if size != resource.RLIM_INFINITY]
  return min(sizes)


def require_address_space(what: str) -> None:
  """Raises InputError if the address space of the process is limited.

  what: the program that reserves more address space than it uses, such as a
    JavaScript engine.
  """
  if resource is None:
    return
  limit = resource.getrlimit(resource.RLIMIT_AS)[0]
  if limit != resource.RLIM_INFINITY:
    raise InputError(
      f'{what} reserves more address space than it uses, and a limit leaves '
      f'{limit:,} bytes; expected none (ulimit -v unlimited)'
    )


def require_memory(size: float, what: str) -> None:
  """Raises InputError if `size` bytes are more than the total memory.

  what: what needs them, for the error "what: 3.0 GB of memory are needed, ...".
  """
  _need(size, memory(), 'memory', what)


def require_sequences(world: Any, num: int, what: str) -> None:
  """Raises InputError if `num` sequences of a world do not fit in memory."""
  require_memory(4 * num * world.max_len, f'{what} of {world.max_len:,} tokens')


def require_disk(folder: str | os.PathLike[str], size: int, what: str) -> None:
  """Raises InputError if the disk has fewer than `size` bytes left.

  folder: a folder on that disk; it need not exist yet.
  """
  place = pathlib.Path(folder).absolute()
  while not place.exists():
    place = place.parent
  _need(size, shutil.disk_usage(place).free, f'disk at {folder}', what)


def _need(size: float, room: int, of: str, what: str, lower: str = '') -> None:
  if size > room:
    raise InputError(
      f'{what}: {_gigabytes(size)} of {of} are needed, {_gigabytes(room)} are '
      f'available{lower}'
    )


def _gigabytes(size: float) -> str:
  if size >= 1e18:
    return f'{size / 1e9:.1e} GB'
  for name, unit in (('GB', 1e9), ('MB', 1e6)):
    if size >= unit / 10:
      return f'{size / unit:,.1f} {name}'
  return f'{size / 1e3:,.1f} kB'


def _time(seconds: float) -> str:
  for name, size in (('days', _DAY), ('hours', 3600), ('minutes', 60)):
    if seconds >= 2 * size:
      return f'{seconds / size:,.0f} {name}'
  return f'{seconds:,.1f} seconds'
