"""Compiled kernels, compared by tests with plain references.

  dfa       transition tables of automata, products of two states
  maps      street graphs: paths, walks, geometry, map reconstruction
  othello, chess  the rules of the games; othello_games: games played by
            policies; pgn: game files
  device_rules  automata and Othello in JAX, for programs on a device
  scan      recurrences over time; attention: in blocks (JAX, as scan is)
  simple_paths  all simple paths of a multigraph
  orbits    planets and their suns at equal time steps; orbit_particles: a
            particle filter
  symbolic  enumerates small formulas and ranks their fits
  base      compilation, checks, bits, random numbers

A kernel is one file: a public function checks its arguments and calls the
compiled function below it, which has the same name with an underscore. The
first call imports Numba. References in plain Python, the specification, are in
tests/kernels.
"""
