import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import pgn_ref as ref
from wm.kernels import pgn
from wm.worlds.chess import notation as chess_notation

both = pytest.mark.parametrize('kernels', [pgn, ref])

ONE = b'[Event "a"]\n[Site "b"]\n\n1. e4 e5 1-0\n\n'
TWO = b'[Event "c"]\n[FEN "d e"]\n[SetUp "1"]\n\n1. d4 *\n'

# Text, move text of each game.
SPLITS = [
  (b'', []),
  (b'\n \n\t\n', []),
  (ONE, [b'1. e4 e5 1-0']),
  (ONE + TWO, [b'1. e4 e5 1-0', b'1. d4 *']),
  # Without blank lines, and with too many.
  (b'[Event "a"]\n1. e4 *\n[Event "b"]\n1. d4 *', [b'1. e4 *', b'1. d4 *']),
  (b'\n\n[Event "a"]\n\n[Site "b"]\n\n\n1. e4\n\n\ne5 *', [b'1. e4\n\n\ne5 *']),
  # Tags without moves.
  (b'[Event "a"]\n\n[Event "b"]\n\n1. d4 *', [b'', b'1. d4 *']),
  (b'[Event "a"]\n[Event "b"]\n\n1. d4 *', [b'', b'1. d4 *']),
  # Without a result.
  (b'[White "a"]\n\n1. e4\n\n[White "b"]\n\n1. d4', [b'1. e4', b'1. d4']),
  # Without tags.
  (b'1. e4 e5 1-0\n1. d4 0-1\n', [b'1. e4 e5 1-0', b'1. d4 0-1']),
  (b'e4 1/2-1/2\n\nd4 *\n\nc4', [b'e4 1/2-1/2', b'd4 *', b'c4']),
  (b'e4 1-0 {won}\n{really}\n(e5)\n$1\n', None),
  # No result is what stands in a comment, a variation or a remark.
  (b'e4 {1-0} (d4 0-1) ; *\ne5\n*', [b'e4 {1-0} (d4 0-1) ; *\ne5\n*']),
  (b'e4 0-0\ne1-d2\n10-11 *', [b'e4 0-0\ne1-d2\n10-11 *']),
  # Tags in comments; a comment that is not closed.
  (b'e4 {\n[Site "x"]\n} e5 *', [b'e4 {\n[Site "x"]\n} e5 *']),
  (b'e4 { e5\n\n[Event "x"]\n\nd4 *', [b'e4 { e5', b'd4 *']),
  (b'e4 ; { e5\n[Event "x"]\n\nd4 *', [b'e4 ; { e5', b'd4 *']),
  # What is no tag stays in the move text, unless that has its result.
  (b'e4\n[%clk 1]\ne5 *', [b'e4\n[%clk 1]\ne5 *']),
  (b'e4 *\n[Event x]\n\nd4 *', [b'e4 *', b'd4 *']),
]


@both
@pytest.mark.parametrize(('text', 'moves'), SPLITS)
def test_splits(text, moves, kernels):
  games, rest = kernels.split(text)
  assert rest == len(text)
  assert games.dtype == np.int64
  assert games.shape[1] == pgn.WIDTH
  result = [text[g[pgn.MOVES] : g[pgn.END]].strip() for g in games]
  assert result == ([text.strip()] if moves is None else moves)


# Line, tags, is one broken, values of site, variant, FEN and setup.
LINES = [
  (b'[Site "x"]', 1, False, (b'x', b'', b'', b'')),
  (b'[ site  "x" ] ', 1, False, (b'x', b'', b'', b'')),
  (b'[Site "a \\" b"]', 1, False, (b'a \\" b', b'', b'', b'')),
  (b'[Site "the "b" c"]', 1, False, (b'the "b" c', b'', b'', b'')),
  (b'[Site ""][FEN "y"] [SetUp "1"]', 3, False, (b'', b'', b'y', b'1')),
  (b'[Sites "x"]', 1, False, (b'',) * 4),
  (b'[Variant "Chess960"]', 1, False, (b'', b'Chess960', b'', b'')),
  (b'[White "M\xfcller"]', 1, False, (b'',) * 4),
  (b'[Site "x]', 0, True, (b'',) * 4),
  (b'[Site x]', 0, True, (b'',) * 4),
  (b'[Site]', 0, True, (b'',) * 4),
  (b'[', 0, True, (b'',) * 4),
  (b'["x"]', 0, True, (b'',) * 4),
  (b'[Site "x"', 0, True, (b'',) * 4),
  (b'[Site "x\\"]', 0, True, (b'',) * 4),
  (b'[Site "x"] e4', 1, True, (b'x', b'', b'', b'')),
]


@both
@pytest.mark.parametrize(('line', 'tags', 'broken', 'values'), LINES)
def test_tags(line, tags, broken, values, kernels):
  text = b'[Event "e"]\n' + line + b'\n\n1. e4 *\n'
  games, _ = kernels.split(text)
  assert len(games) == 1
  assert games[0, pgn.TAGS] == tags + 1
  assert bool(games[0, pgn.FLAGS] & pgn.BROKEN) == broken
  result = tuple(
    text[games[0, column] : games[0, column + 1]]
    for column in (pgn.SITE, pgn.VARIANT, pgn.FEN, pgn.SETUP)
  )
  assert result == values


@both
@pytest.mark.parametrize(
  ('text', 'flags'),
  [
    (b'e4', 0),
    (b'e4 *', pgn.OVER),
    (b'e4 {', pgn.OPEN),
    (b'e4 ( d4', pgn.OPEN),
    (b'e4 ((d4) (c4 {)} c5)', pgn.OPEN),
    (b'e4 ((d4) (c4 {)} c5)) ) } 1-0', pgn.OVER),
    (b'e4 ; { (\n', 0),
    (b'e4 { ; } 0-1', pgn.OVER),
    (b'e4 (d4 ; )\n) 1/2', pgn.OVER),
  ],
)
def test_flags(text, flags, kernels):
  assert kernels.split(text).games[0, pgn.FLAGS] == flags


@both
def test_what_may_go_on_is_left(kernels):
  text = ONE + TWO
  for size in range(len(text) + 1):
    games, rest = kernels.split(text[:size], final=False)
    whole = size > text.index(b'\n', len(ONE))
    assert len(games) == whole
    assert rest == (len(ONE) if whole else 0)


PIECES = st.sampled_from(
  [
    *(b'[Event "', b'[Site "', b'[FEN "', b'[', b']', b'"', b'"]', b'"]\n'),
    *(b'\n', b'\n\n', b' ', b'{', b'}', b'(', b')', b';', b'*', b'1-0', b'$5'),
    *(b'0-1', b'1/2-1/2', b'1.', b'e4', b'Nf3', b'-', b'/', b'\\', b'x', b'%'),
    *(b'0', b'1', b'\xe9', b'\0', b'\t', b'[Event "a"]\n', b'1. e4 e5\n'),
  ]
)


@settings(max_examples=500, deadline=None)
@given(st.lists(PIECES, max_size=40), st.booleans())
def test_compiled_and_plain_split_alike(pieces, final):
  text = b''.join(pieces)
  item, two = (kernels.split(text, final) for kernels in (pgn, ref))
  assert item.games.tolist() == two.games.tolist()
  assert item.rest == two.rest
  ends = np.append(item.games[1:, pgn.START], item.rest)
  assert (item.games[:, pgn.END] == ends[: len(item.games)]).all()


@settings(max_examples=200, deadline=None)
@given(st.lists(PIECES, max_size=40), st.data())
def test_parts_give_what_the_whole_gives(pieces, data):
  text = b''.join(pieces)
  cut = data.draw(st.integers(0, len(text)))
  whole = pgn.split(text).games
  head, rest = pgn.split(text[:cut], final=False)
  tail = pgn.split(text[rest:]).games.copy()
  placed = [0, 1, 2, *range(5, pgn.WIDTH)]
  tail[:, placed] += np.where(tail[:, placed] > 0, rest, 0)
  tail[:, [pgn.START, pgn.MOVES]] = np.maximum(
    tail[:, [pgn.START, pgn.MOVES]], rest
  )
  assert np.concatenate([head, tail]).tolist() == whole.tolist()


@settings(max_examples=100, deadline=None)
@given(st.lists(PIECES, max_size=40))
def test_compiled_and_plain_read_alike(pieces):
  text = b'e4 e5 ' + b''.join(pieces)
  first, last = np.array([0, 6, 3]), np.array([len(text), len(text), 3])
  result = [kernels.read(text, first, last) for kernels in (pgn, ref)]
  for item, two in zip(*result, strict=True):
    assert item.dtype == two.dtype
    assert item.tolist() == two.tolist()


def test_splits_as_python_chess_does():
  peer = pytest.importorskip('chess.pgn')
  text = (
    b'[Event "a"]\n[Site "s"]\n\n1. e4 {[%clk 0:01]} $1 (1. d4 d5 (1... Nf6 '
    b'2. c4)) 1... e5 ; why\n2. Nf3 Nc6\n\n3. Bb5 1-0\n\n'
    b'[Event "c"]\n\n1. e4 e5 2. O-O *\n'
  )
  games, _ = pgn.split(text)
  result = pgn.read(text, games[:, pgn.MOVES], games[:, pgn.END])
  lines = np.split(result.moves, np.cumsum(result.lengths)[:-1])
  file = io.StringIO(text.replace(b'Nc6\n\n3', b'Nc6\n3').decode())
  for line, error in zip(lines, result.errors, strict=True):
    game = peer.read_game(file)
    moves = [move.uci() for move in game.mainline_moves()]
    assert [chess_notation.uci(move) for move in line] == moves
    assert bool(error) == bool(game.errors)
  assert peer.read_game(file) is None
