"""Othello as a world: known answers, known openings, and what it samples."""

import numpy as np
import pytest

from tests import judging, suffixes
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


def test_states_are_written_as_moves():
  world = othello.World()
  for text in ('d3c3c4', ' d3 C3\tc4 ', 'D3C3C4'):
    assert world.format(played(world, text)) == 'd3c3c4'
  assert world.format(world.init(1)[0]) == 'start'
  np.testing.assert_array_equal(world.parse('start'), world.init(1))
  by_tokens = exact.locate(world, 'd3 c3 c4')
  np.testing.assert_array_equal(by_tokens, played(world, 'd3c3c4'))


@pytest.mark.parametrize(
  ('size', 'text', 'message'),
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
def test_bad_states_name_ply_and_move(size, text, message, one_line):
  with one_line() as error:
    othello.World(size=size).parse(text)
  assert message in str(error.value)


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
def test_bad_fields_are_named_in_one_line(spec, one_line):
  with one_line() as error:
    registry.make('world', spec)
  assert 'othello' in str(error.value)


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
  states = world.after(games.tokens, np.arange(20) + 5)
  labels = world.labels(states).astype(int)
  discs, side = labels[:, :-1], labels[:, -1:]
  assert set(side.ravel().tolist()) == {0, 1}
  expected = np.where(discs == 0, 0, np.where(discs == side + 1, 1, 2))
  np.testing.assert_array_equal(probing.targets(world, states), expected)
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
