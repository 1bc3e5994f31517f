"""Hashes, defaults of World, sampling and forcing through sessions."""

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import wm
from tests import plain, tiny
from wm import core
from wm.core import accept, basics
from wm.models.serving import oracles

MASK = 2**64 - 1


def _hash_by_hand(*words: int) -> int:
  mixed = 0
  for word in words:
    x = ((mixed ^ (word & MASK)) + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    mixed = x ^ (x >> 31)
  return mixed


def test_hash_is_splitmix64():
  # First output of splitmix64 with seed 0, as its author publishes it.
  assert int(basics.hash64(0)) == 0xE220A8397B1DCDAF
  assert int(basics.hash64()) == 0


@hypothesis.given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4))
def test_hash_by_hand(words):
  assert int(basics.hash64(*words)) == _hash_by_hand(*words)


def test_hash_broadcasts_and_keeps_uint64():
  rows = basics.hash64(np.arange(3)[:, None], np.arange(2))
  assert rows.shape == (3, 2)
  assert int(rows[2, 1]) == _hash_by_hand(2, 1)
  big = np.array([2**64 - 1], np.uint64)
  assert int(basics.hash64(big)[0]) == _hash_by_hand(2**64 - 1)
  assert int(basics.hash64(np.array([-1]))[0]) == _hash_by_hand(2**64 - 1)


def test_uniforms_are_uniform_and_below_one():
  u = basics.uniforms(3, np.arange(200_000))
  assert u.dtype == np.float32
  assert u.min() >= 0
  assert u.max() < 1
  assert abs(u.mean() - 0.5) < 0.003
  counts = np.histogram(u, 16, (0, 1))[0]
  # Chi-square of 15 degrees of freedom: 44 has p = 1e-4.
  assert ((counts - 12_500) ** 2 / 12_500).sum() < 44


def test_walk_stops_before_the_first_illegal_token():
  world = tiny.World()
  tokens = np.array([[4, tiny.X, tiny.Y, tiny.X], [7, tiny.END, tiny.X, 0]])
  steps, states = world.walk(world.init(2), tokens, np.array([4, 3]))
  assert steps.tolist() == [2, 2]
  assert states[:, 0].tolist() == [1, tiny.OVER]


def test_default_key_tells_sequences_apart():
  world = tiny.World()
  sequences = world.sample(300, 0)
  key = world.split_key(sequences)
  rows = {tuple(row) for row in sequences.tokens.tolist()}
  assert len(set(key.tolist())) == len(rows)


def test_scores_fill_in_and_blank_unmeasured():
  result = core.scores('precision', [1, 0, 1], reason=['', 'empty', ''])
  assert result.measured.tolist() == [True, False, True]
  assert np.isnan(result.value[1])
  assert result.group.tolist() == [0, 1, 2]
  assert result.weight.tolist() == [1, 1, 1]


def _samples(world, seeds, accept_rule, num=5, max_len=10, rows=None):
  tokens = np.array([[4, tiny.X], [6, tiny.Y], [5, 0]], np.int32)
  lengths = np.array([2, 2, 1])
  rows = np.arange(3) if rows is None else rows
  return core.sample(
    oracles.Oracle(world),
    tokens[rows],
    lengths[rows],
    num=num,
    max_len=max_len,
    seeds=seeds[rows],
    accept=accept_rule,
  )


def test_samples_are_legal_ended_or_capped_and_independent_of_batch():
  world, seeds = tiny.World(), np.array([11, 12, 13])
  together = _samples(world, seeds, accept.epsilon(0.01))
  starts = world.walk(
    world.init(3), np.array([[4, 2], [6, 3], [5, 0]]), np.array([2, 2, 1])
  )[1]
  for b in range(3):
    alone = _samples(world, seeds, accept.epsilon(0.01), rows=np.array([b]))
    width = alone.tokens.shape[2]
    np.testing.assert_array_equal(
      alone.tokens[0], together.tokens[b, :, :width]
    )
    np.testing.assert_array_equal(alone.status[0], together.status[b])
    for m in range(5):
      length = together.lengths[b, m]
      row = together.tokens[b, m]
      steps, _ = world.walk(starts[b : b + 1], row[None], np.array([length]))
      assert steps[0] == length
      assert (row[length:] == core.PAD).all()
      if together.status[b, m] == core.ENDED:
        assert row[length - 1] == tiny.END
      else:
        assert together.status[b, m] == core.CAPPED
        assert length == 10 - [2, 2, 1][b]


def test_sampling_without_budget_or_tokens():
  world, seeds = tiny.World(), np.array([1, 2, 3])
  none = _samples(world, seeds, accept.epsilon(), max_len=2)
  assert none.status[:2].tolist() == [[core.CAPPED] * 5] * 2
  assert none.lengths[:2].max() == 0
  # Half-half states have nothing above 0.9; node 1 and 3 are stuck or forced.
  stuck = _samples(world, seeds, accept.epsilon(0.9))
  assert set(stuck.status.reshape(-1).tolist()) == {core.STUCK}


def test_sample_frequencies_follow_the_predictor():
  world = tiny.World()
  seeds = np.array([5])
  result = core.sample(
    oracles.Oracle(world),
    np.array([[7]], np.int32),
    np.array([1]),
    num=4000,
    max_len=2,
    seeds=seeds,
    accept=accept.epsilon(0.01),
  )
  ended = (result.tokens[0, :, 0] == tiny.END).mean()
  assert abs(ended - 0.5) < 0.04


def test_accepted_steps_count_to_the_first_refusal():
  world = tiny.World()
  suffixes = np.array([[[2, 2, 1], [2, 3, 0], [3, 3, 1], [3, 3, 2]]], np.int32)
  lengths = np.array([[3, 2, 3, 0]])
  steps = plain.accepted_steps(
    oracles.Oracle(world),
    np.array([[4]], np.int32),
    np.array([1]),
    suffixes,
    lengths,
    accept.epsilon(0.01),
  )
  assert steps.tolist() == [[3, 1, 3, 0]]


@hypothesis.settings(max_examples=30, deadline=None)
@hypothesis.given(st.integers(0, 2**32), st.integers(1, 6))
def test_accepted_steps_of_own_samples_are_their_lengths(seed, num):
  world = tiny.World()
  predictor = oracles.NoisyOracle(
    world, illegal=0.2, wrong=0.5, by='prefix', seed=1
  )
  prefix, length = np.array([[6]], np.int32), np.array([1])
  rule = accept.epsilon(0.1)
  result = core.sample(
    predictor,
    prefix,
    length,
    num=num,
    max_len=9,
    seeds=np.array([seed]),
    accept=rule,
  )
  steps = plain.accepted_steps(
    predictor, prefix, length, result.tokens, result.lengths, rule
  )
  np.testing.assert_array_equal(steps, result.lengths)


def test_input_error_is_a_value_error():
  with pytest.raises(ValueError, match='given'):
    raise core.InputError('x was given')


def test_sections_of_docstrings():
  doc = """Says what it is.

  Attributes:
    num: how many: a number
      of things.
    kind: `one`.

  Glossary:
    share: Share of
      things.
  """
  assert basics.section(doc, 'Attributes') == {
    'num': 'how many: a number of things.',
    'kind': '`one`.',
  }
  assert basics.section(doc, 'Glossary') == {'share': 'Share of things.'}
  assert basics.section(doc, 'Returns') == basics.section(None, 'Returns') == {}


@pytest.mark.parametrize('rows', [[[1, 2]], ((1, 2),), None])
def test_sequences_are_arrays(rows):
  with pytest.raises(core.InputError, match='tokens of Sequences are of type'):
    core.Sequences(rows, np.array([2]))
  with pytest.raises(core.InputError, match='lengths of Sequences are of type'):
    core.Sequences(np.array([[1, 2]]), [2])


def test_bad_input_is_caught_by_its_public_name():
  assert wm.InputError is core.InputError
  with pytest.raises(wm.InputError):
    wm.make('world', 'nowhere()')


def test_a_measure_says_which_way_is_better():
  assert core.Measure(1, 'is right').direction == 1
  assert core.Measure(0, 'makes no mistake').direction == -1
  assert core.Measure(headline=True, less_is_better=True).direction == -1
  assert core.Measure(panel=True).direction == 0


def test_older_declarations_of_a_metric_are_refused():
  with pytest.raises(core.InputError, match=r'headline is no .* measures = '):
    type('Metric', (core.Metric,), {'headline': ('legal',)})
