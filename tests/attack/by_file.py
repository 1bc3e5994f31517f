"""Files of worlds and of data that are missing, damaged or of no sense."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator, Mapping

from tests.attack.bases import LINE
from tests.attack.case import (
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
_STREETS: Mapping[str, tuple[str, str]] = {
  'nodes without heads': ('1,2,3\n', EDGES),
  'node twice': (NODES + '0,40,-74\n', EDGES),
  'node of text': (NODES + 'x,40,-74\n', EDGES),
  'latitude of 99': (NODES + '3,99,-74\n', EDGES),
  'longitude of 1e300': (NODES + '3,40,1e300\n', EDGES),
  'id of 5,000 digits': (NODES + f'{"9" * 5000},40,-74\n', EDGES),
  'short row': (NODES + '3,40\n', EDGES),
  'edges without heads': (NODES, '0,N,1\n'),
  'edge to no node': (NODES, EDGES + '0,E,7,100\n'),
  'direction that is none': (NODES, EDGES + '1,up,2,100\n'),
  'length below zero': (NODES, EDGES + '1,W,2,-4\n'),
  'length of 1e400': (NODES, EDGES + '1,W,2,1e400\n'),
  'open quote': (NODES, EDGES + '"1,W,2,5\n'),
}


def streets() -> Iterator[Case]:
  """Street maps and trips."""
  kind = 'street maps'
  spec = 'maps(nodes="n.csv", edges="e.csv")'
  nodes, edges = put('n.csv', NODES), put('e.csv', EDGES)
  for name, files in shapes('n.csv'):
    yield world(kind, f'nodes {name}', spec, edges, *files)
  for name, files in shapes('e.csv'):
    yield world(kind, f'edges {name}', spec, nodes, *files)
  for name, (n, e) in _STREETS.items():
    yield world(kind, name, spec, put('n.csv', n), put('e.csv', e))
  shut = nodes, edges, closed('e.csv')
  yield world(kind, 'edges closed', spec, *shut, user=65534)
  trips = 'maps(nodes="n.csv", edges="e.csv", trips="t.csv")'
  for name, files in shapes('t.csv'):
    yield world(kind, f'trips {name}', trips, nodes, edges, *files)
  head = 'pickup_latitude,pickup_longitude,dropoff_latitude,dropoff_longitude\n'
  for name, text in {
    'of words': f'{head}a,b,c,d\n',
    'elsewhere': f'{head}1,1,2,2\n',
    'no heads': '1,2,3,4\n',
  }.items():
    files = nodes, edges, put('t.csv', text)
    yield world(kind, f'trips {name}', trips, *files)
  for more in (
    'rows=0',
    'columns="x"',
    'traversal="best"',
    'heldout=2.0',
    'heldout=float("nan")',
    'nodes="n.csv"',
    'file="gone.graphml"',
    'nearest="feet"',
    'rows=100000, columns=100000',
  ):
    yield world(kind, f'maps({more})', f'maps({more})', nodes)
  for name, files in shapes('m.osm'):
    yield world(kind, f'OSM {name}', "maps(file='m.osm')", *files)
  for name, text in {
    'without streets': '<osm version="0.6"></osm>',
    'cut': '<osm version="0.6"><node id="1" lat="40" ',
    'way to no node': '<osm version="0.6"><way id="1"><nd ref="7"/><nd ref="8"'
    '/><tag k="highway" v="primary"/></way></osm>',
    'no latitude': '<osm version="0.6"><node id="1"/><node id="2"/><way id="1">'
    '<nd ref="1"/><nd ref="2"/><tag k="highway" v="primary"/></way></osm>',
  }.items():
    file = put('m.osm', text)
    yield world(kind, f'OSM {name}', "maps(file='m.osm')", file)


GAME = '[Event "x"]\n[Result "1-0"]\n\n1. e4 e5 2. Nf3 Nc6 1-0\n\n'


_LONG = GAME.replace(
  'Nc6',
  'Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7 6. Re1 b5 7. '
  'Bb3 d6 8. c3 O-O 9. h3 Nb8 10. d4 Nbd7 11. c4 c6',
)
# Files of good games and a few that are lost for one reason.
_LOSSES = {
  'null moves': _LONG * 9 + _LONG.replace('Bb5', '--'),
  'variants': _LONG * 9 + '[Variant "Atomic"]\n' + _LONG,
  'positions': _LONG * 9 + '[FEN "4k3/8/8/8/8/8/8/4K2R w K - 0 1"]\n' + _LONG,
  'another language': _LONG * 9 + _LONG.replace('Nf3', 'Sf3'),
  'figurines': _LONG * 9 + _LONG.replace('Nf3', '\u2658f3'),
}
_ODD_LINES = {
  'of a CSV without fields': ('t.csv', 'id,name\n1,2\n'),
  'of a CSV of one quote': ('t.csv', 'tokens\n"left'),
  'of a long CSV': ('t.csv', 'tokens\n' + 'left ' * 50_000),
  'of ids': ('t.txt', '1 2 1\n'),
  'of a line of 20 MB': ('t.txt', 'left ' * 4_000_000),
  'of 20 MB of JSON': ('t.jsonl', '{"tokens": "' + 'left ' * 4_000_000 + '"}'),
}
_TABLES = {
  'gone': None,
  'twice': '{"left": 1, "right": 1}',
  'of lists': '{"left": [1], "right": [2]}',
  'deep': '[' * 100_000,
  'of a huge id': '{"left": ' + '9' * 5000 + ', "right": 2}',
}


def games() -> Iterator[Case]:
  """Games of chess and Othello, and lines of sequences."""
  kind = 'games and texts'
  pgn = 'ingest', '--pgn=g.pgn', '--out=new'
  for name, files in shapes('g.pgn'):
    yield Case(kind, f'PGN {name}', pgn, files)
  for suffix in ('gz', 'zst', 'bz2', 'xz'):
    run = 'ingest', f'--pgn=g.pgn.{suffix}', '--out=new'
    for name, data in {'plain': GAME.encode(), 'noise': NOISE, '': b''}.items():
      files = (put(f'g.pgn.{suffix}', data),)
      yield Case(kind, f'PGN {suffix} {name or "empty"}', run, files)
  texts: dict[str, Text] = {
    'of words': 'this is no game\n' * 9,
    'of illegal moves': GAME.replace('e4', 'e5'),
    'of one long line': 'e4 ' * 500_000,
    'of a long head': f'[Event "{"x" * 500_000}"]\n\n1. e4 *\n',
  }
  for name, text in texts.items():
    yield Case(kind, f'PGN {name}', pgn, (put('g.pgn', text),))
  for name, text in _LOSSES.items():
    yield Case(kind, f'PGN of {name}', pgn, (put('g.pgn', text),), says='lost=')
  for world_spec in ('othello()', 'chess(length=0)', 'chess(policy="best")'):
    run = (*pgn, f'--world={world_spec}')
    yield Case(kind, f'PGN in {world_spec}', run, (put('g.pgn', GAME),))
  twice = 'ingest', '--pgn=g.pgn', '--pgn=gone.pgn', '--out=new'
  yield Case(kind, 'PGN and none', twice, (put('g.pgn', GAME),))
  both = 'ingest', '--pgn=g.pgn', '--text_file=t.txt', '--out=new'
  both += (f'--world={LINE}',)
  yield Case(kind, 'PGN and text', both, (put('g.pgn', GAME), put('t.txt')))
  text_run = 'ingest', '--text_file=t.txt', '--out=new', f'--world={LINE}'
  for name, files in shapes('t.txt'):
    yield Case(kind, f'text {name}', text_run, files)
  for name, text in {
    'of unknown tokens': 'up down\n' * 5,
    'of a long line': 'left ' * 500_000,
    'of a NUL': 'left \0 right\n',
    'of half an object': '{"moves": ["left"\n',
    'of null': '{"moves": null}\n',
    'of deep JSON': '[' * 100_000 + '\n',
  }.items():
    yield Case(kind, f'text {name}', text_run, (put('t.txt', text),))
  for name, (path, text) in _ODD_LINES.items():
    run = 'ingest', f'--text_file={path}', '--out=new', f'--world={LINE}'
    yield Case(kind, f'text {name}', run, (put(path, text),))
  for name, table in _TABLES.items():
    files = (put('t.txt', '1 2\n'), *([put('k.json', table)] if table else []))
    run = (*text_run, '--tokens=k.json')
    yield Case(kind, f'table of tokens {name}', run, files)
  for value in ('-1', '2', 'nan', 'x'):
    run = (*text_run, f'--lost={value}')
    yield Case(kind, f'lost={value}', run, (put('t.txt', 'left\n'),))
  for name, files in shapes('h.txt'):
    run = (*text_run, '--heldout_file=h.txt')
    yield Case(kind, f'held-out text {name}', run, (put('t.txt', 'L'), *files))


def othello() -> Iterator[Case]:
  """Records and openings of Othello."""
  kind = 'games and texts'
  for name, files in shapes('o.wtb'):
    yield world(kind, f'WTHOR {name}', 'othello(records="o.wtb")', *files)
  head = bytes(4) + (9).to_bytes(4, 'little') + bytes(8)
  for name, data in {
    'head alone': head,
    'short': head + bytes(100),
    'size 10': head[:12] + b'\x0a' + head[13:] + bytes(68 * 9),
    'of 2**31 games': head[:4] + b'\xff\xff\xff\x7f' + head[8:] + bytes(68),
    'of zeros': head + bytes(68 * 9),
  }.items():
    files = (put('o.wtb', data),)
    yield world(kind, f'WTHOR {name}', 'othello(records="o.wtb")', *files)
  for name, text in {
    'of illegal moves': 'a1b2\n' * 3,
    'of false passes': 'f5 pass d6\n' * 3,
    'of numbers of no board': '99 98 97\n' * 3,
    'of one bad of ten': 'f5d6c3\n' * 9 + 'f5f5\n',
    'of 20 MB': 'f5d6' * 5_000_000,
    'of 20 MB of numbers': '12 ' * 6_700_000,
  }.items():
    files = (put('o.txt', text),)
    yield world(kind, f'moves {name}', 'othello(records="o.txt")', *files)
  for opening in ('a1', 'd3 d3', 'best', 'd3 c3 x9', ' '):
    yield world(kind, f'opening {opening}', f'othello(openings={opening!r})')


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
  for pack in ('g.tar.gz', 'games'):
    spec = f'text_game(folder="{pack}", game="zork1")'
    for name, files in shapes(pack):
      yield world(kind, f'{pack} {name}', spec, *files)
  spec = 'text_game(folder="g.tar.gz", game="zork1")'
  for name, data in _archives().items():
    yield world(kind, f'archive {name}', spec, put('g.tar.gz', data))
  for paper in ('cogeval', 'mango', 'forces'):
    run = 'recorded', f'--paper={paper}', '--data=answers', '--out=new'
    for name, files in {
      'of no folder': (),
      'of nothing': (folder('answers'),),
      'of a file': (put('answers', 'x'),),
      'of others': (put('answers/README.md', 'x'),),
      **_answers(paper),
    }.items():
      yield Case(kind, f'{paper} {name}', run, files)
  for name, data in {
    'noise': NOISE,
    'an object': b'{"version": 2}',
    'deep': b'[' * 100_000,
    'cut': b'{"version": 2, "status": "success", "eval": {"task": "world"',
  }.items():
    for suffix in ('json', 'eval'):
      path = f'logs/2026-01-01T00-00-00_world_x.{suffix}'
      run = 'report', '--runs=logs', '--out=new'
      files = (put(path, data),)
      yield Case(kind, f'log {name} {suffix}', run, files, needs='inspect_ai')
  path = 'logs/2026-01-01T00-00-00_world_x.json'
  for name, act in {'pipe': fifo(path), 'loop': loop(path)}.items():
    run = 'report', '--runs=logs', '--out=new'
    yield Case(kind, f'log {name}', run, (act,), needs='inspect_ai')


def _answers(paper: str) -> dict[str, tuple[Action, ...]]:
  """Recorded answers that are damaged, by the file that is read first."""
  first = {
    'cogeval': 'answers/scores_may2023.csv.gz',
    'mango': 'answers/rwkv14b-answers-2023-06.jsonl.gz',
    'forces': 'answers/llm-prompts/0.txt',
  }[paper]
  packed = gzip.compress(b'a,b\n1,2\n' * 50, mtime=0)
  return {
    'noise': (put(first, NOISE),),
    'pipe': (fifo(first),),
    'folder': (folder(first),),
    'words': (put(first, packed),),
    'cut': (put(first, packed[:-12]),),
  }


def _archives() -> dict[str, bytes]:
  def pack(**members: Text) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode='w:gz') as file:
      for name, text in members.items():
        body = text if isinstance(text, bytes) else text.encode()
        info = tarfile.TarInfo(name.replace('__', '/').replace('_', '.', 1))
        info.size = len(body)
        file.addfile(info, io.BytesIO(body))
    return data.getvalue()

  good = {
    'x__zork1__zork1_edges.json': '[]',
    'x__zork1__zork1_walkthrough': 'N',
  }
  whole = pack(**good)
  return {
    'cut': whole[: len(whole) // 2],
    'flipped': whole[:40] + b'\xff\xff' + whole[42:],
    'of another game': pack(x__other__other_edges='[]'),
    'of no edges': pack(**good),
    'two of a name': pack(
      **good | {f'y{name[1:]}': text for name, text in good.items()}
    ),
    'edges noise': pack(**good | {'x__zork1__zork1_edges.json': NOISE}),
    'of a bomb': pack(x__zork1__zork1_edges=b'\0' * 60_000_000),
  }


def all() -> Iterator[Case]:
  """Every case of this file."""
  yield from streets()
  yield from games()
  yield from othello()
  yield from tables()
