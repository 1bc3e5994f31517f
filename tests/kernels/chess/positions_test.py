"""Chess kernels: known counts and states, twins agree, bad input is named."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.chess import ref
from tests.kernels.chess.games_test import KIWIPETE, packed
from wm import core
from wm.kernels import chess
from wm.kernels.chess import positions
from wm.worlds.chess import notation as chess_notation

PERFT = {  # Counted by two independent generators.
  chess_notation.START_FEN: (20, 400, 8902, 197281, 4865609),
  KIWIPETE: (48, 2039, 97862, 4085603),
  '8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - -': (
    14,
    191,
    2812,
    43238,
    674624,
    11030083,
  ),
  'r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq -': (
    6,
    264,
    9467,
    422333,
    15833292,
  ),
}


def place(men, side=0, flags=0):
  """Row of a dict of squares to codes."""
  row = np.zeros(11, np.uint32)
  for where, code in men.items():
    row[where // 8] |= np.uint32(code << 4 * (where % 8))
  row[8], row[9] = side | flags, 1 << 16
  return row.view(np.int32)


@st.composite
def boards(draw, most=14):
  """A row with a king a side and other men anywhere, none in the way of law."""
  where = draw(
    st.lists(st.integers(0, 63), min_size=2, max_size=most, unique=True)
  )
  men = {where[0]: 6, where[1]: 12}
  for s in where[2:]:
    kinds = (2, 3, 4, 5) if s // 8 in (0, 7) else (1, 1, 2, 3, 4, 5)
    men[s] = draw(st.sampled_from(kinds)) + 6 * draw(st.booleans())
  side, rights = draw(st.integers(0, 1)), draw(st.integers(0, 15))
  return place(men, side, rights << 1 | draw(st.integers(0, 8)) << 5)


@st.composite
def crowded(draw):
  """A row with the castling men at home and pawns side by side."""
  men = {0: 4, 4: 6, 7: 4, 56: 10, 60: 12, 63: 10}
  side, file = draw(st.integers(0, 1)), draw(st.integers(0, 7))
  rank = 3 if side else 4  # Where a pawn has just arrived by a double push.
  men[8 * rank + file] = 1 if side else 7
  for s in draw(st.lists(st.integers(8, 55), max_size=12, unique=True)):
    men.setdefault(s, draw(st.sampled_from((1, 7, 3, 9, 4, 10, 5, 11, 2, 8))))
  # Mostly nothing behind that pawn, as it must be.
  if draw(st.integers(0, 4)):
    men.pop(8 * (2 if side else 5) + file, None)
  return place(men, side, 30 | (file + 1) << 5)


def ask(row, kernels):
  """Everything that compiled kernels or their reference say of one row."""
  rows = row[None]
  moves, counts = kernels.legal(rows)
  after = np.tile(row, (max(counts[0], 1), 1))
  result = [moves, counts, *kernels.advance(after, moves[0, : len(after)])]
  result += [kernels.keys(rows), kernels.in_check(rows)]
  result += [kernels.labels(rows, ep) for ep in ('raw', 'legal')]
  index = np.arange(chess.layout.PACKED) % 7 - 1
  result.append(kernels.legal_mask(rows, index, 5))
  return result


@pytest.mark.parametrize('fen', PERFT)
def test_perft(fen):
  row = chess_notation.parse_fen(fen)
  assert chess.count(row, len(PERFT[fen])) == list(PERFT[fen])
  assert ref.count(row, 2) == list(PERFT[fen][:2])
  assert chess.count(row, 0) == []


@settings(max_examples=80, deadline=None)
@given(st.one_of(boards(), crowded()))
def test_twins_agree_on_any_board(row):
  for result, expected in zip(ask(row, chess), ask(row, ref), strict=True):
    np.testing.assert_array_equal(result, expected)


def lines(*pair, kernels=chess):
  """The boundary of two rows as tuples."""
  moves, lengths = kernels.boundary(*pair)
  return [tuple(m[:n]) for m, n in zip(moves.tolist(), lengths, strict=True)]


@settings(max_examples=15, deadline=None)
@given(boards(8), boards(8))
def test_boundaries_of_any_boards(first, second):
  results = lines(first, second, 2)
  assert results == lines(first, second, 2, kernels=ref)
  sizes = chess.boundary_sizes(first, second, 2)
  assert sizes == ref.boundary_sizes(first, second, 2)
  assert sum(sizes[0]) == len(results)


def test_searches_that_come_back_often_find_the_same(monkeypatch):
  row, moves = chess.start()[None], packed('e2e4 e2e3')
  item, two = (chess.advance(row, [move])[0][0] for move in moves)

  def everything():
    return (
      lines(item, two, 3),
      chess.boundary_sizes(item, two, 3),
      chess.boundary_sizes(item, item, 3)[1],
      chess.count(item, 3),
    )

  whole = everything()
  # Every line of a position is legal from itself.
  assert whole[2] == whole[3]
  for nodes in (1, 7, 400):
    monkeypatch.setattr(positions, 'NODES', nodes)
    assert everything() == whole


def test_words_behind_a_row_are_not_read():
  moves, lengths, _ = chess.play(5, 1, most=40)
  _, rows = chess.replay(moves, lengths)
  wide = np.concatenate([rows, np.full((5, 7), 99, np.int32)], axis=1)
  np.testing.assert_array_equal(chess.legal(wide)[0], chess.legal(rows)[0])
  np.testing.assert_array_equal(chess.keys(wide), chess.keys(rows))
  np.testing.assert_array_equal(
    chess.replay(moves[:, :1], [0] * 5, wide)[1], rows
  )


def test_rows_without_board():
  before = chess.start()
  before[10] = chess.layout.BEFORE
  taken = chess_notation.parse_fen('4k3/8/8/8/8/8/8/4K2R w K - 0 1')
  taken[7] |= 4 << 24  # a white rook beside the black king, white to move
  rows = np.stack(
    [np.full(11, core.DEAD), before, np.zeros(11), np.full(11, 2**31 - 1)]
  ).astype(np.int32)
  rows = np.concatenate([rows, taken[None]])
  for kernels in (chess, ref):
    assert not kernels.legal(rows)[1].any()
    assert not kernels.keys(rows).any()
    assert not kernels.in_check(rows).any()
    assert not kernels.labels(rows).any()
    after, ok = kernels.advance(rows, np.arange(5))
    assert not ok.any()
    assert (after == core.DEAD).all()
    assert kernels.count(rows[0], 2) == [0, 0]
  with pytest.raises(core.InputError, match='expected a board'):
    chess.play(1, 0, start_row=rows[0])


@pytest.mark.parametrize(
  ('call', 'message'),
  [
    (lambda: chess.legal(np.zeros((2, 5))), r'\(2, 5\); expected \[B, at'),
    (lambda: chess.count(chess.start(), -1), 'depth is -1'),
    (lambda: chess.replay([[1, 2]], [3]), r'3\.\.3; moves have 2 columns'),
    (lambda: chess.replay([[1, 2]], [1, 1]), 'batch sizes differ'),
    (lambda: chess.replay([1, 2], [1, 1]), r'expected \[N, L\]'),
    (
      lambda: chess.replay([[1]] * 3, [1] * 3, np.zeros((2, 11))),
      '2 start rows for 3 games',
    ),
    (
      lambda: chess.boundary(chess.start(), chess.start(), 0),
      'depth is 0; expected 1..64',
    ),
  ],
)
def test_bad_input_is_named(call, message):
  with pytest.raises(core.InputError, match=message):
    call()
