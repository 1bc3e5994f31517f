"""Trains a model on OUT/data; run again, goes on where it was stopped.

python launch/train.py --world='maps()' --model='transformer()' --out=runs/a
"""

import dataclasses
import json

import common

FLAGS = common.FLAGS
READ = (
  'world',
  'model',
  'objective',
  'loss',
  'steps',
  'batch',
  'batching',
  'lr',
  'schedule',
  'floor',
  'horizon',
  'warmup',
  'beta2',
  'weight_decay',
  'decay_all',
  'clip',
  'skips',
  'eval_every',
  'eval_num',
  'data',
  'save_every',
  'mesh_data',
  'mesh_model',
  'coordinator',
  'num_processes',
  'process_id',
)


def main() -> None:
  """Flags in, one library call, the summary out."""
  common.need('world', 'model', 'out')
  from wm.runtime import ending
  from wm.training import config, loop

  fields = [field.name for field in dataclasses.fields(config.Config)]
  given = {name: getattr(FLAGS, name) for name in fields if name in FLAGS}
  try:
    summary = loop.train(config.Config(**given), FLAGS.out)
  except loop.LossError as error:
    ending.fail(str(error))
  print(json.dumps(summary))


if __name__ == '__main__':
  common.run(main, *READ)
