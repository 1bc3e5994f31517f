"""Bit counting for compiled kernels on 64-bit boards.

One machine instruction each, which plain Numba code cannot reach.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import extending, types

from wm.kernels.base.jit import njit

_ONE = np.uint64(1)
# Callers leave the typing context out, which its own type asks for.
intrinsic: Callable[..., Callable[..., Any]] = extending.intrinsic


@intrinsic
def popcount(typingctx, word) -> tuple:
  """Bits set in a uint64, as int64."""
  del typingctx

  # What Numba calls to emit LLVM's instruction of that name.
  def build(context, builder, signature, args) -> Any:
    del context, signature
    return builder.ctpop(args[0])

  return types.int64(types.uint64), build


@intrinsic
def lowest(typingctx, word) -> tuple:
  """Number of the lowest bit set in a uint64, as int64; 64 where none is."""
  del typingctx

  def build(context, builder, signature, args) -> Any:
    del signature
    # False: 0 is an argument like any other, whose answer is 64.
    defined = context.get_constant(types.boolean, False)
    return builder.cttz(args[0], defined)

  return types.int64(types.uint64), build


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

  def build(context, builder, signature, args) -> Any:
    del signature
    defined = context.get_constant(types.boolean, False)
    return builder.ctlz(args[0], defined)

  return types.int64(types.uint64), build


@intrinsic
def shr(typingctx, word, places) -> tuple:
  """An int64 shifted right with zeros coming in, also where it is negative.

  Boards kept as int64 mix with Python integers, which uint64 does not.
  """
  del typingctx

  def build(context, builder, signature, args) -> Any:
    del context, signature
    return builder.lshr(*args)

  return types.int64(types.int64, types.int64), build
