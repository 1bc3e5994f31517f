"""Work that memory or disk cannot hold is refused before it starts."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys

from wm.core.basics import InputError

# Where a control group, of a container or a scheduler, says its limit.
_LIMITS = (
  '/sys/fs/cgroup/memory.max',
  '/sys/fs/cgroup/memory/memory.limit_in_bytes',
)


def memory() -> int:
  """Bytes of memory: the machine's, or what a control group leaves of it."""
  names = getattr(os, 'sysconf_names', {})
  if 'SC_PHYS_PAGES' not in names:
    return sys.maxsize  # Not known here: nothing is refused.
  found = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
  for name in _LIMITS:
    path = pathlib.Path(name)
    text = path.read_text() if path.is_file() else ''
    if text.strip().isdecimal():
      found = min(found, int(text))
  return found


def need_memory(size: int, what: str) -> None:
  """Raises InputError where `size` bytes are more than there is in all.

  what: needs them, as the error says: "what: 3.0 GB of memory are needed, ...".
  """
  _need(size, memory(), 'memory', what)


def need_disk(folder: str | os.PathLike[str], size: int, what: str) -> None:
  """Raises InputError where `size` bytes are more than the disk has left.

  folder: on that disk; it need not exist yet.
  """
  place = pathlib.Path(folder).absolute()
  while not place.exists():
    place = place.parent
  _need(size, shutil.disk_usage(place).free, f'disk at {folder}', what)


def _need(size: int, room: int, of: str, what: str) -> None:
  if size > room:
    raise InputError(
      f'{what}: {_gigabytes(size)} of {of} are needed, {_gigabytes(room)} are '
      'available'
    )


def _gigabytes(size: int) -> str:
  return f'{size / 1e9:,.1f} GB'
