"""What XLA is told in tests: how many devices there are, and to compile fast.

Programs are tiny, so that compiling them well takes longer than running them
badly.
"""

from __future__ import annotations

import functools
import importlib.util
import mmap
import os
import pathlib

# Set by the tests themselves, whatever the environment says.
DEVICES = 'xla_force_host_platform_device_count'
# The older way to emit fusions takes half of the time. It may go one day, and
# a flag that XLA does not know ends the process.
PLAIN_FUSIONS = 'xla_cpu_use_fusion_emitters'


def flags(devices: int = 1) -> str:
  """XLA_FLAGS for so many virtual CPU devices.

  Flags of the environment stay, so that the suite can run as on an older
  processor: XLA_FLAGS=--xla_cpu_max_isa=AVX2.
  """
  ours = {'xla_backend_optimization_level': '0'}
  if _known(PLAIN_FUSIONS):
    ours[PLAIN_FUSIONS] = 'false'
  words = os.environ.get('XLA_FLAGS', '').split()
  theirs = dict(word.lstrip('-').partition('=')[::2] for word in words)
  merged = {**ours, **theirs, DEVICES: str(devices)}
  return ' '.join(f'--{name}={value}' for name, value in merged.items())


@functools.cache
def _known(flag: str) -> bool:
  """Does a library of jaxlib hold the name of this flag?"""
  spec = importlib.util.find_spec('jaxlib')
  assert spec is not None
  assert spec.submodule_search_locations is not None
  for folder in spec.submodule_search_locations:
    for path in pathlib.Path(folder).glob('*.so*'):
      with (
        path.open('rb') as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held,
      ):
        if held.find(flag.encode()) >= 0:
          return True
  return False
