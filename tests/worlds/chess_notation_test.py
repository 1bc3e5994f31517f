import numpy as np
import pytest

from wm import core
from wm.kernels import chess
from wm.worlds.chess import notation as chess_notation

MATED = 'R5k1/5ppp/8/8/8/8/8/6K1 b - - 0 1'


def names(moves):
  return ' '.join(chess_notation.uci(move) for move in moves.tolist())


def test_parse():
  moves = chess_notation.parse_moves('1. e4 e5 2. Nf3 {best} Nc6 3. Bb5 a6 *')
  assert moves.dtype == np.int32
  assert names(moves) == 'e2e4 e7e5 g1f3 b8c6 f1b5 a7a6'
  assert chess_notation.parse_moves('e2e4 e7e5').tolist() == [3980, 16820]
  assert chess_notation.parse_moves('').tolist() == []


def test_parse_from_a_position():
  row = chess_notation.parse_fen('r3k2r/8/8/8/8/8/8/R3K2R b KQkq - 0 1')
  assert names(chess_notation.parse_moves('O-O-O O-O', row)) == 'e8c8 e1g1'


@pytest.mark.parametrize(
  ('text', 'message'),
  [
    (
      'e4 e5 Bb6',
      "ply 3: 'Bb6' is illegal in 'rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/"
      "RNBQKBNR w KQkq e6 0 2'; available: Na3, Nc3, Qe2, Qf3, Qg4, Qh5, Ke2, "
      'Be2 and 21 more',
    ),
    ('1. e4 e5 2. Q-5', "ply 3: 'Q-5' is unreadable"),
    ('1. ♘f3', "ply 1: '♘f3' is unreadable"),
    (
      'Nf3 d5 Nd4 e5 Nc3 e4 Nb5',
      "ply 7: 'Nb5' is ambiguous in 'rnbqkbnr/ppp2ppp/8/3p4/3Np3/2N5/PPPPPPPP/"
      "R1BQKB1R w KQkq - 0 4'; available: Ncb5, Ndb5, Rb1, Rg1, a3, a4, b3, b4 "
      'and 17 more',
    ),
    ('Nf3 d5 Nd4 d6', "ply 4: 'd6' is illegal"),
    ('d4 d5 Nf3 e5 Nd2', "ply 5: 'Nd2' is ambiguous"),
  ],
)
def test_refused(text, message, one_line):
  with one_line() as error:
    chess_notation.parse_moves(text)
  assert str(error.value).startswith(message)


def test_nothing_is_available_in_mate():
  with pytest.raises(
    core.InputError, match='available: none, the game is over'
  ):
    chess_notation.parse_moves('Kh8', chess_notation.parse_fen(MATED))


def test_san_moves():
  results = chess_notation.san_moves(chess.start())
  assert len(results) == 20
  assert results[:5] == ['Na3', 'Nc3', 'Nf3', 'Nh3', 'a3']
  assert chess_notation.san_moves(chess_notation.parse_fen(MATED)) == []


def test_long_rows_are_positions_too():
  row = np.concatenate([chess.start(), [7, 7]]).astype(np.int32)
  assert chess_notation.parse_moves('e4', row).tolist() == [3980]
