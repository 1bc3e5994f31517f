"""Prints how many legal token sequences there are from a state, by length.

  python launch/count.py --world='lattice(size=5)' --state=2 --depth=10

One line `k count` for each length k up to --depth, as soon as it is known, so
that Ctrl-C leaves what there is. --state is a state as the world writes it, or
a sequence of tokens that leads to it; default: the start.
"""

import common


def main() -> None:
  """Flags in, one library call."""
  common.need('world')
  from wm.core import registry
  from wm.worlds.base import exact

  flags = common.FLAGS
  world = registry.make('world', flags.world)
  for line in exact.count_lines(world, flags.state, flags.depth):
    print(line, flush=True)


if __name__ == '__main__':
  common.run(main, 'world', 'state', 'depth')
