"""Chess kernels against python-chess, and against games that it ended."""

import functools
import random
import zlib

import numpy as np
import pytest

from wm.kernels import chess

peer = pytest.importorskip('chess', reason='python-chess is not installed')

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
ENDS = {
  'CHECKMATE': 'checkmate',
  'STALEMATE': 'stalemate',
  'INSUFFICIENT_MATERIAL': 'insufficient_material',
  'SEVENTYFIVE_MOVES': 'seventyfive_moves',
  'FIVEFOLD_REPETITION': 'fivefold_repetition',
  'FIFTY_MOVES': 'fifty_moves',
  'THREEFOLD_REPETITION': 'threefold_repetition',
}


def packed(move):
  promo = {None: 0, 5: 1, 4: 2, 3: 3, 2: 4}[move.promotion]
  return (move.from_square * 64 + move.to_square) * 5 + promo


def unpacked(move):
  promo = (None, 5, 4, 3, 2)[move % 5]
  return peer.Move(move // 320, move // 5 % 64, promo)


def state(board):
  """[11] int32 row of a board of theirs."""
  row = np.zeros(11, np.uint32)
  for square, piece in board.piece_map().items():
    code = piece.piece_type + (0 if piece.color else 6)
    row[square // 8] |= np.uint32(code << 4 * (square % 8))
  rights = [
    board.has_kingside_castling_rights(True),
    board.has_queenside_castling_rights(True),
    board.has_kingside_castling_rights(False),
    board.has_queenside_castling_rights(False),
  ]
  file = 0 if board.ep_square is None else board.ep_square % 8 + 1
  row[8] = (not board.turn) | sum(r << k + 1 for k, r in enumerate(rights))
  row[8] |= file << 5
  row[9] = board.halfmove_clock | board.fullmove_number << 16
  row[10] = len(board.move_stack)
  return row.view(np.int32)


def labels(board, legal):
  """[75] labels of a board of theirs, from the paper's description."""
  result = []
  for square in peer.SQUARES_180:
    piece = board.piece_at(square)
    result.append(
      0 if piece is None else piece.piece_type + (0 if piece.color else 6)
    )
  result.append(0 if board.turn else 1)
  for color in (True, False):
    result.append(int(board.has_kingside_castling_rights(color)))
    result.append(int(board.has_queenside_castling_rights(color)))
  passed = board.ep_square
  if legal and not board.has_legal_en_passant():
    passed = None
  result.append(0 if passed is None else passed % 8 + 1)
  result.append(0 if passed is None else {2: 1, 5: 2}[passed // 8])
  result += [board.halfmove_clock >> 8, board.halfmove_clock & 255]
  result += [board.fullmove_number >> 8, board.fullmove_number & 255]
  return result


def ended(board, claims=True):
  """Name of their outcome."""
  outcome = board.outcome(claim_draw=claims)
  return 'none' if outcome is None else ENDS[outcome.termination.name]


@functools.cache
def games(fen, num, most, stop='claims'):
  """Random games of ours from a position of theirs."""
  row = state(peer.Board(fen))
  return row, *chess.play(num, 17, most=most, stop=stop, start_row=row)


def boards(fen, moves):
  """The boards of a line, one object that moves on."""
  board = peer.Board(fen)
  yield board
  for move in moves:
    board.push(unpacked(int(move)))
    yield board


@pytest.mark.parametrize('fen', STARTS)
def test_moves_checks_and_labels_of_random_games(fen):
  row, moves, lengths, _ = games(fen, 6, 160)
  shown = [
    chess.replay_labels(moves, lengths, ep, row) for ep in ('raw', 'legal')
  ]
  for n, length in enumerate(lengths):
    here = row[None]
    for ply, board in enumerate(boards(fen, moves[n, :length])):
      listed, counts = chess.legal(here)
      expected = sorted(packed(move) for move in board.legal_moves)
      assert listed[0, : counts[0]].tolist() == expected, board.fen()
      assert chess.in_check(here)[0] == board.is_check()
      assert shown[0][n, ply].tolist() == labels(board, False)
      assert shown[1][n, ply].tolist() == labels(board, True)
      np.testing.assert_array_equal(here[0], state(board))
      if ply < length:
        here, ok = chess.advance(here, moves[n, ply : ply + 1])
        assert ok[0]


@pytest.mark.parametrize('fen', STARTS)
def test_outcomes_of_random_games_at_every_ply(fen):
  row, moves, lengths, _ = games(fen, 4, 240, 'moves')
  for claims, stop in ((True, 'claims'), (False, 'automatic')):
    result = chess.outcomes(moves, lengths, stop, row)
    for n, length in enumerate(lengths):
      for ply, board in enumerate(boards(fen, moves[n, :length])):
        name = chess.layout.OUTCOMES[result[n, ply]]
        assert name == ended(board, claims), (board.fen(), ply)
        if claims and ply > 150 and name != 'none':
          break


def test_outcomes_of_shuffled_pieces():
  """Kings and rooks that move between few squares repeat in many ways."""
  fen = '4k2r/8/8/8/8/8/8/R3K3 w Qk - 0 1'
  rng, row = random.Random(5), state(peer.Board(fen))
  seen = set()
  for _ in range(25):
    board, line = peer.Board(fen), []
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
    moves = np.array([[packed(move) for move in line]], np.int32)
    for claims, stop in ((True, 'claims'), (False, 'automatic')):
      result = chess.outcomes(moves, [len(line)], stop, row)[0]
      for ply, board in enumerate(boards(fen, moves[0])):
        name = chess.layout.OUTCOMES[result[ply]]
        assert name == ended(board, claims), (line[:ply], claims)
        seen.add(name)
  assert {'threefold_repetition', 'fivefold_repetition'} <= seen


def test_keys_are_equal_where_positions_are():
  theirs, ours = {}, {}
  for fen in STARTS:
    row, moves, lengths, _ = games(fen, 6, 160)
    for n, length in enumerate(lengths):
      here = row[None]
      for ply, board in enumerate(boards(fen, moves[n, :length])):
        key, same = int(chess.keys(here)[0]), board._transposition_key()
        assert theirs.setdefault(key, same) == same
        assert ours.setdefault(same, key) == key
        if ply < length:
          here, _ = chess.advance(here, moves[n, ply : ply + 1])
  assert len(ours) > 4_000


def checked_game(moves, length, code):
  """One random game from the start: every move legal, its end and no sooner."""
  board = peer.Board()
  for ply in range(length):
    assert ended(board) == 'none', board.fen()
    listed = sorted(packed(move) for move in board.legal_moves)
    assert moves[ply] in listed
    board.push(unpacked(int(moves[ply])))
    if ply % 16 == 0:
      row = state(board)[None]
      result, counts = chess.legal(row)
      expected = sorted(packed(move) for move in board.legal_moves)
      assert result[0, : counts[0]].tolist() == expected
  assert ended(board) == chess.layout.OUTCOMES[code]
  return board


@pytest.mark.parametrize(
  'num', [20, pytest.param(10_000, marks=pytest.mark.slow)]
)
def test_random_games_end_where_theirs_do(num):
  moves, lengths, codes = chess.play(num, 2026)
  for first in range(0, num, 500):
    part = slice(first, first + 500)
    _, rows = chess.replay(moves[part], lengths[part])
    shown = chess.replay_labels(moves[part], lengths[part])
    for n, row in enumerate(rows):
      length = lengths[first + n]
      board = checked_game(moves[first + n], length, codes[first + n])
      np.testing.assert_array_equal(row, state(board))
      assert shown[n, length].tolist() == labels(board, False)


def read(path):
  """Rows of a compressed table, as dicts."""
  zstandard = pytest.importorskip('zstandard', reason='zstandard is missing')
  with path.open('rb') as file:
    text = zstandard.ZstdDecompressor().stream_reader(file).read().decode()
  head, *lines = text.splitlines()
  names = head.split('\t')
  return [dict(zip(names, line.split('\t'), strict=True)) for line in lines]


def test_published_random_games(testdata):
  path = testdata / 'chess' / 'random_uniform_seed0_300.tsv.zst'
  if not path.is_file():
    pytest.skip(f'no random games at {path}')
  table = read(path)
  lengths = np.array([int(row['plies']) for row in table])
  moves = np.full((len(table), lengths.max()), -1, np.int32)
  for n, row in enumerate(table):
    line = [packed(peer.Move.from_uci(m)) for m in row['uci_moves'].split()]
    moves[n, : lengths[n]] = line
  codes = chess.outcomes(moves, lengths)
  last = codes[np.arange(len(table)), lengths]
  names = [chess.layout.OUTCOMES[code] for code in last]
  assert names == [ENDS[row['termination']] for row in table]
  assert ((codes > 0).sum(axis=1) == 1).all()
  for ep in ('raw', 'legal'):
    shown = chess.replay_labels(moves, lengths, ep)
    for n, row in enumerate(table):
      states = shown[n, : lengths[n] + 1]
      expected = int(row[f'crc32_states_u8_{ep}ep'])
      assert zlib.crc32(states.tobytes()) == expected
  for n, row in enumerate(table):
    tokens = np.array([chess.layout.PACKED, *moves[n, : lengths[n]]], '<u2')
    assert zlib.crc32(tokens.tobytes()) == int(row['crc32_tokens_u16le'])


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
