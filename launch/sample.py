"""Samples a training and a held-out set from a world, as token shards.

  python launch/sample.py --world="maps()" --num=100000 --out=runs/city

writes OUT/data/train and OUT/data/heldout (and, with --text, the same as
text lines). Killed and started again, it goes on and gives the same bytes.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call."""
  common.need('world', 'out')
  from wm.core import registry
  from wm.data import sampling

  made = sampling.make_dataset(
    registry.make('world', FLAGS.world),
    FLAGS.out,
    num=FLAGS.num,
    num_heldout=FLAGS.num_heldout,
    seed=FLAGS.seed,
    text=FLAGS.text,
  )
  facts = made['train']['world_facts']
  if facts:
    print(', '.join(f'{name} {number}' for name, number in facts.items()))
  for split, manifest in made.items():
    dropped = ''.join(f', {k} {n}' for k, n in manifest['counts'].items())
    print(
      f'{FLAGS.out}/data/{split}: {manifest["rows"]} sequences, '
      f'{manifest["tokens"]} tokens{dropped}'
    )


if __name__ == '__main__':
  common.run(main, 'world', 'num', 'num_heldout', 'text')
