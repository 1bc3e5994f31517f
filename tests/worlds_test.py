"""What holds for every world: each one found is run with its defaults."""

from xml.etree import ElementTree

import numpy as np
import pytest

from wm import core
from wm.core import registry
from wm.worlds.base import table

# Every world with its defaults, and corners of some.
SPECS = [f'{name}()' for name in registry.names('world')] + [
  "maps(traversal='shortest')",
  "maps(traversal='noisy', weightings=3)",
  'maps(rows=14, columns=14, max_moves=30)',
  'connect4(rows=2, columns=4)',
  "othello(size=6, states='recurring')",
  "chess(vocabulary='packed', length=40, policy='promotions', least=0)",
  "chess(states='recurring', length=21)",
  'lattice(size=2, length=40)',
  "groups(group='a5', tokens='generators', length=21)",
  'seating(people=4, length=9, most=5)',
  'seating(people=5)',
  "automaton(preset='tomita3', sampling='words')",
  "automaton(preset='s3_generators', length=20)",
]
STATES = 24


@pytest.fixture(scope='module', params=SPECS)
def world(request):
  return registry.make('world', request.param)


@pytest.fixture(scope='module')
def states(world):
  """Initial, trial, walked and dead states."""
  walked = [world.init(1), world.sample_states(STATES, 3)]
  sequences = world.sample(8, 5)
  for cut in (1, 2, 3, 5):
    lengths = np.minimum(sequences.lengths, cut)
    walked.append(world.walk(world.init(8), sequences.tokens, lengths)[1])
  walked.append(ends(world, sequences))
  dead = world.advance(world.init(1), np.zeros(1, np.int32))
  return np.concatenate([*walked, dead])


def ends(world, sequences):
  num = len(sequences)
  steps, after = world.walk(
    world.init(num), sequences.tokens, sequences.lengths
  )
  assert (steps == sequences.lengths).all()
  return after


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
  assert not world.complete(dead).any()
  tokens = np.arange(len(world.vocab), dtype=np.int32)[:64]
  after = world.advance(np.repeat(dead, len(tokens), 0), tokens)
  assert (world.state_id(after) == core.DEAD).all()
  assert world.count(dead[0], 3) == [0, 0, 0]


def test_pad_is_never_legal_and_the_initial_state_is_alive(world, states):
  assert not world.legal(states)[:, core.PAD].any()
  assert world.legal(world.init(1)).any()


def test_batch_equals_single(world, states):
  tokens = drawn(world, states)
  after, legal = world.advance(states, tokens), world.legal(states)
  ids = world.state_id(states)
  for b in range(len(states)):
    one = slice(b, b + 1)
    np.testing.assert_array_equal(
      world.advance(states[one], tokens[one]), after[one]
    )
    np.testing.assert_array_equal(world.legal(states[one]), legal[one])
    np.testing.assert_array_equal(world.state_id(states[one]), ids[one])


def drawn(world, states):
  uniform = core.uniforms(9, np.arange(len(states)))
  return np.maximum(table.drawn(world.legal(states), uniform), 0)


def test_state_id_is_equal_exactly_for_equal_states(world, states):
  ids = world.state_id(states)
  words = world.canonical(states)
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


def test_every_state_has_a_picture(world, states):
  for state in states[:: max(len(states) // 8, 1)]:
    root = ElementTree.fromstring(world.render(state))
    assert root.tag.endswith('svg')
    assert len(root)


def test_inputs_are_not_changed(world, states):
  before, tokens = states.copy(), drawn(world, states)
  world.advance(states, tokens)
  world.legal(states)
  world.walk(states, tokens[:, None], np.ones(len(states), np.int32))
  np.testing.assert_array_equal(states, before)


@pytest.mark.parametrize('split', ['all', 'train', 'heldout'])
def test_samples_are_whole_sequences(world, split):
  found = world.sample(50, 1, split)
  assert 0 < len(found) <= 50
  assert found.tokens.dtype == np.int32
  assert found.lengths.dtype == np.int32
  assert found.lengths.min() > world.prompt_len()
  assert found.lengths.max() <= world.max_len
  used = np.arange(found.tokens.shape[1]) < found.lengths[:, None]
  np.testing.assert_array_equal(found.tokens != core.PAD, used)
  assert world.complete(ends(world, found)).all()
  assert (world.judge(found) == 'valid').all()


def test_splits_share_no_key(world):
  train, heldout = world.sample(300, 1, 'train'), world.sample(99, 1, 'heldout')
  keys = world.key(train), world.key(heldout)
  assert keys[0].dtype == np.uint64
  assert not np.intersect1d(*keys).size
  with pytest.raises(core.InputError, match='available'):
    world.sample(1, 1, 'test')


def test_keys_do_not_depend_on_padding_or_batch(world):
  found = world.sample(20, 4)
  wide = np.pad(found.tokens, ((0, 0), (0, 3)))
  keys = world.key(found)
  np.testing.assert_array_equal(
    world.key(core.Sequences(wide, found.lengths)), keys
  )
  np.testing.assert_array_equal(world.key(found.take(np.array([7]))), keys[7:8])


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
  if not world.distinct:
    pytest.skip('duplicates are part of this world')
  found = world.sample(500, 2)
  assert len(np.unique(found.tokens, axis=0)) == len(found)


def test_trial_states_depend_on_seed_and_number(world):
  first, other = world.sample_states(40, 1), world.sample_states(40, 2)
  np.testing.assert_array_equal(first, world.sample_states(40, 1))
  np.testing.assert_array_equal(first[:7], world.sample_states(7, 1))
  assert not np.array_equal(first, other)
  assert (world.state_id(first) != core.DEAD).all()


def test_prefixes_reach_their_state_in_so_many_moves(world):
  states = world.sample_states(STATES, 7)
  bounds = world.prefix_moves(states)
  assert bounds.dtype == np.int32
  usable = np.flatnonzero(bounds[:, 0] <= bounds[:, 1])
  assert usable.size
  for moves in bounds[usable].T:
    found = world.sample_prefixes(states[usable], moves, np.arange(usable.size))
    ok = found.ok
    assert ok.mean() > 0.8
    assert (found.lengths[ok] == moves[ok] + world.prompt_len()).all()
    assert (found.lengths[ok] < world.max_len).all()
    steps, after = world.walk(
      world.init(len(moves)), found.tokens, found.lengths
    )
    assert (steps[ok] == found.lengths[ok]).all()
    np.testing.assert_array_equal(
      world.canonical(after[ok]), world.canonical(states[usable][ok])
    )


def test_prefixes_depend_on_their_own_seed(world):
  states = world.sample_states(STATES, 7)
  bounds = world.prefix_moves(states)
  keep = bounds[:, 0] <= bounds[:, 1]
  states, moves = states[keep], bounds[keep, 1]
  seeds = np.arange(len(states)) + 50
  found = world.sample_prefixes(states, moves, seeds)
  for t in (0, len(states) - 1):
    one = slice(t, t + 1)
    alone = world.sample_prefixes(states[one], moves[one], seeds[one])
    assert alone.ok[0] == found.ok[t]
    length = alone.lengths[0]
    np.testing.assert_array_equal(
      alone.tokens[0, :length], found.tokens[t, :length]
    )


def test_there_is_no_prefix_to_the_dead_state(world, states):
  dead = states[-1:]
  least, most = world.prefix_moves(dead)[0]
  assert most < least
  found = world.sample_prefixes(dead, np.array([3]), np.array([0]))
  assert not found.ok.any()


def test_states_are_read_as_they_are_written(world, states):
  for state in states:
    text = world.format_state(state)
    read = world.parse_state(text)
    assert world.format_state(read[0]) == text
    np.testing.assert_array_equal(
      world.canonical(read), world.canonical(state[None])
    )
  for bad in ('no such state', '', '9' * 30):
    with pytest.raises(core.InputError) as error:
      world.parse_state(bad)
    assert '\n' not in str(error.value)


def test_boundary_of_any_states_is_minimal_and_prefix_free(world, states):
  rows = np.linspace(0, len(states) - 1, 12).astype(int)
  pairs = states[rows], states[rows[::-1]], 2
  found = world.boundary(*pairs).listed()
  assert found == table.products(world, *pairs).listed()
  for suffixes in found:
    known = set(suffixes)
    assert len(known) == len(suffixes)
    assert not any(s[:k] in known for s in suffixes for k in range(1, len(s)))


def test_a_state_has_no_boundary_with_itself(world, states):
  assert not world.boundary(states, states, 3).sizes.any()
  assert world.boundary_sizes(states[1], states[1], 3) == [0, 0, 0]


def test_count_from_any_state_follows_its_successors(world, states):
  for state in states[:: max(len(states) // 12, 1)]:
    tokens = np.flatnonzero(world.legal(state[None])[0]).astype(np.int32)
    after = world.advance(np.repeat(state[None], len(tokens), 0), tokens)
    below = [world.count(one, 3) for one in after]
    wanted = [
      len(tokens),
      *(sum(column) for column in zip(*below, strict=True)),
    ]
    assert world.count(state, 4) == (wanted + [0] * 3)[:4]
    assert [*world.counts(state, 4)] == world.count(state, 4)


def test_completable_tokens_are_legal(world, states):
  for budget in (1, 4, world.max_len):
    mask = world.completable(states, np.full(len(states), budget, np.int32))
    assert not (mask & ~world.legal(states)).any()
  assert mask[0].any()


def test_a_completable_token_leads_to_one_or_to_the_end(world):
  if world.end == core.DEAD:
    pytest.skip('sequences of this world end anywhere')
  states = world.sample_states(STATES, 17)
  budget = np.full(STATES, 30, np.int32)
  for _ in range(30):
    mask = world.completable(states, budget)
    over = world.complete(states)
    assert (mask.any(-1) | over | (budget == 30)).all()
    token = table.drawn(mask, np.full(len(states), 0.5))
    go = token != core.DEAD
    states[go] = world.advance(states[go], token[go])
    budget -= 1
  started = world.completable(world.sample_states(STATES, 17), budget + 30)
  assert (world.complete(states) == started.any(-1)).all()


def test_judgement_names_the_first_failure(world):
  found = world.sample(6, 19)
  tokens, lengths = found.tokens.copy(), found.lengths
  tokens[np.arange(6), lengths - 1] = core.PAD
  cut = core.Sequences(tokens, lengths - 1)
  if world.end == core.DEAD:
    assert (world.judge(cut) == 'valid').all()
    return
  assert (world.judge(cut) == 'no_end').all()
  wide = np.pad(found.tokens, ((0, 0), (0, 1)))
  wide[np.arange(6), lengths] = world.end
  longer = core.Sequences(wide, lengths + 1)
  assert (world.judge(longer) == 'tokens_after_end').all()


def test_judgement_of_headers_and_paths(world):
  found = world.sample(6, 19)
  for place in range(int(found.lengths.min())):
    tokens = found.tokens.copy()
    tokens[:, place] = core.PAD
    causes = world.judge(core.Sequences(tokens, found.lengths))
    header = place < world.prompt_len()
    assert (causes == ('bad_header' if header else 'path_fail')).all()


def test_walk_stops_before_the_first_illegal_token(world):
  found = world.sample(12, 23)
  tokens, lengths = found.tokens.copy(), found.lengths
  word = core.hash64(1, np.arange(12)) % lengths.astype(np.uint64)
  place = word.astype(int)
  tokens[np.arange(12), place] = core.PAD
  steps, after = world.walk(world.init(12), tokens, lengths)
  np.testing.assert_array_equal(steps, place)
  wanted_steps, wanted = core.World.walk(world, world.init(12), tokens, lengths)
  np.testing.assert_array_equal(steps, wanted_steps)
  np.testing.assert_array_equal(after, wanted)


def test_the_automaton_is_the_world(world):
  machine = world.automaton()
  if machine is None:
    pytest.skip('no table')
  assert machine.delta.dtype == np.int32
  assert (np.diff(machine.tokens) > 0).all()
  states = world.sample_states(STATES, 29)
  rows, goals = world.rows_goals(states)
  legal = world.legal(states)
  np.testing.assert_array_equal(
    machine.delta[rows] >= 0, legal[:, machine.tokens]
  )
  if world.end != core.DEAD and world.end not in machine.tokens:
    np.testing.assert_array_equal(rows == goals, legal[:, world.end])


def test_side_columns_have_a_row_for_each_state(world, states):
  assert world.probe_labels(states).shape[:1] == (len(states),)
  for column in world.tags(states).values():
    assert len(column) == len(states)
  found = world.sample(5, 1)
  assert world.cost(found).shape == world.optimal_cost(found).shape == (5,)
  for mask in world.optimal(found).values():
    assert mask.shape == (5,)
    assert mask.dtype == bool
