"""Samples a training and a held-out set from a world, as token shards.

  python launch/sample.py --world="maps()" --num=100000 --out=runs/city

writes OUT/data/train and OUT/data/heldout (and, with --text, the same as
text lines). Rerunning the command resumes, and gives the same bytes.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  common.need('world', 'out')
  import wm

  options = common.values(common.Sampling)
  wm.sample(FLAGS.world, FLAGS.out, options, log=print)


if __name__ == '__main__':
  common.run(main, 'world', *common.names(common.Sampling))
