"""Prints how many legal token sequences there are from a state, by length.

  python launch/count.py --world='lattice(size=5)' --state=2 --depth=10

One line `k count` for each length k up to --depth, as soon as it is known, so
that Ctrl-C leaves what there is. --state is a state as the world writes it, or
a sequence of tokens that leads to it; default: the start.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  common.need('world')
  import wm

  counts = wm.count(FLAGS.world, FLAGS.state, FLAGS.depth)
  for length, number in enumerate(counts, 1):
    print(length, number, flush=True)


if __name__ == '__main__':
  common.run(main, 'world', 'state', 'depth')
