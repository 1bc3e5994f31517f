"""Finite groups: axioms, tables against permutations, words and labels."""

import numpy as np
import pytest

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
def test_bad_fields_are_named(fields, match, one_line):
  with one_line(match):
    groups.World(**fields)
