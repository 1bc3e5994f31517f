"""Freed memory is used again instead of being asked for anew."""

import os
import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process

# Without huge pages, which the system gives as it has them: 4 KB a fault.
COUNT = """
import ctypes, resource, sys
PR_SET_THP_DISABLE = 41
ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)
import numpy as np
from wm.runtime import compute
if sys.argv[1] == 'keep':
  compute.prepare_jax()  # As all calls that compute with JAX.
np.ones(2**24)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(4):
  np.ones(2**24)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str, **env: str) -> int:
  """Page faults of four arrays of 128 MB, after a first one."""
  plain = {k: x for k, x in os.environ.items() if 'MALLOC_' not in k}
  done = subprocess.run(
    [sys.executable, '-c', COUNT, how],
    env={**plain, **env},
    capture_output=True,
    text=True,
    check=True,
  )
  return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != 'glibc', reason='needs glibc')
def test_memory_is_kept_unless_the_user_says_otherwise():
  asked = faults('ask')
  assert faults('keep') < asked / 20
  assert faults('keep', MALLOC_TOP_PAD_='131072') > asked / 2
