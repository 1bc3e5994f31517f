"""Chess as a world: states, tokens, games and exact answers."""

import numpy as np
import pytest

from tests import suffixes
from wm import core
from wm.kernels import chess as kernels
from wm.library import exact
from wm.worlds import chess
from wm.worlds.chess import notation as chess_notation

KIWIPETE = (
  'r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1'
)


@pytest.fixture(scope='module')
def world():
  return chess.World()


def at(world, *texts):
  return np.concatenate([world.parse(text) for text in texts])


def moves(world, *words):
  return np.array([world.vocab.index(word) for word in words])


def after(world, state, *words):
  for word in words:
    state = world.advance(state, moves(world, word))
    assert world.state_id(state)[0] != core.DEAD, word
  return state


# Rules.


def test_the_start_token_comes_first(world):
  begin = world.init(1)
  assert np.flatnonzero(world.legal(begin)[0]).tolist() == [1969]
  assert suffixes.count(world, begin[0], 4) == [1, 20, 400, 8902]
  assert world.vocab[1969] == '<start>'
  assert len(world.vocab) == 1970
  np.testing.assert_array_equal(
    world.advance(begin, np.array([1969])), at(world, 'startpos')
  )
  np.testing.assert_array_equal(exact.opening(world), world.opening()[0])


def test_both_vocabularies_are_one_language(world):
  wide = chess.World(vocabulary='packed')
  assert len(wide.vocab) == 20482
  states = world.sample_states(40, 3)
  legal, wider = world.legal(states), wide.legal(states)
  tokens = chess_notation.packed_ids('compact')[1:-1] + 1
  np.testing.assert_array_equal(wider[:, tokens], legal[:, 1:-1])
  assert wider.sum() == legal.sum()
  first, second = world.sample(20, 1), wide.sample(20, 1)
  for narrow, broad in zip(first.tokens, second.tokens, strict=True):
    assert [world.vocab[t] for t in narrow] == [wide.vocab[t] for t in broad]


def test_draws_do_not_end_the_language(world):
  bare = at(world, '8/8/4k3/8/8/4K3/8/8 w - - 149 200')
  assert not world.over(bare)[0]
  shuffled = ' '.join(['Nf3 Nf6 Ng1 Ng8'] * 6)
  assert world.legal(at(world, shuffled)).sum() == 20


def test_mate_and_stalemate_are_over(world):
  states = at(world, 'f3 e5 g4 Qh4', '7k/5Q2/6K1/8/8/8/8/8 b - - 0 1')
  assert world.over(states).all()
  assert not world.legal(states).any()


# States.


def test_a_state_is_what_may_be_played_from_now_on(world):
  same = at(
    world,
    'd4 d5 Nf3',
    'Nf3 d5 d4',  # Clock and raw en-passant square differ.
    'd4 d5 Nc3 Nc6 Nb1 Nb8 Nf3',  # Later.
    'rnbqkbnr/ppp1pppp/8/3p4/3P4/5N2/PPP1PPPP/RNBQKB1R b KQkq - 9 40',
  )
  ids = world.state_id(same)
  assert len(set(ids.tolist())) == 1
  assert ids[0] >= 0
  assert len(np.unique(world.canonical(same), axis=0)) == 1
  # White may castle no more; black may; a pawn may be taken in passing.
  other = at(
    world,
    'd4 d5 Nf3',
    'd4 d5 Nf3 Nf6 Rg1 Ng8 Rh1 Nc6 Na3 Nb8 Nb1',
    'e4 a6 e5 d5',
    'e3 a6 e4 d6 e5 d5',
  )
  assert len(set(world.state_id(other).tolist())) == 4
  assert len(np.unique(world.canonical(other), axis=0)) == 4
  # The pawn that could take is pinned: no different from without a push.
  pinned = at(
    world, '8/8/8/K2pP2r/8/8/8/7k w - d6 0 2', '8/8/8/K2pP2r/8/8/8/7k w - - 0 2'
  )
  assert len(set(world.state_id(pinned).tolist())) == 1


def test_a_state_remembers_the_moves_that_led_to_it(world):
  state = at(world, 'e4 c5 Nf3')
  assert world.known(state)[0] == 3
  names = [world.vocab[t] for t in world.history(state)[0] if t]
  assert names == ['e2e4', 'c7c5', 'g1f3']
  assert world.prefix_moves(state).tolist() == [[3, 3]]
  result = world.sample_prefixes(state, np.array([3]), np.array([0]))
  assert result.ok[0]
  assert result.lengths[0] == 4


def test_a_position_from_a_fen_has_no_prefix(world):
  state = at(world, KIWIPETE)
  assert world.known(state)[0] == chess.UNKNOWN
  state = after(world, state, 'e1g1')
  assert world.known(state)[0] == chess.UNKNOWN
  assert not world.history(state).any()
  least, most = world.prefix_moves(state)[0]
  assert most < least
  assert not world.sample_prefixes(state, np.array([1]), np.array([0])).ok[0]
  assert world.tags(state)['ply'][0] == -1


def test_a_history_without_room_is_forgotten():
  world = chess.World(length=5)
  state = at(world, 'Nf3 Nf6 Ng1 Ng8 Nf3')
  assert world.known(state)[0] == 5
  longer = after(world, state, 'g8f6')
  assert world.known(longer)[0] == chess.UNKNOWN
  assert not world.history(longer).any()
  assert world.state_id(longer)[0] == world.state_id(at(world, 'Nf3 Nf6'))[0]


# Labels.


# Games.


def test_short_games_are_dropped_and_counted():
  every = chess.World(length=64, least=0)
  world = chess.World(length=64, least=60)
  games, kept = every.sample(400, 1), world.sample(300, 1)
  assert every.sample(400, 1).counts == {'games_dropped_short': 0}
  assert len(kept) == 300
  assert kept.lengths.min() > 60
  dropped = kept.counts['games_dropped_short']
  rows = np.flatnonzero(games.lengths > 60)[:300]
  assert dropped == rows[-1] + 1 - 300 > 0
  np.testing.assert_array_equal(kept.tokens, games.tokens[rows])


def test_games_of_which_many_are_dropped_have_no_law():
  """King and queen against king: three of ten are drawn within 20 plies."""
  endgame = '8/8/8/4k3/8/8/8/KQ6 w - - 0 1'
  world = chess.World(length=40, start=endgame)
  dropped = world.sample(2000, 1).counts['games_dropped_short']
  assert 0.27 < dropped / (dropped + 2000) < 0.32
  with pytest.raises(core.InputError, match=r'\): 30% of 2,000 .* least=0'):
    world.data_distribution()
  chess.World(length=40, start=endgame, least=0).data_distribution()


@pytest.mark.parametrize('policy', ['uniform', 'promotions'])
def test_games_from_the_usual_start_have_a_law(policy):
  world = chess.World(policy=policy)
  assert world.sample(2000, 1).counts['games_dropped_short'] < 0.02 * 2000
  world.data_distribution()


def test_a_length_below_the_least_keeps_what_is_cut():
  result = chess.World(length=6).sample(500, 1)
  assert (result.lengths == 7).all()


def test_games_stop_where_asked():
  lengths = {}
  for stop in kernels.STOPS:
    world = chess.World(length=300, stop=stop)
    result = world.sample(60, 4)
    ended = world.over(world.after(result.tokens, result.lengths))
    lengths[stop] = result.lengths.sum()
    cut = result.lengths == world.max_len
    if stop == 'moves':
      assert (ended | cut).all()
  assert lengths['moves'] > lengths['automatic'] > lengths['claims']


def test_games_cut_as_those_of_people_are_else_the_same(world):
  cut = chess.World(length=400, lengths='human').sample(2000, 3)
  whole = chess.World(length=400).sample(1000, 3)
  plies = cut.lengths - 1
  assert plies.min() >= 20
  assert plies.max() > 200
  assert abs(plies.mean() - 77) < 3
  assert whole.lengths.mean() > 300
  starts = {tuple(row[:16]) for row in whole.tokens}
  assert sum(tuple(row[:16]) in starts for row in cut.tokens[:900]) > 850
  again = chess.World(length=400, lengths='human').sample(40, 3)
  assert (again.tokens == cut.tokens[:40]).all()
  with pytest.raises(core.InputError, match='whole, human'):
    chess.World(lengths='short')


def test_a_policy_shifts_what_is_sampled_and_no_trial(world):
  shifted = chess.World(policy='promotions')
  result, plain = shifted.sample(60, 1), world.sample(60, 1)
  pawns = [
    (w.labels(w.after(f.tokens, f.lengths))[:, :64] % 6 == 1).sum(-1).mean()
    for w, f in ((shifted, result), (world, plain))
  ]
  assert pawns[0] < pawns[1] - 1
  np.testing.assert_array_equal(
    shifted.sample_states(20, 1), world.sample_states(20, 1)
  )
  with pytest.raises(core.InputError, match=r"captures'; available: uniform"):
    chess.World(policy='captures')


# Boundaries and pictures.


def test_boundaries_with_states_that_are_no_position(world):
  states = np.concatenate(
    [world.init(1), world.opening(), np.full_like(world.init(1), core.DEAD)]
  )
  start = world.header
  twenty = [(t,) for t in np.flatnonzero(world.legal(states[1:2])[0]).tolist()]
  for first, second, expected in (
    (0, 1, [start]),
    (1, 0, twenty),
    (1, 2, twenty),
    (2, 1, []),
    (0, 2, [start]),
  ):
    result = world.boundary(states[first, None], states[second, None], 2)
    assert result.listed() == [expected]


def test_pictures(world):
  mate = world.render(at(world, 'f3 e5 g4 Qh4')[0])
  assert 'White is mated; rights KQkq, en passant -, clock 1, move 3' in mate
  assert mate.count('<g transform') == 32  # Men.
  assert 'Black to move' in world.render(at(world, 'e4')[0])
  assert 'init' in world.render(world.init(1)[0])
