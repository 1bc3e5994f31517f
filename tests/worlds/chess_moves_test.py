import numpy as np
import pytest

from tests import chess_ids
from wm import core
from wm.core import registry
from wm.worlds.chess import notation as chess_notation

PUBLISHED = {
  'e2e4': 3980,
  'e7e5': 16820,
  'g1f3': 2025,
  'e1g1': 1310,
  'e8c8': 19490,
  'e7e8q': 16941,
  'a2a1n': 2564,
  'h7g8b': 17913,
  'a1h8': 315,
  'h8a1': 20160,
}


@pytest.mark.parametrize(('text', 'packed'), PUBLISHED.items())
def test_published_ids(text, packed):
  assert chess_ids.PACKED[text] == packed
  assert chess_notation.uci(packed) == text


def test_possible_moves():
  possible = chess_notation.possible_moves()
  assert len(possible) == chess_notation.POSSIBLE == 1968
  assert (np.diff(possible) > 0).all()
  promotions = possible % 5
  # 2 colours, 22 pairs of squares, 4 pieces.
  assert (promotions > 0).sum() == 176
  assert np.bincount(promotions).tolist() == [1792, 44, 44, 44, 44]


def test_possible_moves_are_those_of_pieces_on_an_empty_board():
  chess = pytest.importorskip('chess')
  result = set()
  for piece in 'PpNQ':  # Queens move as kings, rooks and bishops do.
    enemy = chess.Piece.from_symbol('p' if piece.isupper() else 'P')
    for square in range(8, 56) if piece in 'Pp' else chess.SQUARES:
      board = chess.Board(None)
      board.turn = piece.isupper()
      board.set_piece_at(square, chess.Piece.from_symbol(piece))
      result |= {move.uci() for move in board.pseudo_legal_moves}
      for other in chess.SQUARES:
        if piece in 'Pp' and other != square:
          board.set_piece_at(other, enemy)
      result |= {move.uci() for move in board.pseudo_legal_moves}
  known = [
    chess_notation.uci(packed)
    for packed in chess_notation.possible_moves().tolist()
  ]
  assert set(known) == result


@pytest.mark.parametrize(
  ('kind', 'size'), [('compact', 1970), ('packed', 20482)]
)
def test_vocabulary(kind, size):
  vocab, packed = chess_notation.vocab(kind), chess_notation.packed_ids(kind)
  assert len(vocab) == len(set(vocab)) == len(packed) == size
  assert vocab[0] == '<pad>'
  assert vocab[chess_notation.start_token(kind)] == '<start>'
  assert chess_notation.start_token(kind) == size - 1
  assert packed[0] == packed[-1] == core.DEAD
  assert (np.diff(packed[1:-1]) > 0).all()
  index = chess_notation.token_ids(kind)
  assert index.shape == (20480,)
  assert (index[packed[1:-1]] == np.arange(1, size - 1)).all()
  assert (index > 0).sum() == size - 2
  names = [chess_notation.uci(move) for move in packed[1:-1].tolist()]
  assert list(vocab[1:-1]) == names


def test_the_packed_vocabulary_is_packed_ids_plus_one():
  assert (chess_notation.packed_ids('packed')[1:-1] == np.arange(20480)).all()


def test_tables_are_read_only():
  for table in (
    chess_notation.possible_moves(),
    chess_notation.packed_ids('compact'),
    chess_notation.token_ids('packed'),
  ):
    with pytest.raises(ValueError, match='read-only'):
      table[0] = 1


@pytest.mark.parametrize('kind', ['compact', 'packed'])
def test_published_numbering(kind):
  index = chess_notation.token_ids(kind)
  game = [chess_notation.start_token(kind), index[4955 - 0], index[17470], 0]
  published = chess_ids.published(np.array([game]), kind)
  assert published.tolist() == [[20480, 4955, 17470, 20481]]
  assert [chess_notation.uci(i) for i in published[0, 1:3]] == ['h2h4', 'g7g5']


def test_unknown_vocabularies_are_refused():
  with pytest.raises(core.InputError, match='available: compact, packed'):
    registry.make('world', "chess(vocabulary='san')")
