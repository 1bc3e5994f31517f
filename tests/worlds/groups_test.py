"""Finite groups: axioms, tables against permutations, words and labels."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import suffixes
from wm import core
from wm.core import basics
from wm.worlds import groups

GROUPS = (
  'parity',
  'z2',
  'z3',
  'z5',
  'z12',
  's2',
  's3',
  's4',
  's5',
  'a3',
  'a4',
  'a5',
)
ORDERS = {
  'parity': {1: 1, 2: 1},
  'z5': {1: 1, 5: 4},
  'z12': {1: 1, 2: 1, 3: 2, 4: 2, 6: 2, 12: 4},
  's3': {1: 1, 2: 3, 3: 2},
  's4': {1: 1, 2: 9, 3: 8, 4: 6},
  'a4': {1: 1, 2: 3, 3: 8},
  'a5': {1: 1, 2: 15, 3: 20, 5: 24},
  's5': {1: 1, 2: 25, 3: 20, 4: 30, 5: 24, 6: 20},
}


def full(group):
  """[S, S] the multiplication table."""
  return groups.World(group).delta


@pytest.mark.parametrize('group', GROUPS)
def test_tables_are_groups(group):
  table = full(group)
  size = len(table)
  assert table.dtype == np.int32
  np.testing.assert_array_equal(table[0], np.arange(size))
  np.testing.assert_array_equal(table[:, 0], np.arange(size))
  for lines in (table, table.T):  # Each element once: inverses on both sides.
    assert (np.sort(lines, axis=1) == np.arange(size)).all()
  sample = basics.hash64(3, np.arange(40)) % np.uint64(size)
  for c in np.unique(sample.astype(int)):  # (a b) c is a (b c).
    np.testing.assert_array_equal(table[table, c], table[:, table[:, c]])


@pytest.mark.parametrize('group', ORDERS)
def test_orders_of_elements_are_golden(group):
  table = full(group)
  result, power = np.zeros(len(table), int), np.arange(len(table))
  for k in range(1, 13):
    result[(power == 0) & (result == 0)] = k
    power = table[power, np.arange(len(table))]
  assert (
    dict(zip(*np.unique(result, return_counts=True), strict=True))
    == (ORDERS[group])
  )


def test_which_groups_commute_and_which_are_simple():
  commuting = {g for g in GROUPS if (full(g) == full(g).T).all()}
  assert commuting == {'parity', 'z2', 'z3', 'z5', 'z12', 's2', 'a3'}
  # The commutators of A5 make all of it; those of S5 make A5, those of S3 A3.
  for group, size in (('a5', 60), ('s5', 60), ('s3', 3), ('a4', 4), ('z5', 1)):
    table = full(group)
    inverse = (table == 0).argmax(1)
    products = table[table[inverse][:, inverse], table]
    assert len(closure(table, np.unique(products))) == size


def closure(table, generators):
  """Elements that products of some elements reach."""
  result = {0}
  fresh = [0]
  while fresh:
    fresh = sorted({int(t) for t in table[fresh][:, generators].flat} - result)
    result |= set(fresh)
  return result


@pytest.mark.parametrize('group', [*GROUPS, 'a6', 's6', 'z100'])
def test_generators_generate(group):
  world = groups.World(group, tokens='generators')
  assert len(world.vocab) <= 4
  assert world.vocab[1] == world.names[0]
  assert len(closure(full(group), world.chosen)) == len(world.elements)


@pytest.mark.parametrize('group', ['s3', 's4', 's5', 'a4', 'a5'])
def test_tables_agree_with_sympy(group):
  combinatorics = pytest.importorskip('sympy.combinatorics')
  named = combinatorics.named_groups
  kind = named.SymmetricGroup if group[0] == 's' else named.AlternatingGroup
  expected = {tuple(p.array_form) for p in kind(int(group[1:])).elements}
  world = groups.World(group)
  rows = [tuple(images) for images in world.elements.tolist()]
  assert set(rows) == expected
  assert rows == sorted(rows)
  places = {row: n for n, row in enumerate(rows)}
  pairs = basics.hash64(1, np.arange(300)[:, None], np.arange(2))
  for a, b in (pairs % np.uint64(len(rows))).astype(int):
    first, second = (combinatorics.Permutation(rows[k]) for k in (a, b))
    assert world.delta[a, b] == places[tuple((first * second).array_form)]
    parts = cycles_of(world.names[a])
    read = combinatorics.Permutation(parts, size=len(rows[a]))
    assert tuple(read.array_form) == rows[a]


def cycles_of(name):
  if name == 'e':
    return []
  return [[int(digit) - 1 for digit in part] for part in name[1:-1].split(')(')]


@pytest.mark.parametrize('group', ['s3', 's5', 'a5'])
def test_a_word_is_what_its_tokens_do_one_after_the_other(group):
  world = groups.World(group, length=30)
  result = world.sample(20, 3)
  labels = world.sequence_labels(result.tokens, result.lengths)
  for word, states in zip(result.tokens, labels[..., 0], strict=True):
    places = list(range(len(world.elements[0])))
    for token, state in zip(word, states, strict=True):
      images = world.elements[world.chosen[token - 1]]
      places = [int(images[place]) for place in places]
      assert tuple(world.elements[state]) == tuple(places)


def test_known_products():
  world = groups.World('s3')
  words = [world.vocab.index(n) for n in ('(12)', '(123)', '(12)')]
  labels = world.sequence_labels(np.array([words]), np.array([3]))[0, :, 0]
  assert [world.names[k] for k in labels] == ['(12)', '(13)', '(132)']
  clock = groups.World('z12')
  hours = np.array([[6, 8, 12]])  # 5 + 7 + 11 o'clock.
  assert clock.sequence_labels(hours, [3])[0, :, 0].tolist() == [5, 0, 11]
  bits = groups.World('parity').sequence_labels(np.array([[2, 2, 1, 2]]), [4])
  assert bits[0, :, 0].tolist() == [1, 0, 0, 1]


@given(
  st.sampled_from(['parity', 'z5', 's3', 'a5']),
  st.sampled_from(['all', 'generators']),
  st.integers(0, 2**40),
)
@settings(max_examples=20, deadline=None)
def test_labels_are_the_states_of_a_walk(group, tokens, seed):
  world = groups.World(group, tokens, 12)
  result = world.sample(6, seed)
  lengths = (basics.hash64(seed, np.arange(6)) % np.uint64(13)).astype(np.int32)
  labels = world.sequence_labels(result.tokens, lengths)
  assert labels.shape == (6, 12, 1)
  assert world.heads.sizes == (len(world.elements),)
  for n, k in itertools.product(range(6), range(12)):
    item = slice(n, n + 1)
    cut = np.array([k + 1])
    state = world.walk(world.init(1), result.tokens[item], cut)[1]
    expected = state[0, 0] if k < lengths[n] else 0
    assert labels[n, k, 0] == expected


def test_labels_stop_at_the_first_illegal_token():
  world = groups.World('z5')
  words = np.array([[2, 3, 0, 2], [2, 9, 2, 2], [2, -1, 2, 2], [3, 3, 3, 3]])
  labels = world.sequence_labels(words, np.full(4, 4))[..., 0]
  assert labels.tolist() == [
    [1, 3, 0, 0],
    [1, 0, 0, 0],
    [1, 0, 0, 0],
    [2, 4, 1, 3],
  ]
  assert world.sequence_labels(words[:0], np.zeros(0, int)).shape == (0, 4, 1)


def test_words_are_uniform_and_states_soon_are():
  world = groups.World('a5', length=24)
  result = world.sample(4000, 1)
  assert (result.lengths == 24).all()
  counts = np.bincount(result.tokens.ravel(), minlength=61)[1:]
  assert abs(counts / counts.mean() - 1).max() < 0.15
  labels = world.sequence_labels(result.tokens, result.lengths)
  last = np.bincount(labels[:, -1, 0], minlength=60)
  assert last.min() > 30


def test_words_of_one_length_do_not_begin_others():
  short, long = (
    groups.World('s3', length=n).sample(500, 4).tokens[:, :16] for n in (16, 32)
  )
  begins = {tuple(word) for word in short.tolist()}
  assert not begins & {tuple(word) for word in long.tolist()}


def test_every_token_is_legal_so_no_state_is_told_apart():
  world = groups.World('s5')
  states = world.sample_states(30, 2)
  assert world.legal(states)[:, 1:].all()
  # At depth 12 no search of 120 ** 12 suffixes would end.
  assert not world.boundary(states[:3], states[3:6], 12).sizes.any()
  assert suffixes.count(world, states[0], 3) == [120, 120**2, 120**3]
  dead = np.full((2, 1), core.DEAD)
  result = world.boundary(np.stack([states[0], dead[0]]), dead, 12)
  np.testing.assert_array_equal(result.sizes, [120, 0])


@pytest.mark.parametrize(('name', 'depth'), [('s3', 5), ('a4', 4), ('s5', 2)])
def test_metrics_list_suffixes_to_a_depth_that_ends(name, depth):
  assert groups.World(name).boundary_depth == depth


def test_states_are_written_as_cycles():
  world = groups.World('s5')
  for text in ('e', '(12)', '(12345)', '(13)(245)', 'dead'):
    assert world.format(world.parse(text)[0]) == text
  for bad in ('(21)', '(16)', '1', '()'):
    with pytest.raises(core.InputError, match='available: e, '):
      world.parse(bad)
  assert groups.World('z7').format(np.array([6])) == '6'


@pytest.mark.parametrize(
  ('fields', 'match'),
  [
    ({'group': 'd4'}, 'available: parity, z2 to z720'),
    ({'group': 's7'}, 's2 to s6'),
    ({'group': 'z1'}, "group='z1'"),
    ({'group': 'z721'}, "group='z721'"),
    ({'group': 'a2'}, 'a3 to a6'),
    ({'group': 's05'}, "group='s05'"),
    ({'tokens': 'some'}, 'available: all, generators'),
    ({'length': 1}, 'at least 2'),
  ],
)
def test_bad_fields_are_named(fields, match):
  with pytest.raises(core.InputError, match=match) as error:
    groups.World(**fields)
  assert '\n' not in str(error.value)
