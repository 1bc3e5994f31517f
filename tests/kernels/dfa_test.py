"""Automaton kernels are their reference, laws hold, bad input is named."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import dfa_ref as ref
from wm import core
from wm.kernels import dfa

LAWS = settings(max_examples=60, deadline=None)


@st.composite
def automata(draw, rows=9, labels=4):
  """A table [S, A] of up to `rows` rows, some transitions missing."""
  size = draw(st.integers(1, rows))
  width = draw(st.integers(1, labels))
  cells = st.lists(
    st.integers(-1, size - 1), min_size=size * width, max_size=size * width
  )
  return np.array(draw(cells), np.int32).reshape(size, width)


@st.composite
def pairs(draw):
  """A table, two states (row, goal) and a depth."""
  delta = draw(automata())
  row, goal = st.integers(0, len(delta) - 1), st.integers(-2, len(delta) - 1)
  states = draw(st.tuples(row, row, goal, goal))
  return delta, states, draw(st.integers(1, 5))


def batch(seed, size=200, rows=30, labels=5):
  """A random table and batches of states and label strings over it."""
  rng = np.random.default_rng(seed)
  delta = rng.integers(0, rows, (rows, labels)).astype(np.int32)
  delta[rng.random(delta.shape) < 0.4] = core.DEAD
  first, second = rng.integers(-1, rows, (2, size))
  goals = rng.integers(-2, rows, (2, size))
  strings = rng.integers(-1, labels + 2, (size, 6)).astype(np.int8)
  # Mostly legal strings: otherwise nearly every walk dies at once.
  for b in range(size):
    row = first[b]
    for k in range(rng.integers(0, 7)):
      here = np.flatnonzero(delta[row] >= 0) if row >= 0 else []
      if not len(here):
        break
      if k == b % 7:
        strings[b, k], goals[0, b] = labels, row
        break
      strings[b, k] = rng.choice(here)
      row = delta[row, strings[b, k]]
  lengths = rng.integers(0, 7, size)
  return delta, first, second, goals[0], goals[1], strings, lengths


def accepts(delta, row, goal, suffix):
  """Is a suffix legal? Straight from the definition of the language."""
  for k, label in enumerate(suffix):
    if label == delta.shape[1]:
      return row == goal and k == len(suffix) - 1
    row = delta[row, label]
    if row < 0:
      return False
  return True


def language(delta, row, goal, depth):
  """All legal suffixes of 1..depth labels, by trying every string."""
  return {
    suffix
    for length in range(1, depth + 1)
    for suffix in itertools.product(range(delta.shape[1] + 1), repeat=length)
    if accepts(delta, row, goal, suffix)
  }


def listed(result, t=0):
  """Suffixes of pair t as tuples."""
  rows = range(result.offsets[t], result.offsets[t + 1])
  return [tuple(result.labels[n, : result.lengths[n]].tolist()) for n in rows]


def assert_same(ours, theirs):
  """Equal arrays, types included."""
  for first, other in zip(ours, theirs, strict=True):
    np.testing.assert_array_equal(first, other)
    assert first.dtype == other.dtype


@pytest.mark.parametrize('seed', range(3))
def test_steps_agree_with_the_reference(seed):
  delta, rows, _, goals, _, strings, lengths = batch(seed)
  walked = ref.walk(delta, rows, goals, strings, lengths)
  assert walked[2].any()
  assert (walked[0] == 6).any()
  assert_same(dfa.walk(delta, rows, goals, strings, lengths), walked)
  for name, args in {
    'advance': (rows, strings[:, 0]),
    'legal': (rows, goals),
  }.items():
    ours = getattr(dfa, name)(delta, *args)
    assert_same([ours], [getattr(ref, name)(delta, *args)])


@pytest.mark.parametrize('seed', range(3))
@pytest.mark.parametrize('kind', ['exact', 'published', 'own turns'])
def test_products_agree_with_the_reference(seed, kind):
  delta, *states, _, _ = batch(seed, size=60)
  published = None if kind == 'exact' else dfa.Published()
  if kind == 'own turns':  # In any order, and some rows without an entry.
    rng = np.random.default_rng(seed)
    labels = np.where(delta >= 0, np.arange(delta.shape[1]), core.DEAD)
    turns = rng.permuted(labels, axis=1)
    turns = np.take_along_axis(turns, np.argsort(turns < 0, 1, 'stable'), 1)
    published = dfa.Published(turns, rng.random(len(delta)) < 0.9)
  for depth in (1, 4):
    both = (
      module.boundary(delta, *states, depth, published=published)
      for module in (dfa, ref)
    )
    assert_same(*both)


@pytest.mark.parametrize('published', [None, dfa.Published()])
def test_searches_that_come_back_often_find_the_same(published, monkeypatch):
  delta, *states, _, _ = batch(1, size=60)
  search = functools.partial(
    dfa.boundary, delta, *states, 4, published=published
  )
  whole = search()
  assert len(whole.lengths) > 50
  for nodes in (1, 2, 13):
    monkeypatch.setattr(dfa, 'NODES', nodes)
    assert_same(whole, search())


def test_read_only_and_strided_input_is_taken():
  delta, rows, *_ = batch(0)
  wide = np.repeat(delta, 2, 1)[:, ::2]
  wide.flags.writeable = False
  labels = np.zeros(len(rows), np.int64)
  assert_same([dfa.advance(wide, rows, labels)], [delta_step(delta, rows)])


def delta_step(delta, rows):
  """Rows after label 0."""
  return np.where(rows >= 0, delta[rows, 0], core.DEAD).astype(np.int32)


@LAWS
@given(pairs())
def test_boundary_is_the_definition(case):
  delta, (a, b, goal_a, goal_b), depth = case
  first = language(delta, a, goal_a, depth)
  other = language(delta, b, goal_b, depth)
  both = first & other
  minimal = [
    suffix
    for suffix in first - other
    if all(suffix[:k] in both for k in range(1, len(suffix)))
  ]
  args = delta, [a], [b], [goal_a], [goal_b], depth
  end = delta.shape[1]
  for module in (dfa, ref):
    results = listed(module.boundary(*args))
    assert results == sorted(
      minimal, key=lambda s: (len(s), [(n != end, n) for n in s])
    )
  prefixes = {s[:k] for s in results for k in range(1, len(s))}
  assert not prefixes & set(results)
  outer, inner = ref.product(delta, (a, goal_a), (b, goal_b), depth)
  assert (set(outer), set(inner)) == (set(results), both)


@LAWS
@given(automata(rows=14), st.integers(0, 2**32 - 1))
def test_minimising(delta, seed):
  classes = np.random.default_rng(seed).integers(0, 2, len(delta))
  blocks = dfa.minimize(delta, classes)
  assert_same([blocks], [ref.minimize(delta, classes)])
  # The quotient is a table of its own, in which no two rows are the same.
  number = blocks.max() + 1
  heads = np.where(delta >= 0, blocks[delta], core.DEAD)
  quotient = np.full((number, delta.shape[1]), core.DEAD)
  merged = np.zeros(number, int)
  quotient[blocks], merged[blocks] = heads, classes
  np.testing.assert_array_equal(quotient[blocks], heads)
  np.testing.assert_array_equal(merged[blocks], classes)
  again = dfa.minimize(quotient, merged)
  np.testing.assert_array_equal(again, np.arange(number))


@pytest.mark.parametrize('seed', range(2))
def test_reverse_walks(seed):
  delta, rows, *_ = batch(seed, size=300)
  edges = dfa.predecessors(delta)
  rows = np.maximum(rows, 0)
  rng = np.random.default_rng(seed)
  steps, seeds = rng.integers(0, 9, 300), rng.integers(0, 2**63, 300)
  args = edges, rows, steps, seeds
  labels, origins, ok = dfa.reverse_walk(*args)
  assert_same((labels, origins, ok), ref.reverse_walk(*args))
  # Forward again, the walk ends where it should.
  taken, ends, _ = dfa.walk(
    delta, origins[ok], np.full(ok.sum(), -2), labels[ok], steps[ok]
  )
  np.testing.assert_array_equal(taken, steps[ok])
  np.testing.assert_array_equal(ends, rows[ok])
  sample = dfa.reverse_walk(edges, rows[7:9], steps[7:9], seeds[7:9])
  np.testing.assert_array_equal(sample[1], origins[7:9])


@pytest.mark.parametrize(
  ('call', 'message'),
  [
    (lambda d: dfa.advance(d.astype(float), [0], [0]), 'expected integers'),
    (lambda d: dfa.advance(d + 9, [0], [0]), 'delta holds'),
    (lambda d: dfa.advance(d, [5], [0]), 'rows hold 5..5; expected -1..1'),
    (lambda d: dfa.advance(d, [0, 1], [0]), 'rows 2, labels 1'),
    (lambda d: dfa.legal(d, [0], [-3]), 'goals hold -3'),
    (lambda d: dfa.walk(d, [0], [0], [[1]], [2]), 'a length is 2'),
    (lambda d: dfa.boundary(d, [0], [0], [0], [0], 0), 'depth is 0'),
    (lambda d: dfa.boundary(d, [0], [0], [0], [0], 128), 'expected 1..127'),
    (lambda d: dfa.minimize(d, [0]), 'classes 1'),
    (
      lambda d: dfa.advance(np.zeros((1, 32767), int), [0], [0]),
      '32767 labels',
    ),
  ],
)
def test_bad_input_is_named(call, message):
  delta = np.array([[1, -1], [0, 1]], np.int32)
  with pytest.raises(core.InputError, match=message.replace('.', r'\.')):
    call(delta)


@pytest.mark.parametrize('labels', [126, 127, 300])
def test_large_alphabets_are_as_small_ones(labels):
  """Labels 0, 1 and 2 of a table, moved far apart, give the same."""
  delta, first, second, goal_a, goal_b, *_ = batch(3, size=40, labels=3)
  place = np.array([0, labels // 2, labels - 1, labels])
  wide = np.full((len(delta), labels), core.DEAD, np.int32)
  wide[:, place[:3]] = delta
  states = first, second, goal_a, goal_b
  small, large = (dfa.boundary(d, *states, 3) for d in (delta, wide))
  np.testing.assert_array_equal(small.offsets, large.offsets)
  moved = np.where(small.labels < 0, core.DEAD, place[small.labels])
  np.testing.assert_array_equal(moved, large.labels)
  kind = np.int8 if labels == 126 else np.int16
  walks = [dfa.random_walks(d, 20, 1, 5, 7)[1] for d in (delta, wide)]
  moved = np.where(walks[0] < 0, core.DEAD, place[walks[0]])
  np.testing.assert_array_equal(moved, walks[1])
  edges = dfa.predecessors(wide)
  assert {edges.labels.dtype, large.labels.dtype, walks[1].dtype} == {
    np.dtype(kind)
  }
  rows, steps = np.arange(9), np.full(9, 3)
  back = [
    dfa.reverse_walk(dfa.predecessors(d), rows, steps, rows)[0]
    for d in (delta, wide)
  ]
  moved = np.where(back[0] < 0, core.DEAD, place[back[0]])
  np.testing.assert_array_equal(moved, back[1])
