"""Othello as a world: known answers, known openings, and what it samples."""

import collections

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import judging, suffixes
from tests.worlds.plain_othello import BLACK, WHITE, Board, name
from wm import core
from wm.core import registry
from wm.evaluation import probing
from wm.kernels import othello_games
from wm.library import exact
from wm.worlds import othello


def token(world, word):
  return world.vocab.index(word)


def played(world, text):
  return world.parse(text)[0]


@pytest.mark.parametrize('size', [4, 6, 8])
def test_games_follow_the_rules_in_their_plainest_form(size):
  world = othello.World(size=size)
  games = world.sample(12, 3)
  for row, length in zip(games.tokens, games.lengths, strict=True):
    board, state = Board(size), world.init(1)
    for move in row[:length]:
      legal = board.legal()
      words = [world.vocab[t] for t in np.flatnonzero(world.legal(state)[0])]
      assert words == [name(place) for place in legal]
      board.play(legal[words.index(world.vocab[move])])
      state = world.advance(state, np.array([move]))
    assert not board.legal()
    assert world.over(state).all()


def test_tokens_are_squares_without_the_four_of_the_start():
  world = othello.World()
  assert world.vocab[1:4] == ('a1', 'b1', 'c1')
  assert world.vocab[-1] == 'h8'
  assert len(world.vocab) == 61
  assert not {'d4', 'e4', 'd5', 'e5'} & set(world.vocab)
  # Published square 19 is row 3, column d.
  assert othello.World(size=8).legal(world.init(1))[0].nonzero()[
    0
  ].tolist() == [token(world, word) for word in ('d3', 'c4', 'f5', 'e6')]
  small = othello.World(size=6)
  assert small.vocab[1] == 'a1'
  assert small.vocab[-1] == 'f6'
  assert len(small.vocab) == 33


@pytest.mark.parametrize(
  ('size', 'counts', 'boards'),
  [
    (8, [4, 12, 56, 244, 1396, 8200, 55092], [4, 12, 54, 236, 1288]),
    (6, [4, 12, 56, 244, 1364], [4, 12, 54, 236, 1256]),
    (4, [4, 12, 44, 128, 436], [4, 12, 42, 120, 392]),
  ],
)
def test_openings_are_as_many_as_known(size, counts, boards):
  world = othello.World(size=size)
  assert suffixes.count(world, world.init(1)[0], len(counts)) == counts
  states, seen = world.init(1), []
  for _ in boards:
    rows, tokens = np.nonzero(world.legal(states))
    states = world.advance(states[rows], tokens)
    ids = world.state_id(states)
    _, first = np.unique(ids, return_index=True)
    seen.append(len(first))
    discs = np.unique(states[:, : othello.SIDE], axis=0)
    assert len(discs) == len(first)
  assert seen == boards


def test_a_transposition_is_the_same_state():
  world = othello.World()
  # A known pair: both orders of black's first and third move.
  orders = collections.defaultdict(set)
  states, paths = world.init(1), [()]
  for _ in range(5):
    rows, tokens = np.nonzero(world.legal(states))
    states = world.advance(states[rows], tokens)
    paths = [(*paths[r], t) for r, t in zip(rows, tokens, strict=True)]
  for state, path in zip(world.state_id(states), paths, strict=True):
    orders[state].add(path)
  pairs = [sample for sample in orders.values() if len(sample) > 1]
  assert len(paths) - len(orders) == 1396 - 1288
  item, other = sorted(pairs[0])[:2]
  texts = [''.join(world.vocab[t] for t in path) for path in (item, other)]
  first, second = (played(world, text) for text in texts)
  assert suffixes.sizes(world, first, second, 4)[0] == [0, 0, 0, 0]
  assert (first != second).any()  # Each remembers its own moves.
  assert [world.format(s) for s in (first, second)] == texts


def passing_game(world):
  """A state whose side to move moved last, with its number of moves."""
  games = world.sample(200, 8)
  states = world.init(len(games))
  for k in range(world.max_len):
    going = np.flatnonzero(k < games.lengths)
    after = world.advance(states[going], games.tokens[going, k])
    same = after[:, othello.SIDE] == states[going, othello.SIDE]
    if same.any():
      row = going[same.argmax()]
      return after[same.argmax()], games.tokens[row], k + 1
    states[going] = after
  raise AssertionError('no game with a pass')


def test_a_pass_is_silent():
  world = othello.World(size=6)
  state, tokens, moves = passing_game(world)
  board = Board(6)
  for word in (world.vocab[t] for t in tokens[:moves]):
    board.play(next(p for p in board.legal() if name(p) == word))
  assert not board.legal(3 - board.turn)
  side = {BLACK: 0, WHITE: 1}[board.turn]
  assert state[othello.SIDE] == side
  words = [world.vocab[t] for t in np.flatnonzero(world.legal(state[None])[0])]
  assert words == [name(place) for place in board.legal()]


def test_states_are_written_as_moves():
  world = othello.World()
  for text in ('d3c3c4', ' d3 C3\tc4 ', 'D3C3C4'):
    assert world.format(played(world, text)) == 'd3c3c4'
  assert world.format(world.init(1)[0]) == 'start'
  np.testing.assert_array_equal(world.parse('start'), world.init(1))
  by_tokens = exact.locate(world, 'd3 c3 c4')
  np.testing.assert_array_equal(by_tokens, played(world, 'd3c3c4'))


@pytest.mark.parametrize(
  ('size', 'text', 'said'),
  [
    (8, 'd3d3', "ply 2, 'd3', is not legal after 'd3'; legal: c3, e3, c5"),
    (8, 'a1', "ply 1, 'a1', is not legal after 'start'; legal: d3, c4, f5, e6"),
    (8, 'd3c', "no move is named 'c'"),
    (8, 'd3x9', "no move is named 'x9'"),
    (8, 'd4', "no move is named 'd4'"),
    (6, 'h8', "othello(size=6): no move is named 'h8'"),
    (8, ' ', "expected 'start'"),
  ],
)
def test_bad_states_name_ply_and_move(size, text, said):
  with pytest.raises(core.InputError) as error:
    othello.World(size=size).parse(text)
  assert said in str(error.value)
  assert '\n' not in str(error.value)


def test_a_move_after_the_end_is_refused():
  world = othello.World(size=4)
  games = world.sample(400, 1)
  short = int(games.lengths.argmin())
  states = world.after(games.tokens[short : short + 1], games.lengths[[short]])
  text = world.format(states[0])
  taken = {text[k : k + 2] for k in range(0, len(text), 2)}
  free = next(word for word in world.vocab[1:] if word not in taken)
  with pytest.raises(core.InputError, match='the game is over'):
    world.parse(text + free)
  assert world.over(states)[0]
  assert not world.legal(states).any()


@pytest.mark.parametrize(
  'spec',
  [
    'othello(size=7)',
    'othello(size=10)',
    "othello(policy='best')",
    'othello(noise=1.5)',
    "othello(states='all')",
    'othello(pool=0)',
    "othello(records='x.wtb', policy='search')",
  ],
)
def test_bad_fields_are_named_in_one_line(spec):
  with pytest.raises(core.InputError) as error:
    registry.make('world', spec)
  assert 'othello' in str(error.value)
  assert '\n' not in str(error.value)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**40), st.sampled_from([4, 6, 8]), st.integers(0, 50))
def test_compiled_replay_is_advance(seed, size, cut):
  world = othello.World(size=size)
  games = world.sample(3, seed)
  lengths = np.minimum(games.lengths, cut)
  states = world.after(games.tokens, lengths)
  steps, walked = core.World.walk(world, world.init(3), games.tokens, lengths)
  assert (steps == lengths).all()
  np.testing.assert_array_equal(states, walked)
  np.testing.assert_array_equal(world.known(states), lengths)
  np.testing.assert_array_equal(
    world.history(states)[:, : games.tokens.shape[1]],
    np.where(
      np.arange(world.max_len) < lengths[:, None], games.tokens, core.PAD
    ),
  )


@pytest.mark.parametrize('size', [4, 6, 8])
def test_boundaries_are_those_of_product_search(size):
  world = othello.World(size=size)
  states = world.sample_states(6, 4)
  depth = 3
  for first, second in zip(states, states[::-1], strict=True):
    (expected,) = core.boundary.product(world, first, second, depth).listed()
    result = world.boundary(first[None], second[None], depth)
    assert result.listed() == [expected]
    sizes = [sum(len(s) <= k for s in expected) for k in range(1, depth + 1)]
    assert suffixes.sizes(world, first, second, depth)[0] == sizes


def test_boundary_elements_part_the_two_states():
  world = othello.World()
  first, second = played(world, 'd3'), played(world, 'd3c3c4')
  results = world.boundary(first[None], second[None], 3).listed()[0]
  words = [' '.join(world.vocab[t] for t in suffix) for suffix in results]
  assert words[0] == 'c3'
  assert len(words) == suffixes.sizes(world, first, second, 3)[0][-1]
  for suffix in results:
    tokens, length = np.array([suffix]), np.array([len(suffix)])
    assert world.walk(first[None], tokens, length)[0] == len(suffix)
    assert world.walk(second[None], tokens, length)[0] == len(suffix) - 1


def all_orders(world, text):
  """Every legal order of these moves that reaches the same state, listed."""
  target = played(world, text)
  expected = set(world.history(target[None])[0].tolist()) - {0}
  paths, states = [()], world.init(1)
  for _ in expected:
    rows, tokens = np.nonzero(world.legal(states))
    keep = [
      t in expected and t not in paths[r]
      for r, t in zip(rows.tolist(), tokens.tolist(), strict=True)
    ]
    rows, tokens = rows[keep], tokens[keep]
    states = world.advance(states[rows], tokens)
    paths = [
      (*paths[r], t)
      for r, t in zip(rows.tolist(), tokens.tolist(), strict=True)
    ]
  same = world.state_id(states) == world.state_id(target[None])
  return {path for path, ok in zip(paths, same, strict=True) if ok}


@pytest.mark.parametrize('ply', [6, 8, 10])
def test_prefixes_are_uniform_over_all_orders_of_an_opening(ply):
  world = othello.World()
  pool = world.sample(400, 5)
  states = world.after(pool.tokens, np.full(400, ply))
  texts = [world.format(state) for state in states]
  text = max(texts[:60], key=lambda t: len(all_orders(world, t)))
  orders = all_orders(world, text)
  assert len(orders) > 2
  num = 300 * len(orders)
  rows = np.repeat(played(world, text)[None], num, 0)
  result = world.sample_prefixes(rows, np.full(num, ply), np.arange(num))
  drawn = collections.Counter(map(tuple, result.tokens.tolist()))
  assert set(drawn) == orders
  spread = sum((count - 300) ** 2 / 300 for count in drawn.values())
  assert spread < len(orders) + 5 * np.sqrt(2 * len(orders))


def test_late_prefixes_differ_along_the_whole_game():
  world = othello.World()
  states = world.sample_states(60, 9)
  moves = world.known(states)
  late = moves > 30
  result = [
    world.sample_prefixes(states[late], moves[late], np.arange(late.sum()) + k)
    for k in (0, 1000)
  ]
  apart = result[0].tokens != result[1].tokens
  assert apart.any(1).mean() > 0.9
  assert apart[:, 20:30].any(1).mean() > 0.5


def test_plies_of_trial_states_are_uniform():
  world = othello.World()
  moves = world.known(world.sample_states(5600, 2))
  counts = np.bincount(moves, minlength=60)[4:]
  assert not np.bincount(moves)[:4].any()
  spread = ((counts - 100) ** 2 / 100).sum()
  assert spread < 56 + 5 * np.sqrt(112)
  tags = world.tags(world.sample_states(50, 2))
  assert set(tags['ply'].tolist()) <= {0, 10, 20, 30, 40, 50}


def test_as_many_openings_recur_as_published():
  """Boards that recur in 1,000 games: 82 in one draw of them (seeds differ)."""
  world = othello.World(states='recurring', pool=1000)
  states = world.sample_states(5000, 1)
  distinct = np.unique(world.state_id(states))
  assert 55 <= len(distinct) <= 115
  moves = world.known(states)
  assert moves.min() <= 4
  assert np.median(moves) <= 6


def test_sampled_games_are_the_policys():
  num, base = 60, othello.World(size=6)
  final = {}
  for policy in othello_games.POLICIES:
    world = othello.World(size=6, policy=policy)
    games = world.sample(num, 1)
    assert (judging.judge(world, games) == 'valid').all()
    final[policy] = games.tokens
  assert not np.array_equal(final['uniform'], final['search'])
  noisy = othello.World(size=6, policy='search', noise=0.5).sample(num, 1)
  assert not np.array_equal(noisy.tokens, final['search'])
  # Trial states are of random games whatever is sampled.
  np.testing.assert_array_equal(
    othello.World(size=6, policy='search').sample_states(9, 1),
    base.sample_states(9, 1),
  )


def test_probe_labels_are_the_movers_and_the_others_discs():
  world = othello.World(size=6)
  games = world.sample(20, 1)
  for state in world.after(games.tokens, np.arange(20) + 5):
    discs, text = Board(6), world.format(state)
    for k in range(0, len(text), 2):
      word = text[k : k + 2]
      discs.play((int(word[1]) - 1, 'abcdef'.index(word[0])))
    expected = np.zeros((6, 6), int)
    for place, disc in discs.discs.items():
      expected[place] = 1 if disc == discs.turn else 2
    assert probing.targets(world, state[None]).tolist() == [
      expected.ravel().tolist()
    ]
  over = world.after(games.tokens, games.lengths)
  assert (probing.targets(world, over) == core.DEAD).all()


def test_pictures_show_the_discs_and_the_legal_moves():
  world = othello.World(size=6)
  state = world.init(1)
  start = world.render(state[0])
  assert start.count('<g transform') == 4
  assert start.count('r="5"') == 4
  assert 'black to move, 2 : 2' in start
  after = world.advance(state, world.legal(state).argmax(1))[0]
  assert world.render(after).count('<g transform') == 5
  assert 'white to move, 4 : 1' in world.render(after)
