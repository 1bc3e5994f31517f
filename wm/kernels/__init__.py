"""Compiled kernels, compared by tests with plain references.

  dfa       transition tables of automata, products of two states
  maps      street graphs: paths, walks, geometry, map reconstruction
  othello, chess  the rules of the games; othello_games: games played by
            policies; pgn: game files
  device_rules  automata and Othello in JAX, for programs on a device
  scan      recurrences over time; attention: in blocks (JAX, as scan is)
  pairs     pairs of points that answers tell apart
  simple_paths  all simple paths of a multigraph
  orbits    planets and their suns at equal steps of time; orbit_fits: orbits
            fitted to what was seen; orbit_particles: a particle filter
  symbolic  all formulas of few quantities, and which fit best
  base      compilation, checks, bits, random numbers

A kernel is one file: a public function checks its arguments and calls
compiled code, which has the same name with an underscore and stands behind it.
Numba is imported by the first call. References in plain Python, the
specification, are in tests/kernels.
"""
