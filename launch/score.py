"""Scores a model by metrics, against the world's rules.

  python launch/score.py --world='maps()' --model='uniform()' \\
    --metric='compression(trials=100)' --metric=distinction --out=runs/uniform

Writes OUT/scores.json, OUT/rows.csv and OUT/breakdown.json. Without --model,
or where the model needs training, the training run in --out is scored.
"""

import dataclasses
import hashlib
import json

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


def _predictor(world) -> tuple:
  """(predictor, name, what else identifies it)."""
  from wm import registry

  model = registry.make('model', FLAGS.model) if FLAGS.model else None
  trained = any(hasattr(model, name) for name in ('fit', 'build'))
  if FLAGS.checkpoint == 'none' or (model and not trained):
    common.need('model')
    spec = registry.spec(model)
    about = {'model_spec': spec, 'checkpoint': 'none'}
    return model.predictor(world, FLAGS.seed), model.name, about
  from wm.train import restore

  inside = FLAGS.checkpoint in restore.WHICH
  which = FLAGS.checkpoint if inside else 'best'
  run = FLAGS.out if inside else FLAGS.checkpoint
  predictor, info = restore.load(run, which, world, FLAGS.model)
  text = json.dumps(info['run'], sort_keys=True)
  about = {
    'model_spec': info['run']['model'],
    'checkpoint': which,
    'step': info['step'],
    'training': hashlib.sha256(text.encode()).hexdigest()[:16],
  }
  return predictor, registry.parse(about['model_spec'])[0], about


def main() -> None:
  """Flags in, one library call, a table out."""
  common.need('world', 'metric', 'out')
  from wm import registry
  from wm.metrics import scoring

  world, metrics = registry.make('world', FLAGS.world), _metrics()
  predictor, name, about = _predictor(world)
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
