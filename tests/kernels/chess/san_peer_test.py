"""Chess notation against python-chess."""

import random

import numpy as np
import pytest

from tests import chess_ids
from tests.kernels.chess.texts import joined
from wm.kernels.chess import san as chess_san
from wm.worlds.chess import notation as chess_notation

chess = pytest.importorskip('chess')


def packed(move):
  return chess_ids.PACKED[move.uci()]


def random_games(num, seed):
  """Games of python-chess: SAN words, packed moves."""
  rng = random.Random(seed)
  for _ in range(num):
    board, words, moves = chess.Board(), [], []
    for _ in range(rng.choice((40, 150, 400))):
      legal = list(board.legal_moves)
      if not legal or board.is_insufficient_material():
        break
      move = rng.choice(legal)
      words.append(board.san(move))
      moves.append(packed(move))
      board.push(move)
    yield words, moves


def check_random_games(num):
  games = list(random_games(num, 5))
  text, starts = joined([' '.join(words) for words, _ in games])
  read = chess_san.read(text, starts)
  written, steps = chess_san.write(read.moves, read.lengths)
  assert not read.errors.any()
  assert (steps == read.lengths).all()
  marks = ''
  for n, (words, moves) in enumerate(games):
    assert read.moves[n, : read.lengths[n]].tolist() == moves
    ours = [word.decode() for word in written[n, : steps[n]].tolist()]
    assert ours == words
    marks += ' '.join(words)
  # Rare words were among them.
  assert all(mark in marks for mark in ('=Q', '=N+', '#', 'O-O', 'O-O-O', '+'))


def test_random_games_are_spelled_alike():
  check_random_games(150)


@pytest.mark.slow
def test_ten_thousand_random_games_are_spelled_alike():
  check_random_games(10_000)


def crowded(rng):
  """A legal position with many like pieces, where words need sources."""
  while True:
    board = chess.Board(None)
    squares = rng.sample(range(64), 12)
    letters = 'Kk' + ''.join(rng.choice('QRBNqrbn') for _ in range(10))
    for square, letter in zip(squares, letters, strict=True):
      board.set_piece_at(square, chess.Piece.from_symbol(letter))
    if board.is_valid() and any(board.legal_moves):
      return board


def test_sources_are_told_alike():
  rng = random.Random(3)
  for _ in range(60):
    board = crowded(rng)
    legal = sorted(board.legal_moves, key=packed)
    row = chess_notation.parse_fen(board.fen(en_passant='fen'))
    moves = np.array([[packed(move)] for move in legal])
    words, steps = chess_san.write(moves, np.ones(len(moves), int), row)
    assert steps.all()
    assert [w.decode() for w in words[:, 0]] == [board.san(m) for m in legal]
    text, starts = joined([w.decode() + ' ' for w in words[:, 0]])
    again = chess_san.read(text, starts, row)
    assert again.moves.tolist() == moves.tolist()
