"""Trains a model on OUT/data; run again, goes on where it was stopped.

python launch/train.py --world='maps()' --model='transformer()' --out=runs/a
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, the summary out."""
  common.need('world', 'model', 'out')
  import wm

  options = common.values(common.Training)
  wm.train(FLAGS.world, FLAGS.model, FLAGS.out, options, tell=print)


if __name__ == '__main__':
  common.run(main, 'world', 'model', *common.names(common.Training))
