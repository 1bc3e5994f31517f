"""Every reader of a user's file gives what it reads, or one line with its name.

Each file is read as it is, cut, with bytes changed, and as what is no file.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import tarfile

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.data import pgn_games, text
from wm.data import store as stores
from wm.language.papers import published
from wm.language.papers.forces import questions
from wm.language.papers.forces import score as scoring
from wm.models import ngram
from wm.studies import sweep
from wm.training import run_log
from wm.worlds import maps
from wm.worlds.automaton import readers
from wm.worlds.maps import streets
from wm.worlds.othello import records
from wm.worlds.text_game import readers as games

ODD = {
  'empty': b'',
  'nothing': b'\0' * 64,
  'binary': bytes(range(128, 256)),
  'deep': b'[' * 100_000,
  'objects': b'{"a":' * 100_000,
  'digits': b'9' * 5000,
  'quoted': b'"' + b'9' * 200_000,
  'surrogate': b'{"\\ud800": "\\udc00"}',
  'number': b'3',
  'null': b'null',
  'list': b'[[], {}, null, 1e999, -1]',
  'encoding': b'<?xml version="1.0" encoding="none-such"?><a/>',
  'entities': b'<!DOCTYPE a [<!ENTITY b "&b;">]><a>&b;</a>',
  'zip': b'PK\x03\x04' + b'\0' * 30,
  'gzip': b'\x1f\x8b' + b'\xff' * 30,
  'pickle': b'\x80\x04K\x01.',
}

AUTOMATON = {
  'alphabet': ['a', 'b'],
  'start': 'even',
  'accepting': ['even'],
  'transitions': {'even': {'a': 'odd'}, 'odd': {'a': 'even', 'b': 'odd'}},
}
STREETS = (
  '<?xml version="1.0" encoding="utf-8"?>'
  '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
  '<key id="x" for="node" attr.name="x" attr.type="string"/>'
  '<key id="y" for="node" attr.name="y" attr.type="string"/>'
  '<graph edgedefault="directed">'
  '<node id="1"><data key="x">1.0</data><data key="y">2.0</data></node>'
  '<node id="2"><data key="x">1.01</data><data key="y">2.0</data></node>'
  '<edge id="0" source="1" target="2"/></graph></graphml>'
)
OSM = (
  '<osm version="0.6"><node id="1" lat="2" lon="1"/>'
  '<node id="2" lat="2" lon="1.1"/><way id="3"><nd ref="1"/><nd ref="2"/>'
  '<tag k="highway" v="residential"/></way></osm>'
)
NODES = 'osm_id,lat,lon\n1,2.0,1.0\n2,2.0,1.1\n3,2.1,1.1\n'
EDGES = 'node,direction,neighbor,length_m\n1,E,2,7.5\n2,N,3,\n3,S,2,1e3\n'
TRIPS = (
  'pickup_latitude,pickup_longitude,dropoff_latitude,dropoff_longitude\n'
  '2.0,1.0,2.1,1.1\n'
)
MAZE = {
  'edges.json': [
    {
      **{'src_node': 'hall', 'action': 'up', 'dst_node': 'attic'},
      **dict.fromkeys(games.STEPS, 1),
    }
  ],
  'actions.json': ['up'],
  'locations.json': ['hall', 'attic'],
}


def saved(write, *args, **kwargs):
  file = io.BytesIO()
  write(file, *args, **kwargs)
  return file.getvalue()


def packed():
  """A packed folder of one maze."""

  def write(file):
    with tarfile.open(fileobj=file, mode='w:gz') as archive:
      for kind, value in MAZE.items():
        data = json.dumps(value).encode()
        member = tarfile.TarInfo(f'all/inn/inn.{kind}')
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))

  return saved(write)


def city():
  return streets.StreetGraph(
    np.arange(2),
    np.array([2.0, 2.1]),
    np.array([1.0, 1.1]),
    np.full((2, 8), -1, np.int32),
    np.full((2, 8), np.nan),
  )


def read_pgn(path):
  blocks = list(pgn_games.blocks(pgn_games.Source(path), 0))
  assert blocks
  return [pgn_games.read(block, 2, 10) for block in blocks]


def wthor(num):
  head = bytearray(16)
  head[4] = num
  return bytes(head) + bytes(8) + b'\x38\x40' + bytes(58)


def read_streets(path):
  """Reads a pair of files, of which the other one is good."""
  paths = []
  for name, good in (('nodes', NODES), ('edges', EDGES)):
    other = path.with_name(f'{name}.good')
    other.write_text(good)
    paths.append(path if path.stem == name else other)
  return streets.load_csv(*paths)


GAME = b'[Event "e"]\n\n1. e4 e5 2. Nf3 1-0\n'
MAPS = registry.make('world', 'maps(rows=3, columns=3)')
NGRAM = {
  'order': np.array(3),
  'vocab_size': np.array(len(MAPS.vocab)),
  'grams': np.arange(3),
  'counts': np.ones(3, np.int64),
}

# Name of a file -> what it holds, and what reads it.
FILES = {
  'a.json': (json.dumps(AUTOMATON).encode(), lambda p: readers.read(str(p))),
  'a.csv': (
    b'state,symbol,next\np,,start\np,a,q\nq,,\n',
    lambda p: readers.read(str(p)),
  ),
  'a.dot': (
    b'digraph { none -> p; p -> q [label="a"]; q [shape=doublecircle] }',
    lambda p: readers.read(str(p)),
  ),
  'nodes.csv': (NODES.encode(), read_streets),
  'edges.csv': (EDGES.encode(), read_streets),
  'map.graphml': (STREETS.encode(), streets.load_file),
  'map.osm': (OSM.encode(), streets.load_file),
  'trips.csv': (TRIPS.encode(), lambda p: maps.load_trips(p, city())),
  'trips.parquet': (b'PAR1', lambda p: maps.load_trips(p, city())),
  'games.txt': (b'f5d6c3d3c4\n', lambda p: records.read(str(p))),
  'games.wtb': (wthor(1), lambda p: records.read(str(p))),
  'walks.txt': (
    ' '.join(MAPS.vocab[1:5]).encode(),
    lambda p: text.read(p, MAPS),
  ),
  'plain.pgn': (GAME, read_pgn),
  'games.pgn.gz': (gzip.compress(GAME, mtime=0), read_pgn),
  'games.pgn.bz2': (bz2.compress(GAME), read_pgn),
  'games.pgn.xz': (lzma.compress(GAME), read_pgn),
  'counts.npz': (
    saved(np.savez, **NGRAM),
    lambda p: ngram.Model().load(p, MAPS),
  ),
  'array.npy': (
    saved(np.save, np.ones((3, 2))),
    lambda p: questions._array(p, 'f', (None, 2)),
  ),
  'forces.json': (b'{"0": 1.5, "1": 2}', lambda p: scoring.load_answer(p, 2)),
  'answers.jsonl.gz': (
    gzip.compress(b'{"text": "yes"}\n', mtime=0),
    lambda p: list(published.read_lines(p, {'text': str})),
  ),
  'metrics.jsonl': (b'{"step": 1}\n{"step": 2}\n', run_log.read),
  'mazes.tar.gz': (packed(), lambda p: games.read(p, 'inn')),
}


def damaged(good):
  """Contents that a file has after an accident."""
  yield from ODD.values()
  for k in range(8):
    at = k * len(good) // 8
    yield good[:at]
    for byte in b'\0\xff{"<,9\n':
      yield good[:at] + bytes([byte]) + good[at + 1 :]


def attempt(path, read):
  """Reads; whatever it raises is one line with the file's name."""
  try:
    read(path)
  except core.InputError as error:
    line = str(error)
    # A file of edges is blamed for nodes that the other one lacks.
    assert path.name in line or 'edges.good' in line
    assert '\n' not in line
    assert len(line) <= 2000
    assert line.isprintable()
    return line
  return ''


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('name', FILES)
def test_damage_is_one_line(name, tmp_path, capfd):
  path, (good, read) = tmp_path / name, FILES[name]
  path.write_bytes(good)
  assert not attempt(path, read) or name == 'trips.parquet'
  for content in damaged(good):
    path.write_bytes(content)
    attempt(path, read)
  assert capfd.readouterr() == ('', '')


@pytest.mark.parametrize('kind', ['missing', 'folder', 'pipe', 'device'])
@pytest.mark.parametrize('name', FILES)
def test_only_files_are_opened(name, kind, tmp_path):
  path = tmp_path / name
  if kind == 'folder':
    path.mkdir()
  elif kind == 'pipe':
    os.mkfifo(path)
  elif kind == 'device':
    path.symlink_to('/dev/zero')
  line = attempt(path, FILES[name][1])
  if (name, kind) != ('metrics.jsonl', 'missing'):  # Of a run that begins.
    assert line


GRAPHS = {
  'a.dot': 'digraph {' + 'subgraph {' * 30 + 'a -> b' + '}' * 31,
  'b.dot': 'digraph {' + '{' * 100_000,
  'c.dot': 'digraph { subgraph { subgraph { a -> b } } }',
  'a.json': '{"start": "a", "transitions": {"a": {"\\ud800": "a"}}}',
  'b.json': '{"start": ' + '9' * 5000 + ', "transitions": {}}',
  **{
    f'{k}.json': json.dumps(AUTOMATON | change)
    for k, change in enumerate(
      {key: value}
      for key in AUTOMATON
      for value in (None, 3, 1e300, True, '', [], [[]], [None], {}, {'a': 3})
      if not (key == 'accepting' and value == [])
      and not (key == 'start' and value == '')
    )
  },
}


@pytest.mark.parametrize('name', GRAPHS)
def test_automata_of_all_wrong_kinds(name, tmp_path):
  path = tmp_path / name
  path.write_text(GRAPHS[name])
  assert attempt(path, lambda p: readers.read(str(p)))


SPECS = (
  ('world', 'automaton(file={!r})'),
  ('world', "maps(nodes={!r}, edges='x')"),
  ('world', 'maps(osm={!r})'),
  ('world', "text_game(folder={!r}, game='x')"),
  ('world', 'orbits(systems={!r})'),
  ('world', 'othello(openings={!r})'),
  ('model', 'user(function={!r})'),
  ('model', "user(function='m:f', files=({!r},))"),
)
NAMES = {
  **{'pipe': 'pipe', 'pipe.py': 'pipe.py:f', 'device': 'zero', 'loop': 'loop'},
  **{'folder': 'folder', 'folder.py': 'folder.py:f', 'long': 'x' * 5000},
  **{'surrogate': '\ud800', 'raw': '\udcff', 'nul': 'a\0b', 'up': '..'},
  **{'inside': 'file/inner', 'blank': ' ', 'none': 'none.py:f'},
}


def use(kind, spec):
  plugin = registry.make(kind, spec)
  if kind == 'world':
    plugin.legal(plugin.init(1))
  else:
    plugin.predictor(MAPS, 0)


@pytest.mark.parametrize('name', NAMES)
def test_names_of_files_that_are_none(name, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  for pipe in ('pipe', 'pipe.py'):
    os.mkfifo(pipe)
  for folder in ('folder', 'folder.py'):
    os.mkdir(folder)
  os.symlink('/dev/zero', 'zero')
  os.symlink('loop', 'loop')
  (tmp_path / 'file').write_text('')
  for kind, spec in SPECS:
    with pytest.raises(core.InputError) as caught:
      use(kind, spec.format(NAMES[name]))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) <= 2000


TABLE = {
  'per': ['model'],
  'runs': [
    {
      **{'labels': {'model': 'm'}, 'flags': {'model': 'm'}, 'chosen': {}},
      **{'status': 'done', 'best_loss': 1.0},
    }
  ],
}


def test_tables_of_sweeps_of_all_wrong_kinds(tmp_path):
  path = tmp_path / 'sweep.json'

  def refused(table):
    path.write_text(json.dumps(table))
    assert attempt(path, lambda p: sweep.winners(p.parent, 1))

  path.write_text(json.dumps(TABLE))
  assert len(sweep.winners(tmp_path, 1)) == 1
  for value in (None, 3, 'x', [[]], [None], [{}], {'a': 1}, 1e300):
    refused(value)
    refused(TABLE | {'runs': value})
    refused(TABLE | {'per': value})
    for key in ('labels', 'flags', 'status', 'chosen', 'best_loss'):
      if (key, value) not in (('best_loss', None), ('best_loss', 3)):
        (row,) = TABLE['runs']
        table = TABLE | {'runs': [row | {key: value}]}
        path.write_text(json.dumps(table))
        attempt(path, lambda p: sweep.winners(p.parent, 1))


def test_manifests_of_all_wrong_kinds(tmp_path):
  rows = core.Sequences(np.ones((4, 3), np.int32), np.full(4, 3, np.int32))
  folder = tmp_path / 'store'
  manifest = stores.write(folder, [rows], {'vocab_size': 9})
  (shard,) = manifest['shards']
  path = folder / 'manifest.json'

  def read(_):
    store = stores.open(folder)
    store.verify()
    list(store.chunks())

  assert not attempt(path, read)
  for value in (None, -1, 1e300, 10**30, True, '', '../x', [], {}, [[]]):
    for key in ('format', 'dtype', 'shards'):
      path.write_text(json.dumps(manifest | {key: value}))
      if (key, value) != ('shards', []):
        with pytest.raises(core.InputError):
          read(path)
    for key in shard:
      path.write_text(json.dumps(manifest | {'shards': [shard | {key: value}]}))
      with pytest.raises(core.InputError):
        read(path)
