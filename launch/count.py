"""Counts legal sequences, and lists Myhill-Nerode boundaries.

  python launch/count.py --world='lattice(size=5)' --state=2 --depth=10
  python launch/count.py --world='chess()' --depth=5
  python launch/count.py --world='chess()' --depth=1 \\
    --state='8/8/8/K2pP2r/8/8/8/7k w - d6 0 2'
  python launch/count.py --world='othello()' --depth=10
  python launch/count.py --world='connect4(rows=6)' --depth=6 \\
    --first_state=1,1,1,2,2,2,2 --second_state=3,1,1,2,2,2,2
  python launch/count.py --world='chess()' --depth=2 \\
    --first_state='e4 e5 Nf3' --second_state='e4 c5'
  python launch/count.py --world='othello(size=6)' --depth=4 --show \\
    --first_state=b3b2 --second_state=b3d2
  python launch/count.py --world='connect4()' --depth=30 --interior \\
    --first_state=1,1,1,2,2,2,2 --second_state=3,1,1,2,2,2,2

It prints a line `k count` for each length k up to --depth as soon as the count
is known, so that Ctrl-C keeps the lines so far. States are as the world writes
them, such as a FEN, or sequences of tokens that lead to them; --state is by
default the start.

--first_state and --second_state print instead the sizes of their exact boundary
and interior, a line `k boundary interior` for each k. The boundary counts
suffixes of at most k tokens that are legal from the first state but not from
the second; only their last token is illegal there. The interior counts suffixes
that are legal from both. --show also prints the suffixes of the boundary.
--interior counts suffixes of exactly k tokens, which shows how large the
interior is beside the suffixes that tell the states apart (Vafa et al. 2024,
figure 1, right).
"""

import common

FLAGS = common.FLAGS
PAIR = 'first_state', 'second_state', 'show', 'interior'  # Of a boundary.


def main() -> None:
  """Flags in, one library call."""
  common.require('world')
  import wm

  if any(getattr(FLAGS, name) for name in PAIR):
    common.refuse_together('first_state', 'state')
    _boundary()
  else:
    counts = wm.count(FLAGS.world, FLAGS.state, FLAGS.depth)
    for length, number in enumerate(counts, 1):
      print(length, number, flush=True)


def _boundary() -> None:
  common.require('first_state', 'second_state')
  import wm

  states = FLAGS.first_state, FLAGS.second_state
  boundary = wm.boundary(FLAGS.world, *states, FLAGS.depth)
  for suffix in boundary.suffixes() if FLAGS.show else ():
    print(suffix)
  for sizes in boundary.by_length if FLAGS.interior else boundary.sizes:
    print(*sizes)


if __name__ == '__main__':
  common.run(main, *('world', 'state', 'depth', *PAIR))
