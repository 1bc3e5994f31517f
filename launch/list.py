"""Lists worlds, models, metrics and acceptance rules, one in full, or runs.

  python launch/list.py
  python launch/list.py --model=slice
  python launch/list.py --world='othello(size=6)'
  python launch/list.py --runs=runs

Without a name: everything there is, with its fields and defaults, and which
metric can be run on which world and model, and what is missing where it cannot.
Networks are counted for 1,000 tokens and sequences of 100, or for what --world
has. --model, --metric and --accept say what each field of one means. --world
shows one world besides: its tokens with their ids, sequences, states, and what
a language model is told of it, and the memory and time that it takes at least,
as do the model and the metrics in it; launch/site.py pictures its states.
--world and --model also say what the files hold that fields name. --runs tables
all runs under a folder instead: which are running, stopped, done or failed, at
what stage, with model, world, step, loss, age, size and scores.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call for each name."""
  if FLAGS.runs:
    import wm
    from wm.library import report

    for folder in FLAGS.runs:
      print(report.runs_text(wm.runs(folder)))
    return
  from wm.core import registry, resources
  from wm.reporting import catalog

  if not any((FLAGS.world, FLAGS.model, FLAGS.metric, FLAGS.accept)):
    print(catalog.everything())
    return
  sizes = catalog.SIZES
  if FLAGS.world is not None:
    world = registry.resolve('world', FLAGS.world)
    sizes = len(world.vocab), world.max_len
  asked = {'model': [FLAGS.model], 'metric': FLAGS.metric}
  asked['accept'] = [FLAGS.accept]
  told = [
    catalog.plug_in(kind, spec, sizes)
    for kind, specs in asked.items()
    for spec in specs
    if spec is not None
  ]
  if FLAGS.world is not None:
    told.append(catalog.world(FLAGS.world))
    batch = resources.sequences_cost(world.max_len, vocab=len(world.vocab))
    costs = {FLAGS.world: max(world.cost(), batch)}
    for kind in ('model', 'metric'):
      for spec in filter(None, asked[kind]):
        costs[spec] = registry.make(kind, spec).cost(world)
    told += [f'{spec} takes at least {cost}' for spec, cost in costs.items()]
  print('\n\n'.join(told))


if __name__ == '__main__':
  common.run(main, 'world', 'model', 'metric', 'accept', 'runs')
