"""Random automata: strongly connected, minimal, next tokens say no distance."""

import functools
import hashlib
import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csgraph

from wm import core
from wm.worlds import automaton

DRAWS = 200
# Of the table of random_12_6_3_1, which results are recorded of.
HASH = 'c5fb1f01bc7b130053a759673206a2739d8aa81e3ce6babbf1bde73ee7fc6504'


@functools.cache
def drawn(seed, size='12_6_3'):
  return automaton.World(preset=f'random_{size}_{seed}')


def moves(world):
  """[S, S] on the shortest path, the lesser of both directions."""
  edges = np.zeros((len(world.delta),) * 2)
  row, label = np.nonzero(world.delta >= 0)
  edges[row, world.delta[row, label]] = 1
  far = csgraph.shortest_path(edges, unweighted=True)
  return np.minimum(far, far.T)


@pytest.mark.parametrize('size', ['12_6_3', '3_3_2', '7_4_2', '40_30_12'])
@pytest.mark.parametrize('seed', range(5))
def test_states_are_kept_all_and_reach_each_other(size, seed):
  states, symbols, legal = map(int, size.split('_'))
  world = drawn(seed, size)
  facts = world.stats()
  assert facts['states'] == facts['states_given'] == states
  assert facts['merged'] == facts['unreachable'] == facts['dead_ends'] == 0
  assert np.isfinite(moves(world)).all()
  may = world.delta >= 0
  assert may.shape == (states, symbols)
  assert (may.sum(1) == legal).all()
  assert may.any(0).all()
  sets, numbers = np.unique(may, axis=0, return_counts=True)
  assert len(sets) == 3
  assert np.ptp(numbers) <= 1
  assert world.end == core.DEAD


def test_a_seed_is_one_automaton_and_others_are_others():
  tables = {drawn(seed).delta.tobytes() for seed in range(20)}
  assert len(tables) == 20
  again = automaton.World(preset='random_12_6_3_7')
  np.testing.assert_array_equal(again.delta, drawn(7).delta)


def test_the_automaton_of_the_study_stays_the_same():
  digest = hashlib.sha256(drawn(1).delta.tobytes()).hexdigest()
  assert digest == HASH


def test_every_size_that_is_expected_is_drawn():
  for states, symbols in itertools.product((3, 4, 9), (3, 4, 7)):
    for legal in range(max(2, -(-symbols // 3)), symbols):
      for seed in range(5):
        world = drawn(seed, f'{states}_{symbols}_{legal}')
        assert world.stats()['states'] == states


def test_random_play_is_in_all_states_equally_often():
  """As many moves lead into each state as out of it."""
  for seed in range(10):
    heads = drawn(seed).delta
    assert (np.bincount(heads[heads >= 0]) == 3).all()


def contrast(alike, far):
  """Mean distance of pairs with the same legal tokens, less that of others."""
  first, second = np.triu_indices(len(far), 1)
  same, between = alike[first] == alike[second], far[first, second]
  return between[same].mean() - between[~same].mean()


def test_same_next_tokens_say_nothing_of_distance():
  """Ranks among random dealings of the legal sets are uniform over seeds."""
  rng = np.random.default_rng(0)
  ranks, contrasts = [], []
  for seed in range(DRAWS):
    world = drawn(seed)
    _, alike = np.unique(world.delta >= 0, axis=0, return_inverse=True)
    far = moves(world)
    contrasts.append(contrast(alike, far))
    dealt = [contrast(rng.permutation(alike), far) for _ in range(99)]
    below = np.mean(np.array(dealt) < contrasts[-1] - 1e-9)
    ties = np.mean(np.abs(np.array(dealt) - contrasts[-1]) < 1e-9)
    ranks.append(below + ties * rng.random())
  assert stats.kstest(ranks, 'uniform').pvalue > 0.01
  error = np.std(contrasts) / DRAWS**0.5
  assert abs(np.mean(contrasts)) < 3 * error < 0.05
