"""Games of PGN, or lines of text or JSON, as token shards of two splits.

  python launch/ingest.py --pgn=lichess_2025-03.pgn.zst --out=runs/human
  python launch/ingest.py --pgn=launch/examples/openings.pgn --out=runs/opera
  python launch/ingest.py --text_file=train_sequences.txt \\
    --heldout_file=heldout_sequences.txt --out=runs/published \\
    --world="maps(nodes='nodes.csv', edges='edges.csv', traversal='shortest')"
  python launch/ingest.py --text_file=chess_000000.jsonl --out=runs/jsonl \\
    --world='chess(length=400)'

writes OUT/data/train and OUT/data/heldout as launch/sample.py does, and says
what was left out and why. Rerunning the command resumes.

--jobs=4 has four processes read the files, --cluster=tls://HOST:8786 a Dask
cluster (launch/cluster/README.md), to the same bytes. So does the same command
on several hosts that share --out, or where it is a URL, with --distributed or
--coordinator as for train.py.

PGN files may be plain, or packed by gzip, Zstandard, bzip2 or xz. A hash of
each game decides its split, and --games=N stops after N usable games. Processes
of machines that share nothing but a folder share the work with --shard=0/n to
--shard=n-1/n; the one that ends last joins the parts.

Text files have a sequence a line: the world's tokens separated by blanks, or
JSON such as {"moves": ["e2e4", "e7e5"]}, {"moves": "e2e4 e7e5"} or a list of
tokens alone. The field may also be called tokens; others, such as example_id or
states, are not read. Moves of chess are as UCI writes them, or numbers as
Walker and Lyons 2026 publish them; <start> may be left out. A line that is no
JSON or has an unknown token ends the program with the line's number. Illegal
sequences are left out and counted, as are those that are too long or lack the
end, and those of a pair (of origin and destination) that is held out. Without
--heldout_file the world divides the lines.
"""

import common

FLAGS = common.FLAGS


def main() -> None:
  """Flags in, one library call, the report out."""
  if FLAGS.text_file:
    common.require('world', 'out')
    common.refuse_together('text_file', 'pgn', 'games', 'shard')
  else:
    common.require('pgn', other='text_file')
    common.require('out')
    common.refuse_together('pgn', 'heldout_file')
  common.join_processes()
  import wm

  arguments = {**common.keywords(common.Workers), 'log': print}
  if FLAGS.world is not None:
    arguments['world'] = FLAGS.world
  if FLAGS.text_file:
    arguments['heldout'] = FLAGS.heldout_file
    wm.ingest_text(FLAGS.text_file, FLAGS.out, **arguments)
    return
  wm.ingest(
    FLAGS.pgn, FLAGS.out, shard=FLAGS.shard, games=FLAGS.games, **arguments
  )


if __name__ == '__main__':
  common.run(
    main,
    *('pgn', 'text_file', 'heldout_file', 'world', 'games', 'shard'),
    *(*common.names(common.Workers), *common.PROCESSES),
  )
