"""Lists worlds, models, metrics and acceptance rules, or one in full.

  python launch/list.py
  python launch/list.py --model=slice
  python launch/list.py --world='othello(size=6)'
  python launch/list.py --papers

Without a name it lists everything with fields and defaults. Parameters of
networks are counted for 1,000 tokens and sequences of 100, or for those of
--world. --model, --metric and --accept explain each field of one, and what a
metric needs of a world and a model.
--world also shows the world's tokens with their ids, sequences, states, the
prompt for a language model, and the least memory and time that the world, the
model and the metrics need. --world and --model explain the format of each file
that a field names.
--papers lists every table and figure of the papers: which flagfile or test has
it, in miniature or not, and what it takes at the paper's size.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call for each name."""
  from wm.core import registry, resources
  from wm.reporting import catalog, papers

  if FLAGS.papers:
    print(papers.listed())
    return
  if not any((FLAGS.world, FLAGS.model, FLAGS.metric, FLAGS.accept)):
    print(catalog.everything())
    return
  sizes = catalog.SIZES
  if FLAGS.world is not None:
    world = registry.resolve('world', FLAGS.world)
    sizes = len(world.vocab), world.max_len
  asked = {'model': [FLAGS.model], 'metric': FLAGS.metric}
  asked['accept'] = [FLAGS.accept]
  parts = [
    catalog.plug_in(kind, spec, sizes)
    for kind, specs in asked.items()
    for spec in specs
    if spec is not None
  ]
  if FLAGS.world is not None:
    parts.append(catalog.world(FLAGS.world))
    batch = resources.sequences_cost(world.max_len, vocab=len(world.vocab))
    costs = {FLAGS.world: max(world.cost(), batch)}
    for kind in ('model', 'metric'):
      for spec in filter(None, asked[kind]):
        costs[spec] = registry.make(kind, spec).cost(world)
    parts += [f'{spec} takes at least {cost}' for spec, cost in costs.items()]
  print('\n\n'.join(parts))


if __name__ == '__main__':
  common.run(main, 'world', 'model', 'metric', 'accept', 'papers')
