"""Threads that numbers are computed with: as many on every machine.

How XLA divides a product of matrices on a CPU, and so in which order it sums,
follows from the threads of its pool; so does OpenBLAS. By default both have a
thread for each core that the process may use, and the last bits of a loss
differ between one core and two. Here their number is fixed before they start:
the system shares out what cores there are.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import sys
from collections.abc import Iterator

# Of these, XLA reads the first that there is, when JAX starts its CPU client.
_VARIABLES = 'PJRT_NPROC', 'NPROC'
_BLAS = 'OPENBLAS_NUM_THREADS'
# How NumPy's own OpenBLAS, and one of the system, call the same function.
_PREFIXES = 'scipy_openblas_{}_num_threads64_', 'openblas_{}_num_threads'


def fix(num: int) -> int:
  """Has XLA compute with so many threads, unless JAX has started it already.

  That comes with the first array of a process. What is computed with so many
  threads is the same to the bit on any number of cores.

  Returns:
    The threads that it has.
  """
  if not _started():
    os.environ[_VARIABLES[0]] = str(num)
  return number()


def number() -> int:
  """Threads that XLA has or would start with; more devices have as many."""
  values = (os.environ.get(name, '') for name in _VARIABLES)
  return next((int(text) for text in values if text.isdecimal()), 0) or cores()


def cores() -> int:
  """Cores that this process may use."""
  if hasattr(os, 'sched_getaffinity'):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def _started() -> bool:
  """Has JAX started what it computes with?"""
  bridge = sys.modules.get('jax._src.xla_bridge')
  return bridge is not None and bridge.backends_are_initialized()


def fix_blas() -> None:
  """Has OpenBLAS compute with one thread; before NumPy is imported.

  It is the fastest, too: our matrices are small, and threads that wait for
  each other take longer than one alone.
  """
  os.environ[_BLAS] = '1'


@contextlib.contextmanager
def one_blas() -> Iterator[None]:
  """A context in which NumPy's OpenBLAS computes with one thread.

  Another library for linear algebra is left as it is.
  """
  # What it is linked to is searched along with it.
  module = importlib.import_module('numpy._core._multiarray_umath')
  library = ctypes.CDLL(module.__file__)
  for prefix in _PREFIXES:
    if hasattr(library, prefix.format('set')):
      before = getattr(library, prefix.format('get'))()
      change = getattr(library, prefix.format('set'))
      break
  else:
    yield
    return
  change(1)
  try:
    yield
  finally:
    change(before)
