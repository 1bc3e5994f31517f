"""Simple paths against the plain specification and networkx."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import simple_paths_ref as ref
from wm import core
from wm.kernels import simple_paths


@st.composite
def graphs(draw):
  """source, target, nodes and two labels of each edge."""
  nodes = draw(st.integers(1, 6))
  node = st.integers(0, nodes - 1)
  edges = draw(st.lists(st.tuples(node, node), max_size=12))
  label = st.lists(
    st.integers(-5, 99), min_size=len(edges), max_size=len(edges)
  )
  source, target = [u for u, _ in edges], [v for _, v in edges]
  return source, target, nodes, [draw(label), draw(label)]


@given(graphs(), st.sampled_from([0, 1, 3]), st.booleans())
@settings(max_examples=60)
def test_paths_are_those_of_the_specification(graph, longest, listed):
  options = {'longest': longest, 'listed': listed}
  results, plain = (
    simple_paths.list_paths(*graph, **options),
    ref.list_paths(*graph, **options),
  )
  for name, first, other in zip(results._fields, results, plain, strict=True):
    assert first.dtype == other.dtype, name
    np.testing.assert_array_equal(first, other, name)


def test_more_than_64_places_are_told_apart():
  nodes = 200  # Two rings with one way in common.
  source = [*range(nodes), 0, 70]
  target = [*((k + 1) % nodes for k in range(nodes)), 70, 0]
  result = simple_paths.list_paths(source, target, nodes)
  graph = nx.MultiDiGraph(list(zip(source, target, strict=True)))
  for pair in ((0, 199), (150, 71), (70, 69)):
    sample = np.flatnonzero(
      (result.source == pair[0]) & (result.target == pair[1])
    )
    expected = {
      tuple((u, v) for u, v, _ in path)
      for path in nx.all_simple_edge_paths(graph, *pair)
    }
    assert {
      tuple((source[e], target[e]) for e in result.of(p)) for p in sample
    } == expected


def test_what_cannot_be_held_is_refused():
  size = 20
  source, target = map(list, zip(*nx.complete_graph(size).edges, strict=True))
  with pytest.raises(core.InputError, match='more than 1,000 simple paths'):
    simple_paths.list_paths(source + target, target + source, size, most=1000)
  with pytest.raises(core.InputError, match='target hold 0'):
    simple_paths.list_paths([0, 1], [0, 3], 3)
  assert simple_paths.list_paths([], [], 3).size == 0
