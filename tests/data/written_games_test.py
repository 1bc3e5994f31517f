"""Games and ids as people have them: what is read, and what is refused."""

import io
import json

import numpy as np
import pytest

import wm
from wm import core
from wm.data import pgn_games
from wm.worlds import othello
from wm.worlds.chess import notation
from wm.worlds.othello import records

MOVES = 'e2e4 e7e5 g1f3 b8c6 f1c4 g8f6 e1g1 f8c5'
CHESS = 'chess(length=40)'
ENDGAME = '8/8/8/4k3/8/8/4P3/4K3 w - - 0 1'


def chess_rows(tmp_path, text, name='games.txt', world=CHESS):
  """Moves of the games of a text, as the held-out split has them."""
  path = tmp_path / name
  path.write_text(text)
  other = tmp_path / 'other.txt'
  other.write_text('a2a3 a7a6\n')
  made = wm.make('world', world)
  stores = wm.ingest_text(other, tmp_path / 'out', made, heldout=path)
  part = stores['heldout'].read(0, 99)
  rows = zip(part.tokens, part.lengths, strict=True)
  return [' '.join(made.vocab[t] for t in row[1:n]) for row, n in rows]


@pytest.mark.parametrize(
  'line',
  [
    MOVES,
    MOVES.replace('e1g1', 'e1h1'),
    MOVES.replace('e1g1', 'O-O'),
    'e4 e5 Nf3 Nc6 Bc4 Nf6 O-O Bc5',
    ';1.e4 e5 2.Nf3 Nc6 3.Bc4 Nf6 4.O-O Bc5',
    '1. e4! e5= 2. Nf3 Nc6+- 3. Bc4 Nf6 4. O-O Bc5 1-0',
    f'<start> {MOVES}',
    json.dumps({'moves': MOVES.replace('e1g1', 'e1h1').split(), 'id': 7}),
    json.dumps({'san': 'e4 e5 Nf3 Nc6 Bc4 Nf6 O-O Bc5'}),
    json.dumps(['1.e4', 'e5', '2.Nf3', 'Nc6', '3.Bc4', 'Nf6', '4.O-O', 'Bc5']),
  ],
)
def test_chess_is_read_as_it_is_written(tmp_path, line):
  assert chess_rows(tmp_path, f'{line}\n') == [MOVES]


def test_columns_of_a_table_are_fields(tmp_path):
  text = 'id,transcript,result\n1,"1.e4 e5 2.Nf3 Nc6 3.Bc4",1-0\n\n'
  rows = chess_rows(tmp_path, text, 'games.csv')
  assert rows == ['e2e4 e7e5 g1f3 b8c6 f1c4']
  with pytest.raises(core.InputError, match=r'line 2 has no field .*id, game'):
    chess_rows(tmp_path / '..', 'id,games\n1,e4 e5\n', 'g.csv')


def test_castling_needs_the_rook_and_the_right(tmp_path):
  text = 'e2e4 e7e5 e1h1\n' + MOVES + '\n' + MOVES.replace('g1f3', 'h2h3')
  with pytest.raises(core.InputError, match=r'loses 2 of 3 .* illegal; .* 1,'):
    chess_rows(tmp_path, text)


@pytest.mark.parametrize('line', ['e4 e5 Sf3', '1. e4 \u265a', '12 13 99999'])
def test_what_is_no_move_is_named_with_its_line(tmp_path, line):
  with pytest.raises(core.InputError, match=r'games\.txt, line 2'):
    chess_rows(tmp_path, f'{MOVES}\n{line}\n')


def test_a_long_line_is_one_error(tmp_path, monkeypatch):
  monkeypatch.setattr('wm.data.text.LONGEST', 500)
  with pytest.raises(core.InputError, match='line 2 has more than 500'):
    chess_rows(tmp_path, f'{MOVES}\n{"e4 " * 9_999}\n')


# Othello.


def played(num=8, seed=1, size=8):
  """Games as names, and as names with passes; some have one."""
  world = othello.World(size=size)
  result = world.sample(num, seed)
  plain, passes = [], []
  for row, length in zip(result.tokens, result.lengths, strict=True):
    state, side, words = world.init(1), 0, []
    for token in row[:length]:
      state = world.advance(state, np.array([token]))
      words.append(world.vocab[token])
      after = int(state[0, othello.SIDE])
      words += ['pass'] * (after == side)
      side = after
    passes.append(words)
    plain.append([word for word in words if word != 'pass'])
  return plain, passes


def kept(tmp_path, lines, name='games.txt', size=8, **options):
  path = tmp_path / name
  path.write_text(''.join(f'{line}\n' for line in lines))
  read = records.read(str(path), size, **options)
  vocab = records.vocab(size)
  rows = zip(read.sequences.tokens, read.sequences.lengths, strict=True)
  return [[vocab[t] for t in row[:n]] for row, n in rows], read


@pytest.mark.parametrize('word', ['pass', 'PA', '--', 'ps', '0000', '@@'])
@pytest.mark.parametrize('between', [' ', '', ', '])
def test_passes_may_be_written(tmp_path, word, between):
  plain, passes = played()
  assert any('pass' in line for line in passes)
  lines = [between.join(line).replace('pass', word) for line in passes]
  assert kept(tmp_path, lines, lost=0)[0] == plain


def test_moves_may_be_numbered(tmp_path):
  plain, _ = played()
  pairs = []
  for row in plain:
    if len(row) % 2 == 0:
      turns = zip(row[::2], row[1::2], strict=True)
      words = [f'{k}. {" ".join(turn)}' for k, turn in enumerate(turns, 1)]
      pairs.append(' '.join(words))
  every = [' '.join(f'{k}.{move}' for k, move in enumerate(plain[0], 1))]
  dashes = ['-'.join(plain[0])]
  even = [row for row in plain if len(row) % 2 == 0]
  assert kept(tmp_path, pairs)[0] == even
  assert kept(tmp_path, every)[0] == kept(tmp_path, dashes)[0] == plain[:1]


def test_ingestion_reads_games_as_records_do(tmp_path):
  plain, passes = played()
  path = tmp_path / 'held.txt'
  path.write_text('\n'.join(' '.join(row) for row in passes[1:]))
  (tmp_path / 'one.txt').write_text(' '.join(plain[0]))
  stores = wm.ingest_text(
    tmp_path / 'one.txt', tmp_path / 'out', 'othello()', heldout=path
  )
  part = stores['heldout'].read(0, 9)
  vocab = records.vocab()
  rows = zip(part.tokens, part.lengths, strict=True)
  assert [[vocab[t] for t in row[:n]] for row, n in rows] == plain[1:]


# PGN.


def read_pgn(path, least=0, start=''):
  """Moves of each game, or why it is left out."""
  games = []
  for block in pgn_games.blocks(pgn_games.Source(path)):
    read = pgn_games.read(block, least, 999, start)
    moves = iter(read.moves)
    lengths = iter(read.lengths)
    games += [
      pgn_games.CAUSES[cause]
      or [notation.uci(next(moves)) for _ in range(next(lengths))]
      for cause in read.causes.tolist()
    ]
  return games


def peer_games(path):
  chess_pgn = pytest.importorskip('chess.pgn')
  file = io.StringIO(path.read_text('utf-8-sig'))
  while game := chess_pgn.read_game(file):
    yield game.headers, [m.uci() for m in game.mainline_moves()], game.errors


def test_oddities_are_as_python_chess_reads_them(cases):
  # It drops the chessman of a figurine and of another language, and would read
  # Nf3 as f3: such a game is refused. A null move is none of this world.
  refused = {
    'g_figurine.pgn': 'unreadable move', 'g_german.pgn': 'unreadable move',
    'g_illegal.pgn': 'illegal move', 'g_null_dash.pgn': 'null move',
    'g_null_z0.pgn': 'null move', 'g_chess960.pgn': 'variant',
  }  # fmt: skip
  ours = {}
  for path in sorted((cases / '13').glob('g_*.pgn')):
    (game,) = read_pgn(path)
    ((_, moves, errors),) = peer_games(path)
    ours[path.name] = game
    if path.name in refused:
      assert game == refused[path.name]
    else:
      assert not errors
      assert game == moves, path.name
  names = json.loads((cases / '13' / 'names.json').read_text())
  assert read_pgn(cases / '13' / 'mix.pgn') == [
    ours[f'g_{name}.pgn'] for name in names
  ]


def pgn(fens, moves='1. Kd2 Kd4 2. e3+ Ke4 *'):
  tags = ['[Variant "From Position"]\n', '[SetUp "1"]\n', '']
  return ''.join(
    f'[Event "{k}"]\n{tags[k % 3]}' + f'[FEN "{fen}"]\n' * bool(fen)
    + f'\n{moves}\n\n'
    for k, fen in enumerate(fens)
  )  # fmt: skip


def test_games_from_one_position(tmp_path):
  path = tmp_path / 'study.pgn'
  black = ENDGAME.replace(' w ', ' b ')
  path.write_text(pgn([ENDGAME, ENDGAME, black, '']))
  moves = ['e1d2', 'e5d4', 'e2e3', 'd4e4']
  assert read_pgn(path, start=ENDGAME) == [moves, moves, *['from position'] * 2]
  assert read_pgn(path)[:3] == ['from position'] * 3
  world = f"chess(start='{ENDGAME}', least=0, length=40)"
  with pytest.raises(core.InputError, match=r'2 of 4 \(50.0%\).*from position'):
    wm.ingest(path, tmp_path / 'out', world=world)
  stores = wm.ingest(path, tmp_path / 'out', world=world, lost=0.5)
  assert sum(map(len, stores.values())) == 1  # The second is a duplicate.


def test_a_standard_start_is_an_ordinary_game(tmp_path):
  path = tmp_path / 'g.pgn'
  fen = ' '.join(notation.START_FEN.split()[:4])
  path.write_text(pgn([notation.START_FEN, fen] * 3, '1. e4 e5 *'))
  assert read_pgn(path) == [['e2e4', 'e7e5']] * 6


# Ids and targets.

GROUP = "groups(group='z5', length=6)"


def rows_of_ids(num=30, seed=0):
  world = wm.make('world', GROUP)
  tokens = world.sample(num, seed).tokens
  ids = tokens - 1 + 100  # 'z5' names elements 0..4.
  return ids, np.cumsum(tokens - 1, 1) % 5 + 100


def table(inputs, targets):
  lines = ['seed,input,target'] + [
    f'7,{" ".join(map(str, x))},{" ".join(map(str, y))}'
    for x, y in zip(inputs.tolist(), targets.tolist(), strict=True)
  ]
  return '\n'.join(lines)


IDS = {str(k): 100 + k for k in range(5)}


@pytest.mark.parametrize('kind', ['csv', 'jsonl', 'txt'])
def test_ids_are_read_with_a_table(tmp_path, kind):
  inputs, targets = rows_of_ids()
  text = table(inputs, targets)
  if kind == 'jsonl':
    text = '\n'.join(
      json.dumps({'input': x, 'target': y})
      for x, y in zip(inputs.tolist(), targets.tolist(), strict=True)
    )
  elif kind == 'txt':
    text = '\n'.join(' '.join(map(str, row)) for row in inputs)
  path = tmp_path / f'ids.{kind}'
  path.write_text(text)
  (tmp_path / 'tokens.json').write_text(json.dumps(IDS))
  for tokens in (IDS, tmp_path / 'tokens.json'):
    stores = wm.ingest_text(path, tmp_path / 'out', GROUP, tokens=tokens)
  made = np.concatenate([s.read(0, 99).tokens for s in stores.values()])
  assert {*map(tuple, made)} == {*map(tuple, inputs - 99)}
  with pytest.raises(core.InputError, match=r'tokens=FILE'):
    wm.ingest_text(path, tmp_path / 'new', GROUP)


def test_targets_are_checked_against_the_world(tmp_path):
  inputs, targets = rows_of_ids()
  path = tmp_path / 'ids.csv'
  targets[3, 2] = 100 + (targets[3, 2] - 99) % 5
  path.write_text(table(inputs, targets))
  says = (
    rf"ids\.csv, line 5: target 3 is '{targets[3, 2] - 100}'; the world says"
  )
  with pytest.raises(core.InputError, match=says):
    wm.ingest_text(path, tmp_path / 'out', GROUP, tokens=IDS)
  # The last product alone, and the token that follows, are targets, too.
  _, targets = rows_of_ids()
  for number, output in enumerate((targets[:, -1:], np.roll(inputs, -1, 1))):
    path.write_text(table(inputs, output))
    wm.ingest_text(path, tmp_path / str(number), GROUP, tokens=IDS)


@pytest.mark.parametrize(
  ('tokens', 'says'),
  [
    ({**IDS, '4': 100}, "100 for '0' and for '4'"),
    ({'0': 1}, "has no '1' of the world; available: 0"),
    ({**IDS, '4': [1, 2]}, 'is of type dict; expected'),
    ('gone.json', "no file 'gone.json'"),
  ],
)
def test_a_bad_table_is_one_line(tmp_path, tokens, says):
  (tmp_path / 'ids.txt').write_text('100 101\n')
  with pytest.raises(core.InputError, match=says):
    wm.ingest_text(tmp_path / 'ids.txt', tmp_path / 'o', GROUP, tokens=tokens)
