"""What a training step frees is kept for the next one."""

from __future__ import annotations

import ctypes
import os

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8


def keep() -> None:
  """Has the C library keep freed memory; for binaries, before JAX starts.

  glibc gives large blocks back to the system, and a step on a CPU asks for the
  same again: page faults were a fifth to a third of the processor time of
  training at width 128. All threads get one arena, as only the main one grows
  without bounds. A user's own MALLOC_* settings go first, and other C libraries
  are left alone.
  """
  if any(name.startswith('MALLOC_') for name in os.environ):
    return
  try:
    mallopt = ctypes.CDLL(None).mallopt
  except (AttributeError, OSError, TypeError):
    return
  mallopt(_ARENA_MAX, 1)
  mallopt(_MMAP_MAX, 0)
  mallopt(_TRIM_THRESHOLD, -1)
