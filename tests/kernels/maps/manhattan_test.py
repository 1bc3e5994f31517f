"""Known numbers of the published street graphs (spec section 15)."""

import csv
import functools

import numpy as np
import pytest

from wm.kernels import dfa

DIRECTIONS = ('N', 'NE', 'E', 'SE', 'S', 'SW', 'W', 'NW')


class Graph:
  """A published graph: table, ids and the program's own label order."""

  def __init__(self, folder):
    with open(folder / 'edges.csv', encoding='utf-8') as file:
      edges = list(csv.DictReader(file))
    ends = {int(edge[end]) for edge in edges for end in ('node', 'neighbor')}
    self.rows = {node: row for row, node in enumerate(sorted(ends))}
    self.delta = np.full((len(self.rows), 8), -1, np.int32)
    for edge in edges:
      row = self.rows[int(edge['node'])]
      label = DIRECTIONS.index(edge['direction'])
      self.delta[row, label] = self.rows[int(edge['neighbor'])]
    self.turns = np.full((len(self.rows), 8), -1)
    self.known = np.zeros(len(self.rows), bool)
    with open(folder / 'valid_turns.csv', encoding='utf-8') as file:
      for entry in csv.DictReader(file):
        labels = [DIRECTIONS.index(d) for d in entry['directions'].split()]
        if int(entry['node']) in self.rows:
          row = self.rows[int(entry['node'])]
          self.known[row] = True
          self.turns[row, : len(labels)] = labels

  def pairs(self, num, seed):
    """States of `num` random pairs, rows and goals apart, with edges."""
    rng = np.random.default_rng(seed)
    starts = np.flatnonzero((self.delta >= 0).any(1))
    first, second = rng.choice(starts, (2, num))
    goals = rng.integers(0, len(self.delta), (2, num))
    return first, second, goals[0], goals[1]


@functools.cache
def graph(folder):
  """Read once."""
  return Graph(folder)


@pytest.fixture
def walks(manhattan):
  """The graph of the random walks."""
  return graph(manhattan / 'random')


def test_published_routine_by_length(walks):
  """1,000 pairs: lengths 1378, 769, 819, 1116, 1723; empty 151, 15, 7."""
  pairs = walks.pairs(6000, 1)
  published = dfa.Published(walks.turns, walks.known)
  result = dfa.boundary(walks.delta, *pairs, 5, published=published)
  by_length = np.bincount(result.lengths, minlength=6)[1:] / 6
  np.testing.assert_allclose(by_length, [1378, 769, 819, 1116, 1723], rtol=0.1)
  for depth, empty, room in ((1, 151, 30), (3, 15, 8), (5, 7, 5)):
    result = dfa.boundary(walks.delta, *pairs, depth, published=published)
    none = (np.diff(result.offsets) == 0).sum() / 6
    assert none == pytest.approx(empty, abs=room)
