"""Counter-based random numbers in plain Python: what `base.bits` computes."""

from __future__ import annotations

_MASK = 2**64 - 1


def splitmix(state: int) -> int:
  """One splitmix64 output for a counter, as `basics.hash64` mixes its words."""
  x = (state + 0x9E3779B97F4A7C15) & _MASK
  x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
  x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
  return x ^ (x >> 31)


def below(seed: int, draw: int, bound: int) -> int:
  """Draw number `draw` of a stream: an integer in 0..bound - 1.

  The upper half of basics.hash64(seed, draw), scaled.
  """
  return ((splitmix(splitmix(seed) ^ draw) >> 32) * bound) >> 32
