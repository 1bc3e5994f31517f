"""Searches over graphs are their reference and a peer's; bad input is named."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.maps import ref
from wm import core
from wm.kernels import dfa
from wm.kernels.maps import pair_routes, paths
from wm.kernels.maps import paths as module

LAWS = settings(max_examples=60, deadline=None)


def graph(seed, size=40, labels=4, missing=0.5):
  """A random table with lengths of which many are equal."""
  rng = np.random.default_rng(seed)
  delta = rng.integers(0, size, (size, labels)).astype(np.int32)
  delta[rng.random(delta.shape) < missing] = core.DEAD
  lengths = rng.choice([1.0, 2.0, 0.1, 0.2, rng.random()], delta.shape)
  return delta, np.where(delta >= 0, lengths, np.nan)


@st.composite
def graphs(draw):
  """Up to 12 rows; lengths with ties, zeros and ones lost in rounding."""
  seed = draw(st.integers(0, 2**32 - 1))
  size, labels = draw(st.integers(1, 12)), draw(st.integers(1, 4))
  delta, _ = graph(seed, size, labels, draw(st.floats(0, 1)))
  kinds = draw(st.lists(st.sampled_from([0, 1e-20, 0.1, 1, 3]), min_size=1))
  lengths = np.random.default_rng(seed).choice(kinds, delta.shape)
  return delta, lengths.astype(float)


def peer(delta, lengths):
  """The same graph in networkx; of parallel edges the shortest."""
  out = nx.DiGraph()
  out.add_nodes_from(range(len(delta)))
  for row, label in zip(*np.nonzero(delta >= 0), strict=True):
    head, length = int(delta[row, label]), lengths[row, label]
    if not out.has_edge(row, head) or length < out[row][head]['weight']:
      out.add_edge(int(row), head, weight=length)
  return out


def both(kernel, *args, **fields):
  """The compiled result, after comparison with the reference."""
  ours = kernel(*args, **fields)
  theirs = getattr(ref, kernel.__name__)(*args, **fields)
  whole = isinstance(ours, tuple)
  pairs = zip(ours, theirs, strict=True) if whole else [(ours, theirs)]
  for first, other in pairs:
    np.testing.assert_array_equal(first, other)
    assert first.dtype == other.dtype
  return ours


@pytest.mark.parametrize('seed', range(3))
def test_hops_agree_with_networkx(seed):
  delta, lengths = graph(seed, size=90, labels=3)
  hops = paths.hops(delta)
  assert hops.dtype == np.uint8
  theirs = np.full(hops.shape, 255)
  lengths = nx.all_pairs_shortest_path_length(peer(delta, lengths))
  for row, result in lengths:
    for head, far in result.items():
      theirs[row, head] = far
  np.testing.assert_array_equal(hops, theirs)


@LAWS
@given(graphs())
def test_rows_are_reachable_where_there_is_a_distance(case):
  delta, _ = case
  hops = paths.hops(delta)
  for row in range(len(delta)):
    result = dfa.reachable(delta, [row])
    np.testing.assert_array_equal(result, hops[row] < 255)


@pytest.mark.parametrize(('size', 'dtype'), [(253, 'u1'), (254, 'u2')])
def test_long_chains_take_a_wider_type(size, dtype):
  delta = np.full((size, 1), core.DEAD)
  delta[:-1, 0] = np.arange(1, size)
  hops = paths.hops(delta)
  assert hops.dtype == np.dtype(dtype)
  assert hops[0].tolist() == list(range(size))
  assert (hops[1:, 0] == np.iinfo(dtype).max).all()


def test_hops_of_many_blocks():
  """More rows than one block of lanes holds: a ring, and a row apart."""
  size = 601
  delta = np.full((size, 1), core.DEAD)
  delta[:-1, 0] = np.roll(np.arange(size - 1), -1)
  hops = paths.hops(delta)
  rows = np.arange(size - 1)
  ring = (rows[None] - rows[:, None]) % (size - 1)
  np.testing.assert_array_equal(hops[:-1, :-1], ring)
  assert (hops[-1, :-1] == 65535).all()
  assert (hops[:-1, -1] == 65535).all()
  assert hops[-1, -1] == 0


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('reverse', [False, True])
def test_distances_agree_with_networkx(seed, reverse):
  delta, lengths = graph(seed)
  dist = both(paths.dijkstra, delta, lengths, reverse=reverse)
  theirs = np.full(dist.shape, np.inf)
  for row, result in nx.all_pairs_dijkstra_path_length(peer(delta, lengths)):
    for head, far in result.items():
      theirs[row, head] = far
  theirs = theirs.T if reverse else theirs
  np.testing.assert_allclose(dist, theirs, rtol=1e-12)


@LAWS
@given(graphs(), st.integers(0, 2**32 - 1))
def test_many_sources_are_each_one_alone(case, seed):
  delta, lengths = case
  rng = np.random.default_rng(seed)
  sources = rng.integers(0, len(delta), 7)
  dist = both(paths.dijkstra, delta, lengths, sources)
  for source, row in zip(sources, dist, strict=True):
    alone = paths.dijkstra(delta, lengths, [source])[0]
    np.testing.assert_array_equal(row, alone)


def test_more_sources_than_lanes():
  both(paths.dijkstra, *graph(5, size=150))


@LAWS
@given(graphs())
def test_routes_are_shortest_and_lowest(case):
  delta, lengths = case
  every = np.arange(len(delta))
  dist, table = both(paths.to_goals, delta, lengths, every)
  origins, index = (grid.ravel() for grid in np.meshgrid(every, every))
  labels, moves = both(
    dfa.follow, delta, table, origins, index, every, len(delta)
  )
  far = dist[index, origins]
  np.testing.assert_array_equal(moves >= 0, np.isfinite(far))
  assert (moves <= len(delta)).all()
  for b in np.flatnonzero(moves > 0):
    row, goal, metres = origins[b], index[b], 0.0
    for label in labels[b, : moves[b]]:
      ways = lengths[row] + dist[goal, delta[row]]
      ways[delta[row] < 0] = np.inf
      assert ways[label] == dist[goal, row] == ways.min()
      nearer = (ways == ways.min()) & (dist[goal, delta[row]] < ways.min())
      if nearer.any():
        assert label == np.argmax(nearer)
      metres += lengths[row, label]
      row = delta[row, label]
    assert row == goal
    assert metres == pytest.approx(far[b], rel=1e-12)


def agree_with_the_tables(delta, lengths, pairs, most, landmarks=16):
  """Routes of pairs [3, B] under lengths [K, S, A], by either search."""
  roads = pair_routes.road_map(delta, lengths, landmarks)
  results = [
    search(roads, *pairs, most)
    for search in (pair_routes.single_routes, pair_routes.swept_routes)
  ]
  for k, metres in enumerate(lengths):
    rows = pairs[0] == k
    tables = paths.shortest_routes(delta, metres, *pairs[1:, rows], most)
    for ours in results:
      for column, theirs in zip(ours, tables, strict=True):
        np.testing.assert_array_equal(column[rows], theirs)
        assert column.dtype == theirs.dtype
  return results[1]


@LAWS
@given(graphs(), st.integers(0, 2**32 - 1))
def test_routes_of_pairs_are_those_of_the_tables(case, seed):
  """Ties, level edges and lengths lost in rounding included."""
  delta, lengths = case
  weightings = np.stack(
    [lengths, np.random.default_rng(seed).permutation(lengths)]
  )
  every = np.arange(len(delta))
  pairs = np.stack(np.meshgrid([0, 1], every, every)).reshape(3, -1)
  for most in (len(delta), 2):
    agree_with_the_tables(delta, weightings, pairs, most)


def test_edges_far_longer_than_the_first_goals_distances():
  """Units of the near goals cannot tell them apart."""
  delta = np.array([[2, 3], [5, 2], [0, 1], [2, 5], [2, 5], [3, 1]], np.int32)
  lengths = np.zeros((1, 6, 2))
  lengths[0, 2], lengths[0, 5, 1] = (1e-20, 1), 0.1
  pairs = np.stack(np.meshgrid([0], range(6), range(6))).reshape(3, -1)
  agree_with_the_tables(delta, lengths, pairs, 6)


@pytest.mark.parametrize('size', [60, 400])
def test_routes_of_pairs_in_large_graphs(size):
  """Of more rows than landmarks, with true lengths and with noise; networkx."""
  delta, lengths = graph(size, size, labels=3, missing=0.3)
  rng = np.random.default_rng(size)
  # Noise that leaves no order in common is searched as well.
  scales = np.array([0, 0.01, 1, 100])[:, None, None]
  weightings = lengths + scales * rng.gamma(1, 1, (4, *lengths.shape))
  pairs = np.stack([rng.integers(0, end, 600) for end in (4, size, size)])
  for landmarks in (16, 0):
    labels, moves = agree_with_the_tables(
      delta, weightings, pairs, 50, landmarks
    )
  peers = [peer(delta, metres) for metres in weightings]
  for n in range(0, 600, 10):
    k, row, goal = pairs[:, n].tolist()
    if moves[n] < 0:
      assert not nx.has_path(peers[k], row, goal)
      continue
    metres = 0.0
    for label in labels[n, : moves[n]]:
      metres += weightings[k, row, label]
      row = delta[row, label]
    assert row == goal
    far = nx.dijkstra_path_length(peers[k], pairs[1, n], goal)
    assert metres == pytest.approx(far, rel=1e-12)


def test_few_routes_of_noisy_lengths_are_searched_alone(monkeypatch):
  """Whole units leave one route open, but for ties."""
  delta, lengths = graph(3, 300, labels=3, missing=0.2)
  rng = np.random.default_rng(3)
  weightings = lengths + rng.gamma(1, 1, (6, *lengths.shape))
  pairs = np.stack([rng.integers(0, end, 2_000) for end in (6, 300, 300)])
  alone, search = [], pair_routes.single_routes

  def counted(*args):
    alone.append(len(args[1]))
    return search(*args)

  monkeypatch.setattr(pair_routes, 'single_routes', counted)
  _, moves = pair_routes.swept_routes(
    pair_routes.road_map(delta, weightings), *pairs, 60
  )
  assert (moves > 0).mean() > 0.8
  assert sum(alone) <= 5


def test_lengths_of_many_scales_in_one_graph():
  """Far beyond the units that the first goals suggest, and far below."""
  delta, lengths = graph(4, 60, labels=3, missing=0.2)
  parts = [np.where(delta < 0, delta, delta + 60 * n) for n in range(3)]
  scales = np.repeat([1.0, 1e12, 1e-12], 60)[:, None]
  noise = np.random.default_rng(4).gamma(1, 1, (2, 180, 3))
  weightings = (np.tile(lengths, (3, 1)) + noise) * scales
  pairs = np.stack(np.meshgrid([0, 1], *[np.arange(0, 180, 3)] * 2))
  _, moves = agree_with_the_tables(
    np.concatenate(parts), weightings, pairs.reshape(3, -1), 40
  )
  assert (moves > 0).any()
  assert (moves < 0).any()


def test_routes_in_pieces_are_those_of_one_table(monkeypatch):
  delta, lengths = graph(8)
  rng = np.random.default_rng(0)
  origins, ends = rng.integers(0, len(delta), (2, 300))
  whole = both(paths.shortest_routes, delta, lengths, origins, ends, 5)
  monkeypatch.setattr(module, 'GOALS', 7)
  pieces = paths.shortest_routes(delta, lengths, origins, ends, 5)
  for first, other in zip(whole, pieces, strict=True):
    np.testing.assert_array_equal(first, other)
  # Longer ones keep their first labels and say that they go on.
  assert (whole[1] == 6).any()
  longer = paths.shortest_routes(delta, lengths, origins, ends, 40)
  np.testing.assert_array_equal(np.minimum(longer[1], 6), whole[1])
  result = whole[1] >= 0
  np.testing.assert_array_equal(longer[0][result, :5], whole[0][result])


def test_random_walks():
  delta, _ = graph(2, size=30)
  origins, labels, lengths = both(dfa.random_walks, delta, 500, 3, 20, 7)
  assert lengths.min() >= 3
  assert lengths.max() <= 20
  nowhere = np.full(500, dfa.NO_GOAL)
  steps, ends, _ = dfa.walk(delta, origins, nowhere, labels, lengths)
  np.testing.assert_array_equal(steps, lengths)
  # Short of its length only where no edge leaves.
  assert set(lengths[(delta[ends] >= 0).any(1)]) <= set(range(3, 21))
  np.testing.assert_array_equal((labels >= 0).sum(1), lengths)
  part = dfa.random_walks(delta, 100, 3, 20, 7, first=250)
  for item, whole in zip(part, (origins, labels, lengths), strict=True):
    np.testing.assert_array_equal(item, whole[250:350])
  other = dfa.random_walks(delta, 500, 3, 20, 8)
  assert (other[0] != origins).mean() > 0.5


def test_walks_that_cannot_be_made_are_empty():
  delta = np.array([[1], [-1]], np.int32)
  origins, labels, lengths = both(dfa.random_walks, delta, 4, 2, 3, 0)
  assert lengths.tolist() == [0] * 4
  assert (labels == core.DEAD).all()
  assert origins.tolist() == [0] * 4


def swept(delta, lengths, *pairs):
  return pair_routes.swept_routes(
    pair_routes.road_map(delta, lengths[None]), *pairs, 3
  )


@pytest.mark.parametrize(
  ('call', 'message'),
  [
    (lambda d, w: paths.dijkstra(d, w, [2]), 'sources hold 2..2'),
    (lambda d, w: swept(d, w, [1], [0], [0]), 'weighting hold 1..1'),
    (lambda d, w: swept(d, w, [0], [0], [0, 1]), 'destinations 2'),
    (lambda d, w: paths.to_goals(d, w, [-1]), 'goals hold -1'),
    (lambda d, w: paths.shortest_routes(d, w, [0], [0, 1], 3), 'origins 1'),
  ],
)
def test_bad_input_is_named(call, message, one_line):
  delta = np.array([[1, -1], [0, 1]], np.int32)
  with one_line() as error:
    call(delta, np.ones((2, 2)))
  assert message in str(error.value)
