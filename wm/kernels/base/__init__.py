"""Utilities of all kernels.

jit          numba.njit on first use, with a cache that notices changes of
             imported files
calls        checks of arguments; slices of long calls that Ctrl-C can stop
bits         popcount and the like, random numbers
words        64-bit words of two uint32, in JAX
"""
