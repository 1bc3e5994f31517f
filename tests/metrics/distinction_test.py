"""Distinction against answers worked out by hand and by brute force."""

import numpy as np
import pytest

from tests import plain, tiny
from tests.metrics import hand
from wm import core
from wm.core import accept as rules
from wm.core import registry
from wm.evaluation import boundaries, prefix_pairs, statistics
from wm.metrics import distinction
from wm.models.serving import oracles

WORLD = tiny.World()
ORACLE = oracles.Oracle(WORLD)
UNIFORM = oracles.Uniform(len(tiny.VOCAB), tiny.END, 12)
NOISY = oracles.NoisyOracle(WORLD, illegal=0.1, wrong=0.2, by='prefix', seed=5)
ACCEPT = rules.epsilon(0.05)


def _score(predictor, world=WORLD, seed=0, **fields):
  metric = distinction.Metric(**{'trials': 40, **fields})
  return {s.quantity: s for s in metric(predictor, world, seed)}


def _summary(scores):
  return statistics.summarize(scores)


def _pairs(num=40, seed=0):
  """The prefixes that the metric draws."""
  metric = distinction.Metric(trials=num)
  return prefix_pairs.draw(
    metric, ORACLE, WORLD, seed, two_states=True
  ).prefixes


def _languages(predictor, pairs, t, depth):
  return [
    hand.language(
      predictor,
      tuple(pairs.tokens[t, side, : pairs.lengths[t, side]].tolist()),
      depth,
      ACCEPT,
    )
    for side in range(2)
  ]


def test_published_defaults():
  metric = distinction.Metric()
  assert (metric.trials, metric.samples, metric.k) == (1000, 30, -1)
  assert metric.accept == 'epsilon(0.01)'


def test_uniform_has_no_boundary():
  result = _score(UNIFORM)
  assert _summary(result['precision'])['unmeasured'] == {'empty': 40}
  assert _summary(result['precision_definition'])['value'] == 1
  assert _summary(result['precision_published'])['value'] == 1
  assert _summary(result['recall'])['value'] == 0
  vacuous = _score(UNIFORM, accept='epsilon(0.5)')
  assert _summary(vacuous['precision'])['unmeasured'] == {'vacuous': 40}
  assert _summary(vacuous['recall'])['value'] == 0
  # The definition counts a vacuous trial as right, the published program not.
  assert _summary(vacuous['precision_definition'])['value'] == 1
  assert _summary(vacuous['precision_published'])['value'] == 0
  assert _summary(vacuous['precision_published'])['n'] == 40


def test_pairs_differ_and_reach_their_states():
  pairs = _pairs()
  assert (WORLD.state_id(pairs.first) != WORLD.state_id(pairs.second)).all()
  assert (pairs.lengths[:, 0] == pairs.lengths[:, 1]).all()
  for side, states in enumerate((pairs.first, pairs.second)):
    steps, reached = WORLD.walk(
      WORLD.init(40), pairs.tokens[:, side], pairs.lengths[:, side]
    )
    np.testing.assert_array_equal(steps, pairs.lengths[:, side])
    np.testing.assert_array_equal(reached, states)
  assert pairs.counts['same_state'] > 0


def test_moves_are_in_both_ranges():
  class Ranged(tiny.World):
    def prefix_moves(self, states):
      low = states[:, 0] + 1
      return np.stack([low, low + 1], 1).astype(np.int32)

  world = Ranged()
  result = _score(ORACLE, world)['recall']
  assert (result.reason == '').all()
  first = result.columns['state'].astype(int)
  moves = result.columns['moves']
  assert ((moves >= first + 1) & (moves <= first + 2)).all()
  # States two apart share no number of moves and are drawn again.
  assert result.counts['no_common_moves'] > 0


def test_precision_of_a_hand_made_model():
  # The model's boundary is y, xy, xxy, ... from a wide to a narrow prefix.
  pairs = _pairs()
  wide = np.isin(pairs.tokens[:, :, 0], (tiny.AT, tiny.AT + 1))
  result = _score(hand.Ruled(hand.split), samples=400, sample_k=3)['precision']
  split = wide[:, 0] & ~wide[:, 1]
  room = 12 - pairs.lengths.max(1) >= 3
  assert (result.reason[~split] == 'empty').all()
  for t in np.flatnonzero(split & room):
    true = [
      _legal(pairs.first[t], (tiny.X,) * n + (tiny.Y,))
      and not _legal(pairs.second[t], (tiny.X,) * n + (tiny.Y,))
      for n in range(3)
    ]
    assert result.value[t] == pytest.approx(np.mean(true))
    assert result.columns['elements'][t] == 3
  assert (split & room).sum() > 3


def _legal(state, suffix):
  steps, _ = WORLD.walk(
    state[None], np.array([suffix]), np.array([len(suffix)])
  )
  return steps[0] == len(suffix)


def test_sampled_precision_weighs_by_probability():
  pairs = _pairs()
  wide = np.isin(pairs.tokens[:, :, 0], (tiny.AT, tiny.AT + 1))
  result = _score(hand.Ruled(hand.split), samples=1500, sample_k=3)
  sampled = result['precision_sampled']
  room = 12 - pairs.lengths.max(1) >= 3
  rows = np.flatnonzero(wide[:, 0] & ~wide[:, 1] & room)
  assert len(rows) > 3
  for t in rows:
    true = [
      _legal(pairs.first[t], (tiny.X,) * n + (tiny.Y,))
      and not _legal(pairs.second[t], (tiny.X,) * n + (tiny.Y,))
      for n in range(3)
    ]
    expected = np.dot(true, [4, 2, 1]) / 7
    assert sampled.value[t] == pytest.approx(expected, abs=0.08)


def test_recall_equals_brute_force():
  num = 10
  result = _score(NOISY, trials=num, k=3, accept='epsilon(0.05)')
  pairs = _pairs(num)
  truth = WORLD.boundary(pairs.first, pairs.second, 3).listed()
  for t in range(num):
    first, second = _languages(NOISY, pairs, t, 3)
    apart = [s in first and s not in second for s in truth[t]]
    assert result['recall'].value[t] == pytest.approx(np.mean(apart))
  assert 0 < _summary(result['recall'])['value'] < 1


def test_recall_by_length_by_hand():
  num = 15
  pairs = _pairs(num)
  truth = WORLD.boundary(pairs.first, pairs.second, 6).listed()
  result = _score(NOISY, trials=num, k=6, accept='epsilon(0.05)')
  for t in range(num):
    steps = [
      plain.accepted_steps(
        NOISY,
        pairs.tokens[t, side][None],
        pairs.lengths[t, side][None],
        np.array([[list(s) + [0] * (6 - len(s)) for s in truth[t]]]),
        np.array([[len(s) for s in truth[t]]]),
        ACCEPT,
      )[0]
      for side in range(2)
    ]
    length = np.array([len(s) for s in truth[t]])
    apart = (steps[0] == length) & (steps[1] < length)
    shares = [apart[length == n].mean() for n in np.unique(length)]
    assert result['recall'].value[t] == pytest.approx(apart.mean())
    expected = pytest.approx(np.mean(shares))
    assert result['recall_by_length'].value[t] == expected


def test_boundaries_wider_than_one_block():
  class Wide(tiny.World):
    def boundary(self, first, second, depth):
      once = super().boundary(first, second, depth).listed()
      more = [b * (1 + 3 * (n % 3)) * 5 for n, b in enumerate(once)]
      return core.boundary.stacked([[np.array([s]) for s in b] for b in more])

  plain = _score(NOISY, accept='epsilon(0.05)')
  wide = _score(NOISY, Wide(), accept='epsilon(0.05)')
  np.testing.assert_allclose(wide['recall'].value, plain['recall'].value)
  assert wide['recall'].columns['elements'].max() > boundaries.WIDTH


def test_empty_boundary_is_unmeasured_or_one():
  class Alike(tiny.World):
    def boundary(self, first, second, depth):
      return core.boundary.stacked([[] for _ in first])

  result = _score(ORACLE, Alike())
  assert _summary(result['recall'])['unmeasured'] == {'empty': 40}
  assert _summary(result['recall_definition'])['value'] == 1
  short = _score(ORACLE, k=1)['recall']
  shown = WORLD.boundary(_pairs().first, _pairs().second, 1).sizes > 0
  np.testing.assert_array_equal(short.measured, shown)


def test_published_boundary_lacks_end_and_dead_ends():
  world = registry.make('world', 'maps(rows=5, columns=5)')
  states = world.sample_states(200, 0)
  first, second = states[:100], states[100:]
  exact = world.boundary(first, second, 4).listed()
  listed = world.boundary(first, second, 4, published=True).listed()
  missing = 0
  for whole, sample in zip(exact, listed, strict=True):
    assert set(sample) <= set(whole)
    assert all(world.end not in suffix for suffix in sample)
    missing += len(whole) - len(sample)
  assert missing > 0
  oracle = oracles.Oracle(world)
  result = _score(oracle, world, boundary='published')
  assert _summary(result['recall'])['value'] == 1
  with pytest.raises(core.InputError, match='no finite table'):
    _score(ORACLE, boundary='published')


def test_max_elements_is_a_uniform_choice():
  whole = _score(NOISY, k=7)['recall']
  sample = _score(NOISY, k=7, max_elements=2, trials=40)['recall']
  np.testing.assert_array_equal(
    sample.columns['elements'], whole.columns['elements']
  )
  assert np.isin(sample.value, (0, 0.5, 1)).all()
  assert abs(sample.value.mean() - whole.value.mean()) < 0.15


def test_parts_can_be_left_out():
  assert set(_score(ORACLE, samples=0)) == {
    'recall',
    'recall_definition',
    'recall_by_length',
  }
  assert 'recall' not in _score(ORACLE, k=0)


def test_one_state_cannot_be_told_from_itself():
  class Single(tiny.World):
    def sample_states(self, num, seed):
      return np.ones((num, 1), np.int32)

  result = _score(ORACLE, Single())['recall']
  assert set(result.reason) == {'no_two_states'}
  assert result.counts['same_state'] == 40 * prefix_pairs.STATE_ATTEMPTS


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'samples': 0, 'k': 0}, 'one of them other than 0'),
    ({'k': -2}, 'k=-2'),
    ({'boundary': 'all'}, 'available: exact, published, sampled'),
    ({'boundary': 'reference'}, 'available: exact, published, sampled'),
    ({'attempts': 0}, 'attempts=0'),
    ({'accept': 'top_k(0)'}, 'k=0; expected at least 1'),
  ],
)
def test_bad_fields(fields, message):
  with pytest.raises(core.InputError, match=message):
    distinction.Metric(**fields)
