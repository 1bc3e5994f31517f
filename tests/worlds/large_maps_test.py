"""Maps whose hop distances are not all computed: the same answers."""

import numpy as np
import pytest
from scipy import stats

import wm
from tests import small
from wm.worlds.maps import navigation, routes

CITY = 'maps(rows=5, columns=5, max_moves=12)'


@pytest.fixture
def both(monkeypatch):
  """A map with a table of hops, and the same one without."""
  small, large = wm.make('world', CITY), wm.make('world', CITY)
  small.hops  # noqa: B018  Computed while it is allowed.
  rows, goals = np.indices((len(small.graph) + 2,) * 2) - 2
  tabled = small.hops_between(rows, goals)
  monkeypatch.setattr(navigation, 'TABLED', 10)
  return small, large, tabled, rows, goals


def test_hops_are_those_of_the_table(both):
  _, large, tabled, rows, goals = both
  assert (large.hops_between(rows, goals) == tabled).all()
  assert (tabled[:2] == navigation.NEVER).all()
  assert (tabled < navigation.NEVER).any()


def test_pairs_are_uniform_over_those_in_reach(both):
  small, large, *_ = both
  usable = small._usable(small.hops)
  states = large.sample_states(20 * usable.sum(), 0)
  counts = np.zeros(usable.shape)
  np.add.at(counts, tuple(states.T), 1)
  assert (counts[~usable] == 0).all()
  assert stats.chisquare(counts[usable]).pvalue > 1e-3
  again = large.sample_states(30, 0)
  assert (again == states[:30]).all()
  assert (large.sample_states(30, 1) != again).any()


@pytest.mark.parametrize(
  'metric', ['compression(trials=20)', 'detour(num=10)', 'traversal(num=10)']
)
def test_the_world_is_perfect_at_any_size(both, metric):
  *_, large, _, _, _ = both
  entries = small.scored('oracle()', [metric], large)
  ideal = {'precision', 'valid_0', 'valid_0.5', 'valid', 'legal'}
  values = [e['value'] for e in entries if e['quantity'] in ideal]
  assert values
  assert set(values) == {1.0}


def test_a_map_without_two_places_in_reach_is_told(monkeypatch):
  monkeypatch.setattr(navigation, 'TABLED', 1)
  monkeypatch.setattr(navigation, 'ATTEMPTS', 1)
  world = wm.make('world', CITY)
  monkeypatch.setattr(type(world), 'prefix_limit', 1)
  with pytest.raises(wm.InputError, match='less than 1 directions apart'):
    world.sample_states(3, 0)


@pytest.mark.parametrize('traversal', ['shortest', 'noisy'])
def test_pairs_too_far_are_dropped_as_if_planned(traversal, monkeypatch):
  spec = f"maps(rows=45, columns=45, max_moves=8, traversal='{traversal}')"
  fast = wm.make('world', spec).sample(150, 1)
  monkeypatch.setattr(routes.Roads, '_bounded', lambda self, most: False)
  slow = wm.make('world', spec).sample(150, 1)
  np.testing.assert_array_equal(fast.tokens, slow.tokens)
  assert fast.counts == slow.counts
  assert fast.counts['too_long'] > 1000 > fast.counts['no_path'] > 10
