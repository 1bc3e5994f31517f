"""Shifted random games: what moves weigh, and what comes of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.chess import ref, rules_ref
from wm import core
from wm.core import basics
from wm.kernels import chess
from wm.kernels.chess import games as policies
from wm.worlds.chess import notation as chess_notation

KIWIPETE = 'r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq -'
STARTS = (
  chess_notation.START_FEN,
  KIWIPETE,
  '8/P6k/8/3pP3/8/8/p6K/8 w - d6 0 2',
  'r3k2r/8/8/8/3p4/8/2P1P3/R3K2R w Kq - 97 80',
)
SHIFTED = [name for name in chess.POLICIES if name != 'uniform']


def square(name):
  return ord(name[0]) - ord('a') + 8 * (int(name[1]) - 1)


def packed(text):
  return (square(text[:2]) * 64 + square(text[2:4])) * 5 + ' qrbn'.index(
    text[4:] or ' '
  )


def position(fen):
  return rules_ref.read(chess_notation.parse_fen(fen))


def kinds(fen, move):
  result = rules_ref.kinds(position(fen), packed(move))
  return {name for k, name in enumerate(policies.KINDS) if result >> k & 1}


@pytest.mark.parametrize(
  ('fen', 'move', 'wanted'),
  [
    (chess_notation.START_FEN, 'g1f3', ''),
    (chess_notation.START_FEN, 'e2e4', 'pawn'),
    (KIWIPETE, 'e1g1', ''),
    (KIWIPETE, 'd2h6', ''),
    (KIWIPETE, 'e5f7', 'capture'),
    (KIWIPETE, 'd5e6', 'pawn capture'),
    (KIWIPETE, 'a2a4', 'pawn'),
    (KIWIPETE, 'a2a3', 'pawn'),
    ('4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 2', 'e5d6', 'pawn capture'),
    ('4k3/8/8/8/3Pp3/8/8/4K3 b - d3 0 2', 'e4d3', 'pawn capture'),
    ('1n2k3/P7/8/8/8/8/8/4K3 w - - 0 1', 'a7a8n', 'pawn promotion'),
    ('1n2k3/P7/8/8/8/8/8/4K3 w - - 0 1', 'a7b8q', 'pawn promotion capture'),
  ],
)
def test_kinds_of_known_moves(fen, move, wanted):
  assert packed(move) in rules_ref.moves(position(fen))
  assert kinds(fen, move) == set(wanted.split())


@pytest.mark.parametrize('policy', SHIFTED)
@pytest.mark.parametrize('fen', STARTS)
def test_twins_play_the_same_games(fen, policy):
  games = [
    kernels.play(
      2, 8, 3, most=24, policy=policy, start_row=chess_notation.parse_fen(fen)
    )
    for kernels in (chess, ref)
  ]
  for result, expected in zip(*games, strict=True):
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize('policy', SHIFTED)
@pytest.mark.parametrize('fen', STARTS)
def test_moves_come_as_often_as_they_weigh(fen, policy):
  num, start = 20_000, chess_notation.parse_fen(fen)
  result = chess.play(
    num, 5, most=1, stop='moves', policy=policy, start_row=start
  )[0][:, 0]
  at, weights = position(fen), policies.weights(policy)
  choices = rules_ref.moves(at)
  mass = np.array([weights[rules_ref.kinds(at, m)] for m in choices])
  expected = num * mass / mass.sum()
  counts = np.array([(result == m).sum() for m in choices])
  assert counts.sum() == num
  spread = np.sqrt(expected * (1 - mass / mass.sum()))
  assert (abs(counts - expected) <= 5 * spread + 1).all()


@given(st.integers(0, 2**40), st.integers(0, 5), st.sampled_from(SHIFTED))
@settings(max_examples=10, deadline=None)
def test_a_game_depends_on_its_number_alone(seed, first, policy):
  whole = chess.play(6, seed, most=60, policy=policy)
  part = chess.play(1, seed, first, most=60, policy=policy)
  for result, expected in zip(part, whole, strict=True):
    np.testing.assert_array_equal(result[0], expected[first])


def test_unknown_policies_are_named():
  with pytest.raises(
    core.InputError, match="'brave'; available: uniform, promotions"
  ):
    chess.play(1, 0, policy='brave')


# What comes of it: means over games, each at a distance of many standard
# errors of those of uniform games.


def counted(policy, num=300, most=200):
  """Means a game of captures, promotions, castlings, en passant, shuffles."""
  moves, lengths, _ = chess.play(num, 2, most=most, policy=policy)
  labels = chess.replay_labels(moves, lengths)[:, :-1, :64]
  source, target = moves // 5 >> 6, moves // 5 & 63
  used = np.arange(most) < lengths[:, None]
  men = [
    np.take_along_axis(labels, (where ^ 56)[..., None] & 63, -1)[..., 0]
    for where in (source, target)
  ]
  kind, empty = (men[0].astype(int) - 1) % 6 + 1, men[1] == 0
  aside = source % 8 != target % 8
  seen = {
    'captures': ~empty,
    'promotions': moves % 5 > 0,
    'castlings': (kind == 6) & (abs(source - target) == 2),
    'en_passant': (kind == 1) & aside & empty,
    'shuffles': ((kind == 2) | (kind == 4)) & empty,
  }
  return {
    name: (result & used).sum() / num for name, result in seen.items()
  } | {'plies': lengths.mean()}


@pytest.fixture(scope='module')
def uniform():
  return counted('uniform')


def test_policies_shift_what_they_name(uniform):
  result = counted('promotions')
  assert result['promotions'] > 2.5 * uniform['promotions']
  assert result['plies'] > 0.5 * uniform['plies']


def test_uniform_games_are_what_they_were(uniform):
  moves, lengths, codes = chess.play(4, 0, most=1024)
  mixed = basics.hash64(int(lengths.sum()), int(codes.sum()))
  for word in moves[moves >= 0]:
    mixed = basics.hash64(mixed, word)
  assert uniform['castlings'] < 0.3
  assert int(mixed) % 2**32 == 3030112184
