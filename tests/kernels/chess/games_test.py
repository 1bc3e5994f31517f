"""Games of chess: known states and ends, twins agree, seeds are kept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.chess import ref
from wm.kernels import chess
from wm.worlds.chess import notation as chess_notation

KIWIPETE = 'r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq -'


def square(name):
  return ord(name[0]) - ord('a') + 8 * (int(name[1]) - 1)


def packed(text):
  """Packed ids of moves like 'e2e4 e7e8q'."""
  return [
    (square(m[:2]) * 64 + square(m[2:4])) * 5 + ' qrbn'.index(m[4:] or ' ')
    for m in text.split()
  ]


def codes(text, fen=chess_notation.START_FEN, stop='claims'):
  """Names of the outcomes after every move of a line."""
  moves = packed(text)
  start = chess_notation.parse_fen(fen)
  results = chess.outcomes([moves], [len(moves)], stop, start)[0]
  return [chess.layout.OUTCOMES[code] for code in results]


@pytest.mark.parametrize('stop', chess.STOPS)
@pytest.mark.parametrize(
  'fen',
  [
    chess_notation.START_FEN,
    KIWIPETE,
    '8/8/3k4/8/8/4K3/8/R6r w - - 97 80',
    '8/3k4/8/8/3NK3/8/8/6n1 b - - 147 90',
  ],
)
def test_twins_play_the_same_games(fen, stop):
  start = chess_notation.parse_fen(fen)
  games = [
    kernels.play(1, 3, 2, most=12, stop=stop, start_row=start)
    for kernels in (chess, ref)
  ]
  for result, expected in zip(*games, strict=True):
    np.testing.assert_array_equal(result, expected)
  moves, lengths, last = games[0]
  for ep in ('raw', 'legal'):
    labels = [
      kernels.replay_labels(moves, lengths, ep, start)
      for kernels in (chess, ref)
    ]
    np.testing.assert_array_equal(*labels)
  for kernels in (chess, ref):
    judged = kernels.outcomes(moves, lengths, stop, start)
    assert judged[0, lengths[0]] == last[0]
    assert (judged[0, : lengths[0]] == 0).all()
    assert (judged[0, lengths[0] + 1 :] == -1).all()


@given(st.integers(0, 2**40), st.integers(1, 5))
@settings(max_examples=10, deadline=None)
def test_a_game_depends_on_its_number_alone(seed, first):
  moves, lengths, last = chess.play(6, seed)
  part, few, ends = chess.play(2, seed, first)
  size = min(6 - first, 2)
  np.testing.assert_array_equal(moves[first : first + 2], part[:size])
  np.testing.assert_array_equal(lengths[first : first + 2], few[:size])
  np.testing.assert_array_equal(last[first : first + 2], ends[:size])


def test_replay_stops_at_the_first_illegal_move():
  moves = packed('e2e4 e7e5 e1e3 d7d5')
  steps, rows = chess.replay([moves, moves], [4, 2])
  assert steps.tolist() == [2, 2]
  np.testing.assert_array_equal(rows[0], rows[1])
  result = chess.outcomes([moves], [4])[0]
  assert result.tolist() == [0, 0, 0, -1, -1]


def test_no_claim_by_a_move_that_leaves_no_reply():
  # Whatever white plays, black is mated or has no move.
  fen = '8/8/3Q4/8/8/3Q4/4R3/K1k5 w - - {} 80'
  assert codes('', fen.format(99)) == ['none']
  assert codes('', fen.format(100)) == ['fifty_moves']
  reply = '8/8/3Q4/8/8/3Q4/8/K1k5 w - - 99 80'
  assert codes('', reply) == ['fifty_moves']


@pytest.mark.parametrize(
  ('fen', 'name'),
  [
    ('8/8/3k4/8/8/4K3/8/8 w - - 0 1', 'insufficient_material'),
    ('8/8/3k4/8/8/4K3/6N1/8 w - - 0 1', 'insufficient_material'),
    ('8/8/3k4/8/8/4K3/6NN/8 w - - 0 1', 'none'),
    ('8/8/3k4/6n1/8/4K3/6N1/8 w - - 0 1', 'none'),
    ('8/8/3k4/6b1/8/3K4/5B2/8 w - - 0 1', 'insufficient_material'),
    ('8/8/3k4/6b1/8/3K4/6B1/8 b - - 0 1', 'none'),
    ('8/8/3k4/5b2/8/4K3/6B1/8 w - - 0 1', 'insufficient_material'),
    ('8/8/3k4/8/8/4K3/6P1/8 w - - 0 1', 'none'),
    ('8/8/8/8/8/5k2/5q2/7K w - - 0 1', 'stalemate'),
    ('8/8/8/8/8/5k2/6q1/7K w - - 0 1', 'checkmate'),
    ('7k/8/6KB/8/8/8/8/8 b - - 0 1', 'insufficient_material'),
    ('k7/8/1K6/8/8/8/8/8 b - - 200 200', 'insufficient_material'),
  ],
)
def test_positions_that_end_a_game(fen, name):
  assert codes('', fen) == [name]


def test_history_is_counted_where_it_is_known():
  row = chess.start()
  for known, then in (
    (0, 1),
    (7, 8),
    (chess.layout.UNKNOWN, chess.layout.UNKNOWN),
  ):
    row[10] = known
    after, _ = chess.advance(row[None], packed('e2e4'))
    assert after[0, 10] == then
