import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import chess_ids
from tests.kernels.chess import san_ref
from tests.kernels.chess.texts import joined
from wm import core
from wm.kernels import chess
from wm.kernels.chess import san as chess_san
from wm.worlds.chess import notation as chess_notation

KIWIPETE = (
  'r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1'
)
PROMOTE = '1n2k3/P7/8/8/8/8/8/4K3 w - - 5 40'
PASSANT = 'rnbqkbnr/1pp1pppp/p7/3pP3/8/8/PPPP1PPP/RNBQKBNR w KQkq d6 0 3'
PINNED = '8/8/8/K2pP2r/8/8/8/7k w - d6 0 2'
ROOKS = '4k3/8/8/8/R6R/8/8/4K2R w K - 0 1'
QUEENS = '1k6/8/8/3Q3Q/8/8/8/K2Q4 w - - 0 1'

# Position, word, move it means.
WORDS = [
  (chess_notation.START_FEN, 'e4', 'e2e4'),
  (chess_notation.START_FEN, 'Nf3', 'g1f3'),
  (chess_notation.START_FEN, 'Nf3!?', 'g1f3'),
  (chess_notation.START_FEN, 'Ng1f3', 'g1f3'),
  (chess_notation.START_FEN, 'Ng1-f3', 'g1f3'),
  (chess_notation.START_FEN, 'e2-e4', 'e2e4'),
  (chess_notation.START_FEN, 'g1f3', 'g1f3'),
  (chess_notation.START_FEN, 'e2e4', 'e2e4'),
  (chess_notation.START_FEN, 'ee4', 'e2e4'),
  (chess_notation.START_FEN, 'Pe4', 'e2e4'),
  *(
    (chess_notation.START_FEN, f'e4{glyph}', 'e2e4')
    for glyph in (
      *('+', '=', '+-', '-+', '+/=', '!?=', '-/+', '±', '⩲!', '→', '∞'),
    )
  ),
  (chess_notation.START_FEN, '± e4 +/- -+ ∓ *', 'e2e4'),
  (KIWIPETE, 'O-O', 'e1g1'),
  (KIWIPETE, '0-0', 'e1g1'),
  (KIWIPETE, 'O-O-O', 'e1c1'),
  (KIWIPETE, '0-0-0!', 'e1c1'),
  (KIWIPETE, 'e1c1', 'e1c1'),
  (KIWIPETE, 'e1h1', 'e1g1'),
  (KIWIPETE, 'e1a1+-', 'e1c1'),
  (KIWIPETE, 'O-O-+', 'e1g1'),
  (KIWIPETE, 'dxe6', 'd5e6'),
  (KIWIPETE, 'de6', 'd5e6'),
  (KIWIPETE, 'Nxd7', 'e5d7'),
  (KIWIPETE, 'Nd7', 'e5d7'),
  (KIWIPETE, 'Rhf1', 'h1f1'),
  (KIWIPETE, 'Rh1f1', 'h1f1'),
  (KIWIPETE, 'Nb1', 'c3b1'),
  (PROMOTE, 'a8=Q', 'a7a8q'),
  (PROMOTE, 'a8Q', 'a7a8q'),
  (PROMOTE, 'a8=r', 'a7a8r'),
  (PROMOTE, 'axb8=N', 'a7b8n'),
  (PROMOTE, 'axb8B#', 'a7b8b'),
  (PROMOTE, 'a7b8b', 'a7b8b'),
  (PASSANT, 'exd6', 'e5d6'),
  (PASSANT, 'ed6', 'e5d6'),
  (PASSANT, 'exd6e.p.', 'e5d6'),
  (PASSANT, 'exd6e.p', 'e5d6'),
  (PASSANT, 'ed6ep!', 'e5d6'),
  (PASSANT, 'exd6 e.p.', 'e5d6'),
  (PASSANT, 'exd6\n\te.p 1-0', 'e5d6'),
  (PASSANT, 'exd6 ep.!? {so} *', 'e5d6'),
  (PASSANT, 'exd6 e.p.{so}', 'e5d6'),
  (PASSANT, 'e5xd6', 'e5d6'),
  (PINNED, 'e6', 'e5e6'),
  (QUEENS, 'Qd1f3', 'd1f3'),
  (QUEENS, 'Q1f3', 'd1f3'),
]

# Position, word, why it is no move.
REFUSED = [
  (chess_notation.START_FEN, 'e5', 'illegal'),
  (chess_notation.START_FEN, 'Nd2', 'illegal'),
  (chess_notation.START_FEN, 'O-O', 'illegal'),
  (chess_notation.START_FEN, 'Kg1', 'illegal'),
  (chess_notation.START_FEN, 'exd3', 'illegal'),
  (chess_notation.START_FEN, 'e4=Q', 'illegal'),
  (chess_notation.START_FEN, 'Nf3=Q', 'illegal'),
  (chess_notation.START_FEN, 'e2e5', 'illegal'),
  (chess_notation.START_FEN, 'e7e5', 'illegal'),
  (chess_notation.START_FEN, 'N8f3', 'illegal'),
  (chess_notation.START_FEN, 'Nxe9', 'unreadable'),
  (chess_notation.START_FEN, 'e4x', 'unreadable'),
  (chess_notation.START_FEN, 'e-4', 'unreadable'),
  (chess_notation.START_FEN, 'e4=K', 'unreadable'),
  (chess_notation.START_FEN, 'Nf3f3f3', 'unreadable'),
  (chess_notation.START_FEN, 'Nxxf3', 'unreadable'),
  (chess_notation.START_FEN, '--', 'unreadable'),
  (chess_notation.START_FEN, 'Z0', 'unreadable'),
  (chess_notation.START_FEN, '0000', 'unreadable'),
  (chess_notation.START_FEN, 'O-O-O-O', 'unreadable'),
  (chess_notation.START_FEN, 'O-', 'unreadable'),
  (chess_notation.START_FEN, 'N', 'unreadable'),
  (chess_notation.START_FEN, 'é4', 'unreadable'),
  (KIWIPETE, 'Kg1', 'illegal'),  # Castling is not written so.
  (KIWIPETE, 'Ke1h1', 'illegal'),
  (PROMOTE, 'e1h1', 'illegal'),
  (QUEENS, 'a1d1', 'illegal'),
  (chess_notation.START_FEN, 'e1h1', 'illegal'),
  (chess_notation.START_FEN, 'e4\u2658', 'unreadable'),  # A chessman.
  (chess_notation.START_FEN, '\u2658f3', 'unreadable'),
  (chess_notation.START_FEN, '--+', 'unreadable'),
  (PROMOTE, 'a8', 'illegal'),
  (PROMOTE, 'a7a8', 'illegal'),
  (PROMOTE, 'b8=Q', 'illegal'),  # A pawn that takes names its file.
  (PASSANT, 'exd6e.p.x', 'unreadable'),
  (PASSANT, 'e.px', 'unreadable'),
  (PASSANT, 'e.', 'unreadable'),
  (PINNED, 'exd6', 'illegal'),  # The king would stand in check.
  (ROOKS, 'Rc4', 'ambiguous'),
  (QUEENS, 'Qf3', 'ambiguous'),
  (QUEENS, 'Qdf3', 'ambiguous'),
]


def one(fen, word, kernels):
  return kernels.read(word.encode(), rows=chess_notation.parse_fen(fen))


both = pytest.mark.parametrize('kernels', [chess_san, san_ref])


@both
@pytest.mark.parametrize(('fen', 'word', 'move'), WORDS)
def test_words(fen, word, move, kernels):
  games = one(fen, word, kernels)
  assert games.errors.tolist() == [0]
  assert [chess_notation.uci(m) for m in games.moves[0]] == [move]


@both
@pytest.mark.parametrize(('fen', 'word', 'why'), REFUSED)
def test_refused(fen, word, why, kernels):
  games = one(fen, f'{word} e4', kernels)
  assert chess_san.ERRORS[games.errors[0]] == why
  assert games.lengths[0] == 0
  assert (games.moves == core.DEAD).all()
  first, last = games.words[0]
  assert (first, last) == (0, len(word.encode()))


@pytest.mark.parametrize(
  ('fen', 'move', 'word'),
  [
    # The other knight is pinned, and needs no telling from.
    ('4r1k1/8/8/8/8/8/4N3/1N2K3 w - - 0 1', 'b1c3', 'Nc3'),
    ('6k1/5ppp/8/8/8/8/8/R5K1 w - - 0 1', 'a1a8', 'Ra8#'),
    ('k7/7R/1K6/8/8/8/8/8 w - - 0 1', 'h7h8', 'Rh8#'),
    # The longest word there is.
    ('7k/4N3/6K1/8/8/Q7/1r6/Q1Q5 w - - 0 1', 'a1b2', 'Qa1xb2#'),
    ('8/8/8/8/8/5k2/7r/5K2 w - - 0 1', 'f1g1', 'Kg1'),
    ('k7/8/1Q6/8/8/8/8/K7 b - - 0 1', 'a8b8', ''),
  ],
)
def test_spelling(fen, move, word):
  moves = np.array([[chess_ids.PACKED[move]]])
  row = chess_notation.parse_fen(fen)
  words, steps = chess_san.write(moves, [1], row)
  # Where it is illegal nothing is written.
  assert words.dtype == 'S7'
  assert words[0, 0].decode() == word
  assert steps[0] == bool(word)


PGN = b"""1. e4 {best; (by test)} e5 $1 2.Nf3 ; a remark } here
2... Nc6 (2... d6 {Philidor ) } 3. d4 (3. Bc4)) 3 . Bb5 !? a6
4.
Ba4 Nf6 5.0-0! Be7?? 1/2-1/2 d4"""


@both
def test_move_text(kernels):
  games = kernels.read(PGN)
  words, _ = chess_san.write(games.moves, games.lengths)
  result = b' '.join(words[0].tolist())
  assert result == b'e4 e5 Nf3 Nc6 Bb5 a6 Ba4 Nf6 O-O Be7'
  assert games.errors.tolist() == [0]


@pytest.mark.parametrize(
  'text',
  [b'', b' \n', b'1.', b'*', b'1-0', b'0-1', b'1/2-1/2', b'1. *', b'{e4}',
   b'{e4', b'(e4', b'; e4', b'12', b'$5', b'!?'],
)  # fmt: skip
@both
def test_no_moves(text, kernels):
  games = kernels.read(text)
  assert games.lengths.tolist() == games.errors.tolist() == [0]
  assert games.moves.shape == (1, 0)


def test_many_games_are_one_by_one():
  texts = ['e4 e5 Nf3', '', '1. d4 Nf6 2. Bxx', 'd4 d4', 'c4']
  text, starts = joined(texts)
  games = chess_san.read(text, starts)
  assert games.lengths.tolist() == [3, 0, 2, 1, 1]
  assert games.errors.tolist() == [0, 0, 1, 2, 0]
  refused = [text[a:b] for a, b in games.words]
  assert refused == [b'', b'', b'Bxx', b'd4', b'']
  for n, single in enumerate(texts):
    alone = chess_san.read(single.encode())
    size = alone.lengths[0]
    assert games.lengths[n] == size
    assert (games.moves[n, :size] == alone.moves[0, :size]).all()
    assert (games.moves[n, size:] == core.DEAD).all()


def test_start_rows_one_for_all_or_one_each():
  text, starts = joined(['O-O', 'O-O-O'])
  row = chess_notation.parse_fen(KIWIPETE)
  assert chess_san.read(text, starts, row).errors.tolist() == [0, 0]
  rows = np.stack([row, chess.start()])
  assert chess_san.read(text, starts, rows).errors.tolist() == [0, 2]


def test_nothing_is_legal_in_a_dead_row():
  row = np.full(chess.layout.WORDS, core.DEAD, np.int32)
  assert chess_san.read(b'e4', rows=row).errors.tolist() == [2]
  _, steps = chess_san.write(np.array([[3980]]), [1], row)
  assert steps.tolist() == [0]


@pytest.mark.parametrize('move', [-1, -(2**31), 20480, 2**31 - 1, 0, 3981])
def test_any_integer_may_be_written(move):
  words, steps = chess_san.write(np.array([[3980, move]]), [2])
  assert words[0].tolist() == [b'e4', b'']
  assert steps.tolist() == [1]


def test_bad_input():
  with pytest.raises(core.InputError, match='3 start rows for 1 games'):
    chess_san.read(b'e4', rows=np.zeros((3, 11), np.int32))
  with pytest.raises(core.InputError, match='2 columns'):
    chess_san.write(np.zeros((1, 2), np.int32), [3])
  with pytest.raises(core.InputError, match='batch sizes differ'):
    chess_san.write(np.zeros((2, 2), np.int32), [1])


@given(
  st.lists(st.sampled_from('abchx=+#-O0QRNK12348 .{}();$*!1/\né'), max_size=60)
)
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_or_refused(letters):
  text = ''.join(letters).encode()
  games = chess_san.read(text)
  steps, _ = chess.replay(games.moves, games.lengths)
  assert steps.tolist() == games.lengths.tolist()
  first, last = games.words[0]
  assert (last > first) == bool(games.errors[0])
  same(games, san_ref.read(text))


def same(games, others):
  """All of two results of `read`."""
  for one, other in zip(games, others, strict=True):
    assert one.dtype == other.dtype
    assert one.tolist() == other.tolist()


PARTS = (*'abdegh1258NBRQKPx:=+#-O0qb{}();.*$!', ' ', ' ', '\n', 'e.p.', 'ep',
         '1.', 'e4', 'Nf3', 'O-O', '0-1')  # fmt: skip


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_spoiled_move_text_as_the_reference_reads_it(data):
  fen = data.draw(st.sampled_from([KIWIPETE, PROMOTE, PASSANT, ROOKS, QUEENS]))
  row = chess_notation.parse_fen(fen)
  moves, counts = chess.legal(row[None])
  text = ''
  for _ in range(3):  # A few words of legal moves, spoiled between them.
    move = data.draw(st.sampled_from(moves[0, : counts[0]].tolist()))
    words, _ = chess_san.write(np.array([[move]]), [1], row)
    word = words[0, 0].decode()
    at = data.draw(st.integers(0, len(word)))
    cut = data.draw(st.integers(0, 1))
    spoil = ''.join(data.draw(st.lists(st.sampled_from(PARTS), max_size=2)))
    text += word[:at] + spoil + word[at + cut :] + ' '
  games = chess_san.read(text.encode(), rows=row)
  same(games, san_ref.read(text.encode(), rows=row))
