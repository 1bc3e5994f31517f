"""Samples a training and a held-out set from a world, as token shards.

  python launch/sample.py --world="maps()" --num=100000 --out=runs/city

writes OUT/data/train and OUT/data/heldout. Rerunning the command resumes, and
gives the same bytes. So does --jobs=4, in four processes.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  common.require('world', 'out')
  import wm

  options = common.values(common.Sampling)
  workers = common.keywords(common.Workers)
  wm.sample(FLAGS.world, FLAGS.out, options, **workers, log=print)


if __name__ == '__main__':
  names = (*common.names(common.Sampling), *common.names(common.Workers))
  common.run(main, 'world', *names)
