"""Settings of a computation: threads, memory, compilation cache, processes.

On a CPU, the number of threads determines how XLA and OpenBLAS divide a matrix
product, and so the order of summation. By default both start a thread for each
available core, so the last bits of a loss differ between one core and two. This
module fixes the number of threads before XLA and OpenBLAS start. Binaries call
these functions before NumPy and JAX are imported, so this module imports
neither.

Several processes may train one model (`jax.distributed` is initialized).
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  import numpy as np

# XLA reads the first one that is set, when JAX starts its CPU client.
_VARIABLES = 'PJRT_NPROC', 'NPROC'
_BLAS = 'OPENBLAS_NUM_THREADS'
# How NumPy's own OpenBLAS, and one of the system, call the same function.
_PREFIXES = 'scipy_openblas_{}_num_threads64_', 'openblas_{}_num_threads'


def fix_threads(num: int) -> int:
  """Sets the number of XLA's CPU threads, unless JAX has started XLA already.

  JAX starts XLA with the first array of a process. With a fixed number of
  threads, results are bit-identical on any number of cores.

  Returns:
    The number of threads in effect.
  """
  if not _started():
    os.environ[_VARIABLES[0]] = str(num)
  return num_threads()


def num_threads() -> int:
  """Threads that XLA has or would start with; more devices have as many."""
  values = (os.environ.get(name, '') for name in _VARIABLES)
  return next((int(text) for text in values if text.isdecimal()), 0) or cores()


def cores() -> int:
  """Cores that this process may use."""
  if hasattr(os, 'sched_getaffinity'):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def _started() -> bool:
  """Has JAX initialized its backends?"""
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


# Of glibc's malloc.h.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8


def keep_freed_memory() -> None:
  """Makes glibc keep freed memory, in this process from now on.

  By default glibc gives large blocks back to the system, and the next step on
  a CPU asks for them again: page faults took a fifth to a third of the
  processor time of training at width 128. All threads share one arena, as only
  the main arena grows without bounds; threads that run already keep theirs.
  Nothing changes where the user has set any MALLOC_* variable, or under another
  C library.
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


def cache_folder() -> Path:
  """Folder of JAX's compilation cache, in the user's cache folder."""
  home = os.environ.get('XDG_CACHE_HOME') or Path.home() / '.cache'
  return Path(home) / 'wm' / 'jax'


def prepare_jax() -> None:
  """Enables JAX's persistent compilation cache and `keep_freed_memory`.

  All code that computes with JAX calls this function first, in a binary or a
  notebook. The cache includes programs that compile in under a second, as they
  are many. A cache folder that the user has set stays. Without write access to
  our folder, JAX caches nothing on disk.
  """
  import jax

  keep_freed_memory()
  config: Any = jax.config  # It takes its attributes in when JAX starts.
  if config.jax_compilation_cache_dir:
    return
  path = cache_folder()
  try:
    path.mkdir(parents=True, exist_ok=True)
  except OSError:
    return
  jax.config.update('jax_compilation_cache_dir', str(path))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)
  jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)


_GLOO = re.compile(r'[A-Z_]+: Gloo ')  # JAX, of a connection that has ended.
_LAST = 2.0  # Seconds by which process 0 ends later.
LEAST_BYTES = 4096  # Of a message between processes.


def platform() -> str:
  """'cpu', 'gpu' or 'tpu': of the mesh in use, else of this process.

  A program may be compiled for devices that this machine has not: then it is
  traced under their mesh, see `jax.sharding.use_abstract_mesh`.
  """
  import jax

  device = jax.sharding.get_abstract_mesh().abstract_device
  return jax.default_backend() if device is None else device.platform


def num_processes() -> int:
  """Number of processes; 1 unless `jax.distributed` is initialized."""
  jax = sys.modules.get('jax')
  return jax.process_count() if jax and jax.distributed.is_initialized() else 1


def process_index() -> int:
  """Index of this process, from 0."""
  return sys.modules['jax'].process_index() if num_processes() > 1 else 0


def exchanged(message: bytes) -> list[bytes]:
  """Messages of all processes, of any lengths, in order."""
  import numpy as np

  if num_processes() == 1:
    return [message]
  length = len(message).to_bytes(8, 'little')
  rows = _exchanged(np.frombuffer(length, np.uint8))
  sizes = [int.from_bytes(row.tobytes(), 'little') for row in rows]
  # A size that few programs have.
  room = 1 << (max(LEAST_BYTES, *sizes) - 1).bit_length()
  padded = np.frombuffer(message.ljust(room, b'\0'), np.uint8)
  rows = _exchanged(padded)
  return [row[:size].tobytes() for row, size in zip(rows, sizes, strict=True)]


def _exchanged(message: np.ndarray) -> np.ndarray:
  """[P, N] uint8 messages [N] of all processes, in order.

  Raises:
    ProcessLost: another process has ended.
  """
  from jax.experimental import multihost_utils

  try:
    return multihost_utils.process_allgather(message)
  except (ValueError, RuntimeError) as error:  # Of Gloo, and of XLA.
    raise _lost(error) from error


def _lost(error: Exception) -> Exception:
  """ProcessLost, for an error of JAX that says so."""
  from wm.runtime import exit_codes

  # The others are connected to process 0, and say what they have seen, too.
  wait = 0.0 if process_index() else _LAST
  return exit_codes.ProcessLost(
    f'another of the {num_processes()} processes has ended; start the same '
    f'commands again: {error}',
    wait,
  )


@contextlib.contextmanager
def noticing_loss() -> Iterator[None]:
  """Raises ProcessLost where a computation of several processes lost one."""
  try:
    yield
  except (ValueError, RuntimeError) as error:
    first = str(error).partition('\n')[0]
    if _GLOO.match(first) and num_processes() > 1:
      raise _lost(error) from error
    raise
