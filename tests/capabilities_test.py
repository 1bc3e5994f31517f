"""What holds for every world that has an ability, found by its type."""

from xml.etree import ElementTree

import numpy as np
import pytest

from tests import every_world
from wm import core
from wm.core import basics, capabilities
from wm.worlds.base import sampling, table

CLASSES = [
  cls
  for cls in vars(core).values()
  if isinstance(cls, type)
  and issubclass(cls, core.World)
  and cls is not core.World
]
ABILITIES = [
  *CLASSES,
  *(
    method
    for cls in CLASSES
    for method in vars(cls).values()
    if getattr(method, '__isoptional__', False)
  ),
]


def names(*classes):
  """Public names that classes define themselves."""
  return {
    name
    for cls in classes
    for name in {*vars(cls), *vars(cls).get('__annotations__', {})}
    if not name.startswith('_')
  }


def test_a_world_has_14_members_and_with_all_abilities_at_most_55():
  # Of every plug-in, in `core.Bounded`: name and version.
  assert len(names(core.World) | {'name', 'version'}) == 14
  assert len(names(core.World, *CLASSES)) <= 55
  assert len(CLASSES) == 9


@pytest.mark.parametrize('ability', ABILITIES)
def test_some_world_has_each_ability(ability):
  assert any(core.can(w, ability) for w in every_world.WORLDS.values())


@every_world.having(core.Written)
def test_every_state_has_a_picture(world):
  states = every_world.states_of(world)
  for state in states[:: max(len(states) // 8, 1)]:
    root = ElementTree.fromstring(world.render(state))
    assert root.tag.endswith('svg')
    assert len(root)


@every_world.having(core.Prefixed)
def test_trial_states_depend_on_seed_and_number(world):
  first, other = world.sample_states(40, 1), world.sample_states(40, 2)
  np.testing.assert_array_equal(first, world.sample_states(40, 1))
  np.testing.assert_array_equal(first[:7], world.sample_states(7, 1))
  assert not np.array_equal(first, other)
  assert (world.state_id(first) != core.DEAD).all()


@every_world.having(core.Prefixed)
def test_prefixes_reach_their_state_in_so_many_moves(world):
  states = world.sample_states(every_world.STATES, 7)
  bounds = world.prefix_moves(states)
  assert bounds.dtype == np.int32
  usable = np.flatnonzero(bounds[:, 0] <= bounds[:, 1])
  assert usable.size
  for moves in bounds[usable].T:
    result = world.sample_prefixes(
      states[usable], moves, np.arange(usable.size)
    )
    ok = result.ok
    assert ok.mean() > 0.8
    assert (result.lengths[ok] < world.max_len).all()
    steps, after = world.walk(
      world.init(len(moves)), result.tokens, result.lengths
    )
    assert (steps[ok] == result.lengths[ok]).all()
    if isinstance(world, core.Latent):  # Tokens leave more open than a state.
      assert (world.legal(after)[ok] >= world.legal(states[usable])[ok]).all()
      continue
    assert (result.lengths[ok] == moves[ok] + world.prompt_len).all()
    np.testing.assert_array_equal(
      every_world.canonical(world, after[ok]),
      every_world.canonical(world, states[usable][ok]),
    )


@every_world.having(core.Prefixed)
def test_prefixes_depend_on_their_own_seed(world):
  states = world.sample_states(every_world.STATES, 7)
  bounds = world.prefix_moves(states)
  keep = bounds[:, 0] <= bounds[:, 1]
  states, moves = states[keep], bounds[keep, 1]
  seeds = np.arange(len(states)) + 50
  result = world.sample_prefixes(states, moves, seeds)
  for t in (0, len(states) - 1):
    item = slice(t, t + 1)
    alone = world.sample_prefixes(states[item], moves[item], seeds[item])
    assert alone.ok[0] == result.ok[t]
    length = alone.lengths[0]
    np.testing.assert_array_equal(
      alone.tokens[0, :length], result.tokens[t, :length]
    )


@every_world.having(core.Prefixed)
def test_there_is_no_prefix_to_the_dead_state(world):
  states = every_world.states_of(world)
  dead = states[-1:]
  least, most = world.prefix_moves(dead)[0]
  assert most < least
  result = world.sample_prefixes(dead, np.array([3]), np.array([0]))
  assert not result.ok.any()


@every_world.having(core.Prefixed)
def test_other_states_are_alive_and_depend_on_the_seed(world):
  states = world.sample_states(every_world.STATES, 7)
  result, other = world.sample_others(states, 1), world.sample_others(states, 2)
  assert (result.shape, result.dtype) == (states.shape, np.int32)
  np.testing.assert_array_equal(result, world.sample_others(states, 1))
  assert not np.array_equal(result, other)
  assert (world.state_id(result) != core.DEAD).all()
  assert (world.state_id(result) != world.state_id(states)).mean() > 0.2


@every_world.having(core.Latent.forecast)
def test_what_follows_is_legal_and_each_token_leads_to_the_rest(world):
  states = world.sample_states(every_world.STATES, 7)
  lines = world.forecast(states, 30)
  sizes = np.full(len(states), 30, np.int32)
  steps, after = world.walk(states, lines.tokens, sizes)
  assert (steps == 30).all()
  assert (lines.frame[:, 0] == 1).all()
  assert np.isin(np.diff(lines.frame, axis=1), (0, 1)).all()
  steps, after = world.walk(states, lines.tokens, sizes - 9)
  np.testing.assert_array_equal(
    world.forecast(after, 9).tokens, lines.tokens[:, 21:]
  )
  assert (world.forecast(world.init(1), 3).tokens == core.DEAD).all()
  assert not (world.legal(states).sum(1) == 0).any()


@every_world.having(core.Written)
def test_states_are_read_as_they_are_written(world, one_line):
  states = every_world.states_of(world)
  for state in states:
    text = world.format(state)
    read = world.parse(text)
    assert world.format(read[0]) == text
    np.testing.assert_array_equal(
      every_world.canonical(world, read),
      every_world.canonical(world, state[None]),
    )
  for bad in ('no such state', '', '9' * 30):
    with one_line():
      world.parse(bad)


@every_world.having(core.Enumerable)
def test_boundary_of_any_states_is_minimal_and_prefix_free(world):
  states = every_world.states_of(world)
  rows = np.linspace(0, len(states) - 1, 12).astype(int)
  pairs = states[rows], states[rows[::-1]], 2
  results = world.boundary(*pairs).listed()
  assert results == core.boundary.products(world, *pairs).listed()
  for suffixes in results:
    known = set(suffixes)
    assert len(known) == len(suffixes)
    assert not any(s[:k] in known for s in suffixes for k in range(1, len(s)))


@every_world.having(core.Enumerable)
def test_a_state_has_no_boundary_with_itself(world):
  states = every_world.states_of(world)
  assert not world.boundary(states, states, 3).sizes.any()
  assert world.count(states[1], states[1], 3)[0] == [0, 0, 0]


@every_world.having(core.Enumerable)
def test_count_from_any_state_follows_its_successors(world):
  states = every_world.states_of(world)
  # Of hundreds of successors each would be counted.
  states = states[world.legal(states).sum(1) < 100]
  for state in states[:: max(len(states) // 12, 1)]:
    tokens = np.flatnonzero(world.legal(state[None])[0]).astype(np.int32)
    after = world.advance(np.repeat(state[None], len(tokens), 0), tokens)
    below = [world.count(item, item, 3)[1] for item in after]
    expected = [
      len(tokens),
      *(sum(column) for column in zip(*below, strict=True)),
    ]
    assert world.count(state, state, 4)[1] == (expected + [0] * 3)[:4]


@every_world.having(core.Enumerable.distance_to_end)
def test_completable_tokens_are_legal(world):
  states = every_world.states_of(world)
  for budget in (1, 4, world.max_len):
    mask = capabilities.feasible_tokens(
      world, states, np.full(len(states), budget, np.int32)
    )
    assert not (mask & ~world.legal(states)).any()
  assert mask[0].any()


@every_world.having(core.Enumerable.distance_to_end)
def test_a_completable_token_leads_to_one_or_to_the_end(world):
  ended = np.zeros(every_world.STATES, bool)
  states = world.sample_states(every_world.STATES, 17)
  budget = np.full(every_world.STATES, 30, np.int32)
  for _ in range(30):
    mask = capabilities.feasible_tokens(world, states, budget)
    assert (mask.any(-1) | ended | (budget == 30)).all()
    token = sampling.drawn(mask, np.full(len(states), 0.5))
    go = token != core.DEAD
    states[go] = world.advance(states[go], token[go])
    ended |= go & (token == world.end)
    budget -= 1
  started = capabilities.feasible_tokens(
    world, world.sample_states(every_world.STATES, 17), budget + 30
  )
  # Without an end token sequences stop anywhere.
  ends = started.any(-1) & (world.end != core.DEAD)
  np.testing.assert_array_equal(ended, ends)


@every_world.having(core.Labelled.edited)
def test_an_edit_changes_one_label_or_leads_nowhere(world):
  states = every_world.states_of(world)
  sizes, num = world.heads.sizes, 6
  rows = np.repeat(np.arange(len(states)), num)
  label = basics.hash64(1, np.arange(len(rows))) % np.uint64(len(sizes))
  value = (
    basics.hash64(2, np.arange(len(rows))) % np.array(sizes, 'uint64')[label]
  )
  label, value = label.astype(np.int64), value.astype(np.int64)
  after = world.edited(states[rows], label, value)
  alive = world.state_id(after) != core.DEAD
  assert alive.any()
  assert world.legal(after[alive]).any(-1).any()
  expected = world.labels(states[rows])
  np.put_along_axis(expected, label[:, None], value[:, None], 1)
  np.testing.assert_array_equal(world.labels(after)[alive], expected[alive])
  dead = states[-1:]
  assert (world.edited(dead, np.array([0]), np.array([1])) == core.DEAD).all()


@every_world.having(table.Tabled)
def test_the_automaton_is_the_world(world):
  states = world.sample_states(every_world.STATES, 29)
  machine = world.automaton(states)
  assert machine.delta.dtype == np.int32
  assert (np.diff(machine.tokens) > 0).all()
  legal = world.legal(states)
  np.testing.assert_array_equal(
    machine.delta[machine.rows] >= 0, legal[:, machine.tokens]
  )
  if world.end != core.DEAD and machine.end == world.end:
    np.testing.assert_array_equal(
      machine.rows == machine.goals, legal[:, world.end]
    )


@every_world.having(core.Described.tags)
def test_tags_have_a_row_for_each_state(world):
  states = every_world.states_of(world)
  for name, column in world.tags(states).items():
    assert len(column) == len(states)
    assert capabilities.tag_words(type(world))[name]


@every_world.having(core.Described.costs)
def test_no_way_is_cheaper_than_the_least_cost(world):
  result = world.costs(world.sample(5, 1))
  assert result.cost.shape == result.least.shape
  assert result.cost.shape[1] == 5
  assert (result.cost >= result.least * (1 - basics.OPTIMAL_TOLERANCE)).all()


@every_world.having(core.Enumerable.distance_to_end)
def test_what_remains_is_known_of_exactly_the_legal_tokens(world):
  states = every_world.states_of(world)
  tokens, needed = world.distance_to_end(states)
  assert (tokens.dtype, needed.dtype) == (np.int32, np.int64)
  legal = np.zeros((len(states), len(world.vocab) + 1), bool)
  np.put_along_axis(legal, tokens, True, -1)  # DEAD is the last column.
  np.testing.assert_array_equal(legal[:, :-1], world.legal(states))
  assert (needed[tokens > 0] >= 1).all()
  if world.end != core.DEAD:
    assert (needed[tokens == world.end] == 1).all()


@every_world.having(core.Described.move_tags)
def test_kinds_of_moves_are_masks_of_tokens(world):
  result = world.sample(5, 1)
  for mask in world.move_tags(result).values():
    assert (mask.shape, mask.dtype) == (result.tokens.shape, bool)
    assert not mask[result.tokens == core.PAD].any()


@every_world.having(core.Verbal.questions)
def test_a_question_has_one_legal_choice(world):
  asked = world.questions(9, 1)
  steps, states = world.walk(world.init(9), asked.tokens, asked.lengths)
  np.testing.assert_array_equal(steps, asked.lengths)
  choices, answers = asked.side['choices'], asked.side['answer']
  legal = np.take_along_axis(world.legal(states), choices, axis=1)
  np.testing.assert_array_equal(legal, choices == answers[:, None])
  assert (legal.sum(1) == 1).all()


@every_world.having(core.Generative)
def test_a_process_gives_what_is_sampled_and_is_legal(world):
  process, result = world.data_distribution(), world.sample(30, 1)
  memory, states = process.init(30), world.init(30)
  for t in range(result.tokens.shape[1] + 1):
    tokens, log_probs = process.next(memory)
    assert (tokens.dtype, log_probs.dtype) == (np.int32, np.float64)
    possible = tokens != core.DEAD
    assert ((log_probs > -np.inf) == possible).all()
    legal = np.take_along_axis(world.legal(states), np.maximum(tokens, 0), 1)
    assert legal[possible].all()
    on = t < result.lengths
    total = np.exp(log_probs).sum(-1)
    np.testing.assert_allclose(total[on], 1, rtol=1e-9)
    # What is cut goes on; what is over does not.
    over = ~on & ~world.legal(states).any(-1)
    assert (total[over] == 0).all()
    if not on.any():
      break
    taken = result.tokens[on, t]
    assert (tokens[on] == taken[:, None]).any(-1).all()
    memory[on] = process.advance(memory[on], taken)
    states[on] = world.advance(states[on], taken)
  dead = process.advance(process.init(1), np.zeros(1, np.int32))
  assert np.isneginf(process.next(dead)[1]).all()


@every_world.having(core.Described.stats)
def test_facts_are_named_counts(world):
  assert all(isinstance(count, int) for count in world.stats().values())


@every_world.having(core.Labelled.from_labels)
def test_states_of_labels_have_these_labels(world):
  states = every_world.states_of(world)
  if core.can(
    world, core.Enumerable.distance_to_end
  ):  # On the way: both labels are known.
    states = states[(states >= 0).all(-1)]
  states = states[world.state_id(states) != core.DEAD]
  labels = world.labels(states).astype(np.int64)
  again = world.from_labels(labels)
  assert again.dtype == np.int32
  np.testing.assert_array_equal(world.labels(again), labels)
  np.testing.assert_array_equal(world.state_id(again), world.state_id(states))
  np.testing.assert_array_equal(world.legal(again), world.legal(states))
