"""Counter-based random numbers for compiled kernels.

The streams of `core.basics.hash64`: a walk is a function of its seed alone.
"""

from __future__ import annotations

import numpy as np

from wm.kernels.base.jit import njit

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = (np.uint64(n) for n in (27, 30, 31, 32))


@njit(inline='always')
def splitmix(state) -> np.uint64:
  """One splitmix64 output, as `rng_ref` has it."""
  x = state + _GOLDEN
  x = (x ^ (x >> _S30)) * _MIX_1
  x = (x ^ (x >> _S27)) * _MIX_2
  return x ^ (x >> _S31)


@njit(inline='always')
def below(stream, draw, bound) -> np.int64:
  """Integer in 0..bound - 1; `stream` is splitmix(seed)."""
  # The upper half, scaled: the bias is below bound / 2^32.
  x = splitmix(stream ^ np.uint64(draw)) >> _S32
  return np.int64((x * np.uint64(bound)) >> _S32)
