"""Compression against answers worked out by hand."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
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
  assert metric.directions == 'first'


@pytest.mark.parametrize('accept', ['epsilon(0.01)', 'epsilon(0.3)'])
@pytest.mark.parametrize('exact', [False, True])
def test_oracle_is_perfect(accept, exact):
  found = _score(
    ORACLE,
    accept=accept,
    exact=exact,
    k=4 * exact,
    graded=True,
    directions='both',
  )
  for quantity in ('precision', 'precision_definition', 'accepted_share'):
    assert _value(found[quantity]) == 1
  assert set(found['first_violation'].reason) == {'no_violation'}


def test_oracle_below_its_threshold_is_vacuous_in_part():
  # Two legal tokens have about one half each: node 1 alone goes on.
  found = _score(ORACLE, accept='epsilon(0.6)')['precision']
  vacuous = found.reason == 'vacuous'
  at = found.columns['state']
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
  found = _score(
    UNIFORM, accept='epsilon(0.5)', sampler='published(0.01)', graded=True
  )
  assert _value(found['precision_published']) == 0
  assert statistics.summarize(found['precision'])['n'] == 0


def _wide(pairs):
  """[T, 2] bool: after this prefix both moves are accepted."""
  return np.isin(pairs.tokens[:, :, 0], (tiny.AT, tiny.AT + 1))


@pytest.mark.parametrize('fields', [{}, {'exact': True, 'k': 3}])
def test_hand_made_model(fields):
  wide = _wide(_pairs())
  found = _score(hand.Ruled(hand.split), **fields)['precision']
  room = found.reason == ''
  expected = ~(wide[:, 0] & ~wide[:, 1])
  np.testing.assert_array_equal(found.value[room], expected[room])
  assert 0 < expected.mean() < 1
  assert room.mean() > 0.9


def test_graded_hand_made_model_by_formula():
  # At each of k tokens a sample from a wide prefix leaves x with 1/2.
  wide = _wide(_pairs())
  split = wide[:, 0] & ~wide[:, 1]
  found = _score(hand.Ruled(hand.split), exact=True, k=3, graded=True)
  room = 12 - _pairs().lengths.max(1) >= 3
  share = found['accepted_share'].value
  np.testing.assert_allclose(share[split & room], 1 / 8)
  np.testing.assert_allclose(share[~split], 1)
  # The boundary is y, xy, xxy: refused at tokens 1, 2 and 3.
  first = found['first_violation']
  np.testing.assert_allclose(first.value[split & room], 2)
  sampled = _score(
    hand.Ruled(hand.split), k=3, graded=True, samples=1500, trials=20
  )
  share = sampled['accepted_share'].value
  np.testing.assert_allclose(share[split[:20] & room[:20]], 1 / 8, atol=0.05)
  # By probability they are 4 : 2 : 1.
  first = sampled['first_violation'].value
  np.testing.assert_allclose(
    first[split[:20] & room[:20]], (4 + 4 + 3) / 7, atol=0.1
  )


def test_directions_both_checks_the_other_way_round():
  one = _score(NOISY)['precision']
  both = _score(NOISY, directions='both')['precision']
  np.testing.assert_array_equal(both.value[:60], one.value)
  np.testing.assert_array_equal(both.group[:60], both.group[60:])
  np.testing.assert_array_equal(both.columns['direction'], [0] * 60 + [1] * 60)
  wide = _wide(_pairs())
  found = _score(hand.Ruled(hand.split), directions='both')['precision']
  measured = found.reason[60:] == ''
  expected = ~(wide[:, 1] & ~wide[:, 0])
  np.testing.assert_array_equal(found.value[60:][measured], expected[measured])


def test_more_samples_never_raise_the_score():
  scores = [
    _score(NOISY, samples=num)['precision'].value for num in (1, 3, 10, 30)
  ]
  for few, many in itertools.pairwise(scores):
    assert (many <= few).all()
  assert scores[0].sum() > scores[-1].sum()


def test_sampling_bounds_the_exact_score_from_above():
  exact = _score(NOISY, exact=True, k=3)['precision']
  sampled = _score(NOISY, k=3, samples=200)['precision']
  measured = exact.measured & sampled.measured
  assert (exact.value <= sampled.value)[measured].all()
  assert (exact.value == sampled.value)[measured].mean() > 0.8


def test_exact_equals_brute_force():
  found = _score(NOISY, exact=True, k=3, trials=12, accept='epsilon(0.05)')
  pairs = _pairs(num=12)
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
    reason = found['precision'].reason[t]
    assert (reason == 'vacuous') == (not first)
    if first:
      assert found['precision'].value[t] == (not first - second)


def test_shorter_continuations_never_lower_the_score():
  scores = [_score(NOISY, k=k)['precision'] for k in (1, 2, 4, 0)]
  for short, long in itertools.pairwise(scores):
    assert (long.value <= short.value)[long.measured].all()
  assert scores[0].value.sum() > scores[-1].value.sum()


@pytest.mark.parametrize(
  'fields',
  [
    {'graded': True},
    {'directions': 'both', 'accept': 'top_k(2)'},
    {'exact': True, 'k': 3, 'graded': True},
    {'prefix_filter': 'model', 'accept': 'top_p(0.9)'},
  ],
)
def test_batch_does_not_matter(fields):
  one = _score(NOISY, trials=30, batch=1, **fields)
  for batch in (4, 64):
    other = _score(NOISY, trials=30, batch=batch, **fields)
    for name, scores in one.items():
      np.testing.assert_array_equal(scores.value, other[name].value)
      np.testing.assert_array_equal(scores.reason, other[name].reason)
      assert scores.counts == other[name].counts


def test_capped_is_a_reason():
  found = _score(UNIFORM, exact=True, k=3, cap=5)['precision']
  assert set(found.reason) == {'capped'}
  # A decided trial needs no more: the cap comes too late to matter.
  found = _score(hand.Ruled(hand.split), exact=True, k=3, cap=1)['precision']
  wide = _wide(_pairs())
  assert (found.reason[wide.all(1)] == 'capped').any()
  assert (found.reason[wide[:, 0] & ~wide[:, 1]] != 'capped').all()


@pytest.mark.parametrize('directions', ['first', 'both'])
def test_a_state_counts_once_however_many_pairs_it_has(directions):
  """The mean over states of the means over their measured pairs."""
  fields = {'pairs': 4, 'attempts': 1, 'directions': directions}
  scores = _score(hand.Ruled(hand.split), seed=1, **fields)['precision']
  state = np.tile(np.arange(60) // 4, 1 + (directions == 'both'))
  state = np.stack([state, scores.columns['direction']], 1)
  np.testing.assert_array_equal(
    scores.columns['state'][:60:4].repeat(4), scores.columns['state'][:60]
  )
  frame = pd.DataFrame({'value': scores.value, 'state': [*map(tuple, state)]})
  means = frame.dropna().groupby('state').value.mean()
  counts = frame.dropna().groupby('state').size()
  assert counts.nunique() > 1, 'no pair was dropped'
  assert _value(scores) == pytest.approx(means.mean())
  assert abs(means.mean() - frame.value.mean()) > 1e-3
  prefixes = {*scores.columns['prefix'][:60]}
  assert len(prefixes) > 15, 'pairs of a state differ'


def test_another_world_may_draw_the_states():
  """As recurring positions of Othello; a metric's world has the same tokens."""
  usual = 'othello(size=4)'
  recurring = "othello(size=4, states='recurring', pool=100)"
  worlds = [registry.make('world', spec) for spec in (usual, recurring)]
  found = [
    compression.Metric(trials=20, samples=2, world=spec)(
      oracles.Oracle(worlds[0]), worlds[number], 0
    )
    for number, spec in ((0, ''), (1, ''), (0, recurring))
  ]
  states = [one[0].columns['state'].tolist() for one in found]
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


def test_states_of_several_pairs_are_the_first_of_one_each():
  one = _score(ORACLE, trials=20)['precision'].columns['state']
  three = _score(ORACLE, trials=60, pairs=3)['precision'].columns['state']
  np.testing.assert_array_equal(three, one.repeat(3))
  assert (_score(NOISY)['precision'].weight == 1).all()


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
  found = _score(ORACLE, attempts=1)['precision']
  dropped = found.reason == 'no_two_prefixes_equal'
  assert 0 < dropped.sum() == found.counts['equal_prefixes']
  assert not (_score(ORACLE)['precision'].reason != '').any()


@dataclasses.dataclass(frozen=True)
class _OnePrefix(tiny.World):
  """Every state is reached in one move, by one prefix, or not at all."""

  def prefix_moves(self, states):
    spans = np.ones((len(states), 2), np.int32)
    spans[states[:, 0] == 0, 1] = 0
    return spans

  def sample_prefixes(self, states, moves, seeds):
    found = super().sample_prefixes(states, moves, seeds * np.uint64(0))
    return found._replace(ok=states[:, 0] != 1)


def test_states_without_two_prefixes_are_rows_with_a_reason():
  found = _score(ORACLE, _OnePrefix())['precision']
  at = found.columns['state']
  assert set(found.reason[at == '0']) == {'no_prefix'}
  assert set(found.reason[at == '1']) == {'no_two_prefixes_missing'}
  assert set(found.reason[at > '1']) == {'no_two_prefixes_equal'}
  assert found.counts['no_prefix'] == 32 * (at == '1').sum()
  assert found.counts['equal_prefixes'] == 32 * np.isin(at, ('2', '3')).sum()


def test_model_filter_keeps_accepted_prefixes():
  model, accept = hand.Ruled(hand.split), rules.epsilon(0.3)
  pairs = _pairs()
  kept = prefix_pairs.model_filter(model, WORLD, accept, 8)(
    pairs.tokens, pairs.lengths
  )
  # After narrow origins only x is accepted.
  other = (pairs.tokens == tiny.Y).any(2) | (pairs.tokens == tiny.END).any(2)
  np.testing.assert_array_equal(kept, ~(other & ~_wide(pairs)).any(1))
  assert 0 < kept.sum() < 60
  found = _score(model, prefix_filter='model')['precision']
  assert found.counts['refused_prefix'] >= (~kept).sum()
  assert 'refused_prefix' not in _score(model)['precision'].counts


def test_columns():
  scores = _score(ORACLE)
  plain = ['trial', 'state', 'moves', 'direction', 'even']
  assert list(scores['precision_definition'].columns) == plain
  found = scores['precision']
  assert list(found.columns) == [
    *plain,
    'prefix',
    'other_prefix',
    'other_state',
    'suffix',
    'wrong_at',
  ]
  assert not found.columns['suffix'].any()
  assert not found.columns['wrong_at'].any()
  even = found.columns['even']
  np.testing.assert_array_equal(
    even, found.columns['state'].astype(int) % 2 == 0
  )


def test_no_room_to_sample_is_a_reason():
  short = hand.Ruled(hand.split, max_len=4)
  for fields in ({}, {'exact': True, 'k': 2}):
    found = _score(short, **fields)['precision']
    full = found.columns['moves'] >= 3
    assert (found.reason[full] == 'no_room').all()
    assert (found.reason[~full] == '').all()


def test_a_sampler_that_accepts_nothing_is_a_reason():
  found = _score(hand.Ruled(hand.split), sampler='epsilon(0.999)')['precision']
  assert 'nothing_sampled' in {*found.reason} <= {'', 'nothing_sampled'}


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'trials': 0}, 'trials=0'),
    ({'pairs': 0}, 'pairs=0'),
    ({'trials': 10, 'pairs': 3}, 'trials=10, pairs=3; expected a multiple'),
    ({'k': -1}, 'k=-1'),
    ({'exact': True}, 'k >= 1'),
    ({'directions': 'back'}, 'available: first, both'),
    ({'prefix_filter': 'all'}, 'available: none, model'),
    ({'accept': 'epsilom(0.1)'}, "did you mean 'epsilon'"),
    ({'sampler': 'nothing'}, 'no accept is named'),
  ],
)
def test_bad_fields(fields, message):
  with pytest.raises(core.InputError, match=message):
    compression.Metric(**fields)
