"""Games of PGN files, or lines of text files, as token shards of two splits.

  python launch/ingest.py --pgn=lichess_2025-03.pgn.zst --out=runs/human
  python launch/ingest.py --pgn=launch/examples/openings.pgn --out=runs/opera
  python launch/ingest.py --text_file=train_sequences.txt \\
    --heldout_file=heldout_sequences.txt --out=runs/published \\
    --world="maps(nodes='nodes.csv', edges='edges.csv', traversal='shortest')"

writes OUT/data/train and OUT/data/heldout as launch/sample.py does, and says
what was left out and why. Killed and started again, it goes on.

PGN files may be plain, or packed by gzip, Zstandard, bzip2 or xz; games are
split by what they are, and --games stops after so many good ones. For n
processes, start it n times, with --shard=0/n to --shard=n-1/n; the last to end
puts the parts together, to the same bytes.

Text files have a sequence a line, of the world's tokens. Left out are illegal
lines, those that are too long or lack the end, and those of a pair (of origin
and destination) that is held out. Without --heldout_file the world divides the
lines by pair.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, the report out."""
  import wm

  if FLAGS.text_file:
    common.need('world', 'out')
    common.apart('text_file', 'pgn', 'games', 'shard')
    given = {'heldout': FLAGS.heldout_file, 'log': print}
    wm.ingest_text(FLAGS.text_file, FLAGS.out, FLAGS.world, **given)
    return
  common.need('pgn', 'out')
  common.apart('pgn', 'heldout_file')
  given = {} if FLAGS.world is None else {'world': FLAGS.world}
  wm.ingest(
    FLAGS.pgn,
    FLAGS.out,
    **given,
    shard=FLAGS.shard,
    games=FLAGS.games,
    log=print,
  )


if __name__ == '__main__':
  common.run(
    main,
    *('pgn', 'text_file', 'heldout_file', 'world', 'games', 'shard'),
  )
