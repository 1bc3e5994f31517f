"""Continuations that the world draws, and answers about them."""

import numpy as np
import pytest

from tests import tiny
from tests.metrics import hand
from wm import core
from wm.core import accept as rules
from wm.core import basics, registry
from wm.evaluation import context, membership, prefix_pairs
from wm.metrics import compression
from wm.models.serving import oracles, stateless

WORLD = tiny.World()
SEATING = registry.make('world', 'seating()')


def _drawn(world, states, longest, num=2000, room=None, seed=0):
  room = np.full(len(states), longest) if room is None else np.asarray(room)
  return membership.suffixes(
    world,
    states,
    room,
    num=num,
    longest=longest,
    seeds=basics.hash64(seed, np.arange(len(states))),
  )


def test_half_of_the_suffixes_are_drawn_whatever_is_legal():
  states = SEATING.sample_states(3, 0)
  tokens, lengths = _drawn(SEATING, states, 1, num=6000)
  assert (lengths == 1).all()
  for row, state in zip(tokens[..., 0], states, strict=True):
    legal = SEATING.legal(state[None])[0]
    expected = 0.5 * legal / legal.sum() + 0.5 / 21
    expected[core.PAD] = 0
    result = np.bincount(row, minlength=22) / 6000
    np.testing.assert_allclose(result, expected, atol=0.025)


def test_the_other_half_is_legal_throughout():
  states = WORLD.sample_states(5, 1)
  tokens, lengths = _drawn(WORLD, states, 3)
  anything = 1 / (len(WORLD.vocab) - 1)
  for state, rows, sizes in zip(states, tokens, lengths, strict=True):
    start = np.repeat(state[None], len(rows), axis=0)
    steps, after = WORLD.walk(start, rows, sizes)
    over = WORLD.over(after) & (sizes < 3)
    assert ((sizes == 3) | (over & (steps == sizes))).all()
    legal = (steps == sizes).mean()
    by_chance = WORLD.legal(state[None]).sum() * anything
    assert 0.5 - 0.05 < legal < 0.5 + 0.5 * by_chance + 0.05


def test_there_is_something_to_ask_where_nothing_is_legal():
  ended = WORLD.advance(WORLD.parse('0'), np.array([tiny.END]))
  dead = WORLD.advance(WORLD.init(1), np.array([core.PAD]))
  for state in (ended, dead):
    tokens, lengths = _drawn(WORLD, state, 2, num=50)
    assert (lengths >= 1).all()
    assert (tokens[..., 0] != core.PAD).all()


def test_room_bounds_suffixes_and_rows_are_their_own():
  states = WORLD.sample_states(3, 1)
  tokens, lengths = _drawn(WORLD, states, 4, num=9, room=[0, 2, 9])
  assert lengths.max(1).tolist() == [0, 2, 4]
  assert not tokens[1, :, 2:].any()
  alone = membership.suffixes(
    WORLD,
    states[2:],
    np.array([9]),
    num=9,
    longest=4,
    seeds=basics.hash64(0, np.array([2])),
  )
  np.testing.assert_array_equal(alone[0][0], tokens[2])


def _given(predictor, tokens, lengths):
  """Trials of the given prefixes, whose states do not matter."""
  num = len(tokens)
  states = np.zeros((num, 1), np.int32)
  zeros, reason = np.zeros(num, np.int32), np.full(num, '')
  pairs = context.PrefixPairs(
    states, states, tokens, lengths, zeros, reason, zeros, {}
  )
  accept = rules.epsilon(0.05)
  return context.Trials(predictor, WORLD, pairs, accept, accept)


def _questions():
  states = WORLD.sample_states(8, 2)
  pairs = prefix_pairs.prefix_pairs(WORLD, states, states, seed=0, attempts=32)
  tokens, lengths = _drawn(WORLD, states, 3, num=6)
  lengths[0, 0] = 0
  return pairs.tokens, pairs.lengths, tokens, lengths


def test_models_with_probabilities_answer_token_by_token():
  accept = rules.epsilon(0.05)
  noisy = oracles.NoisyOracle(
    WORLD, illegal=0.1, wrong=0.3, by='prefix', seed=5
  )
  prefixes, sizes, tokens, lengths = _questions()
  result = membership.answers(noisy, prefixes, sizes, tokens, lengths, accept)
  assert result.dtype == np.int8
  for t, p, m in np.ndindex(result.shape):
    suffix = tuple(tokens[t, m, : lengths[t, m]].tolist())
    prefix = tuple(prefixes[t, p, : sizes[t, p]].tolist())
    if not suffix:
      assert result[t, p, m] == core.NO_ANSWER
      continue
    known = hand.language(noisy, prefix, len(suffix), accept)
    # Past the end token nothing is followed by brute force.
    if tiny.END not in suffix[:-1]:
      assert result[t, p, m] == (suffix in known)
  assert set(np.unique(result)) == {-1, 0, 1}


def test_answers_are_those_of_the_world_for_all_that_know_it():
  questions = _questions()
  solver = registry.make('model', 'solver()').predictor(WORLD, 0)
  result = [
    membership.answers(model, *questions, rules.epsilon(0.01))
    for model in (oracles.Oracle(WORLD), solver)
  ]
  np.testing.assert_array_equal(*result)
  prefixes, sizes, tokens, lengths = questions
  elements = core.boundary.stacked(
    [
      [row[None, :n] for row, n in zip(rows, sample, strict=True) if n]
      for rows, sample in zip(tokens, lengths, strict=True)
    ]
  )
  trials = _given(solver, prefixes, sizes)
  kept, wrong_at = membership.divergence(trials, elements)
  assert kept.listed() == elements.listed()
  assert not trials.prefixes.counts
  first, second = np.moveaxis(result[0], 1, 0)[:, lengths > 0]
  apart = (first == core.YES) & (second == core.NO)
  np.testing.assert_array_equal(
    wrong_at, np.where(apart, 0, lengths[lengths > 0])
  )


def test_suffixes_without_an_answer_are_left_out():
  listed = [[(1,), (2,), (3, 1)], [], [(2,)]]
  elements = core.boundary.stacked(
    [[np.array([s]) for s in sample] for sample in listed]
  )
  prefixes = np.array([[[1, 2], [2, 1]]] * 3, np.int32)
  sizes = np.full((3, 2), 2, np.int32)
  replies = {
    ((1, 2), (1,)): 1,
    ((2, 1), (1,)): 0,
    ((1, 2), (2,)): -1,
    ((2, 1), (2,)): 0,
    ((1, 2), (3, 1)): 1,
    ((2, 1), (3, 1)): 1,
  }

  class Asked(stateless.Accepting):
    def answers(self, prefixes, suffixes, trials=None):
      pairs = zip(prefixes, suffixes, strict=True)
      return np.array([replies[tuple(p), tuple(s)] for p, s in pairs], np.int8)

  trials = _given(Asked.__new__(Asked), prefixes, sizes)
  kept, wrong_at = membership.divergence(trials, elements)
  assert kept.listed() == [[(1,), (3, 1)], [], []]
  assert wrong_at.tolist() == [0, 2]
  assert trials.prefixes.counts == {'no_answer': 2}


def test_agreement_needs_two_answers():
  yes, no, none = core.YES, core.NO, core.NO_ANSWER
  answers = np.array([[[yes, yes, yes, none], [yes, no, none, none]]], np.int8)
  assert membership.answered(answers).tolist() == [[True, True, False, False]]
  assert membership.disagree(answers).tolist() == [[False, True, False, False]]
  counts = {}
  membership.count_unanswered(counts, answers, np.array([[1, 1, 1, 0]]))
  assert counts == {'no_answer': 1}


def _score(model, world=WORLD, **fields):
  fields = {'trials': 40, 'samples': 5, 'k': 1, 'suffixes': 'world', **fields}
  results = compression.Metric(**fields)(model, world, 0)
  return {scores.quantity: scores for scores in results}


def test_disagreement_either_way_counts():
  """The model accepts y after wide origins alone, x and y not as one."""
  model = hand.Ruled(hand.split)
  result = _score(model, samples=80, graded=True)
  precision = result['precision']
  states = WORLD.sample_states(40, basics.stream(0, context.STATES))
  pairs = prefix_pairs.prefix_pairs(WORLD, states, states, seed=0, attempts=32)
  wide = np.isin(pairs.tokens[:, :, 0], (tiny.AT, tiny.AT + 1))
  same = wide[:, 0] == wide[:, 1]
  room = precision.measured
  np.testing.assert_array_equal(precision.value[room], same[room])
  assert 0.2 < same.mean() < 0.9
  apart = room & ~same
  assert set(precision.columns['suffix'][apart]) == {WORLD.vocab[tiny.Y]}
  share = result['accepted_share'].value[apart]
  assert ((share > 0.4) & (share < 1)).all()


def test_questions_stop_at_the_first_disagreement():
  asked = []
  solver = registry.make('model', 'solver(errors=0.5)').predictor(SEATING, 0)

  def accepts(prefixes, suffixes):
    asked.extend(zip(prefixes, suffixes, strict=True))
    return solver.answers(prefixes, suffixes)

  model = stateless.Accepting(
    accepts, vocab_size=solver.vocab_size, end=core.DEAD, max_len=6
  )
  graded = _score(model, SEATING, samples=30, graded=True)['precision']
  all_asked, asked[:] = len(asked), []
  plain = _score(model, SEATING, samples=30)['precision']
  assert len(asked) < all_asked / 3
  np.testing.assert_array_equal(plain.value, graded.value)
  np.testing.assert_array_equal(plain.reason, graded.reason)
  for name in ('suffix', 'wrong_at'):
    np.testing.assert_array_equal(plain.columns[name], graded.columns[name])


def test_no_room_to_ask_is_a_reason():
  model = hand.Ruled(hand.split, max_len=4)
  result = _score(model)['precision']
  full = result.columns['moves'] >= 3
  assert (result.reason[full] == 'no_room').all()
  assert (result.reason[~full] == '').all()


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'k': 0}, 'k >= 1'),
    ({'sampler': 'published(0.01)'}, 'no sampler'),
    ({'suffixes': 'all'}, 'available: model, world'),
  ],
)
def test_bad_fields(fields, message):
  with pytest.raises(core.InputError, match=message):
    _score(None, **fields)
