import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wm import core
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
  ('nodes', 'edges', 'said'),
  [
    ('osm_id,lat\n1,2\n', EDGES, 'a column lat alone'),
    ('', EDGES, "no column 'osm_id'"),
    ('osm_id,lat,lon\n', EDGES, 'no rows'),
    (NODES + '40,x,0\n', EDGES, 'column lat'),
    (NODES + '4.5,1,1\n', EDGES, 'column osm_id'),
    (NODES + '99999999999999999999,1,1\n', EDGES, '64 bits'),
    (NODES + '40,1\n', EDGES, 'line 5: 2 fields, expected 3'),
    (NODES + '10,40,-74\n', EDGES, 'node id 10 is given twice'),
    (NODES + '40,nan,-74\n', EDGES, 'lat=nan'),
    (NODES + '40,inf,-74\n', EDGES, 'lat=inf'),
    (NODES + '40,90.5,-74\n', EDGES, 'lat=90.5'),
    (NODES + '40,0,-181\n', EDGES, 'lon=-181'),
    (NODES, 'node,direction\n10,N\n', "no column 'neighbor'"),
    (NODES, EDGES + '10,N,77\n', 'neighbor 77 is not among the 3 nodes'),
    (NODES, EDGES + '77,N,10\n', 'node 77 is not among the 3 nodes'),
    (NODES, EDGES + '10,NNE,20\n', "unknown direction 'NNE'"),
    (NODES, 'node,direction,neighbor\n10,N,10\n', 'no path between any'),
    (NODES, 'node,direction,neighbor,length_m\n10,N,20,-1\n', 'length -1'),
    (NODES, 'node,direction,neighbor,length_m\n10,N,20,inf\n', 'finite'),
    (NODES, 'node,direction,neighbor,length_m\n10,N,20,nan\n', 'finite'),
    (NODES, 'node,direction,neighbor,length_m\n10,N,20,a\n', 'length_m'),
    (NODES, 'node,direction,neighbor\n10,N,"20\n', 'not a CSV file'),
  ],
)
def test_bad_files_are_refused_in_one_line(load, nodes, edges, said):
  with pytest.raises(core.InputError) as error:
    load(nodes, edges)
  assert said in str(error.value)
  assert '\n' not in str(error.value)


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


@given(
  st.floats(-80, 80),
  st.floats(-179, 179),
  st.floats(0, 359.9),
)
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
  graph = streets.generate(20, 20, 0)
  places = streets.project(graph, graph.lat, graph.lon)
  apart = np.linalg.norm(places[0] - places, axis=1)
  metres = streets.great_circle(
    graph.lat[0], graph.lon[0], graph.lat, graph.lon
  )
  np.testing.assert_allclose(apart, metres, rtol=1e-3, atol=0.01)


def test_csv_text_is_read_back_unchanged(load):
  graph = streets.generate(6, 5, 2)
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
