"""Lists worlds, models, metrics and acceptance rules, or one of them in full.

  python launch/list.py
  python launch/list.py --model=slice
  python launch/list.py --world='othello(size=6)' --out=runs/othello

Without a name: everything there is, with its fields and defaults; networks are
counted for Manhattan's vocabulary. --model, --metric and
--accept say what each field of one means. --world shows one world besides: its
tokens with their ids, sequences in words, and states; with --out, states are
pictured in OUT/world.html.
"""

import common

FLAGS = common.FLAGS

MANHATTAN = 4589, 102  # Tokens, and the longest sequence.


def main() -> None:
  """Flags in, one library call for each name."""
  from wm.core import registry
  from wm.reporting import catalog, details

  sizes = MANHATTAN
  if FLAGS.world is not None:
    world = registry.make('world', FLAGS.world)
    sizes = len(world.vocab), world.max_len
  asked = {'model': [FLAGS.model], 'metric': FLAGS.metric}
  asked['accept'] = [FLAGS.accept]
  told = [
    details.plug_in(kind, spec, sizes)
    for kind, specs in asked.items()
    for spec in specs
    if spec is not None
  ]
  if FLAGS.world is not None:
    told.append(details.world(FLAGS.world))
  print('\n\n'.join(told) or catalog.text(*sizes))
  if FLAGS.world is not None and FLAGS.out:
    print(f'\nwritten: {details.write_page(FLAGS.world, FLAGS.out)}')


if __name__ == '__main__':
  common.run(main, 'world', 'model', 'metric', 'accept')
