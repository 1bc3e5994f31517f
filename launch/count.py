"""Prints how many legal token sequences there are from a state, by length.

  python launch/count.py --world='lattice(size=5)' --state=2 --depth=10
  python launch/count.py --world='chess()' --depth=5
  python launch/count.py --world='chess()' --depth=1 \\
    --state='8/8/8/K2pP2r/8/8/8/7k w - d6 0 2'
  python launch/count.py --world='othello()' --depth=10
  python launch/count.py --world='maps(rows=4,columns=4)' --classes

It prints a line `k count` for each length k up to --depth as soon as the count
is known, so that Ctrl-C keeps the lines so far. --state is a state as the world
writes it, or a sequence of tokens that leads to it, such as a FEN or moves of
chess; default: the start.

--classes prints instead how many states sequences reach, how many Myhill-Nerode
classes these form (states after which the same suffixes are legal; Vafa et al.
2024, definition C.1), how many classes suffixes of at most k tokens tell apart,
whether the minimal automaton has as many states (theorem C.2), and the first
classes that hold several states.

--coverage prints instead how many tokens of the vocabulary occur in stored
sequences, and how many of these do not occur in the first folder. It writes
OUT/coverage.json, which a report into OUT tables (Walker and Lyons 2026, table
3):

  python launch/count.py --coverage=runs/human/data/train \\
    --coverage=runs/test/data/train --out=runs/chess

With --model (a training run in --out, if it needs training, or in --checkpoint)
the model is asked about every legal sequence of fewer than --depth tokens. The
program counts those after which the tokens accepted under --accept are exactly
the legal ones, and those after which the accepted continuations up to --depth
tokens are. One holds everywhere if and only if the other does (section 2.2).
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  import wm

  if FLAGS.coverage:
    common.refuse_together(
      'coverage', 'world', 'classes', 'model', 'state', 'depth'
    )
    wm.coverage(FLAGS.coverage, FLAGS.out, log=print)
    return
  common.require('world')
  if FLAGS.classes:
    common.refuse_together('classes', 'model', 'state', 'depth')
    print(*wm.classes(FLAGS.world).lines(), sep='\n')
    return
  if FLAGS.model or FLAGS.checkpoint not in common.WHICH:
    more = {'accept': FLAGS.accept} if FLAGS.accept else {}
    arguments = {'world': FLAGS.world, 'depth': FLAGS.depth, 'seed': FLAGS.seed}
    recovery = wm.recovery(**common.model_source(), **arguments, **more)
    print(*recovery.lines(), sep='\n')
    return
  counts = wm.count(FLAGS.world, FLAGS.state, FLAGS.depth)
  for length, number in enumerate(counts, 1):
    print(length, number, flush=True)


if __name__ == '__main__':
  common.run(
    main,
    *('world', 'state', 'depth', 'classes', 'coverage'),
    *('model', 'checkpoint', 'accept'),
  )
