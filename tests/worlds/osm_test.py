import http.server
import json
import re
import threading
import urllib.parse
from typing import ClassVar

import pytest

from tests.launch import binaries
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


def test_a_world_on_an_osm_file(path):
  world = maps.World(file=str(path), traversal='shortest')
  assert len(world.sample(9, 0)) == 9


@pytest.mark.parametrize(
  ('name', 'content', 'message'),
  [
    ('a.osm', '<osm><node', 'is not a street graph in'),
    ('a.osm', '<osm version="0.6"></osm>', 'is not a street graph in'),
    ('a.osm', XML.replace('highway', 'railway'), 'no street to'),
    ('a.graphml', 'text', 'is not a street graph in'),
    ('a.graphml', '<graphml></graphml>', 'is not a street graph in'),
    ('a.pbf', '', "unknown suffix '.pbf'; expected .graphml"),
    ('b.osm', None, 'no such file'),
  ],
)
def test_bad_files_are_one_line(tmp_path, name, content, message, one_line):
  if content is not None:
    (tmp_path / name).write_text(content)
  with one_line() as error:
    streets.load_file(tmp_path / name)
  assert message in str(error.value)


BLOCK = [[-74.01, 40.69], [-73.99, 40.69], [-73.99, 40.71], [-74.01, 40.71]]
PLACE = {
  **{'lat': '40.7', 'lon': '-74.0', 'display_name': 'Block', 'osm_id': 1},
  **{'boundingbox': ['40.69', '40.71', '-74.01', '-73.99'], 'place_id': 1},
  **{'osm_type': 'relation', 'class': 'boundary', 'type': 'x', 'name': 'Block'},
  'importance': 1.0,
  'geojson': {'type': 'Polygon', 'coordinates': [[*BLOCK, BLOCK[0]]]},
}


def elements() -> list[dict]:
  """The map above as Overpass tells it, without what it is not asked for."""
  result = [
    {'type': 'node', 'id': int(n), 'lat': float(lat), 'lon': float(lon)}
    for n, lat, lon in re.findall('id="(.)" lat="(.*?)" lon="(.*?)"', XML)
  ]
  for way, body in re.findall('<way id="(1[0-35])">(.*?)</way>', XML, re.S):
    nodes = [int(n) for n in re.findall('ref="(.)"', body)]
    tags = dict(re.findall('k="(.*?)" v="(.*?)"', body))
    result.append({'type': 'way', 'id': int(way), 'nodes': nodes, 'tags': tags})
  return result


class Overpass(http.server.BaseHTTPRequestHandler):
  """Nominatim and Overpass on this machine; notes the queries."""

  queries: ClassVar[list[str]] = []

  def do_GET(self):
    self.reply([PLACE])

  def do_POST(self):
    body = self.rfile.read(int(self.headers['Content-Length'])).decode()
    self.queries.append(urllib.parse.parse_qs(body)['data'][0])
    self.reply({'elements': elements()})

  def reply(self, value):
    body = json.dumps(value).encode()
    self.send_response(200)
    self.send_header('Content-Type', 'application/json')
    self.send_header('Content-Length', str(len(body)))
    self.end_headers()
    self.wfile.write(body)

  def log_message(self, *_):
    pass


@pytest.fixture
def queries(monkeypatch):
  """What Overpass is asked."""
  import osmnx

  server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Overpass)
  threading.Thread(target=server.serve_forever, daemon=True).start()
  url = f'http://127.0.0.1:{server.server_port}/'
  monkeypatch.setattr(osmnx.settings, 'nominatim_url', url)
  monkeypatch.setattr(osmnx.settings, 'overpass_url', f'{url}api')
  monkeypatch.setattr(osmnx.settings, 'overpass_rate_limit', False)
  Overpass.queries.clear()
  yield Overpass.queries
  server.shutdown()
  server.server_close()


def test_the_map_of_a_place(queries, path, tmp_path):
  out = tmp_path / 'map'
  code, summary, err = binaries.run(
    'ingest', f'--out={out}', '--osm_place=Block'
  )
  assert code == 0, err
  assert summary.startswith('5 intersections and 9 streets')
  assert len(queries) == 1
  expected = streets.load_file(path)
  for graph in (
    streets.load_csv(out / 'nodes.csv', out / 'edges.csv'),
    streets.load_file(out / 'map.graphml'),
  ):
    assert labelled(graph) == labelled(expected)
  assert sorted(p.name for p in out.iterdir()) == [
    *('edges.csv', 'map.graphml', 'nodes.csv')
  ]
