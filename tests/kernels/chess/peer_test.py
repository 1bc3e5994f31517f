"""Chess kernels against python-chess in long games."""

import functools
import random

import chess as peer
import numpy as np
import pytest

from tests.kernels.chess import ref
from wm.kernels import chess

STARTS = (
  peer.STARTING_FEN,
  'r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1',
  '8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1',
  'r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1',
  'rnbqkb1r/pp1p1pPp/8/2p1pP2/1P1P4/3P3P/P1P1P3/RNBQKBNR w KQkq e6 0 1',
  'r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 90 1',
  '4k3/pppppppp/8/8/8/8/PPPPPPPP/4K3 w - - 0 1',
  '8/PPPk4/8/8/8/8/4Kppp/8 w - - 0 1',
  '8/8/3k4/8/8/3K4/8/2R1r3 w - - 60 80',
  '8/8/3kb3/8/8/3KB3/8/8 w - - 92 90',
  '8/8/3kn3/8/8/3KN3/8/8 b - - 95 90',
  '5k2/8/8/8/8/8/8/1Q2K3 w - - 96 100',
)


@functools.cache
def games(fen, num, most, stop='claims'):
  """Random games of ours from a position of theirs."""
  row = ref.write(ref.Board(fen), 0)
  return row, *chess.play(num, 17, most=most, stop=stop, start_row=row)


def boards(fen, moves):
  """The boards of a line, one object that moves on."""
  board = ref.Board(fen)
  yield board
  for move in moves:
    board.push(ref.unpacked(int(move)))
    yield board


@pytest.mark.parametrize('fen', STARTS)
def test_moves_checks_and_labels_of_random_games(fen):
  row, moves, lengths, _ = games(fen, 6, 160)
  shown = {
    ep: chess.replay_labels(moves, lengths, ep, row) for ep in ('raw', 'legal')
  }
  for n, length in enumerate(lengths):
    here = row[None]
    for ply, board in enumerate(boards(fen, moves[n, :length])):
      listed, counts = chess.legal(here)
      expected = ref.moves(board)
      assert listed[0, : counts[0]].tolist() == expected, board.fen()
      assert chess.in_check(here)[0] == board.is_check()
      for ep, label in shown.items():
        assert label[n, ply].tolist() == ref.label(board, ep)
      np.testing.assert_array_equal(here[0], ref.write(board, ply))
      if ply < length:
        here, ok = chess.advance(here, moves[n, ply : ply + 1])
        assert ok[0]


@pytest.mark.parametrize('fen', STARTS)
def test_outcomes_of_random_games_at_every_ply(fen):
  row, moves, lengths, _ = games(fen, 4, 240, 'moves')
  for stop in ('claims', 'automatic'):
    result = chess.outcomes(moves, lengths, stop, row)
    for n, length in enumerate(lengths):
      for ply, board in enumerate(boards(fen, moves[n, :length])):
        name = chess.layout.OUTCOMES[result[n, ply]]
        assert name == ref.outcome(board, stop), (board.fen(), ply)
        if stop == 'claims' and ply > 150 and name != 'none':
          break


def test_outcomes_of_shuffled_pieces():
  """Kings and rooks that move between few squares repeat in many ways."""
  fen = '4k2r/8/8/8/8/8/8/R3K3 w Qk - 0 1'
  rng, row = random.Random(5), ref.write(ref.Board(fen), 0)
  seen = set()
  for _ in range(25):
    board, line = ref.Board(fen), []
    for _ in range(40):
      near = [
        move
        for move in board.legal_moves
        if move.to_square in (0, 1, 2, 4, 5, 60, 61, 62, 63)
        and not board.is_capture(move)
      ]
      if not near:
        break
      line.append(rng.choice(near))
      board.push(line[-1])
    moves = np.array([[ref.packed(move) for move in line]], np.int32)
    for stop in ('claims', 'automatic'):
      result = chess.outcomes(moves, [len(line)], stop, row)[0]
      for ply, board in enumerate(boards(fen, moves[0])):
        name = chess.layout.OUTCOMES[result[ply]]
        assert name == ref.outcome(board, stop), (line[:ply], stop)
        seen.add(name)
  assert {'threefold_repetition', 'fivefold_repetition'} <= seen


def test_random_games_are_those_of_the_paper():
  """Statistics of 4,000 games of another implementation of the rules."""
  moves, lengths, codes = chess.play(4_000, 0)
  assert abs(lengths.mean() - 327) < 8
  assert 600 < lengths.max() < 900
  share = np.bincount(codes, minlength=len(chess.layout.OUTCOMES)) / len(codes)
  for name, expected in (
    ('insufficient_material', 0.482),
    ('fifty_moves', 0.166),
    ('checkmate', 0.157),
    ('threefold_repetition', 0.141),
    ('stalemate', 0.056),
  ):
    spread = 2 * expected * (1 - expected) / len(codes)
    result = share[chess.layout.OUTCOMES.index(name)]
    assert abs(result - expected) < 4 * spread**0.5, name
  reached = set(moves[moves >= 0].tolist())
  assert len(reached) == 1_968
