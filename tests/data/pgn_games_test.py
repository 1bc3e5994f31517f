import io

import numpy as np
import pytest

from wm.data import pgn_games
from wm.worlds.chess import notation as chess_notation

LINE = '1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7'
UCI = [
  *('e2e4', 'e7e5', 'g1f3', 'b8c6', 'f1b5'),
  *('a7a6', 'b5a4', 'g8f6', 'e1g1', 'f8e7'),
]
LEAST = len(UCI)


def game(moves=LINE + ' 1-0', **tags) -> str:
  head = {'Event': 'a', 'Site': '?', **tags}
  return ''.join(f'[{k} "{v}"]\n' for k, v in head.items()) + f'\n{moves}\n\n'


def read(tmp_path, text: str | bytes, least=LEAST, most=500):
  """What is read of a file: causes, UCI of the games kept, all parts."""
  path = tmp_path / 'games.pgn'
  path.write_bytes(text if isinstance(text, bytes) else text.encode())
  results = [
    pgn_games.read(block, least, most)
    for block in pgn_games.blocks(pgn_games.Source(path))
  ]
  causes = [pgn_games.CAUSES[code] for item in results for code in item.causes]
  games = []
  for item in results:
    ends = np.cumsum(item.lengths)
    for first, end in zip(ends - item.lengths, ends, strict=True):
      games.append([chess_notation.uci(move) for move in item.moves[first:end]])
  return causes, games, results


WHOLE = game()
# Every bad input in the middle of a file: text, causes of its games.
INPUTS = {
  'a good game': (game(), ['']),
  'broken tag': (game().replace('[Site "?"]', '[Site "?]'), ['broken tag']),
  'tag without a name': (game().replace('Site', ''), ['broken tag']),
  'illegal': (game(LINE.replace('Bb5', 'Bb6')), ['illegal move']),
  'ambiguous': (game('1. d4 d5 2. Nf3 Nf6 3. Nd2 1-0'), ['ambiguous move']),
  'unreadable': (game(LINE.replace('Bb5', 'Zz9')), ['unreadable move']),
  'no letters': (game(LINE.replace('Bb5', '\x01\x02é')), ['unreadable move']),
  'null move': (game(LINE.replace('Bb5', '--')), ['null move']),
  'null move, UCI': (game(LINE.replace('Bb5', '0000')), ['null move']),
  'null move, ChessBase': (game(LINE.replace('Bb5', 'Z0!?')), ['null move']),
  'only a result': (game('1/2-1/2'), ['too short']),
  'no moves at all': (game(''), ['too short']),
  'short': (game('1. e4 e5 1-0'), ['too short']),
  'comments': (
    game('{a} 1. e4 {b (c [d} e5 {e\n[Site "f"]\n}' + LINE[8:]),
    [''],
  ),
  'clocks': (
    game(
      LINE.replace('e4 e5', 'e4 { [%eval 0.17] [%clk 0:00:30] } 1... e5 {}')
    ),
    [''],
  ),
  'glyphs': (game(LINE.replace('Nf3 Nc6', 'Nf3!? $1 $14 Nc6??')), ['']),
  'variations': (
    game(LINE.replace('e5 2', 'e5 (1... c5 2. Nf3 (2. c3 {x)} d5) 2... d6) 2')),
    [''],
  ),
  'remark': (game(LINE.replace('e5 2', 'e5 ; not { c5\n2')), ['']),
  'unclosed comment': (game(LINE + ' {oh 1-0'), ['unclosed comment']),
  'unclosed variation': (game(LINE + ' (Bb5 1-0'), ['unclosed comment']),
  'Latin-1': (game(White='Müller').encode('latin-1').decode('latin-1'), ['']),
  'escape': (game().replace('\n\n1.', '\n% e4 {\n\n1.'), ['']),
  'chess960': (game(Variant='Chess960'), ['variant']),
  'variant': (game(Variant='Three-check'), ['variant']),
  'named standard': (game(Variant='Standard'), ['']),
  'from position': (game(Variant='From Position'), ['from position']),
  'FEN': (
    game(FEN='4k3/8/8/8/8/8/8/4K2R w K - 0 1', SetUp='1'),
    ['from position'],
  ),
  'setup': (game(SetUp='1'), ['from position']),
  'FEN of the start': (game(FEN=chess_notation.START_FEN, SetUp='1'), ['']),
  'not quite': (
    game(FEN=chess_notation.START_FEN.replace('w', 'b')),
    ['from position'],
  ),
  'no tags': (LINE + ' 1-0\n' + LINE + ' *\n', ['', '']),
}


@pytest.mark.parametrize('name', INPUTS)
@pytest.mark.parametrize('ends', ['\n', '\r\n'])
def test_a_file_goes_on_after(tmp_path, name, ends):
  text, causes = INPUTS[name]
  whole = (WHOLE + text + WHOLE).replace('\n', ends).encode('latin-1')
  got, games, _ = read(tmp_path, whole)
  assert got == ['', *causes, '']
  assert games == [UCI] * got.count('')


@pytest.mark.parametrize('name', INPUTS)
def test_the_size_of_parts_does_not_matter(tmp_path, monkeypatch, name):
  text = (WHOLE + INPUTS[name][0] + WHOLE).encode('latin-1')
  want = read(tmp_path, text)
  for part in (7, 64, 301):
    monkeypatch.setattr(pgn_games, 'PART', part)
    got = read(tmp_path, text)
    assert got[:2] == want[:2]
    for name in ('hashes', 'heldout', 'causes'):
      item, two = (
        np.concatenate([getattr(r, name) for r in result[2]])
        for result in (got, want)
      )
      assert item.tolist() == two.tolist()


def test_en_passant_may_be_said(tmp_path):
  line = '1. e4 a6 2. e5 d5 3. exd6{} exd6 4. d4 Nf6 5. c4 Be7 1-0'
  output = [game(line.format(word)) for word in ('', ' e.p.', 'e.p', '\nep!')]
  causes, games, _ = read(tmp_path, ''.join(output))
  assert causes == [''] * 4
  assert games == games[:1] * 4


def test_examples_say_where(tmp_path):
  bad = game(LINE.replace('Bb5', 'Bb6'))
  _, _, result = read(tmp_path, WHOLE + bad * 5 + game(Variant='Atomic'))
  examples = result[0].examples
  assert [item['game'] for item in examples] == [7, 2, 3, 4]
  assert examples[1] == {
    'cause': 'illegal move',
    'game': 2,
    'ply': 5,
    'word': 'Bb6',
  }
  assert examples[0]['word'] == 'Atomic'


def test_longer_games_are_cut(tmp_path):
  _, games, result = read(tmp_path, WHOLE * 2, most=3)
  assert games == [UCI[:3]] * 2
  assert result[0].cut == 2
  assert len(set(result[0].hashes.tolist())) == 1


@pytest.mark.parametrize(
  ('text', 'causes'),
  [
    (WHOLE + game()[:-2], ['', '']),
    (WHOLE + game()[:-6], ['', 'cut off']),
    (WHOLE + game(LINE)[:-20], ['', 'cut off']),
    (WHOLE + game(LINE)[:-1], ['', '']),
    (WHOLE + '[Event "a"]\n[Si', ['', 'cut off']),
  ],
)
def test_a_file_that_stops_in_a_game(tmp_path, text, causes):
  assert read(tmp_path, text)[0] == causes


def test_a_game_without_end(tmp_path, monkeypatch):
  monkeypatch.setattr(pgn_games, 'PART', 1000)
  monkeypatch.setattr(pgn_games, 'LONGEST', 3000)
  long = game('{' + 'words ' * 5000 + '} ' + LINE)
  causes, games, results = read(tmp_path, WHOLE + long + WHOLE * 30)
  assert causes == ['', 'too long'] + [''] * 30
  assert games == [UCI] * 31
  numbers = [item['game'] for part in results for item in part.examples]
  assert numbers == [2]
  lines = game(LINE + ' x\n' * 5000)
  assert read(tmp_path, WHOLE + lines + WHOLE)[0] == ['', 'too long', '']


def test_what_python_chess_refuses_is_refused(tmp_path):
  peer = pytest.importorskip('chess.pgn')
  for name, (text, causes) in INPUTS.items():
    tolerated = ('broken tag', 'unclosed comment', 'null move')
    if len(causes) > 1 or causes[0] in tolerated or name == 'no tags':
      continue
    if causes[0] in ('variant', 'from position') or name == 'escape':
      continue
    game = peer.read_game(io.StringIO(text))
    moves = [move.uci() for move in game.mainline_moves()]
    good = not game.errors and len(moves) >= LEAST
    assert good == (causes == ['']), name
    assert not good or moves == UCI


NO_PGN = {
  'empty': b'',
  'blank': b'\n \n',
  'prose': b'Once upon a time\nthere was a king.\n' * 50,
  'json': b'{"moves": ["e4", "e5"]}\n' * 50,
  'list': b'["e4", "e5"]\n' * 50,
  'csv': b'id,white,black\n1,2,3\n',
  'bytes': bytes(range(256)) * 100,
  'utf-16': game().encode('utf-16'),
}


@pytest.mark.parametrize('name', NO_PGN)
def test_no_pgn_at_all(tmp_path, name, one_line):
  path = tmp_path / 'games.pgn'
  path.write_bytes(NO_PGN[name])
  with one_line(r'games\.pgn is no PGN'):
    pgn_games.check(pgn_games.Source(path))


@pytest.mark.parametrize(
  'text',
  [
    game(),
    LINE,
    game('', Variant='Chess960'),
    '[Event "x"]\n',
    '\n\n' + game(),
  ],
)
def test_pgn(tmp_path, text):
  path = tmp_path / 'games.pgn'
  path.write_text(text)
  pgn_games.check(pgn_games.Source(path))
