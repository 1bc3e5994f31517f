"""Compiled programs are kept on disk, so that a second start is quick."""

from __future__ import annotations

import os
import pathlib
from typing import Any


def folder() -> pathlib.Path:
  """Where compiled programs are kept: the user's cache folder."""
  home = os.environ.get('XDG_CACHE_HOME') or pathlib.Path.home() / '.cache'
  return pathlib.Path(home) / 'wm' / 'jax'


def enable() -> None:
  """Makes JAX keep every compiled program.

  Programs that compile in under a second are kept too, as there are many. A
  cache folder that the user has set for JAX stays; where ours cannot be
  written, there is none.
  """
  import jax

  config: Any = jax.config  # It takes its attributes in when JAX starts.
  if config.jax_compilation_cache_dir:
    return
  path = folder()
  try:
    path.mkdir(parents=True, exist_ok=True)
  except OSError:
    return
  jax.config.update('jax_compilation_cache_dir', str(path))
  jax.config.update('jax_persistent_cache_min_compile_time_secs', 0)
  jax.config.update('jax_persistent_cache_min_entry_size_bytes', -1)
