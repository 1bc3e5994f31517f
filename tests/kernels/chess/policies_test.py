"""Shifted random games: what moves weigh, and what comes of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.chess import ref
from wm.core import basics
from wm.kernels import chess
from wm.worlds.chess import notation as chess_notation

KIWIPETE = 'r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq -'
STARTS = (
  chess_notation.START_FEN,
  KIWIPETE,
  '8/P6k/8/3pP3/8/8/p6K/8 w - d6 0 2',
  'r3k2r/8/8/8/3p4/8/2P1P3/R3K2R w Kq - 97 80',
)
SHIFTED = [name for name in chess.POLICIES if name != 'uniform']


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


@given(st.integers(0, 2**40), st.integers(0, 5), st.sampled_from(SHIFTED))
@settings(max_examples=10, deadline=None)
def test_a_game_depends_on_its_number_alone(seed, first, policy):
  whole = chess.play(6, seed, most=60, policy=policy)
  part = chess.play(1, seed, first, most=60, policy=policy)
  for result, expected in zip(part, whole, strict=True):
    np.testing.assert_array_equal(result[0], expected[first])


def test_policies_shift_what_they_name():
  """Means over games, at a distance of many standard errors."""
  promotions, plies = [], []
  for policy in ('uniform', 'promotions'):
    moves, lengths, _ = chess.play(300, 2, most=200, policy=policy)
    promotions.append((moves % 5 > 0)[moves >= 0].sum())
    plies.append(lengths.mean())
  assert promotions[1] > 2.5 * promotions[0]
  assert plies[1] > 0.5 * plies[0]


def test_uniform_games_are_what_they_were():
  moves, lengths, codes = chess.play(4, 0, most=1024)
  mixed = basics.hash64(int(lengths.sum()), int(codes.sum()))
  for word in moves[moves >= 0]:
    mixed = basics.hash64(mixed, word)
  assert int(mixed) % 2**32 == 3030112184
