"""64-bit words in JAX as two uint32, since x64 is off by default.

All operations are elementwise and support words of any shape.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

_GOLDEN = 0x9E3779B97F4A7C15
_MIXES = (30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)


class Word(NamedTuple):
  """Low and high halves: uint32 of one shape, of JAX or of NumPy."""

  lo: Any
  hi: Any

  def __and__(self, other: Word) -> Word:
    return Word(self.lo & other.lo, self.hi & other.hi)

  def __or__(self, other: Word) -> Word:
    return Word(self.lo | other.lo, self.hi | other.hi)

  def __xor__(self, other: Word) -> Word:
    return Word(self.lo ^ other.lo, self.hi ^ other.hi)

  def __invert__(self) -> Word:
    return Word(~self.lo, ~self.hi)

  def __lshift__(self, by: int) -> Word:
    """Static 0 < by < 32."""
    return Word(self.lo << by, (self.hi << by) | (self.lo >> (32 - by)))

  def __rshift__(self, by: int) -> Word:
    """Static 0 < by < 32."""
    return Word((self.lo >> by) | (self.hi << (32 - by)), self.hi >> by)

  def some(self) -> jax.Array:
    """Bool: True where any bit is set."""
    return (self.lo | self.hi) != 0


def constant(word: int) -> Word:
  """A compile-time constant word."""
  return Word(np.uint32(word & 0xFFFFFFFF), np.uint32(word >> 32))


def split(words: np.ndarray) -> Word:
  """uint64 to a word, on the host."""
  # A cast to uint32 keeps the low half.
  high = np.asarray(words, np.uint64) >> np.uint64(32)
  return Word(np.asarray(words).astype(np.uint32), high.astype(np.uint32))


def where(condition: jax.Array, x: Word, y: Word) -> Word:
  """Elementwise choice."""
  return jax.tree.map(lambda a, b: jnp.where(condition, a, b), x, y)


def bit(place: jax.Array) -> Word:
  """The word with one bit set; 0 where the place is not in 0..63."""
  # Shifts by 32 or more are undefined, so the place within a half is used.
  shifted = jnp.uint32(1) << (place & 31).astype(jnp.uint32)
  low, high = place >> 5 == 0, place >> 5 == 1
  return Word(jnp.where(low, shifted, 0), jnp.where(high, shifted, 0))


def _high_product(a: jax.Array, b: jax.Array) -> jax.Array:
  """Upper 32 bits of the product of two uint32, by their 16-bit halves."""
  #   a * b = high high 2^32 + (high low + low high) 2^16 + low low; no partial
  #   sum below exceeds 32 bits
  a_low, a_high, b_low, b_high = a & 0xFFFF, a >> 16, b & 0xFFFF, b >> 16
  middle = a_high * b_low + ((a_low * b_low) >> 16)
  cross = a_low * b_high + (middle & 0xFFFF)
  return a_high * b_high + (middle >> 16) + (cross >> 16)


def _product(word: Word, factor: int) -> Word:
  """Times a constant, modulo 2^64."""
  lo, hi = constant(factor)
  return Word(
    word.lo * lo, _high_product(word.lo, lo) + word.lo * hi + word.hi * lo
  )


def splitmix(word: Word) -> Word:
  """One splitmix64 output, as `wm.core.basics.hash64` mixes its words."""
  lo, hi = constant(_GOLDEN)
  low = word.lo + lo  # Wraps around where it carries: it is less than lo then.
  x = Word(low, word.hi + hi + (low < lo).astype(jnp.uint32))
  for shift, factor in _MIXES:
    x = _product(x ^ (x >> shift), factor)
  return x ^ (x >> 31)
