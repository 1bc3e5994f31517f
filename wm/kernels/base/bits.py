"""Bit counting for compiled kernels on 64-bit boards.

One machine instruction each, which plain Numba code cannot reach. An intrinsic
gives its signature, and a function by which Numba emits the instruction.
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
  """Number of the lowest bit set in a uint64, as int64; 64 where none is."""
  del typingctx

  # False: 0 is an argument like any other, whose answer is 64.
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
  """Number of the n-th bit set, counted from 0 at the lowest."""
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
  """An int64 shifted right with zeros coming in, also where it is negative.

  Boards kept as int64 mix with Python integers, which uint64 does not.
  """
  del typingctx
  signature = _types().int64(_types().int64, _types().int64)
  return signature, lambda _, builder, __, args: builder.lshr(*args)
