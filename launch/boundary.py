"""Prints sizes of the exact Myhill-Nerode boundary and interior of two states.

  python launch/boundary.py --world='connect4(rows=6)' --depth=6 \\
    --first=1,1,1,2,2,2,2 --second=3,1,1,2,2,2,2
  python launch/boundary.py --world='chess()' --depth=2 \\
    --first='e4 e5 Nf3' --second='e4 c5'
  python launch/boundary.py --world='othello(size=6)' --depth=4 --show \\
    --first=b3b2 --second=b3d2

--first and --second are states as the world writes them, or sequences of
tokens that lead to them. One line `k boundary interior` for each length bound
k up to --depth: how many suffixes of at most k tokens are legal from the first
state and not from the second, all but the last token being legal from both;
and how many are legal from both. With --show, the suffixes of the boundary
come before these lines.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  common.need('world', 'first', 'second')
  import wm

  found = wm.boundary(FLAGS.world, FLAGS.first, FLAGS.second, FLAGS.depth)
  for suffix in found.suffixes() if FLAGS.show else ():
    print(suffix)
  for sizes in found.sizes:
    print(*sizes)


if __name__ == '__main__':
  common.run(main, 'world', 'first', 'second', 'depth', 'show')
