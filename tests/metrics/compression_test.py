"""Compression against answers worked out by hand."""

import dataclasses
import itertools

import numpy as np
import pytest

from tests import tiny
from tests.metrics import hand
from wm import core
from wm.core import accept as rules
from wm.core import basics, registry
from wm.evaluation import context, prefix_pairs, statistics
from wm.metrics import compression
from wm.models.serving import oracles

WORLD = tiny.World()
ORACLE = oracles.Oracle(WORLD)
UNIFORM = oracles.Uniform(len(tiny.VOCAB), tiny.END, 12)
NOISY = oracles.NoisyOracle(WORLD, illegal=0.1, wrong=0.2, by='prefix', seed=5)


def _score(predictor, world=WORLD, seed=0, **fields):
  metric = compression.Metric(**{'trials': 60, **fields})
  return {s.quantity: s for s in metric(predictor, world, seed)}


def _value(scores):
  return statistics.summarize(scores)['value']


def _pairs(seed=0, num=60):
  """The prefixes that the metric draws."""
  states = WORLD.sample_states(num, basics.stream(seed, context.STATES))
  return prefix_pairs.prefix_pairs(
    WORLD, states, states, seed=seed, attempts=32
  )


def test_published_defaults():
  metric = compression.Metric()
  assert (metric.trials, metric.samples) == (1000, 30)
  assert (metric.accept, metric.k) == ('epsilon(0.01)', 0)


def test_oracle_below_its_threshold_is_vacuous_in_part():
  # Two legal tokens have about one half each: node 1 alone goes on.
  result = _score(ORACLE, accept='epsilon(0.6)')['precision']
  vacuous = result.reason == 'vacuous'
  at = result.columns['state']
  np.testing.assert_array_equal(vacuous, at != '1')


def test_uniform_accepts_everything_or_nothing():
  below = _score(UNIFORM, accept=f'epsilon({0.9 / 7})')
  assert _value(below['precision']) == 1
  above = _score(UNIFORM, accept=f'epsilon({1.1 / 7})')
  assert statistics.summarize(above['precision'])['unmeasured'] == {
    'vacuous': 60
  }
  assert _value(above['precision_definition']) == 1
  assert _value(above['precision_published']) == 0


def test_published_sampler_scores_a_vacuous_model_zero():
  result = _score(
    UNIFORM, accept='epsilon(0.5)', sampler='published(0.01)', graded=True
  )
  assert _value(result['precision_published']) == 0
  assert statistics.summarize(result['precision'])['n'] == 0


def _wide(pairs):
  """[T, 2] bool: after this prefix both moves are accepted."""
  return np.isin(pairs.tokens[:, :, 0], (tiny.AT, tiny.AT + 1))


def test_hand_made_model():
  wide = _wide(_pairs())
  result = _score(hand.Ruled(hand.split))['precision']
  room = result.reason == ''
  expected = ~(wide[:, 0] & ~wide[:, 1])
  np.testing.assert_array_equal(result.value[room], expected[room])
  assert 0 < expected.mean() < 1
  assert room.mean() > 0.9


def test_graded_hand_made_model_by_formula():
  # At each of k tokens a sample from a wide prefix leaves x with 1/2.
  wide = _wide(_pairs())
  split = wide[:, 0] & ~wide[:, 1]
  room = 12 - _pairs().lengths.max(1) >= 3
  sampled = _score(
    hand.Ruled(hand.split), k=3, graded=True, samples=1500, trials=20
  )
  share = sampled['accepted_share'].value
  np.testing.assert_allclose(share[split[:20] & room[:20]], 1 / 8, atol=0.05)
  np.testing.assert_allclose(share[~split[:20]], 1)


def test_more_samples_never_raise_the_score():
  scores = [
    _score(NOISY, samples=num)['precision'].value for num in (1, 3, 10, 30)
  ]
  for few, many in itertools.pairwise(scores):
    assert (many <= few).all()
  assert scores[0].sum() > scores[-1].sum()


def test_sampling_bounds_the_exact_score_from_above():
  fields = {'k': 3, 'samples': 200, 'accept': 'epsilon(0.05)'}
  result = _score(NOISY, trials=12, **fields)
  pairs, equal = _pairs(num=12), []
  for t in range(12):
    first, second = (
      hand.language(
        NOISY,
        tuple(pairs.tokens[t, side, : pairs.lengths[t, side]].tolist()),
        3,
        rules.epsilon(0.05),
      )
      for side in range(2)
    )
    reason = result['precision'].reason[t]
    assert (reason == 'vacuous') == (not first)
    if first:
      exact, sampled = not first - second, result['precision'].value[t]
      assert exact <= sampled
      equal.append(exact == sampled)
  assert np.mean(equal) > 0.8


def test_shorter_continuations_never_lower_the_score():
  scores = [_score(NOISY, k=k)['precision'] for k in (1, 2, 4, 0)]
  for short, long in itertools.pairwise(scores):
    assert (long.value <= short.value)[long.measured].all()
  assert scores[0].value.sum() > scores[-1].value.sum()


def test_another_world_may_draw_the_states():
  """As recurring positions of Othello; a metric's world has the same tokens."""
  usual = 'othello(size=4)'
  recurring = "othello(size=4, states='recurring', pool=100)"
  worlds = [registry.make('world', spec) for spec in (usual, recurring)]
  results = [
    compression.Metric(trials=20, samples=2, world=spec)(
      oracles.Oracle(worlds[0]), worlds[number], 0
    )
    for number, spec in ((0, ''), (1, ''), (0, recurring))
  ]
  states = [item[0].columns['state'].tolist() for item in results]
  assert states[2] == states[1] != states[0]
  for spec in ('othello()', 'lattice()'):
    metric = compression.Metric(trials=20, world=spec)
    with pytest.raises(core.InputError, match='other tokens or rules'):
      metric(oracles.Oracle(worlds[0]), worlds[0], 0)
  # The same words in another city.
  city = registry.make('world', 'maps(rows=4, columns=4, city_seed=1)')
  metric = compression.Metric(
    trials=6, world='maps(rows=4, columns=4, city_seed=2)'
  )
  with pytest.raises(core.InputError, match='other tokens or rules'):
    metric(oracles.Oracle(city), city, 0)


def test_prefixes_are_different_equally_long_and_reach_the_state():
  pairs = _pairs()
  assert (pairs.reason == '').all()
  assert (pairs.lengths[:, 0] == pairs.lengths[:, 1]).all()
  assert (pairs.tokens[:, 0] != pairs.tokens[:, 1]).any(1).all()
  for side in range(2):
    steps, states = WORLD.walk(
      WORLD.init(60), pairs.tokens[:, side], pairs.lengths[:, side]
    )
    np.testing.assert_array_equal(steps, pairs.lengths[:, side])
    np.testing.assert_array_equal(states, pairs.first)
  assert pairs.counts['equal_prefixes'] > 0


def test_attempts_one_drops_as_published():
  result = _score(ORACLE, attempts=1)['precision']
  dropped = result.reason == 'no_two_prefixes_equal'
  assert 0 < dropped.sum() == result.counts['equal_prefixes']
  assert not (_score(ORACLE)['precision'].reason != '').any()


@dataclasses.dataclass(frozen=True)
class _OnePrefix(tiny.World):
  """Every state is reached in one move, by one prefix, or not at all."""

  def prefix_moves(self, states):
    spans = np.ones((len(states), 2), np.int32)
    spans[states[:, 0] == 0, 1] = 0
    return spans

  def sample_prefixes(self, states, moves, seeds):
    result = super().sample_prefixes(states, moves, seeds * np.uint64(0))
    return result._replace(ok=states[:, 0] != 1)


def test_states_without_two_prefixes_are_rows_with_a_reason():
  result = _score(ORACLE, _OnePrefix())['precision']
  at = result.columns['state']
  assert set(result.reason[at == '0']) == {'no_prefix'}
  assert set(result.reason[at == '1']) == {'no_two_prefixes_missing'}
  assert set(result.reason[at > '1']) == {'no_two_prefixes_equal'}
  assert result.counts['no_prefix'] == 32 * (at == '1').sum()
  assert result.counts['equal_prefixes'] == 32 * np.isin(at, ('2', '3')).sum()


def test_model_filter_keeps_accepted_prefixes():
  model, accept = hand.Ruled(hand.split), rules.epsilon(0.3)
  pairs = _pairs()
  kept = prefix_pairs.model_filter(model, WORLD, accept)(
    pairs.tokens, pairs.lengths
  )
  # After narrow origins only x is accepted.
  other = (pairs.tokens == tiny.Y).any(2) | (pairs.tokens == tiny.END).any(2)
  np.testing.assert_array_equal(kept, ~(other & ~_wide(pairs)).any(1))
  assert 0 < kept.sum() < 60
  result = _score(model, prefix_filter='model')['precision']
  assert result.counts['refused_prefix'] >= (~kept).sum()
  assert 'refused_prefix' not in _score(model)['precision'].counts


def test_columns():
  scores = _score(ORACLE)
  plain = ['trial', 'state', 'moves', 'even']
  assert list(scores['precision_definition'].columns) == plain
  result = scores['precision']
  assert list(result.columns) == [
    *plain,
    'prefix',
    'other_prefix',
    'other_state',
    'suffix',
    'wrong_at',
  ]
  assert not result.columns['suffix'].any()
  assert not result.columns['wrong_at'].any()
  even = result.columns['even']
  np.testing.assert_array_equal(
    even, result.columns['state'].astype(int) % 2 == 0
  )


def test_no_room_to_sample_is_a_reason():
  short = hand.Ruled(hand.split, max_len=4)
  result = _score(short)['precision']
  full = result.columns['moves'] >= 3
  assert (result.reason[full] == 'no_room').all()
  assert (result.reason[~full] == '').all()


def test_a_sampler_that_accepts_nothing_is_a_reason():
  result = _score(hand.Ruled(hand.split), sampler='epsilon(0.999)')['precision']
  assert 'nothing_sampled' in {*result.reason} <= {'', 'nothing_sampled'}


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'trials': 0}, 'trials=0'),
    ({'k': -1}, 'k=-1'),
    ({'prefix_filter': 'all'}, 'available: none, model'),
    ({'accept': 'epsilom(0.1)'}, "did you mean 'epsilon'"),
    ({'sampler': 'nothing'}, 'no accept is named'),
  ],
)
def test_bad_fields(fields, message):
  with pytest.raises(core.InputError, match=message):
    compression.Metric(**fields)
