"""Numbers of suffixes, as tests of worlds compare them."""

import itertools


def count(world, state, depth):
  """Number of legal token sequences of each length 1..depth from state [W]."""
  return world.count(state, state, depth)[1]


def sizes(world, first, second, depth):
  """Sizes of boundary and interior of a pair [W], to each bound 1..depth."""
  outer, inner = world.count(first, second, depth)
  return [*itertools.accumulate(outer)], [*itertools.accumulate(inner)]
