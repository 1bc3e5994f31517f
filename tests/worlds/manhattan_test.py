"""Golden facts of the published Manhattan data."""

import csv
import hashlib
import operator

import numpy as np
import pytest
from scipy.sparse import csgraph, csr_matrix

from tests import judging, suffixes
from wm import core
from wm.core import verbal
from wm.data import text
from wm.worlds import maps
from wm.worlds.maps import streets

KINDS = ('shortest', 'traffic', 'random')
SHA256 = {
  'shortest': '2ae25e9c3378ad3c0167da666cfddd57'
  'd640f1c8c7dd99796a8e669514eb89b9',
  'random': 'ce3aba3b1b54fc6bd5083fa9698a11510aa375814318a918974bcc12f47e4b92',
}


@pytest.fixture(scope='module')
def worlds(manhattan):
  return {
    kind: maps.World(
      nodes=str(manhattan / 'nodes.csv'),
      edges=str(manhattan / kind / 'edges.csv'),
    )
    for kind in KINDS
  }


def triples(graph):
  u, labels, v = graph.edges()
  names = np.array(streets.DIRECTIONS)[labels]
  return set(
    zip(graph.ids[u].tolist(), names, graph.ids[v].tolist(), strict=True)
  )


@pytest.mark.parametrize('kind', KINDS)
def test_triples_are_the_published_ones(worlds, kind):
  lines = sorted(f'{u},{a},{v}' for u, a, v in triples(worlds[kind].graph))
  assert len(lines) == 9705
  assert len(worlds[kind].graph) == 4579
  assert worlds[kind].graph.counts['collisions'] == 0
  assert worlds[kind].graph.counts['nodes_without_edges'] == 1
  digest = hashlib.sha256('\n'.join(lines).encode()).hexdigest()
  assert digest == SHA256['shortest' if kind == 'shortest' else 'random']


def test_vocabulary_of_the_paper_model(worlds):
  vocab = worlds['shortest'].vocab
  assert len(vocab) == 4589
  assert vocab[1] == 'end'
  assert vocab[2:10] == streets.DIRECTIONS
  assert vocab[10] == '42421728'


@pytest.mark.parametrize(
  ('kind', 'reachable', 'longest', 'mean', 'near'),
  [
    ('shortest', 20452645, 107, 40.9998, 20442437),
    ('random', 20457139, 124, 43.2865, 20323480),
  ],
)
def test_unit_distances(worlds, kind, reachable, longest, mean, near):
  world = worlds[kind]
  hops = world.hops
  counts = np.bincount(hops.reshape(-1), minlength=256)
  assert (np.diagonal(hops) == 0).all()
  counts[0] -= len(hops)
  results = counts[: np.iinfo(hops.dtype).max]
  assert counts[0] == 0
  assert results.sum() == reachable
  assert np.flatnonzero(results)[-1] == longest
  assert (results * np.arange(len(results))).sum() / reachable == pytest.approx(
    mean, abs=5e-5
  )
  assert results[:96].sum() == near
  assert world._pairs_from[-1] == near


def test_strongly_connected_components(worlds):
  for kind in ('shortest', 'random'):
    u, _, v = worlds[kind].graph.edges()
    matrix = csr_matrix((np.ones(len(u)), (u, v)), (4579, 4579))
    number, labels = csgraph.connected_components(matrix, connection='strong')
    assert (number, np.bincount(labels).max()) == (106, 4473)
    facts = worlds[kind].stats()
    assert facts['components'] == 106
    assert facts['largest_component'] == 4473
    assert facts['sinks'] == 17
    known = {'shortest': (42, 20_452_645), 'random': (45, 20_457_139)}[kind]
    linked = 4579 * 4578 - facts['pairs_without_path']
    assert (facts['without_entry'], linked) == known


def test_walks_by_length_from_all_nodes(worlds):
  world = worlds['random']
  walks = [4579, 9705, 21998, 52506, 130046, 332346, 871959]
  # From the start: an origin, any destination, and `end` where that is.
  expected = [4579 * walks[k + 1] + walks[k] for k in range(6)]
  assert suffixes.count(world, world.init(1)[0], 8) == [
    4579,
    4579**2,
    *expected,
  ]


@pytest.mark.parametrize(
  ('first', 'second', 'sizes'),
  [
    ('42421728,11803957852', '42421731,11803957851', [0, 1, 5, 17, 43, 116]),
    ('42421776,11496014207', '42440287,42446072', [2, 4, 6, 9, 9, 9]),
  ],
)
def test_boundary_sizes(worlds, first, second, sizes):
  world = worlds['random']
  item, two = world.parse(first), world.parse(second)
  assert suffixes.sizes(world, item[0], two[0], 6)[0] == sizes
  results = world.boundary(item, two, 6).listed()[0]
  lengths = np.array([len(suffix) for suffix in results])
  assert [(lengths <= k).sum() for k in range(1, 7)] == sizes


def test_mean_boundary_of_random_pairs(worlds):
  world = worlds['random']
  states = world.sample_states(6000, 0)
  sizes = world.boundary(states[:3000], states[3000:], 5).sizes
  assert sizes.mean() == pytest.approx(6.06, abs=0.4)
  assert (sizes == 0).sum() <= 8  # 2 of the 3,000 pairs drawn elsewhere.


# Kind: valid, path_fail, dest_fail, no_end, median of first illegal
# direction, shortest and longest line, directions in all lines and in valid
# ones, edges used by valid lines.
SAMPLES = {
  'shortest': (4651, 1315, 434, 0, 10, 4, 99, 301703, 224439, 7982),
  'traffic': (4077, 1472, 850, 1, 9, 4, 128, 359676, 217596, 7480),
  'random': (5177, 544, 679, 0, 81, 5, 102, 518150, 402963, 9647),
}


@pytest.mark.parametrize('kind', KINDS)
def test_classes_of_the_published_samples(worlds, manhattan, kind):
  world = worlds[kind]
  result = text.read(manhattan / kind / 'samples.txt', world)
  causes = judging.judge(world, result)
  expected = SAMPLES[kind]
  names, counts = np.unique(causes, return_counts=True)
  assert dict(zip(names.tolist(), counts.tolist(), strict=True)) == {
    name: number
    for name, number in zip(
      ('valid', 'path_fail', 'dest_fail', 'no_end'), expected, strict=False
    )
    if number
  }
  assert (result.lengths.min(), result.lengths.max()) == expected[5:7]
  steps, _ = world.walk(world.init(6400), result.tokens, result.lengths)
  broken = causes == 'path_fail'
  assert abs(np.median(steps[broken] - 2) - expected[4]) <= 1
  moves = result.lengths - 2 - (causes != 'no_end')
  ended = (result.tokens == world.end).any(1)
  moves = result.lengths - 2 - ended
  assert (moves.sum(), moves[causes == 'valid'].sum()) == expected[7:9]
  assert edges_used(world, result.take(causes == 'valid')) == expected[9]


def edges_used(world, sequences):
  states = world.init(len(sequences))
  used = set()
  for k in range(sequences.tokens.shape[1]):
    tokens = sequences.tokens[:, k]
    move = (tokens >= 2) & (tokens < 10)
    used |= set((states[move, 0] * 10 + tokens[move]).tolist())
    after = world.advance(states, tokens)
    states = np.where((k < sequences.lengths)[:, None], after, states)
  return len(used)


@pytest.mark.parametrize('kind', KINDS)
def test_invalid_samples_are_the_published_ones(worlds, manhattan, kind):
  world = worlds[kind]
  lines = (manhattan / kind / 'samples.txt').read_text().splitlines()
  invalid = (manhattan / kind / 'invalid_samples.txt').read_text().splitlines()
  causes = judging.judge(
    world, text.read(manhattan / kind / 'samples.txt', world)
  )
  results = [
    line for line, c in zip(lines, causes, strict=True) if c != 'valid'
  ]
  assert sorted(results) == sorted(invalid)


def test_taxi_trips_are_used_or_dropped_by_cause(manhattan):
  graph = streets.load_csv(manhattan / 'nodes.csv', manhattan / 'edges.csv')
  path = manhattan / 'trips_sample.csv'
  result = maps.load_trips(path, graph)
  # By brute force over great-circle distances.
  names = [spellings[0] for spellings in maps.TRIP_COLUMNS]
  expected, rows, published = dict.fromkeys(result.counts, 0), [], []
  with open(path, newline='') as file:
    for line in csv.DictReader(file):
      a, b, c, d = (float(line[name]) for name in names)
      start = streets.great_circle(a, b, graph.lat, graph.lon)
      stop = streets.great_circle(c, d, graph.lat, graph.lon)
      ends = [int(start.argmin()), int(stop.argmin())]
      far = max(start.min(), stop.min()) > maps.OUTSIDE_M
      cause = (
        'zero'
        if 0 in (a, b, c, d)
        else 'outside'
        if far
        else 'same_node'
        if ends[0] == ends[1]
        else 'used'
      )
      expected[cause] += 1
      expected['trips'] += 1
      rows += [ends] * (cause == 'used')
      flat = [
        int(np.hypot(graph.lat - lat, graph.lon - lon).argmin())
        for lat, lon in ((a, b), (c, d))
      ]
      published += [flat] * (cause == 'used')
  assert sum(map(operator.ne, rows, published)) == 93
  assert result.counts == expected
  assert expected == {
    'trips': 998,
    'used': 842,
    'unreadable': 0,
    'zero': 16,
    'outside': 135,
    'same_node': 5,
  }
  np.testing.assert_array_equal(result.pairs, rows)
  again = maps.load_trips(path, graph, 'degrees')
  np.testing.assert_array_equal(again.pairs, published)
  assert again.counts == expected


def test_routes_of_taxi_trips_are_shortest(manhattan):
  world = maps.World(
    nodes=str(manhattan / 'nodes.csv'),
    edges=str(manhattan / 'edges.csv'),
    traversal='shortest',
    trips=str(manhattan / 'trips_sample.csv'),
  )
  results = world.sample(998, 0)
  assert (judging.judge(world, results) == 'valid').all()
  dropped = sum(results.counts[c] for c in ('no_path', 'too_long', 'too_short'))
  assert len(results) + dropped == 842 - world.stats()['trips: same pair']
  graph = world.graph
  u, labels, v = graph.edges()
  matrix = csr_matrix((graph.length_m[u, labels], (u, v)), (4579, 4579))
  ends = results.tokens[:60, :2] - maps.NODE0
  apart = csgraph.dijkstra(matrix, indices=ends[:, 0])
  expected = apart[np.arange(60), ends[:, 1]]
  np.testing.assert_allclose(
    world.costs(results).cost[0, :60], expected, rtol=1e-9
  )
  np.testing.assert_allclose(
    world.costs(results).least[0, :60], expected, rtol=1e-9
  )


def test_a_hand_checked_route(worlds):
  world = worlds['shortest']
  state = world.parse('42421728,42421731')
  nw = world.vocab.index('NW')
  after = world.advance(state, np.array([nw]))
  assert world.format(after[0]) == '42421731,42421731'
  assert world.legal(after)[0, world.end]
  with pytest.raises(core.InputError, match='not among the 4579 nodes'):
    world.parse('42421728,1')


def test_manhattan_is_too_much_to_tell_in_words(worlds, one_line):
  with one_line('4,579 intersections') as error:
    verbal.render_description(worlds['shortest'], core.PromptStyle())
  assert 'room for about' in str(error.value)
