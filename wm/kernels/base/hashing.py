"""Pseudo-random bits by hashing, for dropout."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def bits(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
  """Pseudo-random uint32, each a hash of its place and the key.

  Two rounds of multiplying and shifting, as in MurmurHash3's finaliser. They
  are a tenth of the work of `jax.random.bits`, need no memory, and give the
  same bits on any mesh.
  """
  # The key goes in before and between the rounds: added before alone, two keys
  # would give the same bits in another order.
  before, between = jax.random.bits(key, (2,))
  # Row-major number of each element, modulo 2^32.
  place, stride = jnp.zeros(shape, jnp.uint32), 1
  for axis in reversed(range(len(shape))):
    index = jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
    place += index * jnp.uint32(stride % 2**32)
    stride *= shape[axis]
  x = place * jnp.uint32(0x9E3779B1) + before
  x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
  x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
  x = (x ^ (x >> 16)) + between
  x = (x ^ (x >> 16)) * jnp.uint32(0x7FEB352D)
  x = (x ^ (x >> 15)) * jnp.uint32(0x846CA68B)
  return x ^ (x >> 16)
