import collections
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wm import core
from wm.data import published
from wm.worlds import maps
from wm.worlds.maps import streets

NODES = 'osm_id,lat,lon\n10,40.0,-74.0\n20,40.001,-74.0\n30,40.0,-73.999\n'
EDGES = 'node,direction,neighbor\n10,N,20\n20,S,10\n10,E,30\n'


@pytest.fixture
def load(tmp_path):
  def run(nodes=NODES, edges=EDGES):
    (tmp_path / 'nodes.csv').write_text(nodes)
    (tmp_path / 'edges.csv').write_text(edges)
    return streets.load_csv(tmp_path / 'nodes.csv', tmp_path / 'edges.csv')

  return run


def test_rows_follow_the_file_and_labels_are_compass_sectors(load):
  graph = load()
  assert graph.ids.tolist() == [10, 20, 30]
  assert graph.num_edges == 3
  assert graph.delta[0].tolist() == [1, -1, 2, -1, -1, -1, -1, -1]
  assert graph.delta[1, 4] == 0
  assert np.isnan(graph.length_m[graph.delta < 0]).all()


def test_absent_lengths_are_great_circles(load):
  edges = 'node,direction,neighbor,length_m\n10,N,20,\n20,S,10,99.5\n'
  graph = load(edges=edges)
  arc = math.radians(0.001) * streets.EARTH_M
  assert graph.length_m[0, 0] == pytest.approx(arc, rel=1e-9)
  assert graph.length_m[1, 4] == 99.5
  assert graph.counts['great_circle_lengths'] == 1
  assert graph.counts['nodes_without_edges'] == 1
  assert load().counts['great_circle_lengths'] == 3


def test_a_collision_keeps_the_shortest_then_the_smaller_neighbour(load):
  head = 'node,direction,neighbor,length_m\n'
  graph = load(edges=head + '10,N,30,5\n10,N,20,7\n30,S,10,1\n')
  assert graph.delta[0, 0] == graph.ids.tolist().index(30)
  assert graph.counts['collisions'] == 1
  for order in ('10,N,30,5\n10,N,20,5\n', '10,N,20,5\n10,N,30,5\n'):
    graph = load(edges=head + order)
    assert graph.ids[graph.delta[0, 0]] == 20


@pytest.mark.parametrize(
  ('nodes', 'edges', 'message'),
  [
    ('osm_id,lat\n1,2\n', EDGES, 'a column lat alone'),
    ('', EDGES, "no column 'osm_id'"),
    ('osm_id,lat,lon\n', EDGES, 'no rows'),
    (NODES + '40,x,0\n', EDGES, 'column lat'),
    (NODES + '99999999999999999999,1,1\n', EDGES, '64 bits'),
    (NODES + '40,1\n', EDGES, 'line 5: 2 fields, expected 3'),
    (NODES + '10,40,-74\n', EDGES, 'node id 10 is given twice'),
    (NODES + '40,nan,-74\n', EDGES, 'lat=nan'),
    (NODES + '40,90.5,-74\n', EDGES, 'lat=90.5'),
    (NODES + '40,0,-181\n', EDGES, 'lon=-181'),
    (NODES, 'node,direction\n10,N\n', "no column 'neighbor'"),
    (NODES, EDGES + '10,N,77\n', 'neighbor 77 is not among the 3 nodes'),
    (NODES, EDGES + '10,NNE,20\n', "unknown direction 'NNE'"),
    (NODES, 'node,direction,neighbor\n10,N,10\n', 'no path between any'),
    (NODES, 'node,direction,neighbor,length_m\n10,N,20,-1\n', 'length -1'),
    (NODES, 'node,direction,neighbor,length_m\n10,N,20,nan\n', 'finite'),
    (NODES, 'node,direction,neighbor\n10,N,"20\n', 'not a CSV file'),
  ],
)
def test_bad_files_are_refused_in_one_line(
  load, nodes, edges, message, one_line
):
  with one_line() as error:
    load(nodes, edges)
  assert message in str(error.value)


def test_absent_and_binary_files_are_refused(tmp_path, load):
  with pytest.raises(core.InputError, match='no such file'):
    streets.load_csv(tmp_path / 'a.csv', tmp_path / 'b.csv')
  with pytest.raises(core.InputError, match='is a folder; expected a CSV file'):
    streets.load_csv(tmp_path, tmp_path)
  (tmp_path / 'bin.csv').write_bytes(bytes(range(128, 256)))
  with pytest.raises(core.InputError, match='not a CSV file'):
    streets.load_csv(tmp_path / 'bin.csv', tmp_path / 'b.csv')


def test_byte_order_mark_blank_lines_and_spare_columns_are_accepted(load):
  nodes = '\ufeffname,osm_id,lat,lon\na,1,0,0\n\nb,2,0,1\n'
  graph = load(nodes, 'node,direction,neighbor,note\n1,E,2,x\n')
  assert graph.ids.tolist() == [1, 2]


@pytest.mark.parametrize(
  ('degrees', 'name'),
  [
    (0, 'N'),
    (22.4, 'N'),
    (22.6, 'NE'),
    (90, 'E'),
    (180, 'S'),
    (270, 'W'),
    (315, 'NW'),
    (337.6, 'N'),
    (359.9, 'N'),
  ],
)
def test_sectors_are_centred_on_the_compass_points(degrees, name):
  assert streets.DIRECTIONS[streets.sector(degrees)] == name


@given(st.floats(-80, 80), st.floats(-179, 179), st.floats(0, 359.9))
def test_bearing_and_distance_of_a_short_step(lat, lon, angle):
  step = 1e-4
  lat2 = lat + step * math.cos(math.radians(angle))
  east = step * math.sin(math.radians(angle))
  lon2 = lon + east / math.cos(math.radians(lat))
  turned = streets.bearing(lat, lon, lat2, lon2) - angle
  assert abs((turned + 180) % 360 - 180) < 0.1
  metres = math.radians(step) * streets.EARTH_M
  assert streets.great_circle(lat, lon, lat2, lon2) == pytest.approx(
    metres, rel=1e-3
  )


def test_projection_keeps_city_distances():
  graph = maps.generate(20, 20, 0)
  places = streets.project(graph, graph.lat, graph.lon)
  apart = np.linalg.norm(places[0] - places, axis=1)
  metres = streets.great_circle(
    graph.lat[0], graph.lon[0], graph.lat, graph.lon
  )
  np.testing.assert_allclose(apart, metres, rtol=1e-3, atol=0.01)


def test_csv_text_is_read_back_unchanged(load):
  graph = maps.generate(6, 5, 2)
  nodes, edges = streets.to_csv(graph)
  again = load(nodes, edges)
  for name in ('ids', 'lat', 'lon', 'delta', 'length_m'):
    np.testing.assert_array_equal(getattr(again, name), getattr(graph, name))


def test_two_way_counts_distinct_neighbours_and_no_self_loops(load):
  edges = EDGES + '20,N,20\n30,W,10\n30,NW,10\n'
  assert load(edges=edges).two_way().tolist() == [2, 1, 1]


def test_turns_name_nodes_as_the_other_files_do(tmp_path):
  """'Main St' is the token Main_St, and N, a direction, the token N_."""
  nodes, edges, turns = (tmp_path / name for name in ('n', 'e', 't'))
  nodes.write_text('osm_id,lat,lon\nMain St,40,-74\nN,40.001,-74\n')
  edges.write_text('node,direction,neighbor\nMain St,N,N\nN,S,Main St\n')
  turns.write_text('node,directions\nN,S\nMain St,N\n')
  graph = streets.load_csv(nodes, edges)
  assert graph.names == ('Main_St', 'N_')
  order, listed = streets.load_turns(turns, graph)
  assert order[:, 0].tolist() == [0, 4]
  assert listed.all()


# Graphs as people have them. In truth: degrees, metres, all eight ways.


def town(lat='lat', lon='lon', length='length', **graph):
  """3 x 3 crossings, two-way, 111 m apart along meridians, with lengths."""
  streets_of = nx.convert_node_labels_to_integers(
    nx.grid_2d_graph(3, 3).to_directed(), label_attribute='at'
  )
  streets_of.graph.update(graph)
  for node in streets_of:
    row, column = streets_of.nodes[node].pop('at')
    streets_of.nodes[node].update({lat: 50 + row / 1000, lon: 8 + column / 500})
  for u, v in streets_of.edges:
    streets_of.edges[u, v].update({length: 111.0 if abs(u - v) == 3 else 143.0})
  return streets_of


def read(graph, path):
  """The graph by way of a file."""
  nx.write_graphml(graph, path)
  return streets.load_file(path)


def directions(graph):
  """How many streets lead in each direction."""
  return collections.Counter(streets.DIRECTIONS[a] for a in graph.edges()[1])


def metres(graph):
  return sorted({*graph.length_m[graph.delta >= 0].round().tolist()})


SQUARE = dict.fromkeys('NESW', 6)


@pytest.mark.parametrize(
  'names',
  [
    ('lat', 'lon', 'length'),
    ('latitude', 'longitude', 'weight'),
    ('Lat', 'Lng', 'Distance'),
    ('y', 'x', 'length_m'),
  ],
)
def test_places_and_lengths_have_many_names(names, tmp_path):
  graph = read(town(*names), tmp_path / 'a.graphml')
  assert directions(graph) == SQUARE
  assert metres(graph) == [111, 143]
  lat, lon, length = map(str.lower, names)
  assert graph.read_as['places'] == f'{lat}, {lon} (degrees)'
  assert graph.read_as['lengths'] == f'{length} (metres)'


def test_a_graph_in_memory_is_read_as_a_file_is(tmp_path):
  world = published.from_graph(town('latitude', 'longitude'), tmp_path)
  assert directions(world.graph) == SQUARE
  assert metres(world.graph) == [111, 143]


def test_columns_have_many_names_too(load):
  nodes = NODES.replace('lat,lon', 'latitude,Longitude')
  edges = 'node,neighbor,weight\n10,20,5\n20,10,\n10,30,7\n'
  graph = load(nodes, edges)
  assert graph.length_m[0, [0, 2]].tolist() == [5, 7]
  assert graph.read_as == {
    'places': 'latitude, longitude (degrees)',
    'lengths': 'weight (metres); 1 of 3 are great-circle distances',
    'directions': 'by bearings',
  }


def test_lengths_that_stand_in_are_said_wherever_they_come_from(tmp_path):
  plain = town()
  del plain.edges[0, 1]['length']
  for node in plain:
    plain.nodes[node].clear()
  world = published.from_graph(plain, tmp_path / 'a')
  for graph in (world.graph, read(plain, tmp_path / 'a.graphml')):
    assert graph.read_as['places'] == 'none: a drawing was invented'
    assert graph.read_as['lengths'].endswith('; 1 of 24 are 100 m each')
  located = town(length='name')
  world = published.from_graph(located, tmp_path / 'b')
  assert world.read_as()['lengths'] == '24 of 24 are great-circle distances'


def test_places_are_degrees(tmp_path):
  graph = town('y', 'x', crs='EPSG:32632')
  with pytest.raises(core.InputError, match='has the crs EPSG:32632; expect'):
    read(graph, tmp_path / 'a.graphml')
  graph = town('y', 'x')
  for node, data in graph.nodes.items():
    data.update(y=111.0 * (node // 3), x=143.0 * (node % 3))
  with pytest.raises(core.InputError, match='expected degrees from -90 to 90'):
    streets.from_networkx(graph, 'town')
  for data in graph.nodes.values():
    data.update(y=data['y'] / 100, x=data['x'] / 100)
  with pytest.raises(core.InputError, match='times as long as places'):
    streets.from_networkx(graph, 'town')
  for data in graph.edges.values():
    data.clear()
  with pytest.raises(core.InputError, match=r'edges are .* km long if'):
    streets.from_networkx(graph, 'town')


@pytest.mark.parametrize(
  ('names', 'message'),
  [
    (('pos', 'elevation', 'length'), 'a column pos alone, or of a name'),
    (('lat', 'easting', 'length'), 'a column lat alone'),
    (('lat', 'lon', 'length_km'), 'edges have length_km, which may be a len'),
    (('lat', 'lon', 'travel_time'), 'edges have travel_time, which may be'),
  ],
)
def test_what_would_be_ignored_is_refused_by_name(names, message, tmp_path):
  with pytest.raises(core.InputError, match=message):
    read(town(*names), tmp_path / 'a.graphml')


@pytest.mark.parametrize('word', ['yes', 'True', '1', '-1'])
def test_streets_of_an_undirected_graph_run_both_ways(word, tmp_path):
  graph = town().to_undirected()
  graph.edges[0, 3].update(oneway='no')
  back = read(graph, tmp_path / 'a.graphml')
  assert directions(back) == SQUARE
  assert 'undirected edges' in back.read_as
  for data in ({'oneway': word}, {'direction': 'E'}):
    graph = town().to_undirected()
    graph.edges[0, 1].update(data)
    with pytest.raises(core.InputError, match='is undirected, and its edge'):
      read(graph, tmp_path / 'a.graphml')


def test_lost_streets_are_refused_above_one_in_a_hundred(tmp_path):
  graph = town()
  graph.add_node(9, lat=50.00001, lon=8.004)
  graph.add_edges_from([(0, 9), (0, 9), (9, 0)], length=300.0)
  output = r'1 of 26 streets are lost.* at most 1 %'
  with pytest.raises(core.InputError, match=output):
    published.from_graph(graph, tmp_path / 'a')
  assert not (tmp_path / 'a').exists()
  nx.write_graphml(graph, tmp_path / 'a.graphml')
  world = maps.World(file=str(tmp_path / 'a.graphml'))
  with pytest.raises(core.InputError, match=output):
    world.stats()


GRAPHML = (
  *('consolidated', 'g2', 'latitude', 'latlon', 'named', 'onewaytext'),
  *('parallel', 'plain', 'undirected'),
)


@pytest.mark.parametrize('name', GRAPHML)
def test_towns_of_others(name, cases):
  world = maps.World(file=str(cases / '10' / f'{name}.graphml'))
  assert directions(world.graph) == dict.fromkeys('NESW', 12)
  assert metres(world.graph) == [111, 143]


def test_a_town_of_openstreetmap(cases):
  pytest.importorskip('osmnx')
  graph = streets.load_file(cases / '10' / 'town.osm')
  ids = graph.ids.tolist()
  pairs = {(ids[u], ids[v]) for u, _, v in zip(*graph.edges(), strict=True)}
  both = {(1, 2), (1, 3), (1, 4)}
  assert pairs == both | {(v, u) for u, v in both} | {(3, 2), (3, 4)}


def labelled(name='label', words=None, turn=2):
  """A directed grid of 5 x 5 whose labels are turned from its places."""
  words = words or {(0, 1): 'N', (1, 0): 'E', (0, -1): 'S', (-1, 0): 'W'}
  grid = nx.grid_2d_graph(5, 5).to_directed()
  around = [*words]
  for node in grid:
    grid.nodes[node].update(x=0.001 * node[0], y=0.001 * node[1])
  for u, v in grid.edges:
    step = v[0] - u[0], v[1] - u[1]
    turned = around[(around.index(step) + turn) % 4]
    grid.edges[u, v][name] = words[turned]
  return grid


@pytest.mark.parametrize('placed', [True, False])
@pytest.mark.parametrize(
  ('name', 'words'),
  [
    ('direction', None),
    ('label', None),
    (
      'label',
      {(0, 1): 'north', (1, 0): 'East', (0, -1): 'SOUTH', (-1, 0): 'w'},
    ),
    ('bearing', {(0, 1): 0.0, (1, 0): 88.0, (0, -1): 181, (-1, 0): '270'}),
  ],
)
def test_labels_of_edges_are_kept_exactly(tmp_path, name, words, placed):
  grid = labelled(name, words)
  if not placed:
    for node in grid:
      grid.nodes[node].clear()
  world = published.from_graph(grid, tmp_path / 'a')
  plain = published.from_graph(labelled(), tmp_path / 'b')
  for graph in (world.graph, read(grid, tmp_path / 'a.graphml')):
    rows = {node: row for row, node in enumerate(grid)}
    assert graph.num_edges == 80
    for u, v in grid.edges:
      step = u[0] - v[0], u[1] - v[1]  # Turned by half a circle.
      label = 'NESW'[[(0, 1), (1, 0), (0, -1), (-1, 0)].index(step)]
      at = streets.DIRECTIONS.index(label)
      assert graph.delta[rows[u], at] == rows[v]
    assert graph.read_as['directions'] in (name, 'direction')
    assert ('bearings' in graph.read_as) == placed
  assert world.graph.delta.tolist() == plain.graph.delta.tolist()


def test_labels_of_some_edges_are_refused_in_one_line(tmp_path, one_line):
  for name in ('direction', 'label', 'bearing'):
    grid = labelled(name, {(0, 1): 0, (1, 0): 90, (0, -1): 180, (-1, 0): 270})
    if name != 'bearing':
      grid = labelled(name)
    del grid.edges[(0, 0), (0, 1)][name]
    line = f"unknown {name} '' of 1 of 80 edges; expected one of every edge"
    with one_line(line):
      published.from_graph(grid, tmp_path / name)
  grid = labelled()
  grid.edges[(0, 0), (0, 1)]['label'] = 'Main Street'
  with pytest.raises(core.InputError, match="unknown label 'Main Street'"):
    published.from_graph(grid, tmp_path / 'street')


def test_labels_that_are_names_of_streets_are_not_directions(tmp_path):
  words = {(0, 1): 'a', (1, 0): 'b', (0, -1): 'c', (-1, 0): 'd'}
  world = published.from_graph(labelled('label', words), tmp_path)
  assert 'bearings' not in world.graph.read_as
  undirected = nx.grid_2d_graph(3, 3)
  nx.set_edge_attributes(undirected, 'east', 'label')
  with pytest.raises(core.InputError, match='expected a directed graph'):
    published.from_graph(undirected, tmp_path)
