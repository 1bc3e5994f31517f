"""Files of worlds and of data that are missing, damaged or of no sense."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator

from tests.attack.bases import LINE
from tests.attack.case import (
  NOBODY,
  Action,
  Case,
  closed,
  fifo,
  folder,
  loop,
  put,
)

Text = str | bytes
NOISE = bytes(range(256)) * 8


def shapes(path: str) -> Iterator[tuple[str, tuple[Action, ...]]]:
  """Things that are no readable file, at a path."""
  yield 'missing', ()
  yield 'empty', (put(path),)
  yield 'folder', (folder(path),)
  yield 'pipe', (fifo(path),)
  yield 'loop', (loop(path),)
  yield 'noise', (put(path, NOISE),)
  yield 'nul', (put(path, '\0' * 99),)


def world(kind: str, name: str, spec: str, *files: Action, **more) -> Case:
  """A world that can't be made of its files; counted, or sampled."""
  run = 'sample', f'--world={spec}', '--num=5', '--num_heldout=5', '--out=new'
  return Case(kind, name, run, files, **more)


NODES = 'osm_id,lat,lon\n0,40.0,-74.0\n1,40.1,-74.0\n2,40.0,-74.1\n'
EDGES = (
  'node,direction,neighbor,length_m\n0,N,1,100\n1,S,0,100\n0,W,2,90\n2,E,0,90\n'
)


def streets() -> Iterator[Case]:
  """Street maps and trips; see tests/bad_files_test.py for what they hold."""
  kind = 'street maps'
  spec = 'maps(nodes="n.csv", edges="e.csv")'
  nodes, edges = put('n.csv', NODES), put('e.csv', EDGES)
  for name, files in shapes('e.csv'):
    yield world(kind, f'edges {name}', spec, nodes, *files)
  shut = nodes, edges, closed('e.csv')
  yield world(kind, 'edges closed', spec, *shut, user=NOBODY)
  trips = f'{spec[:-1]}, trips="t.csv")'
  for name, files in shapes('t.csv'):
    yield world(kind, f'trips {name}', trips, nodes, edges, *files)
  for name, files in shapes('m.osm'):
    yield world(kind, f'OSM {name}', "maps(file='m.osm')", *files)
  more = 'maps(rows=100000, columns=100000)'
  yield world(kind, more, more)


GAME = '[Event "x"]\n[Result "1-0"]\n\n1. e4 e5 2. Nf3 Nc6 1-0\n\n'


_LONG = GAME.replace(
  'Nc6',
  'Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7 6. Re1 b5 7. '
  'Bb3 d6 8. c3 O-O 9. h3 Nb8 10. d4 Nbd7 11. c4 c6',
)
_ODD_LINES = {
  'of a long CSV': ('t.csv', 'tokens\n' + 'left ' * 50_000),
  'of a line of 20 MB': ('t.txt', 'left ' * 4_000_000),
  'of 20 MB of JSON': ('t.jsonl', '{"tokens": "' + 'left ' * 4_000_000 + '"}'),
  'of deep JSON': ('t.txt', '[' * 100_000 + '\n'),
  'of a NUL': ('t.txt', 'left \0 right\n'),
}
_TABLES = {
  'deep': '[' * 100_000,
  'of a huge id': '{"left": ' + '9' * 5000 + ', "right": 2}',
}


def games() -> Iterator[Case]:
  """Games of chess and Othello, and lines of sequences."""
  kind = 'games and texts'
  pgn = 'ingest', '--pgn=g.pgn', '--out=new'
  for name, files in shapes('g.pgn'):
    yield Case(kind, f'PGN {name}', pgn, files)
  texts: dict[str, Text] = {
    'of one long line': 'e4 ' * 500_000,
    'of a long head': f'[Event "{"x" * 500_000}"]\n\n1. e4 *\n',
  }
  for name, text in texts.items():
    yield Case(kind, f'PGN {name}', pgn, (put('g.pgn', text),))
  lost = put('g.pgn', _LONG * 9 + _LONG.replace('Bb5', '--'))
  yield Case(kind, 'PGN of null moves', pgn, (lost,), says='lost=')
  for world_spec in ('othello()', 'chess(length=0)', 'chess(policy="best")'):
    run = (*pgn, f'--world={world_spec}')
    yield Case(kind, f'PGN in {world_spec}', run, (put('g.pgn', GAME),))
  twice = 'ingest', '--pgn=g.pgn', '--pgn=gone.pgn', '--out=new'
  yield Case(kind, 'PGN and none', twice, (put('g.pgn', GAME),))
  text_run = 'ingest', '--text_file=t.txt', '--out=new', f'--world={LINE}'
  for name, files in shapes('t.txt'):
    yield Case(kind, f'text {name}', text_run, files)
  for name, (path, text) in _ODD_LINES.items():
    run = 'ingest', f'--text_file={path}', '--out=new', f'--world={LINE}'
    yield Case(kind, f'text {name}', run, (put(path, text),))
  for name, table in _TABLES.items():
    files = put('t.txt', '1 2\n'), put('k.json', table)
    run = (*text_run, '--tokens=k.json')
    yield Case(kind, f'table of tokens {name}', run, files)
  for name, files in shapes('h.txt'):
    run = (*text_run, '--heldout_file=h.txt')
    yield Case(kind, f'held-out text {name}', run, (put('t.txt', 'L'), *files))


def othello() -> Iterator[Case]:
  """Records of Othello that are too large."""
  many = bytes(4) + b'\xff\xff\xff\x7f' + bytes(76)
  for name, path, data in (
    ('WTHOR of 2**31 games', 'o.wtb', many),
    ('moves of 20 MB', 'o.txt', 'f5d6' * 5_000_000),
    ('moves of 20 MB of numbers', 'o.txt', '12 ' * 6_700_000),
  ):
    spec = f'othello(records="{path}")'
    yield world('games and texts', name, spec, put(path, data))


def automata() -> Iterator[Case]:
  """Files of automata; see tests/worlds/automaton_files_test.py for texts."""
  kind = 'automata'
  for suffix in ('json', 'csv', 'dot'):
    path = f'a.{suffix}'
    spec = f'automaton(file="{path}")'
    for name, files in shapes(path):
      yield world(kind, f'{suffix} {name}', spec, *files)
    shut = put(path, '{}'), closed(path)
    yield world(kind, f'{suffix} closed', spec, *shut, user=NOBODY)


def tables() -> Iterator[Case]:
  """Tables of planets, maps of text games, recorded answers and logs."""
  kind = 'tables and archives'
  for name, files in shapes('p.csv'):
    yield world(kind, f'planets {name}', 'orbits(table="p.csv")', *files)
  heads = 'st_mass,planet_solar_mass,star_solar_mass,ecc,sma,pl_orbeccen'
  for name, text in {
    'of words': f'{heads}\na,b,c,d,e,f\n',
    'of nan': f'{heads}\nnan,nan,nan,nan,nan,nan\n',
  }.items():
    files = (put('p.csv', text),)
    yield world(kind, f'planets {name}', 'orbits(table="p.csv")', *files)
  spec = 'text_game(folder="g.tar.gz", game="zork1")'
  yield world(kind, 'archive of a bomb', spec, put('g.tar.gz', _bomb()))
  for paper in ('cogeval', 'mango', 'forces'):
    run = 'report', f'--paper={paper}', '--data=answers', '--out=new'
    for name, files in {
      'of no folder': (),
      'of nothing': (folder('answers'),),
      'of a file': (put('answers', 'x'),),
      'of others': (put('answers/README.md', 'x'),),
    }.items():
      yield Case(kind, f'{paper} {name}', run, files)


def _bomb() -> bytes:
  """A small archive of a large file."""
  data = io.BytesIO()
  with tarfile.open(fileobj=data, mode='w:gz') as file:
    info = tarfile.TarInfo('x/zork1/zork1.edges')
    info.size = 60_000_000
    file.addfile(info, io.BytesIO(bytes(info.size)))
  return data.getvalue()


def all() -> Iterator[Case]:
  """Every case of this file."""
  yield from streets()
  yield from games()
  yield from othello()
  yield from automata()
  yield from tables()
