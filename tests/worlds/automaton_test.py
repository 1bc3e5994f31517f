"""Automata: known languages, regular expressions, sampling, pictures."""

import re

import numpy as np
import pytest

from tests import judging
from tests.worlds import languages
from wm.core import capabilities, registry
from wm.worlds import automaton

BINARY = 10  # Longest words over 0 and 1 that are all asked about.

# Membership by Python's re, and states of the complete minimal automaton.
TOMITA = {
  'tomita1': (r'1*', 2),
  'tomita2': (r'(10)*', 3),
  # Not: an odd run of ones and, anywhere after it, an odd run of zeros.
  'tomita3': (r'(?!(.*0)?1(11)*(0.*1)?0(00)*(1.*)?$).*', 5),
  'tomita4': (r'(?!.*000).*', 4),
  'tomita5': (r'(?=(1*01*0)*1*$)(0*10*1)*0*', 4),
  'tomita6': None,  # Counted, not matched.
  'tomita7': (r'0*1*0*1*', 5),
}


@pytest.mark.parametrize('name', TOMITA)
def test_tomita_languages_are_what_python_matches(name):
  world = automaton.World(preset=name)
  sample = [*languages.words('01', BINARY)]
  if name == 'tomita6':
    expected = [(w.count('0') - w.count('1')) % 3 == 0 for w in sample]
    size = 3
  else:
    pattern, size = TOMITA[name]
    expected = [bool(re.fullmatch(pattern, ''.join(word))) for word in sample]
  np.testing.assert_array_equal(languages.accepted(world, sample), expected)
  facts = world.stats()
  assert facts['states_given'] == size
  assert facts['states'] == size - facts['dead_ends']
  assert facts['merged'] == facts['unreachable'] == 0


@pytest.mark.parametrize(
  ('name', 'numbers'),
  [
    ('tomita1', [1, 1, 1, 1, 1, 1, 1, 1]),
    ('tomita2', [1, 0, 1, 0, 1, 0, 1, 0]),
    ('tomita4', [1, 2, 4, 7, 13, 24, 44, 81]),  # Tribonacci.
    ('tomita5', [1, 0, 2, 0, 8, 0, 32, 0]),
    ('tomita6', [1, 0, 2, 2, 6, 10, 22, 42]),
    # Up to four runs: 1 + n + C(n, 2) + C(n, 3) beginnings, either way.
    ('tomita7', [1, 2, 4, 8, 15, 26, 42, 64]),
    ('dyck_1_2', [1, 0, 1, 0, 2, 0, 4, 0]),  # Powers of 2.
    ('dyck_1_3', [1, 0, 1, 0, 2, 0, 5, 0, 13, 0, 34]),  # Fibonacci.
    ('dyck_1_9', [1, 0, 1, 0, 2, 0, 5, 0, 14, 0, 42, 0, 132]),  # Catalan.
    ('dyck_2_9', [1, 0, 2, 0, 8, 0, 40, 0, 224]),  # 2^n of these.
    ('dyck_2_1', [1, 0, 2, 0, 4, 0, 8]),
    ('s3', [1, 1, 6, 36, 216]),  # The last symbol is forced: 6^(n - 1).
    ('z5_generators', [1, 1, 1, 1, 1, 2, 7, 22]),
  ],
)
def test_numbers_of_words_by_length_are_golden(name, numbers):
  world = automaton.World(preset=name)
  assert counted(world, len(numbers) - 1) == numbers


def counted(world, longest):
  """Words of each length, by integer counts along the table."""
  ways = {0: 1}
  result = []
  for _ in range(longest + 1):
    result.append(sum(n for s, n in ways.items() if world.delta[s, 0] >= 0))
    after = {}
    for row, number in ways.items():
      for head in world.delta[row, 1:].tolist():
        if head >= 0:
          after[head] = after.get(head, 0) + number
    ways = after
  return result


@pytest.mark.parametrize(
  ('name', 'states'),
  [
    ('dyck_1_5', 6),
    ('dyck_2_3', 15),
    ('dyck_4_3', 85),
    ('parity', 2),
    ('z12_generators', 12),
    ('s3', 6),
    ('s4_generators', 24),
    ('s5', 120),
    ('a5', 60),
    ('s6_generators', 720),
  ],
)
def test_presets_are_minimal_already(name, states):
  facts = automaton.World(preset=name).stats()
  assert facts == {
    'states': states,
    'states_given': states,
    'unreachable': 0,
    'dead_ends': 0,
    'merged': 0,
  }


def test_a_word_problem_is_the_table_of_the_groups_world():
  given_end = automaton.World(preset='s4_generators')
  plain = registry.make('world', "groups(group='s4', tokens='generators')")
  assert given_end.vocab[2:] == plain.vocab[1:]
  rows = [given_end.names.index(name) for name in plain.names]
  np.testing.assert_array_equal(
    given_end.delta[rows, 1:], np.array(rows)[plain.delta]
  )
  np.testing.assert_array_equal(
    given_end.delta[:, 0] >= 0, np.arange(25) == given_end.names.index('e')
  )


def test_lengths_are_uniform_and_words_of_a_length_are():
  world = automaton.World(preset='tomita4', length=6)
  num = 30_000
  result = world.sample(num, 1)
  lengths = np.bincount(result.lengths, minlength=7)[1:]
  assert abs(lengths / num - 1 / 6).max() < 0.01
  assert (result.tokens[np.arange(num), result.lengths - 1] == world.end).all()
  drawn, counts = np.unique(
    result.tokens[result.lengths == 5], axis=0, return_counts=True
  )
  assert len(drawn) == 13
  assert abs(counts / counts.sum() - 1 / 13).max() < 0.01


def test_counts_beyond_floating_point_do_not_overflow():
  world = automaton.World(preset='s5', length=700)
  result = world.sample(3, 1)
  assert (judging.judge(world, result) == 'valid').all()


def test_prefixes_leave_room_for_the_shortest_end():
  world = automaton.World(preset='dyck_1_3', length=8)
  deep = world.parse('(((')
  assert world.prefix_moves(deep).tolist() == [[3, 3]]  # 3 more, and end.
  assert world.prefix_moves(world.parse('over'))[0].tolist() == [1, 0]
  states = world.sample_states(500, 1)
  assert set(map(world.format, states)) == {'empty', '(', '((', '((('}


def test_boundaries_of_many_symbols_are_less_deep():
  depths = {'dyck_4_2': 5, 's3': 5, 's4': 3, 's5': 2, 'tomita1': 5}
  for name, depth in depths.items():
    assert automaton.World(preset=name).boundary_depth == depth, name


def test_only_what_fits_the_budget_is_completable():
  world = automaton.World(preset='dyck_1_3')
  item = np.repeat(world.parse('('), 4, 0)
  opened, closed = (world.vocab.index(symbol) for symbol in '()')
  fits = capabilities.feasible_tokens(world, item, np.array([1, 2, 3, 4]))
  assert fits[:, closed].tolist() == [False, True, True, True]
  assert fits[:, opened].tolist() == [False, False, False, True]
  assert not fits[:, world.end].any()


def test_a_picture_lists_the_moves_of_a_state():
  for preset, state in (('tomita5', 'q2'), ('s5', '(12)')):
    world = automaton.World(preset=preset)
    item = world.parse(state)[0]
    assert 'leads to' in world.render(item)
    assert world.token_boxes(item, [2, 3]).keys() == {2, 3}
    assert world.render(world.parse('dead')[0])


@pytest.mark.parametrize(
  ('fields', 'match'),
  [
    ({'file': 'no/such.json'}, 'no such file: no/such.json'),
    (
      {'file': 'a.json', 'preset': 'tomita1'},
      "file='a.json', preset='tomita1'; expected one",
    ),
    ({'preset': 'tomita8'}, "unknown preset 'tomita8'; available: tomita1"),
    ({'preset': 'dyck_2_40'}, 'at most 1,000,000'),
    *(
      (
        {'preset': f'random_{size}_0'},
        f"preset 'random_{size}_0'; expected STATES from 3 to 1,000,000, "
        'SYMBOLS from 3 to 125, and LEGAL at least 2, at least a third of '
        'SYMBOLS, and less than SYMBOLS; available: such as random_12_6_3_0',
      )
      for size in ('12_6_6', '12_7_2', '2_6_3', '12_2_1', '500_3_1', '9_126_60')
    ),
    ({'preset': 'random_12_6_3'}, "unknown preset 'random_12_6_3'"),
    ({'preset': 'a6'}, 'a6_generators has few'),
    ({'preset': 'dyck_1_9', 'length': 2}, 'takes 3 tokens, end included'),
    ({'length': 1}, 'at least 2 tokens'),
  ],
)
def test_bad_fields_are_one_clear_line(fields, match, one_line):
  with one_line(re.escape(match)):
    automaton.World(**fields).stats()
