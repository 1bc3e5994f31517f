"""Prints sizes of the exact Myhill-Nerode boundary and interior of two states.

  python launch/boundary.py --world='connect4(rows=6)' --depth=6 \\
    --first_state=1,1,1,2,2,2,2 --second_state=3,1,1,2,2,2,2
  python launch/boundary.py --world='chess()' --depth=2 \\
    --first_state='e4 e5 Nf3' --second_state='e4 c5'
  python launch/boundary.py --world='othello(size=6)' --depth=4 --show \\
    --first_state=b3b2 --second_state=b3d2
  python launch/boundary.py --world='connect4()' --depth=30 --interior \\
    --out=figure1 --first_state=1,1,1,2,2,2,2 --second_state=3,1,1,2,2,2,2
  python launch/boundary.py --world='connect4()' --model='uniform()' \\
    --first_state='1 2' --second_state='1 2 2 2' --depth=4

--first_state and --second_state are states as the world writes them, or
sequences of tokens that lead to them. The program prints a line `k boundary
interior` for each length k up to --depth. The boundary counts suffixes of at
most k tokens that are legal from the first state but not from the second; only
their last token is illegal there. The interior counts suffixes that are legal
from both. --show also prints the suffixes of the boundary. --interior counts
suffixes of exactly k tokens, which shows how large the interior is beside the
suffixes that tell the states apart (Vafa et al. 2024, figure 1, right); with
--out, OUT/boundary.svg draws it.

With --model (a training run in --out, if it needs training, or in --checkpoint)
the world's boundary is compared with the model's: the continuations that the
model accepts, under --accept, after a sequence that leads to the first state
but not after one that leads to the second. A line is `k world's model's`.
Precision is the share of the model's boundary that is in the world's; recall is
the share of the world's boundary by which the model tells the states apart.
"""

from typing import Any

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  common.require('world', 'first_state', 'second_state')
  import wm

  pair: dict[str, Any] = {
    'world': FLAGS.world,
    'first': FLAGS.first_state,
    'second': FLAGS.second_state,
    'depth': FLAGS.depth,
  }
  if FLAGS.model or FLAGS.checkpoint not in common.WHICH:
    common.refuse_together('model', 'interior')
    accept = {'accept': FLAGS.accept} if FLAGS.accept else {}
    both = wm.model_boundary(
      **common.model_source(), **pair, **accept, seed=FLAGS.seed
    )
    print(*both.lines(FLAGS.show), sep='\n')
    return
  boundary = wm.boundary(**pair)
  for suffix in boundary.suffixes() if FLAGS.show else ():
    print(suffix)
  for sizes in boundary.by_length if FLAGS.interior else boundary.sizes:
    print(*sizes)
  if FLAGS.out:
    print('written:', boundary.draw(FLAGS.out))


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'first_state', 'second_state', 'depth', 'show', 'interior'),
    *('model', 'checkpoint', 'accept'),
  )
