"""Lists worlds, models, metrics and acceptance rules: fields, defaults.

  python launch/list.py [--world=SPEC]

Networks are counted for Manhattan's vocabulary, or for that of --world.
"""

import common

FLAGS = common.FLAGS

MANHATTAN = 4589, 102  # Tokens, and the longest sequence.


def main() -> None:
  """Flags in, one library call."""
  from wm import registry
  from wm.report import catalog

  vocab_size, max_len = MANHATTAN
  if FLAGS.world is not None:
    world = registry.make('world', FLAGS.world)
    vocab_size, max_len = len(world.vocab), world.max_len
  print(catalog.text(vocab_size, max_len))


if __name__ == '__main__':
  common.run(main, 'world')
