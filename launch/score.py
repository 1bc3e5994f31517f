"""Scores a model by metrics, against the world's rules.

  python launch/score.py --world='maps()' --model='uniform()' \\
    --metric='compression(trials=100)' --metric=distinction --out=runs/uniform

Writes OUT/scores.json, OUT/rows.csv and OUT/breakdown.json. Without --model,
or where the model needs training, the training run in --out is scored, in
--score_world if that is given: its sequences may be longer than --world's.
"""

import dataclasses
import pathlib
from collections.abc import Callable

import common

FLAGS = common.FLAGS


def asked(world: str) -> tuple:
  """The world, and what --metric names; with --accept where a metric has it."""
  from wm.core import registry

  found = [registry.make('metric', text) for text in FLAGS.metric]
  if FLAGS.accept is not None:
    rule = registry.spec(registry.make('accept', FLAGS.accept))
    for n, metric in enumerate(found):
      if hasattr(metric, 'accept'):
        found[n] = dataclasses.replace(metric, accept=rule)
  return registry.make('world', world), found


def marked(scored_by: Callable, out: pathlib.Path) -> Callable:
  """(run of the sweep `out`) -> what it is scored by, and hash of its origin.

  What its training said at its end stands for its checkpoint.
  """
  from wm.core import registry
  from wm.runtime import provenance
  from wm.tasks import standings

  reader = provenance.Reader()
  code = 'wm.evaluation.scoring', 'wm.training.restore'

  def mark(run) -> dict:
    flags, path = scored_by(run), standings.folder(out, run) / 'train.json'
    world, metrics = asked(flags['world'])
    things = world, *metrics, registry.make('model', run.flags['model'])
    origin = reader.of(*things, *code, [str(path)])
    return {**flags, 'origin': provenance.digest(origin)}

  return mark


def main() -> None:
  """Flags in, one library call, a table out."""
  common.need('world' if FLAGS.score_world is None else 'score_world')
  common.need('metric', 'out')
  from wm.evaluation import scoring

  world, metrics = asked(FLAGS.score_world or FLAGS.world)
  predictor, name, about, origin = common.predictor(world)
  entries = scoring.run(
    predictor,
    world,
    metrics,
    seed=FLAGS.seed,
    model_name=FLAGS.name or name,
    out=FLAGS.out,
    extra=about,
    origin=origin,
  )
  print(scoring.table(entries))
  print(f'written: {FLAGS.out}/scores.json, rows.csv, breakdown.json')


if __name__ == '__main__':
  common.run(
    main,
    *(
      'world',
      'score_world',
      'model',
      'checkpoint',
      'metric',
      'accept',
      'name',
    ),
  )
