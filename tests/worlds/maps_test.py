import networkx as nx
import numpy as np
import pytest

from tests import suffixes
from wm import core
from wm.core import basics, capabilities, registry
from wm.data import published
from wm.evaluation import probing
from wm.worlds import maps
from wm.worlds.maps import routes, streets


def words(world, sequences, row):
  tokens = sequences.tokens[row, : sequences.lengths[row]]
  return [world.vocab[token] for token in tokens]


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'traversal': 'fast'}, 'available: random, shortest, noisy'),
    ({'nodes': 'n.csv'}, 'nodes and edges, or file'),
    ({'nodes': 'n', 'edges': 'e', 'file': 'f'}, 'nodes and edges, or file'),
    ({'weightings': 0}, 'weightings=0; expected at least 1'),
    ({'trips': 't.csv'}, "expected traversal='shortest'"),
    ({'heldout': 0.0}, 'heldout=0.0; expected 0.05 to 0.95'),
  ],
)
def test_bad_fields_are_refused(fields, message):
  with pytest.raises(core.InputError) as error:
    maps.World(**fields)
  assert message in str(error.value)


@pytest.mark.parametrize('traversal', ['random', 'shortest', 'noisy'])
def test_sequences_are_origin_destination_directions_end(traversal):
  world = maps.World(traversal=traversal)
  result = world.sample(40, 0)
  assert (
    world.max_len == {'random': 102, 'shortest': 99, 'noisy': 99}[traversal]
  )
  for row in range(5):
    first = words(world, result, row)
    assert first[0].isdigit()
    assert first[1].isdigit()
    assert first[-1] == 'end'
    assert 2 <= len(first) - 3 <= maps.MAX_MOVES[traversal]
    assert set(first[2:-1]) <= set(streets.DIRECTIONS)


def test_walk_lengths_origins_and_edges_are_uniform():
  world = maps.World(rows=6, columns=6)
  result = world.sample(30000, 1)
  moves = result.lengths - 3
  counts = np.bincount(moves, minlength=100)[2:]
  assert abs(counts / (30000 / 98) - 1).max() < 0.25
  origins = np.bincount(result.tokens[:, 0] - maps.NODE0)
  expected = 30000 / (origins > 0).sum()
  assert abs(origins[origins > 0] / expected - 1).max() < 0.25
  row = int(np.argmax((world.graph.delta >= 0).sum(1)))
  here = result.tokens[:, 0] == row + maps.NODE0
  firsts = np.bincount(result.tokens[here, 2], minlength=10)
  share = firsts[firsts > 0] / here.sum()
  assert abs(share * (firsts > 0).sum() - 1).max() < 0.25


def test_chunks_do_not_change_the_sample(monkeypatch):
  for traversal in ('random', 'noisy'):
    world = maps.World(traversal=traversal)
    whole = world.sample(300, 4, 'heldout')
    with monkeypatch.context() as patch:
      patch.setattr(routes, 'CHUNK', 777)
      pieces = maps.World(traversal=traversal).sample(300, 4, 'heldout')
    np.testing.assert_array_equal(pieces.tokens, whole.tokens)
    assert pieces.counts == whole.counts


def test_one_pair_in_twenty_is_held_out_on_every_traversal():
  train = maps.World().sample(20000, 0, 'train')
  share = len(np.unique(maps.World().split_key(train))) / 66**2
  held = maps.World(traversal='shortest').sample(10**6, 0, 'heldout')
  seen = np.unique(maps.World().split_key(train))
  assert not np.isin(maps.World().split_key(held), seen).any()
  every = maps.World(traversal='shortest').sample(10**6, 0)
  assert 0.03 < len(held) / len(every) < 0.07
  assert share > 0.5


@pytest.mark.parametrize('traversal', ['random', 'shortest', 'noisy'])
def test_more_pairs_are_held_out_where_asked(traversal):
  fields = {'rows': 5, 'columns': 5, 'weightings': 5, 'max_moves': 12}
  few = maps.World(traversal=traversal, **fields)
  half = maps.World(traversal=traversal, heldout=0.55, **fields)
  pairs = {}
  for world in (few, half):
    for split in ('train', 'heldout'):
      result = world.sample(20000, 0, split)
      pairs[world.heldout, split] = np.unique(world.split_key(result))
  assert not np.intersect1d(pairs[0.55, 'train'], pairs[0.55, 'heldout']).size
  # What is held out stays so when more is.
  assert np.isin(pairs[0.05, 'heldout'], pairs[0.55, 'heldout']).all()
  share = len(pairs[0.55, 'train']) / len(half.graph) ** 2
  assert 0.35 < share < 0.5


def test_all_shortest_routes_can_be_had_and_no_more():
  world = maps.World(rows=14, columns=14, traversal='shortest')
  results = world.sample(10**6, 0)
  size = len(world.graph)
  pairs = (world.hops > 0) & (world.hops < 255)
  assert results.counts['no_path'] == size * (size - 1) - pairs.sum()
  assert len(results) + results.counts['too_short'] == pairs.sum()
  np.testing.assert_allclose(*world.costs(results), rtol=1e-12)
  both = [
    world.sample(10**6, seed, split)
    for seed, split in ((1, 'train'), (2, 'heldout'))
  ]
  assert len(both[0]) + len(both[1]) == len(results)


def optimal(world, sequences):
  """[C, N] bool: is a sequence the cheapest by each way of weighing?"""
  result = world.costs(sequences)
  return result.cost <= result.least * (1 + basics.OPTIMAL_TOLERANCE)


def test_noisy_routes_are_shortest_under_their_weighting():
  world = maps.World(traversal='noisy', weightings=7)
  result = world.sample(200, 0)
  assert set(result.side['weighting']) == set(range(7))
  costs = world.costs(result)
  for number in range(7):
    chosen = number + 1, result.side['weighting'] == number
    np.testing.assert_allclose(
      costs.cost[chosen], costs.least[chosen], rtol=1e-12
    )
    metres = routes.weighting(world.graph.length_m, number)
    np.testing.assert_array_equal(world._roads.lengths[number], metres)
  least, *others = optimal(world, result)
  assert np.any(others, axis=0).all()
  assert 0.1 < least.mean() < 0.9
  walks = maps.World().sample(200, 0)
  assert np.any(optimal(world, walks)[1:], axis=0).mean() < 0.2


def test_cost_of_routes_that_do_not_exist():
  world = maps.World(traversal='shortest')
  result = world.sample(4, 0)
  tokens = result.tokens.copy()
  state = world.walk(world.init(1), tokens[:1], np.array([2]))[1]
  illegal = np.flatnonzero(~world.legal(state)[0, 2:10])[0] + 2
  tokens[0, 2] = illegal
  tokens[1, 0] = illegal
  tokens[2, result.lengths[2] - 1] = 0  # Without `end`, as far as it goes.
  (cost,), (best,) = world.costs(core.Sequences(tokens, result.lengths))
  assert np.isnan(cost[:2]).all()
  np.testing.assert_allclose(cost[2:], world.costs(result).cost[0, 2:])
  assert np.isnan(best).tolist() == [False, True, False, False]


def test_lengths_can_be_limited():
  world = maps.World(max_moves=5)
  assert world.max_len == 8
  assert world.sample(100, 0).lengths.max() == 8
  short = maps.World(max_moves=5, traversal='shortest')
  result = short.sample(10**6, 0)
  assert result.lengths.max() == 8
  assert result.counts['too_long'] > 0
  states = short.sample_states(300, 0)
  hops = short.hops[states[:, 0], states[:, 1]]
  assert (hops.min(), hops.max()) == (1, 4)
  assert short.prefix_moves(states)[:, 1].tolist() == (4 - hops).tolist()


def test_trips_give_the_pairs(tmp_path):
  graph = maps.World().graph
  rng = np.random.default_rng(0)
  ends = rng.integers(0, len(graph), (60, 2))
  lines = [
    'pickup_longitude,pickup_latitude,dropoff_longitude,dropoff_latitude'
  ]
  for a, b in np.concatenate([ends, ends[:9]]):
    lines.append(f'{graph.lon[a]},{graph.lat[a]},{graph.lon[b]},{graph.lat[b]}')
  path = tmp_path / 'trips.csv'
  path.write_text('\n'.join(lines))
  world = maps.World(traversal='shortest', trips=str(path))
  results = world.sample(1000, 0)
  pairs = {tuple(p) for p in (results.tokens[:, :2] - maps.NODE0).tolist()}
  assert pairs <= {tuple(p) for p in ends.tolist()}
  assert len(pairs) == len(results)
  facts = world.stats()
  assert facts['trips: trips'] == 69
  assert facts['trips: same pair'] >= 9
  assert facts['intersections'] == len(graph)
  assert facts['collisions'] == graph.counts['collisions']
  noisy = maps.World(traversal='noisy', trips=str(path), weightings=3)
  assert len(noisy.sample(1000, 0)) > len(results)
  path.write_text(lines[0] + '\n1.5,1.5,1.6,1.6\n')
  with pytest.raises(
    core.InputError, match='none of its 1 trips is on the map'
  ):
    maps.World(traversal='noisy', trips=str(path)).sample(1, 0)


def test_facts_count_what_is_reached():
  world = maps.World(rows=14, columns=14, city_seed=1)
  facts, size = world.stats(), len(world.graph)
  none = np.iinfo(world.hops.dtype).max
  assert facts['pairs_without_path'] == (world.hops == none).sum() > 0
  assert facts['sinks'] == (world.graph.delta < 0).all(1).sum() > 0
  linked = world.hops < none
  both = linked & linked.T
  assert facts['components'] == len(np.unique(both, axis=0)) > 2
  assert facts['largest_component'] == both.sum(1).max() < size
  entered = np.bincount(world.graph.edges()[2], minlength=size) > 0
  assert facts['without_entry'] == (~entered).sum() > 0


def test_trial_states_are_uniform_over_reachable_pairs():
  world = maps.World(rows=3, columns=3)
  states = world.sample_states(20000, 0)
  hops = world.hops[states[:, 0], states[:, 1]]
  assert hops.min() >= 1
  pairs = (world.hops > 0) & (world.hops < 255)
  counts = np.zeros(world.hops.shape)
  np.add.at(counts, tuple(states.T), 1)
  assert (counts[~pairs] == 0).all()
  expected = 20000 / pairs.sum()
  assert abs(counts[pairs] / expected - 1).max() < 0.4


@pytest.mark.parametrize(
  ('fields', 'limit'),
  [
    ({}, 96),
    ({'traversal': 'shortest'}, 96),
    ({'max_moves': 30}, 30),
    ({'max_moves': 160}, 160),
    ({'traversal': 'shortest', 'max_moves': 300}, 300),
  ],
)
def test_prefixes_follow_the_longest_sequence(fields, limit):
  world = maps.World(rows=3, columns=70, **fields)
  far = world.hops[world.hops < np.iinfo(world.hops.dtype).max].max()
  assert far > 60
  states = world.sample_states(3000, 0)
  hops = world.hops[tuple(states.T)].astype(int)
  assert hops.max() <= min(limit - 1, far)
  assert hops.max() > 0.8 * min(limit - 1, far)
  most = world.prefix_moves(states)[:, 1]
  np.testing.assert_array_equal(most, limit - 1 - hops)
  assert (most + hops + 3 <= world.max_len).all()
  dead_end = np.array([[core.DEAD, core.DEAD]])
  assert world.prefix_moves(dead_end).tolist() == [[1, 0]]


def test_prefixes_avoid_streets_without_entry():
  world = maps.World(rows=14, columns=14, city_seed=1)
  into = np.bincount(world.graph.edges()[2], minlength=len(world.graph))
  assert (into == 0).any()
  states = world.sample_states(400, 2)
  moves = world.prefix_moves(states)[:, 1]
  result = world.sample_prefixes(states, moves, np.arange(400))
  assert result.ok.mean() > 0.95
  lost = states[~result.ok]
  # Only states that no walk of that length comes to are without a prefix.
  ways = np.ones(len(world.graph))
  for _ in range(int(moves[~result.ok].min(initial=1))):
    heads = np.zeros(len(world.graph))
    u, _, v = world.graph.edges()
    np.add.at(heads, v, ways[u])
    ways = np.minimum(heads, 1)
  assert (ways[lost[:, 0]] == 0).all()


def test_states_before_the_prompt_is_complete():
  world = maps.World(rows=3, columns=3)
  size = len(world.graph)
  start, origin = world.parse('start'), world.parse('4,?')
  assert world.legal(start)[0].sum() == world.legal(origin)[0].sum() == size
  assert suffixes.count(world, origin[0], 2)[0] == size
  assert world.state_id(np.concatenate([start, origin])).min() >= 0
  near = capabilities.feasible_tokens(world, origin, np.array([3]))[0]
  hops = world.hops[origin[0, 0]]
  np.testing.assert_array_equal(near[maps.NODE0 :], hops <= 1)
  for text in ('1', '1,2,3', '?,1', 'x,1', '1,y'):
    with pytest.raises(core.InputError):
      world.parse(text)


def test_two_way_tags_and_probe_labels():
  world = maps.World()
  states = world.sample_states(50, 0)
  assert (probing.targets(world, states)[:, 0] == states[:, 0] + 1).all()
  expected = world.graph.two_way()[states[:, 0]]
  np.testing.assert_array_equal(world.tags(states)['two_way'], expected)


def test_a_street_without_exit_completes_nothing():
  world = maps.World(rows=14, columns=14)
  stuck = np.flatnonzero((world.graph.delta < 0).all(1))
  assert stuck.size
  state = np.array([[stuck[0], 0]], np.int32)
  assert not world.legal(state).any()
  assert world.over(state)[0]
  assert (world.distance_to_end(state)[0] == core.DEAD).all()


@pytest.mark.parametrize('traversal', ['random', 'shortest', 'noisy'])
def test_a_map_without_routes_of_two_moves_gives_none(tmp_path, traversal):
  nodes, edges = tmp_path / 'nodes.csv', tmp_path / 'edges.csv'
  nodes.write_text('osm_id,lat,lon\n1,0,0\n2,0,0.001\n')
  edges.write_text('node,direction,neighbor\n1,E,2\n')
  world = maps.World(nodes=str(nodes), edges=str(edges), traversal=traversal)
  assert len(world.sample(5, 0)) == 0
  assert world.sample_states(3, 0).tolist() == [[0, 1]] * 3


@pytest.mark.parametrize('kind', [nx.Graph, nx.DiGraph, nx.MultiDiGraph])
def test_a_networkx_graph_is_a_world(tmp_path, kind):
  grid = nx.grid_2d_graph(3, 4, create_using=kind)
  for row, column in grid:
    grid.nodes[row, column].update(x=column / 1000, y=row / 1000)
  world = published.from_graph(grid, tmp_path / 'grid', traversal='shortest')
  again = registry.make('world', registry.spec(world))
  assert len(again.graph) == 12
  assert again.graph.num_edges == 34  # Each of 17 streets, both ways.
  assert len(again.sample(20, 0)) == 20
  metres = again.graph.length_m[np.isfinite(again.graph.length_m)]
  np.testing.assert_allclose(metres, 111.19, rtol=1e-4)


def test_a_graph_with_places_that_are_none_is_refused(tmp_path):
  graph = nx.path_graph(3)
  nx.set_node_attributes(graph, {n: {'x': 'here', 'y': 0} for n in graph})
  with pytest.raises(core.InputError, match='the graph: bad value in column x'):
    published.from_graph(graph, tmp_path / 'map')
  assert not (tmp_path / 'map').exists()
