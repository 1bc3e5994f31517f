"""Bits of 64-bit words, random numbers from them, and copies, for kernels.

Counting and finding bits are single machine instructions that plain Numba code
cannot emit. An intrinsic returns its signature and a function that emits the
instruction.

Random numbers are counter-based, from the streams of `core.basics.hash64`: draw
k of a walk is a hash of the walk's seed and k, so that results do not depend on
the order or the division of the work.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wm.kernels.base.jit import intrinsic, njit

_ONE = np.uint64(1)


def _types() -> Any:
  from numba import types  # Deferred, as all of Numba.

  return types


@intrinsic
def popcount(typingctx, word) -> tuple:
  """Bits set in a uint64, as int64."""
  del typingctx
  signature = _types().int64(_types().uint64)
  return signature, lambda _, builder, __, args: builder.ctpop(args[0])


@intrinsic
def lowest(typingctx, word) -> tuple:
  """Index of the lowest set bit of a uint64, as int64; 64 if none is set."""
  del typingctx

  # False: the result for 0 is defined, 64.
  def _build(context, builder, _, args) -> Any:
    return builder.cttz(args[0], context.get_constant(_types().boolean, False))

  return _types().int64(_types().uint64), _build


@njit(inline='always')
def without_lowest(word) -> np.uint64:
  """The word with its lowest bit cleared."""
  return word & (word - _ONE)


@njit(inline='always')
def bit(square) -> np.uint64:
  """The word with one bit set, 0..63."""
  return _ONE << np.uint64(square)


@njit
def nth(word, n) -> np.int64:
  """Index of the n-th set bit, counted from 0 at the lowest."""
  for _ in range(n):  # Clears the n lowest bits set.
    word = word & (word - _ONE)
  return lowest(word)


@intrinsic
def leading(typingctx, word) -> tuple:
  """Zeros above the highest bit set in a 64-bit word, as int64; 64 for 0."""
  del typingctx

  def _build(context, builder, _, args) -> Any:
    return builder.ctlz(args[0], context.get_constant(_types().boolean, False))

  return _types().int64(_types().uint64), _build


@intrinsic
def shr(typingctx, word, places) -> tuple:
  """Logical right shift of an int64, also of a negative one.

  Boards are int64, as Numba does not mix uint64 with Python integers.
  """
  del typingctx
  signature = _types().int64(_types().int64, _types().int64)
  return signature, lambda _, builder, __, args: builder.lshr(*args)


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S27, _S30, _S31, _S32 = (np.uint64(n) for n in (27, 30, 31, 32))


@njit(inline='always')
def splitmix(state) -> np.uint64:
  """One splitmix64 output, that of `wm.core.basics` to the bit."""
  # Wraps modulo 2^64, as uint64 does in compiled code.
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


@njit
def put(into, values) -> None:
  """Copies an array into the first places of another; both are [N]."""
  # `into[:] = values` compiles for two seconds: Numba formats its error message
  # from parts of its own.
  for k in range(len(values)):
    into[k] = values[k]


@njit
def enlarged(array, rows, fill) -> np.ndarray:
  """A copy with more rows, `fill` in the new ones."""
  out = np.full((rows, *array.shape[1:]), fill, array.dtype)
  put(out.reshape(-1), array.reshape(-1))
  return out
