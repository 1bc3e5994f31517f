"""What all kernels share.

jit          numba.njit with a cache that sees changes of imported files
checks       of arguments; pieces: long calls that Ctrl-C can stop
bits_numba   popcount and the like; rng_numba, rng_ref: random numbers
hashing      random bits for dropout, in JAX
"""
