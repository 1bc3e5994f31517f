"""What all kernels share.

jit          numba.njit with a cache that sees changes of imported files
checks       of arguments; pieces: long calls that Ctrl-C can stop
bits_numba   popcount and the like; rng_numba: random numbers
text         tables of bytes, for kernels that read text
words        64-bit words of two uint32, in JAX
hashing      random bits for dropout, in JAX
"""
