import numpy as np
import pytest

from wm import core
from wm.data import published
from wm.worlds import maps
from wm.worlds.maps import streets

pytest.importorskip('osmnx')

# A block with a bend (5), a one-way street, a footway and a private drive.
XML = """<?xml version="1.0" encoding="UTF-8"?>
<osm version="0.6">
 <node id="1" lat="40.7000" lon="-74.0000"/>
 <node id="2" lat="40.7010" lon="-74.0000"/>
 <node id="3" lat="40.7010" lon="-73.9990"/>
 <node id="4" lat="40.7000" lon="-73.9990"/>
 <node id="5" lat="40.7005" lon="-74.0001"/>
 <node id="6" lat="40.7020" lon="-74.0000"/>
 <node id="7" lat="40.6990" lon="-74.0000"/>
 <node id="8" lat="40.6990" lon="-73.9990"/>
 <way id="10"><nd ref="1"/><nd ref="5"/><nd ref="2"/>
  <tag k="highway" v="residential"/></way>
 <way id="11"><nd ref="2"/><nd ref="3"/>
  <tag k="highway" v="primary"/><tag k="oneway" v="yes"/></way>
 <way id="12"><nd ref="3"/><nd ref="4"/><nd ref="1"/>
  <tag k="highway" v="tertiary"/></way>
 <way id="13"><nd ref="2"/><nd ref="6"/>
  <tag k="highway" v="residential"/></way>
 <way id="14"><nd ref="1"/><nd ref="7"/><tag k="highway" v="footway"/></way>
 <way id="15"><nd ref="4"/><nd ref="8"/>
  <tag k="highway" v="residential"/></way>
 <way id="16"><nd ref="7"/><nd ref="8"/>
  <tag k="highway" v="residential"/><tag k="access" v="private"/></way>
</osm>
"""


@pytest.fixture
def path(tmp_path):
  path = tmp_path / 'block.osm'
  path.write_text(XML)
  return path


def labelled(graph):
  edges = zip(*graph.edges(), strict=True)
  ids = graph.ids.tolist()
  return {(ids[u], streets.DIRECTIONS[a], ids[v]) for u, a, v in edges}


def test_osm_xml_becomes_a_graph_of_drivable_streets(path):
  graph = streets.load_file(path)
  # 1 and 5 are bends of the way from 2 to 4, no intersections.
  assert labelled(graph) == {
    (2, 'N', 6),
    (6, 'S', 2),
    (2, 'E', 3),
    (3, 'S', 4),
    (4, 'N', 3),
    (4, 'S', 8),
    (8, 'N', 4),
    (2, 'SE', 4),
    (4, 'NW', 2),
  }
  metres = graph.length_m[graph.ids.tolist().index(2), 3]
  assert metres > 1.3 * streets.great_circle(40.701, -74.0, 40.7, -73.999)


def test_fetch_writes_files_that_give_the_same_graph(path, tmp_path):
  out = tmp_path / 'map'
  summary = published.fetch_map(out, file=str(path))
  assert summary.startswith('5 intersections and 9 streets')
  wanted = streets.load_file(path)
  for graph in (
    streets.load_csv(out / 'nodes.csv', out / 'edges.csv'),
    streets.load_file(out / 'map.graphml'),
  ):
    np.testing.assert_array_equal(graph.ids, wanted.ids)
    np.testing.assert_array_equal(graph.delta, wanted.delta)
    np.testing.assert_array_equal(graph.length_m, wanted.length_m)
  assert sorted(p.name for p in out.iterdir()) == [
    'edges.csv',
    'map.graphml',
    'nodes.csv',
  ]


def test_a_world_on_an_osm_file(path):
  world = maps.World(file=str(path), traversal='shortest')
  assert len(world.sample(9, 0)) == 9


@pytest.mark.parametrize(
  ('name', 'content', 'said'),
  [
    ('a.osm', '<osm><node', 'GraphML or OSM XML'),
    ('a.osm', '<osm version="0.6"></osm>', 'GraphML or OSM XML'),
    ('a.osm', XML.replace('highway', 'railway'), 'no street to'),
    ('a.graphml', 'text', 'GraphML or OSM XML'),
    ('a.graphml', '<graphml></graphml>', 'GraphML or OSM XML'),
    ('a.pbf', '', "unknown suffix '.pbf'; expected .graphml"),
    ('b.osm', None, 'no such file'),
  ],
)
def test_bad_files_are_refused_in_one_line(tmp_path, name, content, said):
  if content is not None:
    (tmp_path / name).write_text(content)
  with pytest.raises(core.InputError) as error:
    streets.load_file(tmp_path / name)
  assert said in str(error.value)
  assert '\n' not in str(error.value)


def test_fetch_needs_one_source_and_leaves_nothing_behind(tmp_path):
  with pytest.raises(core.InputError, match='either a place or a file'):
    published.fetch_map(tmp_path / 'map')
  (tmp_path / 'bad.osm').write_text('<osm>')
  with pytest.raises(core.InputError):
    published.fetch_map(tmp_path / 'map', file=str(tmp_path / 'bad.osm'))
  assert not (tmp_path / 'map').exists()
