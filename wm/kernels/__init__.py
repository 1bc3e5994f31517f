"""Compiled kernels, a folder each, compared with plain references by tests.

  dfa       transition tables of automata, products of two states
  maps      street graphs: paths, walks, geometry, map reconstruction
  othello, chess  the rules of the games; pgn: game files
  scan      recurrences over time; attention: in blocks (JAX, as scan is)
  pairs     pairs of points that answers tell apart
  orbits    planets and their suns at equal steps of time
  symbolic  all formulas of few quantities, and which fit best
  base      compilation, checks, bits, random numbers

In each folder X.py is what others call: it checks arguments and calls
X_numba.py, which is imported then, so that Numba is loaded on first use.
tests/kernels/X/ref.py has the same functions in plain Python: the
specification.
"""
