"""A part of a map: strongly connected, the same from every file."""

import networkx as nx
import numpy as np
import pytest

from tests import small
from wm import core
from wm.core import registry
from wm.worlds import maps
from wm.worlds.maps import streets

CITY = 'maps(rows=6, columns=6, city_seed=1'


def graph(more=''):
  return registry.make('world', f'{CITY}{more})').graph


def links(part):
  sources, labels, targets = part.edges()
  return {
    (part.names[s], streets.DIRECTIONS[k], part.names[t])
    for s, k, t in zip(sources, labels, targets, strict=True)
  }


@pytest.fixture(scope='module')
def whole():
  return graph()


def middle(whole):
  return f'{np.median(whole.lat)},{np.median(whole.lon)}'


@pytest.mark.parametrize('radius', [250, 350, 500, 1e6])
def test_a_district_is_the_largest_strongly_connected_part(whole, radius):
  part = graph(f", around='{middle(whole)}', radius={radius}")
  lat, lon = map(float, middle(whole).split(','))
  near = streets.great_circle(whole.lat, whole.lon, lat, lon) <= radius
  inside = nx.DiGraph()
  inside.add_nodes_from(np.array(whole.names)[near].tolist())
  inside.add_edges_from(
    (s, t) for s, _, t in links(whole) if s in inside and t in inside
  )
  best = max(nx.strongly_connected_components(inside), key=len)
  assert len(part) == len(best) > 2
  assert set(part.names) in [*nx.strongly_connected_components(inside)]
  # Its streets are those of the map between its intersections, with lengths.
  kept = set(part.names)
  assert links(part) == {
    x for x in links(whole) if x[0] in kept and x[2] in kept
  }
  assert (np.isnan(part.length_m) == (part.delta == core.DEAD)).all()
  counts = part.counts
  assert counts['outside the district'] == len(whole) - near.sum()
  assert counts['not strongly connected in it'] == near.sum() - len(part)
  leaving = sum(x[0] in kept and x[2] not in kept for x in links(whole))
  assert counts['streets out of the district'] == leaving


def test_a_box_cuts_alike(whole):
  south, north = np.quantile(whole.lat, [0.2, 0.8])
  west, east = np.quantile(whole.lon, [0.2, 0.8])
  part = graph(f", box='{south},{west},{north},{east}'")
  assert ((part.lat >= south) & (part.lat <= north)).all()
  assert ((part.lon >= west) & (part.lon <= east)).all()
  assert len(whole) > len(part) > 10


def test_a_district_is_the_same_from_files(whole, tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  cut = f", around='{middle(whole)}', radius=250"
  nodes, edges = streets.to_csv(whole)
  (tmp_path / 'nodes.csv').write_text(nodes)
  (tmp_path / 'edges.csv').write_text(edges)
  csv = f"maps(nodes='nodes.csv', edges='edges.csv'{cut})"
  part = registry.make('world', csv).graph
  assert links(part) == links(graph(cut))


@pytest.mark.parametrize('traversal', ['random', 'shortest', 'noisy'])
def test_known_answers_on_a_district(whole, traversal):
  world = (
    f"{CITY}, around='{middle(whole)}', radius=250, heldout=0.5, "
    f"traversal='{traversal}')"
  )
  entries = small.scored(
    'oracle()', ['next_token(num=30)', 'compression(trials=10)'], world
  )
  values = {e['quantity']: e['value'] for e in entries}
  assert values['validity'] == values['precision'] == 1
  facts = registry.make('world', world).stats()
  assert facts['components'] == 1
  assert facts['pairs_without_path'] == 0


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ("around='40,-73'", 'around and radius, or box'),
    ('radius=100', 'around and radius, or box'),
    ("around='40,-73', radius=1, box='1,2,3,4'", 'around and radius, or box'),
    ("around='40', radius=100", r"around='40'; expected LAT,LON"),
    ("around='a,b', radius=100", 'expected LAT,LON in degrees'),
    ("around='nan,1', radius=100", 'expected LAT,LON in degrees'),
    ("box='1,2,3'", 'expected SOUTH,WEST,NORTH,EAST in degrees'),
    ("around='0,0', radius=10", 'no two intersections of 10 m'),
    ("around='0,0', radius=-1", 'radius'),
  ],
)
def test_a_bad_district_is_one_line(fields, message, one_line):
  with one_line(message):
    registry.make('world', f'maps({fields})').graph  # noqa: B018


def test_a_district_of_manhattan(manhattan):
  world = (
    f"maps(nodes='{manhattan}/nodes.csv', edges='{manhattan}/edges.csv', "
    "around='40.7265,-73.9815', radius=900)"
  )
  facts = registry.make('world', world).stats()
  assert (facts['intersections'], facts['streets']) == (174, 375)
  assert facts['largest_component'] == 174
  assert facts['outside the district'] == 4387


def test_the_largest_part_counts_not_the_first():
  """Two rings; the second is larger."""
  delta = np.full((7, 8), core.DEAD, np.int32)
  for ring in ((0, 1, 2), (3, 4, 5, 6)):
    for node, after in zip(ring, (*ring[1:], ring[0]), strict=True):
      delta[node, 0] = after
  delta[0, 1] = 3  # A street that never comes back.
  ring = streets.StreetGraph(
    np.arange(7), np.arange(7.0), np.arange(7.0), delta, 1.0 + 0 * delta
  )
  part = maps.district(ring, np.ones(7, bool), 'all')
  assert part.names == ('3', '4', '5', '6')


def test_known_answers_on_the_recorded_district(testdata):
  """The rules are perfect there, and the sampler's predictor arrives."""
  files = testdata / 'manhattan'
  spec = (
    f"maps(nodes='{files}/nodes.csv', edges='{files}/edges.csv', "
    "around='40.7265,-73.9815', radius=830, max_moves=32, traversal="
  )
  walks, paths = (
    registry.resolve('world', f"{spec}'{name}')")
    for name in ('random', 'shortest')
  )
  assert (len(walks.graph), walks.graph.num_edges) == (145, 317)
  metrics = ['compression(trials=30)', 'distinction(trials=30)', 'audit()']
  perfect = {
    (entry['metric'], entry['quantity']): entry['value']
    for entry in small.scored('oracle()', metrics, walks)
  }
  assert perfect['compression', 'precision'] == 1
  assert perfect['distinction', 'precision'] == 1
  assert perfect['distinction', 'recall'] == 1
  assert perfect['audit', 'exact'] == 1
  for world in (walks, paths):
    (valid,) = (
      entry['value']
      for entry in small.scored('bayes()', ['traversal(num=100)'], world)
      if entry['quantity'] == 'valid'
    )
    assert valid == 1
