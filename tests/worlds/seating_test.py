"""The seating puzzle against its golden facts and against brute force."""

import collections
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wm import core
from wm.worlds import seating

WORLDS = {n: seating.World(people=n) for n in (3, 4, 5)}
THREE = WORLDS[3]


def _rows(world):
  return np.arange(len(world.delta), dtype=np.int32)[:, None]


def _depth(world, state):
  text = world.format(state)
  return 0 if text == 'start' else len(text.split(','))


def _holds(word, seats):
  """Is a statement true of {person: seat}?"""
  if '@' in word:
    person, seat = word.split('@')
    return seats[person] == int(seat)
  pair, distance = word.split('=')
  person, other = pair.split('-')
  return abs(seats[person] - seats[other]) == int(distance)


def _left(num, words):
  """Arrangements of brute force that make all statements true."""
  result = []
  for order in itertools.permutations(range(1, num + 1)):
    seats = dict(zip('ABCDE', order, strict=False))
    if all(_holds(word, seats) for word in words):
      result.append(order)
  return result


@pytest.mark.parametrize(
  ('people', 'statements', 'meanings', 'states', 'depths'),
  [
    (3, 21, 12, 19, [1, 12, 6]),
    (4, 52, 31, 221, [1, 31, 159, 30]),
    (5, 105, 65, 4666, [1, 65, 1150, 3120, 330]),
  ],
)
def test_golden_sizes(people, statements, meanings, states, depths):
  world = WORLDS[people]
  assert len(world.vocab) - 1 == world.delta.shape[1] == statements
  assert len(np.unique(world.meanings, axis=0)) == meanings
  assert len(world.delta) == states
  result = collections.Counter(_depth(world, row) for row in _rows(world))
  assert [result[k] for k in range(len(depths))] == depths


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_states_are_the_arrangements_left(data):
  people = data.draw(st.integers(3, 5))
  world = WORLDS[people]
  ids = st.integers(1, len(world.vocab) - 1)
  tokens = data.draw(st.lists(ids, min_size=1, max_size=4))
  state = world.init(1)
  for token in tokens:
    state = world.advance(state, np.array([token]))
  left = _left(people, [world.vocab[token] for token in tokens])
  assert (state[0, 0] == core.DEAD) == (not left)
  assert [tuple(row) for row in world.arrangements(state[0])] == left


@pytest.mark.parametrize('people', [3, 4])
def test_a_state_is_written_as_the_first_of_its_shortest_lists(people):
  world = WORLDS[people]
  first = {}
  for size in range(1, 3):
    for tokens in itertools.product(range(1, len(world.vocab)), repeat=size):
      state = world.init(1)
      for token in tokens:
        state = world.advance(state, np.array([token]))
      first.setdefault(int(state[0, 0]), tokens)
  for row, tokens in first.items():
    if row > 0:
      expected = ','.join(world.vocab[token] for token in tokens)
      assert world.format(np.array([row])) == expected


def test_any_list_of_statements_is_a_state():
  middle = THREE.parse('B@2')
  for text in ('A-C=2', 'C-A=2, A-C=2', ' B@2 A-C=2 '):
    np.testing.assert_array_equal(THREE.parse(text), middle)
  assert THREE.format(THREE.parse('C@3,B@2,A@1')[0]) == 'A@1,B@2'
  for text, match in (
    ('A@1,B@1', "statement 2, 'B@1', contradicts"),
    ('A@4', "statement 1, 'A@4', is unknown"),
    ('A@1,,B-A=3', "statement 2, 'B-A=3', is unknown"),
    ('<pad>', 'unknown'),
  ):
    with pytest.raises(core.InputError, match=match):
      THREE.parse(text)


@pytest.mark.parametrize('people', [3, 4, 5])
def test_trials_start_after_one_or_two_random_statements(people):
  world = WORLDS[people]
  results = [_depth(world, row) for row in world.sample_states(2000, 1)]
  assert set(results) == {1, 2}
  ones = seating.World(people=people, most=1)
  states, counts = np.unique(
    ones.sample_states(6000, 2)[:, 0], return_counts=True
  )
  assert {_depth(world, np.array([row])) for row in states} == {1}
  # Uniform over statements: a state as often as there are ways to say it.
  ways = (world.delta[0][:, None] == states).sum(0)
  share = ways / len(world.delta[0])
  np.testing.assert_allclose(counts / 6000, share, atol=4 * 0.5 / 6000**0.5)


def test_the_second_statement_is_uniform_over_the_valid_ones():
  world = seating.World(least=2, most=2)
  result = np.bincount(world.sample_states(8000, 3)[:, 0], minlength=19) / 8000
  expected = np.zeros(19)
  for item in THREE.delta[0]:
    heads = THREE.delta[item]
    for two in heads[heads >= 0]:
      expected[two] += 1 / 21 / (heads >= 0).sum()
  np.testing.assert_allclose(result, expected, atol=0.02)


def test_prefixes_are_uniform_over_lists_that_need_their_last_statement():
  target = THREE.parse('A@1')
  expected = _left(3, ['A@1'])
  moves, num = 3, 6000
  lists = set()
  for tokens in itertools.product(range(1, 22), repeat=moves):
    words = [THREE.vocab[token] for token in tokens]
    if _left(3, words) == expected != _left(3, words[:-1]):
      lists.add(tokens)
  result = THREE.sample_prefixes(
    np.repeat(target, num, axis=0), np.full(num, moves), np.arange(num)
  )
  assert result.ok.all()
  rows, counts = np.unique(result.tokens, axis=0, return_counts=True)
  assert {tuple(row) for row in rows.tolist()} == lists
  np.testing.assert_allclose(counts / num, 1 / len(lists), atol=0.03)


@pytest.mark.parametrize('people', [3, 4])
def test_each_number_of_statements_of_a_prefix_is_found_or_refused(people):
  world = WORLDS[people]
  states = _rows(world)[1:]
  bounds = world.prefix_moves(states)
  assert (bounds[:, 0] <= bounds[:, 1]).all()
  depths = [_depth(world, row) for row in states]
  np.testing.assert_array_equal(bounds[:, 0], depths)
  for moves in range(world.max_len + 1):
    result = world.sample_prefixes(
      states, np.full(len(states), moves), np.arange(len(states))
    )
    outside = (moves < bounds[:, 0]) | (moves > bounds[:, 1])
    assert not result.ok[outside].any()
    ok = result.ok
    steps, after = world.walk(
      world.init(len(states)), result.tokens, result.lengths
    )
    np.testing.assert_array_equal(steps, result.lengths)
    np.testing.assert_array_equal(after[ok], states[ok])
    shorter = np.maximum(result.lengths - 1, 0)
    _, before = world.walk(world.init(len(states)), result.tokens, shorter)
    assert (before[ok] != states[ok]).all()


def test_nothing_said_has_no_prefix():
  assert THREE.prefix_moves(THREE.init(1)).tolist() == [[1, 0]]


@pytest.mark.parametrize('people', [3, 4, 5])
def test_puzzles_have_one_solution_since_their_last_statement(people):
  world = WORLDS[people]
  result = world.questions(40, 5)
  again = world.questions(9, 5)
  np.testing.assert_array_equal(again.lengths, result.lengths[:9])
  np.testing.assert_array_equal(again.side['answer'], result.side['answer'][:9])
  for n in range(40):
    words = [world.vocab[t] for t in result.tokens[n, : result.lengths[n]]]
    (solution,) = _left(people, words)
    assert len(_left(people, words[:-1])) > 1
    person, seat = world.vocab[result.side['answer'][n]].split('@')
    assert solution[world.names.index(person)] == int(seat)
  assert not len(world.questions(0, 5).tokens)


def test_tags_count_arrangements():
  states = THREE.parse('start'), THREE.parse('A-B=1,B@1')
  states = np.concatenate([*states, THREE.parse('dead')])
  np.testing.assert_array_equal(THREE.tags(states)['left'], [6, 1, 0])


def test_the_picture_shows_who_can_still_sit_where():
  picture = THREE.render(THREE.parse('A@1')[0])
  assert '2 arrangements left' in picture
  assert 'A B C' in picture
  assert 'A C B' in picture
  dead = THREE.render(THREE.parse('dead')[0])
  assert 'contradiction' in dead


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'people': 2}, 'people=2'),
    ({'people': 6}, '3 to 5'),
    ({'least': 0}, 'least=0'),
    ({'least': 3}, 'least=3; expected 1 to most=2'),
    ({'most': 6}, 'most=6; expected less than length=6'),
  ],
)
def test_bad_fields(fields, message):
  with pytest.raises(core.InputError, match=message):
    seating.World(**fields)


def test_a_question_offers_every_seat_of_one_person():
  world = WORLDS[4]
  questions = world.questions(50, 0)
  choices, answer = (questions.side[name] for name in ('choices', 'answer'))
  for offered, right in zip(choices, answer, strict=True):
    words = [world.vocab[token] for token in offered]
    person, _, seat = world.vocab[right].partition('@')
    assert words == [f'{person}@{k}' for k in (1, 2, 3, 4)]
    assert seat in '1234'
