"""Board games' shared part, on a game small enough to count by hand.

Six cells; a move takes one that is free; over once cells 1, 2, 3 are taken.
Any order of the moves of a living position is legal, and so are those of a
final one that end with 1, 2 or 3.
"""

import dataclasses
import itertools
from typing import ClassVar

import numpy as np
import pytest

from tests import suffixes
from wm import core
from wm.core import basics
from wm.library import exact
from wm.worlds.base import games, sampling

CELLS = 6
GO = CELLS + 1  # Begins each sequence.
UNKNOWN = -3


@dataclasses.dataclass(frozen=True)
class Toy(games.GameWorld):
  """Words: taken cells as bits (-2 before GO), moves known; then history."""

  version: ClassVar[str] = '1'
  position_words: ClassVar[int] = 2
  history_item: ClassVar[type] = np.uint16
  header: ClassVar[tuple[int, ...]] = (GO,)

  states: str = games.states_field()
  pool: int = games.pool_field(50)

  @property
  def vocab(self):
    return ('<pad>', *'123456', 'go')

  @property
  def max_len(self):
    return CELLS + 1

  def canonical(self, states):
    return states[:, :1]

  def init(self, batch):
    return np.tile(np.array([[-2, 0, 0, 0, 0]], np.int32), (batch, 1))

  def legal(self, states):
    taken = states[:, 0]
    free = (taken[:, None] >> np.arange(CELLS)) & 1 == 0
    free &= ((taken >= 0) & (taken & 7 != 7))[:, None]
    no = np.zeros((len(states), 1), bool)
    return np.concatenate([no, free, (taken == -2)[:, None]], axis=1)

  def advance(self, states, tokens):
    after = np.array(states)
    known = (tokens >= 0) & (tokens <= GO)
    rows = np.arange(len(after))
    ok = known & self.legal(states)[rows, np.where(known, tokens, 0)]
    start, move = ok & (tokens == GO), ok & (tokens != GO)
    after[start, 0] = 0
    history = after[:, 2:].copy().view(np.uint16)
    history[move, after[move, 1]] = tokens[move]
    after[:, 2:] = history.view(np.int32)
    after[move, 0] |= 1 << (tokens[move] - 1)
    after[move, 1] += 1
    after[~ok] = core.DEAD
    return after

  def play(self, num, seed, first=0, random=False):
    tokens = np.zeros((num, self.max_len), np.int32)
    states = self.init(num)
    for k in range(self.max_len):
      draw = basics.uniforms(seed, first + np.arange(num), k)
      if not random and k == 1:
        draw[:] = 0  # Sampled games open with cell 1.
      token = sampling.drawn(self.legal(states), draw)
      rows = np.flatnonzero(token != core.DEAD)
      tokens[rows, k] = token[rows]
      states[rows] = self.advance(states[rows], token[rows])
    return tokens, (tokens != 0).sum(1).astype(np.int32)

  def transpositions(self, tokens, lengths, seeds):
    result = np.zeros_like(tokens)
    for t, length in enumerate(lengths):
      order = np.argsort(basics.hash64(seeds[t], np.arange(length)))
      result[t, :length] = tokens[t, order]
    return result

  def known(self, states):
    return states[:, 1]

  def parse(self, text):
    tokens = np.array([[GO, *map(int, text)]], np.int32)
    return self.after(tokens, np.array([tokens.shape[1]]))

  def format(self, state):
    return ''.join(
      str(token) for token in self.history(state[None])[0] if token
    )


def test_stratified_states_have_uniform_plies_and_go_on():
  world = Toy()
  states = world.sample_states(4000, 1)
  assert world.plies == (4, 5)
  plies = np.bincount(world.known(states), minlength=7)
  assert plies[4] + plies[5] == 4000
  assert abs(plies[4] - 2000) < 5 * np.sqrt(1000)
  assert not world.over(states).any()
  assert world.legal(states).any(1).all()


def test_a_state_has_the_prefix_of_its_history():
  world = Toy()
  state = world.parse('4265')
  assert world.format(state[0]) == '4265'
  np.testing.assert_array_equal(world.history(state), [[4, 2, 6, 5, 0, 0]])
  assert world.prefix_moves(state).tolist() == [[4, 4]]
  np.testing.assert_array_equal(
    world.remembered(world.history(state)), state[:, 2:]
  )


def test_prefixes_are_headed_orders_of_the_moves():
  world = Toy()
  states = np.repeat(world.parse('426'), 600, 0)
  result = world.sample_prefixes(states, np.full(600, 3), np.arange(600))
  assert result.ok.all()
  assert (result.tokens[:, 0] == GO).all()
  assert (result.lengths == 4).all()
  orders, counts = np.unique(result.tokens[:, 1:], axis=0, return_counts=True)
  assert orders.tolist() == sorted(map(list, itertools.permutations([2, 4, 6])))
  assert counts.min() > 60


@pytest.mark.parametrize('states', ['stratified', 'recurring'])
def test_states_without_a_history_have_no_prefix(states):
  world = Toy(states=states)
  unknown = world.parse('426')
  unknown[:, 1] = UNKNOWN
  start = world.parse('')
  dead = np.full_like(start, core.DEAD)
  rows = np.concatenate([unknown, start, world.init(1), dead])
  low, high = world.prefix_moves(rows).T
  assert (high < low).all()
  for moves in (np.zeros(4, int), np.full(4, 3), np.full(4, UNKNOWN)):
    assert not world.sample_prefixes(rows, moves, np.arange(4)).ok.any()


def test_prefixes_of_another_length_are_none():
  world = Toy()
  states = np.repeat(world.parse('4265'), 3, 0)
  result = world.sample_prefixes(states, np.array([4, 3, 5]), np.arange(3))
  assert result.ok.tolist() == [True, False, False]
  assert result.tokens.shape == (3, 6)
  assert not result.tokens[1:].any()


def recurring(world):
  """(taken cells) -> distinct proper prefixes in the pool, by counting."""
  tokens, lengths = world.play(world.pool, games.POOL_SEED, random=True)
  result = {}
  for row, length in zip(tokens, lengths, strict=True):
    for k in range(2, length):
      prefix = tuple(row[1:k].tolist())
      result.setdefault(frozenset(prefix), set()).add(prefix)
  return {cells: sample for cells, sample in result.items() if len(sample) > 1}


def test_recurring_states_are_the_pools():
  world = Toy(states='recurring')
  target = recurring(world)
  drawn = {}
  for state in world.sample_states(3000, 4):
    text = world.format(state)
    cells = frozenset(map(int, text))
    assert tuple(map(int, text)) in target[cells]
    drawn[cells] = drawn.get(cells, 0) + 1
  assert set(drawn) == set(target)
  expected = 3000 / len(target)
  spread = sum((n - expected) ** 2 / expected for n in drawn.values())
  assert spread < len(target) + 5 * np.sqrt(2 * len(target))


def test_recurring_prefixes_are_uniform_over_the_pools():
  world = Toy(states='recurring')
  expected = recurring(world)
  cells = max(expected, key=lambda c: len(expected[c]))
  text = ''.join(map(str, sorted(cells)))
  states = np.repeat(world.parse(text), 2000, 0)
  moves = np.full(2000, len(cells))
  result = world.sample_prefixes(states, moves, np.arange(2000))
  assert result.ok.all()
  rows, counts = np.unique(result.tokens[:, 1:], axis=0, return_counts=True)
  assert set(map(tuple, rows.tolist())) == expected[cells]
  assert counts.min() > 2000 / len(rows) / 2


def test_a_state_outside_the_pool_has_no_prefix():
  world = Toy(states='recurring', pool=12)
  expected = recurring(world)
  outside = next(
    cells
    for cells in itertools.combinations([1, 2, 4, 5, 6], 3)
    if frozenset(cells) not in expected
  )
  state = world.parse(''.join(map(str, outside)))
  assert world.prefix_moves(state).tolist() == [[1, 0]]
  assert not world.sample_prefixes(state, np.array([3]), np.zeros(1)).ok[0]


def test_a_pool_without_recurrence_is_named():
  world = Toy(states='recurring', pool=1)
  with pytest.raises(core.InputError, match='pool=1'):
    world.sample_states(3, 0)


def test_sampled_games_are_the_worlds_and_trial_states_random():
  world = Toy()
  result = world.sample(300, 2)
  assert (result.tokens[:, 1] == 1).all()
  opened = world.history(world.sample_states(300, 2))[:, 0]
  assert set(opened.tolist()) == {1, 2, 3, 4, 5, 6}


def test_splits_part_the_games_in_order_of_number():
  world = Toy()
  tokens, lengths = world.play(2000, 3)
  keys = world.split_key(core.Sequences(tokens, lengths))
  for split in ('train', 'heldout', 'all'):
    rows = sampling.in_split(keys, split)
    result = world.sample(40, 3, split)
    np.testing.assert_array_equal(result.tokens, tokens[rows][:40])
    np.testing.assert_array_equal(result.lengths, lengths[rows][:40])


def test_samples_do_not_depend_on_the_chunk(monkeypatch):
  world = Toy()
  whole = world.sample(500, 5, 'train')
  monkeypatch.setattr(sampling, 'CHUNK_TOKENS', 100)
  parts = world.sample(500, 5, 'train')
  np.testing.assert_array_equal(whole.tokens, parts.tokens)


def test_counts_come_one_by_one():
  world = Toy()
  start = exact.opening(world)
  result = exact.count(world, depth=CELLS + 3)
  assert next(result) == 6
  assert [6, *result] == suffixes.count(world, start, CELLS + 3)


def test_tags_are_tens_of_plies():
  world = Toy()
  state = world.parse('4265')
  unknown = state.copy()
  unknown[:, 1] = UNKNOWN
  both = np.concatenate([state, unknown])
  assert world.tags(both)['ply'].tolist() == [0, -1]
