import numpy as np
import pytest
from scipy.sparse import csgraph, csr_matrix

from wm import core
from wm.worlds import maps
from wm.worlds.maps import streets


def components(graph):
  sources, _, targets = graph.edges()
  ones = np.ones(len(sources))
  shape = (len(graph),) * 2
  return csgraph.connected_components(
    csr_matrix((ones, (sources, targets)), shape), connection='strong'
  )[1]


@pytest.mark.parametrize('shape', [(2, 2), (3, 7), (8, 8), (9, 4), (30, 25)])
@pytest.mark.parametrize('seed', range(4))
def test_nearly_all_of_a_city_is_strongly_connected(shape, seed):
  graph = maps.generate(*shape, seed)
  crossings = shape[0] * shape[1]
  assert len(graph) >= crossings
  largest = np.bincount(components(graph)).max()
  assert largest >= 0.95 * len(graph) - 1
  assert largest >= crossings


@pytest.mark.parametrize('seed', range(3))
def test_a_city_has_one_way_streets_a_diagonal_and_dead_ends(seed):
  graph = maps.generate(14, 14, seed)
  sources, labels, targets = graph.edges()
  back = (graph.delta[targets] == sources[:, None]).any(1)
  assert 0.2 < back.mean() < 0.8
  # All eight labels: the diagonal, the turn and the bend see to that.
  assert len(np.unique(labels)) == 8
  out = (graph.delta >= 0).sum(1)
  into = np.bincount(targets, minlength=len(graph))
  assert (out == 0).any()
  assert (into == 0).any()
  cul = (out == 1) & (into == 1)
  assert back[cul[sources]].any()


def test_labels_are_the_bearings():
  graph = maps.generate(10, 9, 1)
  u, labels, v = graph.edges()
  angles = streets.bearing(
    graph.lat[u], graph.lon[u], graph.lat[v], graph.lon[v]
  )
  np.testing.assert_array_equal(streets.sector(angles), labels)
  metres = streets.great_circle(
    graph.lat[u], graph.lon[u], graph.lat[v], graph.lon[v]
  )
  np.testing.assert_array_equal(graph.length_m[u, labels], metres)
  assert 30 < metres.min() < metres.max() < 500


def test_a_city_is_a_function_of_its_size_and_seed():
  first, two, other = (maps.generate(8, 8, seed) for seed in (0, 0, 1))
  np.testing.assert_array_equal(first.delta, two.delta)
  assert first.lat.tolist() == two.lat.tolist()
  assert first.lat.tolist() != other.lat.tolist()


def test_a_city_of_one_street_is_refused():
  with pytest.raises(core.InputError, match='at least 2 x 2'):
    maps.generate(1, 8, 0)


def test_a_city_that_no_memory_holds_is_refused():
  with pytest.raises(core.InputError, match='at most 1,000,000 in all'):
    maps.generate(100_000, 100_000, 0)
