import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wm import core
from wm.worlds import maps
from wm.worlds.maps import routes


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 700), st.integers(0, 2**40), st.integers(1, 300))
def test_permuted_is_a_permutation_in_any_pieces(size, seed, piece):
  total = routes.domain(size)
  whole = routes.permuted(0, total, size, seed)
  assert sorted(whole.tolist()) == list(range(size))
  parts = [
    routes.permuted(first, piece, size, seed)
    for first in range(0, total, piece)
  ]
  np.testing.assert_array_equal(np.concatenate(parts), whole)


def test_permuted_looks_random():
  firsts = [routes.permuted(0, 4096, 1000, seed)[0] for seed in range(2000)]
  counts = np.bincount(np.array(firsts) // 100, minlength=10)
  assert abs(counts - 200).max() < 65
  order = routes.permuted(0, 4096, 1000, 7)
  assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.1


def batch(causes, first=0):
  num = len(causes)
  rows = np.arange(first, first + num, dtype=np.int32)
  labels = np.zeros((num, 2), np.int8)
  cause = np.array(causes, 'U16')
  return routes.RouteBatch(rows, rows, labels, rows, rows, cause)


def test_collect_takes_the_first_usable_and_counts_drops_before():
  batches = [batch(['', 'a', '']), batch(['b', 'b', '', 'a', ''], 3)]
  result, counts = routes.collect(iter(batches), 3, 2)
  assert result.origins.tolist() == [0, 2, 5]
  assert counts == {'a': 1, 'b': 2}
  result, counts = routes.collect(iter(batches), 99, 2)
  assert result.origins.tolist() == [0, 2, 5, 7]
  assert counts == {'a': 2, 'b': 2}
  result, counts = routes.collect(iter(batches), 0, 2)
  assert (len(result.moves), counts) == (0, {})


def test_fresh_marks_what_came_before():
  again = batch(['', ''])._replace(origins=np.zeros(2, np.int32))
  again = again._replace(destinations=np.zeros(2, np.int32))
  causes = [b.cause.tolist() for b in routes.fresh(iter([again, again]))]
  assert causes == [['', 'duplicate'], ['duplicate', 'duplicate']]


def test_trace_ends_in_dead_at_a_label_without_an_edge():
  delta = np.array([[1, -1], [-1, 0]], np.int32)
  labels = np.array([[0, 1, 0], [1, 1, 0], [0, -1, -1]], np.int8)
  rows = routes.trace(delta, np.array([0, 0, 0]), labels)
  assert rows.tolist() == [[0, 1, 0, 1], [0, -1, -1, -1], [0, 1, -1, -1]]


def test_noise_doubles_lengths_on_average():
  metres = np.full((400, 8), np.nan)
  metres[:, :4] = 80.0
  metres[0, 0] = 0.0
  noisy = routes.weighting(metres, 0)
  np.testing.assert_array_equal(np.isnan(noisy), np.isnan(metres))
  extra = (noisy - metres)[:, :4].reshape(-1)
  assert extra[0] == 0
  # Gamma(80, 1): mean and variance 80, never negative.
  assert extra.mean() == pytest.approx(80, abs=1)
  assert extra.var() == pytest.approx(80, rel=0.15)
  assert (extra >= 0).all()
  assert not np.array_equal(noisy, routes.weighting(metres, 1), equal_nan=True)
  again = routes.weighting(metres, 0)
  np.testing.assert_array_equal(again, noisy)


def test_a_kept_table_changes_nothing():
  graph = maps.generate(7, 7, 0)
  size = len(graph)
  roads = routes.Roads(graph.delta, [graph.length_m])
  rng = np.random.default_rng(0)
  number, origins = np.zeros(300, int), rng.integers(0, size, 300)
  few = np.full(300, 5)
  before = roads.routes(number, origins, few, 30)
  assert roads._all is None
  roads.routes(number, origins, rng.integers(0, size, 300), 30)
  assert roads._all is not None
  after = roads.routes(number, origins, few, 30)
  for item, two in zip(before, after, strict=True):
    np.testing.assert_array_equal(item, two)


def test_a_search_for_each_pair_changes_nothing():
  """The same routes before the table is built, and by it."""
  graph = maps.generate(20, 20, 0)
  size = len(graph)
  rng = np.random.default_rng(0)
  number, (origins, ends) = np.zeros(300, int), rng.integers(0, size, (2, 300))
  roads = routes.Roads(graph.delta, [graph.length_m])
  single = roads.routes(number, origins, ends, 60)
  assert roads._maps
  assert roads._all is None
  while roads._all is None:
    table = roads.routes(number, origins, ends, 60)
  table = roads.routes(number, origins, ends, 60)
  for ours, theirs in zip(single, table, strict=True):
    np.testing.assert_array_equal(ours, theirs)


def test_weightings_are_each_one_alone(monkeypatch):
  """Searched together, by either search, in groups of any size."""
  graph = maps.generate(9, 9, 0)
  rng = np.random.default_rng(0)
  lengths = [routes.weighting(graph.length_m, k) for k in range(5)]
  number = rng.integers(0, 5, 2000)
  origins, ends = rng.integers(0, len(graph), (2, 2000))
  for count, together in ((100, 64), (2000, 64), (2000, 2), (100, 2)):
    monkeypatch.setattr(routes, 'TOGETHER', together)
    roads = routes.Roads(graph.delta, lengths)
    part = number[:count], origins[:count], ends[:count]
    labels, moves = roads.routes(*part, 30)
    for k in range(5):
      rows = part[0] == k
      alone = routes.Roads(graph.delta, [lengths[k]]).routes(
        np.zeros(rows.sum(), int), part[1][rows], part[2][rows], 30
      )
      np.testing.assert_array_equal(labels[rows], alone[0])
      np.testing.assert_array_equal(moves[rows], alone[1])


def test_metres_are_those_of_the_route():
  graph = maps.generate(6, 6, 1)
  roads = routes.Roads(graph.delta, [graph.length_m])
  rng = np.random.default_rng(0)
  origins, ends = rng.integers(0, len(graph), (2, 200))
  labels, moves = roads.routes(np.zeros(200, int), origins, ends, 60)
  metres = routes.metres(graph.delta, graph.length_m, origins, ends)
  rows = routes.trace(graph.delta, origins, labels)
  for n in range(200):
    if moves[n] == core.DEAD:
      assert metres[n] == np.inf
      continue
    path = rows[n, : moves[n]]
    assert rows[n, moves[n]] == ends[n]
    total = graph.length_m[path, labels[n, : moves[n]]].sum()
    assert metres[n] == pytest.approx(total, rel=1e-12)
