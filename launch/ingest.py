"""Games of PGN files as token shards, split by what a game is.

  python launch/ingest.py --pgn=lichess_2025-03.pgn.zst --out=runs/human

writes OUT/data/train and OUT/data/heldout as launch/sample.py does, and says
what was left out and why. Files may be plain, or packed by gzip, Zstandard,
bzip2 or xz; --games stops after so many good ones. Killed and started again,
it goes on. For n processes, start it n times, with --shard=0/n to
--shard=n-1/n; the last to end puts the parts together, to the same bytes.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, the report out."""
  common.need('pgn', 'out')
  import wm

  given = {} if FLAGS.world is None else {'world': FLAGS.world}
  wm.ingest(
    FLAGS.pgn,
    FLAGS.out,
    **given,
    shard=FLAGS.shard,
    games=FLAGS.games,
    tell=print,
  )


if __name__ == '__main__':
  common.run(main, 'pgn', 'world', 'games', 'shard')
