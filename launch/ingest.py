"""Games of PGN files as token shards, split by what a game is.

  python launch/ingest.py --pgn=lichess_2025-03.pgn.zst --out=runs/human

writes OUT/data/train and OUT/data/heldout as launch/sample.py does, and says
what was left out and why. Files may be plain, or packed by gzip, Zstandard,
bzip2 or xz; --games stops after so many good ones. Killed and started again,
it goes on. For n processes, start it n times, with --shard=0/n to
--shard=n-1/n; the last to end puts the parts together, to the same bytes.
"""

import sys

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, the report out."""
  common.need('pgn', 'out')
  from wm.core import registry
  from wm.data.pgn import ingest

  made = ingest.make_dataset(
    registry.make('world', FLAGS.world or ingest.WORLD),
    FLAGS.pgn,
    FLAGS.out,
    ingest.parse_shard(FLAGS.shard),
    FLAGS.games,
  )
  if made is None:
    print(f'shard {FLAGS.shard} is done; others are not yet')
    return
  report = made['train']['ingest']
  for name, what in report['damage'].items():
    print(f'warning: {name}: {what}', file=sys.stderr)
  for line in ingest.lines(report):
    print(line)
  for split, manifest in made.items():
    print(
      f'{FLAGS.out}/data/{split}: {manifest["rows"]} sequences, '
      f'{manifest["tokens"]} tokens'
    )


if __name__ == '__main__':
  common.run(main, 'pgn', 'world', 'games', 'shard')
