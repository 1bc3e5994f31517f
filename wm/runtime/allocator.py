"""The C library keeps the memory that a training step frees for the next."""

from __future__ import annotations

import ctypes
import os

# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8


def keep() -> None:
  """Makes glibc keep freed memory; binaries call it before JAX starts.

  By default glibc gives large blocks back to the system, and the next step on
  a CPU asks for them again: page faults took a fifth to a third of the
  processor time of training at width 128. All threads share one arena, as only
  the main arena grows without bounds. Nothing changes where the user has set
  any MALLOC_* variable, or under another C library.
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
