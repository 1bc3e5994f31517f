"""What holds for every world: each one found is run with its defaults."""

import numpy as np
import pytest

from tests import every_world, judging
from wm import core
from wm.core import basics, registry
from wm.worlds.base import sampling


@pytest.fixture(scope='module', params=every_world.SPECS)
def world(request):
  return every_world.WORLDS[request.param]


@pytest.fixture(scope='module')
def states(world):
  """Initial, trial and walked states; the last one is dead."""
  return every_world.states_of(world)


def test_it_can_be_made_from_its_canonical_spec(world):
  again = registry.make('world', registry.spec(world))
  assert again == world
  assert again.version == world.version


def test_vocabulary_is_words_without_blanks(world):
  vocab = world.vocab
  assert vocab[core.PAD] == '<pad>'
  assert len(set(vocab)) == len(vocab)
  assert all(word and word.split() == [word] for word in vocab)
  assert world.end == core.DEAD or 0 < world.end < len(vocab)


def test_states_are_rows_of_int32(world, states):
  assert states.dtype == np.int32
  assert world.init(3).shape == (3, states.shape[1])
  assert world.legal(states).shape == (len(states), len(world.vocab))
  assert world.legal(states).dtype == bool
  assert world.state_id(states).dtype == np.int64


def test_a_token_is_legal_exactly_where_advance_stays_alive(world, states):
  legal = world.legal(states)
  for token in sample_tokens(world):
    after = world.advance(states, np.full(len(states), token, np.int32))
    alive = world.state_id(after) != core.DEAD
    np.testing.assert_array_equal(alive, legal[:, token])


def sample_tokens(world):
  """All tokens of a small vocabulary; first and last ones of a large one."""
  size = len(world.vocab)
  return range(size) if size < 100 else [*range(30), *range(size - 30, size)]


def test_unknown_tokens_are_illegal(world, states):
  for token in (core.DEAD, len(world.vocab), 10**6):
    after = world.advance(states, np.full(len(states), token, np.int32))
    assert (world.state_id(after) == core.DEAD).all()


def test_the_dead_state_is_a_sink(world, states):
  dead = states[-1:]
  assert world.state_id(dead)[0] == core.DEAD
  assert not world.legal(dead).any()
  tokens = np.arange(len(world.vocab), dtype=np.int32)[:64]
  after = world.advance(np.repeat(dead, len(tokens), 0), tokens)
  assert (world.state_id(after) == core.DEAD).all()
  if isinstance(world, core.Enumerable):
    assert world.count(dead[0], dead[0], 3)[1] == [0, 0, 0]


def test_pad_is_never_legal_and_the_initial_state_is_alive(world, states):
  assert not world.legal(states)[:, core.PAD].any()
  assert world.legal(world.init(1)).any()


def test_batch_equals_single(world, states):
  tokens = drawn(world, states)
  after, legal = world.advance(states, tokens), world.legal(states)
  ids = world.state_id(states)
  for b in range(len(states)):
    item = slice(b, b + 1)
    np.testing.assert_array_equal(
      world.advance(states[item], tokens[item]), after[item]
    )
    np.testing.assert_array_equal(world.legal(states[item]), legal[item])
    np.testing.assert_array_equal(world.state_id(states[item]), ids[item])


def drawn(world, states):
  uniform = basics.uniforms(9, np.arange(len(states)))
  return np.maximum(sampling.drawn(world.legal(states), uniform), 0)


def test_state_id_is_equal_exactly_for_equal_states(world, states):
  ids = world.state_id(states)
  words = every_world.canonical(world, states)
  assert words.dtype == np.int32
  same = (words[:, None] == words[None]).all(-1)
  np.testing.assert_array_equal(ids[:, None] == ids[None], same)


def test_the_same_state_has_the_same_future(world, states):
  _, first, back = np.unique(
    world.state_id(states), return_index=True, return_inverse=True
  )
  legal = world.legal(states)
  np.testing.assert_array_equal(legal, legal[first][back])
  alive = world.state_id(states) != core.DEAD
  np.testing.assert_array_equal(world.over(states), alive & ~legal.any(-1))


def test_inputs_are_not_changed(world, states):
  before, tokens = states.copy(), drawn(world, states)
  world.advance(states, tokens)
  world.legal(states)
  world.walk(states, tokens[:, None], np.ones(len(states), np.int32))
  np.testing.assert_array_equal(states, before)


@pytest.mark.parametrize('split', ['all', 'train', 'heldout'])
def test_samples_are_whole_sequences(world, split):
  results = world.sample(50, 1, split)
  assert 0 < len(results) <= 50
  assert results.tokens.dtype == np.int32
  assert results.lengths.dtype == np.int32
  assert results.lengths.min() > world.prompt_len
  assert results.lengths.max() <= world.max_len
  used = np.arange(results.tokens.shape[1]) < results.lengths[:, None]
  np.testing.assert_array_equal(results.tokens != core.PAD, used)
  assert (judging.judge(world, results) == 'valid').all()


def test_splits_share_no_key(world):
  train, heldout = world.sample(300, 1, 'train'), world.sample(99, 1, 'heldout')
  keys = world.split_key(train), world.split_key(heldout)
  assert keys[0].dtype == np.uint64
  assert not np.intersect1d(*keys).size
  with pytest.raises(core.InputError, match='available'):
    world.sample(1, 1, 'test')


def test_keys_do_not_depend_on_padding_or_batch(world):
  result = world.sample(20, 4)
  wide = np.pad(result.tokens, ((0, 0), (0, 3)))
  keys = world.split_key(result)
  np.testing.assert_array_equal(
    world.split_key(core.Sequences(wide, result.lengths)), keys
  )
  np.testing.assert_array_equal(
    world.split_key(result.take(np.array([7]))), keys[7:8]
  )


def test_sampling_depends_on_the_seed_alone(world):
  first, again, other = (world.sample(60, seed) for seed in (2, 2, 3))
  np.testing.assert_array_equal(first.tokens, again.tokens)
  assert first.counts == again.counts
  assert not np.array_equal(first.tokens, other.tokens)
  assert not len(world.sample(0, 2))


def test_fewer_samples_are_the_first_of_more(world):
  few, many = world.sample(5, 2, 'train'), world.sample(60, 2, 'train')
  np.testing.assert_array_equal(few.tokens, many.tokens[:5])


def test_distinct_samples_have_no_duplicates(world):
  results = world.sample(500, 2)
  if not results.distinct:
    pytest.skip('duplicates are part of this world')
  assert len(np.unique(results.tokens, axis=0)) == len(results)


def test_judgement_names_the_first_failure(world):
  result = world.sample(6, 19)
  tokens, lengths = result.tokens.copy(), result.lengths
  tokens[np.arange(6), lengths - 1] = core.PAD
  cut = core.Sequences(tokens, lengths - 1)
  if world.end == core.DEAD:
    assert (judging.judge(world, cut) == 'valid').all()
    return
  assert (judging.judge(world, cut) == 'no_end').all()
  wide = np.pad(result.tokens, ((0, 0), (0, 1)))
  wide[np.arange(6), lengths] = world.end
  longer = core.Sequences(wide, lengths + 1)
  assert (judging.judge(world, longer) == 'tokens_after_end').all()


def test_judgement_of_headers_and_paths(world):
  result = world.sample(6, 19)
  for place in range(int(result.lengths.min())):
    tokens = result.tokens.copy()
    tokens[:, place] = core.PAD
    causes = judging.judge(world, core.Sequences(tokens, result.lengths))
    header = place < world.prompt_len
    assert (causes == ('bad_header' if header else 'path_fail')).all()


def test_walk_stops_before_the_first_illegal_token(world):
  result = world.sample(12, 23)
  tokens, lengths = result.tokens.copy(), result.lengths
  word = basics.hash64(1, np.arange(12)) % lengths.astype(np.uint64)
  place = word.astype(int)
  tokens[np.arange(12), place] = core.PAD
  steps, after = world.walk(world.init(12), tokens, lengths)
  np.testing.assert_array_equal(steps, place)
  wanted_steps, expected = core.World.walk(
    world, world.init(12), tokens, lengths
  )
  np.testing.assert_array_equal(steps, wanted_steps)
  np.testing.assert_array_equal(after, expected)
