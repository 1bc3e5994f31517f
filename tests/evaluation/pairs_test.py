"""Pairs that answers tell apart: counted, and listed pair by pair."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.evaluation import pairs_ref as ref
from wm.core import basics
from wm.evaluation.coin_tasks import count_pairs


def drawn(seed, points, states, sets, classes, num):
  """Answers [D, n], states [n] and the legal sets [n] of these states."""
  rng = np.random.default_rng(seed)
  state = rng.integers(states, size=points)
  legal = rng.integers(sets, size=states)[state]
  # Ids as worlds give them: hashes of any size.
  ids = np.asarray(basics.hash64(state, 1) >> np.uint64(1), np.int64)
  return rng.integers(classes, size=(num, points)), ids, legal - 1


@settings(max_examples=40)
@given(
  st.integers(0, 10**6),
  st.integers(0, 30),
  st.integers(1, 8),
  st.integers(1, 4),
  st.integers(1, 4),
  st.integers(0, 3),
)
def test_counts_are_those_of_all_pairs(
  seed, points, states, sets, classes, num
):
  given = drawn(seed, points, states, sets, classes, num)
  result, expected = count_pairs(*given), ref.count(*given)
  np.testing.assert_array_equal(result.apart, expected.apart)
  np.testing.assert_array_equal(result.pairs, expected.pairs)
  assert result.pairs.sum() == points * (points - 1) // 2


def test_known_answers():
  states, legal = np.array([5, 5, 6, 7]), np.array([1, 1, 1, 2])
  constant, by_state, by_set = [0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]
  result = count_pairs(np.array([constant, by_state, by_set]), states, legal)
  np.testing.assert_array_equal(result.pairs, [1, 2, 3])
  np.testing.assert_array_equal(result.apart, [[0, 0, 0], [0, 2, 2], [0, 0, 3]])


def test_many_points_are_counted_without_overflow():
  num = 200_000
  answers = np.arange(num)[None] % 2
  result = count_pairs(answers, np.zeros(num, int), np.zeros(num, int))
  np.testing.assert_array_equal(result.apart, [[(num // 2) ** 2, 0, 0]])
