"""Reads what others have made: games, lines of text, street maps.

  python launch/ingest.py --pgn=lichess_2025-03.pgn.zst --out=runs/human
  python launch/ingest.py --pgn=launch/examples/openings.pgn --out=runs/opera
  python launch/ingest.py --text_file=train_sequences.txt \\
    --heldout_file=heldout_sequences.txt --out=runs/published \\
    --world="maps(nodes='nodes.csv', edges='edges.csv', traversal='shortest')"
  python launch/ingest.py --text_file=chess_000000.jsonl --out=runs/jsonl \\
    --world='chess(length=400)'

writes OUT/data/train and OUT/data/heldout as launch/sample.py does, and says
what was left out and why. Rerunning the command resumes.

--jobs=4 has four processes read PGN files, to the same bytes.

PGN files may be plain, or packed by gzip, Zstandard, bzip2 or xz. A hash of
each game decides its split, and --games=N stops after N usable games.

Text files have a sequence a line: the world's tokens separated by blanks, or
JSON such as {"moves": ["e2e4", "e7e5"]}, {"moves": "e2e4 e7e5"} or a list of
tokens alone, or a row of a .csv file with a head. The field may also be called
tokens, transcript, input and the like; others, such as example_id or states,
are not read, but for targets, which are checked. Games are as people write
them: UCI, SAN, numbered, squares as numbers, with passes. --tokens=FILE says
what ids or words stand for the world's tokens. A line that is no JSON or has an
unknown token ends the program with the line's number. Sequences that are
illegal, too long or lack the end are left out and counted, and refused where
they are more than --lost of all for one reason; so are games of PGN files.
Those of a pair (of origin and destination) that is held out are left out, too.
Without --heldout_file the world divides the lines.

  python launch/ingest.py --out=maps/manhattan \\
    --osm_place='Manhattan, New York City, USA'

downloads today's street map from OpenStreetMap, which needs the extra `maps`:
nodes.csv, edges.csv and map.graphml, for `--world="maps(
nodes='maps/manhattan/nodes.csv', edges='maps/manhattan/edges.csv')"`. A file of
a map is read as it is, by `--world="maps(file='soho.osm')"`.
"""

import common

FLAGS = common.FLAGS


# Flag that says what is read -> flags that are about it alone.
READ = {
  'text_file': ('heldout_file', 'tokens'),
  'osm_place': (),
  'pgn': ('games', 'jobs'),
}


def _source() -> str:
  """The one of READ that was given; InputError for others beside it."""
  sources = [name for name in READ if getattr(FLAGS, name)]
  if not sources:
    common.require('pgn', other=', --'.join(list(READ)[:-1]))
  for name, flags in READ.items():
    if name != sources[0]:
      common.refuse_together(sources[0], name, *flags)
  common.require('out', *['world'] * (sources[0] == 'text_file'))
  return sources[0]


def main() -> None:
  """Flags in, one library call, the report out."""
  source = _source()
  import wm

  if source == 'osm_place':
    print(wm.fetch_map(FLAGS.out, FLAGS.osm_place))
    return
  arguments = {'lost': FLAGS.lost, 'log': print}
  if FLAGS.world is not None:
    arguments['world'] = FLAGS.world
  if source == 'text_file':
    arguments |= {'heldout': FLAGS.heldout_file, 'tokens': FLAGS.tokens}
    wm.ingest_text(FLAGS.text_file, FLAGS.out, **arguments)
    return
  arguments |= {'games': FLAGS.games, **common.keywords(common.Workers)}
  wm.ingest(FLAGS.pgn, FLAGS.out, **arguments)


if __name__ == '__main__':
  common.run(
    main,
    *('pgn', 'text_file', 'heldout_file', 'world', 'games'),
    *('tokens', 'lost', 'osm_place'),
    *common.names(common.Workers),
  )
