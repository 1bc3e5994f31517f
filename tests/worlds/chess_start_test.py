"""Games from another first position: endgames of a few pieces."""

import numpy as np
import pytest

import wm
from tests import suffixes
from wm import core
from wm.core import registry
from wm.data import sampling, store
from wm.worlds import chess

ENDGAME = '4k3/8/PPP5/8/8/ppp5/8/4K3 w - - 0 1'
BLACK = '4k3/8/8/8/8/2p5/8/4K2R b K - 258 40'  # Clock over a byte.


@pytest.fixture(scope='module')
def world():
  return chess.World(length=40, start=ENDGAME)


@pytest.fixture(scope='module')
def games(world):
  return world.sample(50, 0)


def test_the_start_token_sets_up_the_position(world):
  begin = world.init(1)
  (token,) = np.flatnonzero(world.legal(begin)[0])
  state = world.advance(begin, np.array([token]))
  assert world.format(state[0]) == ENDGAME
  assert world.vocab[token] == f'<{ENDGAME.replace(" ", "_")}>'
  perft = suffixes.count(world, world.parse(ENDGAME)[0], 3)
  assert suffixes.count(world, begin[0], 4) == [1, *perft]
  np.testing.assert_array_equal(world.parse('startpos'), state)
  assert world.format(world.parse('c7 Kf7 c8=N')[0]).startswith('2N5/5k2/PP6')


@pytest.mark.parametrize('start', [ENDGAME, BLACK])
def test_labels_of_games_are_those_of_their_states(start):
  world = chess.World(length=30, start=start, stop='moves')
  games = world.sample(20, 1)
  result = world.sequence_labels(games.tokens, games.lengths)
  states = world.init(len(games))
  for place, tokens in enumerate(games.tokens.T):
    states = world.advance(states, tokens)
    here = games.lengths > place
    expected = world.labels(states[here])
    np.testing.assert_array_equal(result[here, place], expected)


@pytest.mark.parametrize('start', [ENDGAME, BLACK])
def test_the_naive_reading_is_right_up_to_the_first_special_move(start):
  world = chess.World(length=30, start=start, stop='moves', ep='legal')
  games = world.sample(40, 1)
  sequences = games.tokens, games.lengths
  truth = world.sequence_labels(*sequences)
  naive = world.surface_labels(*sequences)
  special = np.any(list(world.move_tags(games).values()), axis=0)
  # A right is also lost by moves of king and rook.
  special[:, 1:] |= (truth[:, 1:, 65:71] != truth[:, :-1, 65:71]).any(-1)
  before = np.cumsum(special, axis=1) == 0
  real = np.arange(truth.shape[1]) < games.lengths[:, None]
  assert special.any()
  np.testing.assert_array_equal(naive[before & real], truth[before & real])
  first = special & (np.cumsum(special, axis=1) == 1)
  assert (naive[first] != truth[first]).any(-1).all()


def test_trials_draw_states_of_the_endgame_and_prefixes_that_reach_them(world):
  states = world.sample_states(30, 2)
  assert (states[:, 9] >> 16 <= 21).all()
  moves = world.prefix_moves(states)[:, 1]
  drawn = world.sample_prefixes(states, moves, np.arange(30, dtype=np.uint64))
  assert drawn.ok.all()
  reached = world.after(drawn.tokens, drawn.lengths)
  np.testing.assert_array_equal(world.state_id(reached), world.state_id(states))


def test_of_the_usual_games_none_are_taken_for_those_of_an_endgame(
  world, games, tmp_path
):
  about = sampling.describe(world, 0, 'train', len(games))
  with store.Writer(tmp_path / 'games', about) as writer:
    writer.add(games)
    writer.finish()
  folder = str(tmp_path / 'games')
  kept = sampling.stored(world, folder, 9, 0)
  assert (kept.tokens[:, 0] == games.tokens[0, 0]).all()
  with pytest.raises(core.InputError, match='vocabulary is not that of chess'):
    sampling.stored(chess.World(length=40), folder, 9, 0)
  path = tmp_path / 'usual.pgn'
  path.write_text('[Event "a"]\n\n1. e4 e5 2. Nf3 Nc6 *\n\n')
  with pytest.raises(core.InputError, match='no game is left of 1: 1 from pos'):
    wm.ingest([path], tmp_path / 'out', world=registry.spec(world))


@pytest.mark.parametrize(
  ('fields', 'words'),
  [
    ({'start': '8/8/8/8/8/8/8/8 w - - 0 1'}, 'is impossible (kings)'),
    ({'start': 'e4 e5'}, 'is impossible (fields)'),
    ({'start': '7k/5Q2/6K1/8/8/8/8/8 b - - 0 1'}, 'is a game that has ended'),
    ({'start': '8/8/4k3/8/8/4K3/8/8 w - - 0 1'}, "ended, by stop='claims'"),
  ],
)
def test_a_bad_start_is_one_line(fields, words, one_line):
  with one_line() as caught:
    chess.World(**fields)
  assert words in str(caught.value)


def test_a_start_of_too_short_games_is_told():
  mate = '7k/8/5KQ1/8/8/8/8/8 w - - 98 1'  # Fifty moves are near.
  world = chess.World(start=mate)
  with pytest.raises(core.InputError, match='games has least=20 plies'):
    world.sample(3, 0)
  assert len(chess.World(start=mate, least=0).sample(3, 0)) == 3


@pytest.mark.parametrize(
  ('states', 'words'),
  [('stratified', 'none goes on'), ('recurring', 'no position recurs')],
)
def test_where_each_game_ends_at_once_no_state_can_be_drawn(states, words):
  """White's one move takes the last pawn: two kings are a draw."""
  start = '8/8/8/8/8/5k2/7p/7K w - - 0 1'
  world = chess.World(length=30, start=start, least=0, states=states, pool=50)
  assert world.sample(3, 0).lengths.tolist() == [2] * 3
  with pytest.raises(core.InputError, match=words):
    world.sample_states(3, 0)
