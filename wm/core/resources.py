"""Work that the machine cannot hold, or not end, is refused before it starts.

Worlds, models and metrics are `Bounded`: each states what it takes at least by
`cost`, from its fields alone, and `require` compares that with the machine.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import pathlib
import shutil
import sys
from typing import Any, NamedTuple

from wm.core import fields
from wm.core.basics import InputError, plug_in_name

try:
  import resource  # Unix has it.
except ModuleNotFoundError:
  resource = None  # type: ignore[assignment]

# Where a control group, of a container or a scheduler, says its limit.
_LIMITS = (
  '/sys/fs/cgroup/memory.max',
  '/sys/fs/cgroup/memory/memory.limit_in_bytes',
)
# Sequences that are held at once by whatever uses a world: a batch of training.
AT_ONCE = 64
WORD = 64  # Bytes of a token's text.
# Work that no stop saves is taken for a mistake if it takes longer.
LONGEST = 7 * 86_400
_DAY = 86_400


class Cost(NamedTuple):
  """What a piece of work takes at least, as far as its fields say.

  Attributes:
    memory: bytes held at once.
    seconds: on one core, to the order of magnitude.
    fields: that it grows with; where it is too much, lower one of them.
  """

  memory: float = 0
  seconds: float = 0
  fields: tuple[str, ...] = ()

  def __str__(self) -> str:
    """As tables and errors say it: '3.0 GB of memory, 5 minutes'."""
    parts = [f'{_gigabytes(self.memory)} of memory']
    parts += [_time(self.seconds)] if self.seconds else []
    return ', '.join(parts)


class Bounded:
  """Says what it takes, and is refused where that is more than there is.

  Subclasses are frozen dataclasses; a `__post_init__` of their own calls this.
  """

  def __init_subclass__(cls, **keywords: Any) -> None:
    """Adds the declared fields to the docstring of a class."""
    super().__init_subclass__(**keywords)
    fields.documented(cls)

  def cost(self, world: Any = None) -> Cost:
    """What its use takes at least; from its fields, without making anything.

    world: that a model or a metric is used in; None: in the smallest one.
    """
    del world
    return Cost()

  def __post_init__(self) -> None:
    """Raises InputError for a bad value of a field, and for too much work."""
    fields.check(self)
    require(self)


def sequences_cost(
  length: int, *fields: str, vocab: int = 0, words: int = 1, more: int = 0
) -> Cost:
  """Cost of a world, of which `AT_ONCE` sequences are held.

  Args:
    length: tokens of a sequence.
    fields: that it grows with.
    vocab: number of tokens, if fields say it.
    words: of a state.
    more: bytes of tables besides.
  """
  each = 4 * length + 4 * words + vocab
  return Cost(WORD * vocab + AT_ONCE * each + more, 0, fields)


def require(thing: Bounded, world: Any = None) -> None:
  """Raises InputError where a thing takes more memory or time than there is.

  world: that a model or a metric is used in.
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
  """The fields whose default alone would do; or all that are no default."""
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
  """Bytes of memory: the machine's, or what a limit leaves of it.

  Limits are those of a control group and of the process, as `ulimit -v`.
  """
  names = getattr(os, 'sysconf_names', {})
  if 'SC_PHYS_PAGES' not in names:
    return sys.maxsize  # Not known here: nothing is refused.
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
  """Raises InputError where addresses of the process are limited.

  what: reserves more of them than it will use, as engines of scripts do.
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
  """Raises InputError where `size` bytes are more than there is in all.

  what: needs them, as the error says: "what: 3.0 GB of memory are needed, ...".
  """
  _need(size, memory(), 'memory', what)


def require_sequences(world: Any, num: int, what: str) -> None:
  """Raises InputError where `num` sequences of a world do not fit in memory."""
  require_memory(4 * num * world.max_len, f'{what} of {world.max_len:,} tokens')


def require_disk(folder: str | os.PathLike[str], size: int, what: str) -> None:
  """Raises InputError where `size` bytes are more than the disk has left.

  folder: on that disk; it need not exist yet.
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
