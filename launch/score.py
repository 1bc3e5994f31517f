"""Scores a model by metrics, against the world's rules.

  python launch/score.py --world='maps()' --model='uniform()' \\
    --metric='compression(trials=100)' --metric=distinction --out=runs/uniform

Writes OUT/scores.json, OUT/rows.csv and OUT/breakdown.json. Without --model,
or where the model needs training, the training run in --out is scored.
"""

import dataclasses

import common

FLAGS = common.FLAGS


def _metrics() -> list:
  from wm import registry

  found = [registry.make('metric', text) for text in FLAGS.metric]
  if FLAGS.accept is not None:
    rule = registry.spec(registry.make('accept', FLAGS.accept))
    for n, metric in enumerate(found):
      if hasattr(metric, 'accept'):
        found[n] = dataclasses.replace(metric, accept=rule)
  return found


def main() -> None:
  """Flags in, one library call, a table out."""
  common.need('world', 'metric', 'out')
  from wm import registry
  from wm.metrics import scoring

  world, metrics = registry.make('world', FLAGS.world), _metrics()
  predictor, name, about = common.predictor(world)
  entries = scoring.run(
    predictor,
    world,
    metrics,
    seed=FLAGS.seed,
    model_name=FLAGS.name or name,
    out=FLAGS.out,
    extra=about,
  )
  print(scoring.table(entries))
  print(f'written: {FLAGS.out}/scores.json, rows.csv, breakdown.json')


if __name__ == '__main__':
  common.run(main, 'world', 'model', 'checkpoint', 'metric', 'accept', 'name')
