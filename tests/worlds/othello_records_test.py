"""Recorded games of Othello: both formats, and what is wrong with files."""

import struct

import numpy as np
import pytest

from tests import judging
from wm import core
from wm.core import registry
from wm.worlds import othello
from wm.worlds.othello import records as othello_records


def games(num=30, seed=1, size=8):
  return othello.World(size=size).sample(num, seed)


def text_of(world, tokens, lengths):
  return [
    ''.join(world.vocab[t] for t in row[:length])
    for row, length in zip(tokens, lengths, strict=True)
  ]


def wtb(lines, board=0, num=None):
  """A database of these games, moves as 'f5d6...'; '..' is a byte 0."""
  head = struct.pack(
    '<4Bi2h4B',
    20,
    26,
    1,
    1,
    len(lines) if num is None else num,
    0,
    2025,
    board,
    0,
    0,
    0,
  )
  body = b''
  for line in lines:
    pairs = [line[k : k + 2] for k in range(0, len(line), 2)]
    moves = [
      0 if pair == '..' else 10 * int(pair[1]) + 'abcdefghij'.index(pair[0]) + 1
      for pair in pairs
    ]
    body += struct.pack('<3h2B', 1, 2, 3, 32, 32) + bytes(moves).ljust(
      60, b'\0'
    )
  return head + body


@pytest.fixture
def write(tmp_path):
  def written(data, name='games.txt'):
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(path)

  return written


def test_a_database_gives_its_games(write):
  world, result = othello.World(), games()
  lines = text_of(world, result.tokens, result.lengths)
  read = othello_records.read(write(wtb(lines), 'WTH_2025.WTB'))
  np.testing.assert_array_equal(read.sequences.tokens, result.tokens)
  np.testing.assert_array_equal(read.sequences.lengths, result.lengths)
  assert read.sequences.tokens.dtype == np.int32
  assert read.sequences.side['game'].tolist() == list(range(1, 31))
  assert read.rejected == ()
  assert read.unfinished.sum() == 0
  assert read.sequences.counts == {}


def test_a_known_record_by_hand(write):
  """f5 d6 c3 is row 5 column 6, row 6 column 4, row 3 column 3."""
  data = bytearray(wtb(['f5']))
  data[16 + 8 : 16 + 8 + 3] = bytes([56, 64, 33])
  read = othello_records.read(write(bytes(data), 'one.wtb'))
  world = othello.World()
  state = world.after(read.sequences.tokens, read.sequences.lengths)[0]
  assert world.format(state) == 'f5d6c3'
  assert read.unfinished.sum() == 1


def test_lists_are_read_with_blanks_capitals_and_comments(write):
  text = '\ufeff# three games\nf5d6c3\n\n  F5 d6\tC4 # and more\r\nf5\n'
  read = othello_records.read(write(text))
  world = othello.World()
  result = read.sequences
  assert text_of(world, result.tokens, result.lengths) == [
    'f5d6c3',
    'f5d6c4',
    'f5',
  ]
  assert result.side['game'].tolist() == [2, 4, 5]  # Lines.
  assert result.tokens.shape == (3, 60)
  assert read.unfinished.sum() == 3


def test_illegal_games_are_left_out_and_named(write):
  full = text_of(othello.World(), *_arrays(games(1)))[0]
  lines = [
    'f5d6c3',
    'f5f5',  # Taken.
    'f5a1',  # Flips nothing.
    'f5d6x3',  # No square.
    'f5d',  # Half of one.
    'd4',  # Filled from the start.
    full + 'a1',  # More moves than squares.
    'f5d6c3',
  ]
  read = othello_records.read(write('\n'.join(lines)))
  assert len(read.sequences) == 1
  assert read.sequences.counts == {
    'duplicate': 1,
    'illegal move': 4,
    'unreadable move': 2,
  }
  output = [str(item) for item in read.rejected]
  assert output[:5] == [
    "game 2, ply 2: illegal move 'f5' after f5",
    "game 3, ply 2: illegal move 'a1' after f5",
    "game 4, ply 3: unreadable move 'x3' after f5d6",
    "game 5, ply 2: unreadable move 'd' after f5",
    "game 6, ply 1: illegal move 'd4' after start",
  ]
  assert output[5] == f"game 7, ply 61: illegal move 'a1' after {full}"


def _arrays(outcome):
  return outcome.tokens, outcome.lengths


def test_illegal_games_of_a_database_are_left_out(write):
  lines = ['f5d6c3', 'f5f5', '', 'f5..d6', 'f5i6', 'd4']
  read = othello_records.read(write(wtb(lines), 'games.wtb'))
  assert read.sequences.side['game'].tolist() == [1]
  assert [str(item) for item in read.rejected] == [
    "game 2, ply 2: illegal move 'f5' after f5",
    'game 3, no moves',
    "game 4, ply 2: unreadable move '0' after f5",
    "game 5, ply 2: unreadable move '69' after f5",
    "game 6, ply 1: illegal move '44' after start",
  ]


@pytest.mark.parametrize('size', [4, 6])
def test_small_boards_are_read_by_their_own_squares(write, size):
  world, result = othello.World(size=size), games(20, 2, size)
  keep = np.unique(result.tokens, axis=0, return_index=True)[1]
  result = result.take(np.sort(keep))
  lines = text_of(world, result.tokens, result.lengths)
  for path in (write('\n'.join(lines)), write(wtb(lines, size), 'small.wtb')):
    read = othello_records.read(path, size)
    np.testing.assert_array_equal(read.sequences.tokens, result.tokens)
    assert not read.rejected


@pytest.mark.parametrize(
  ('data', 'name', 'message'),
  [
    (b'', 'a.wtb', 'truncated: 0 bytes, expected a header of 16'),
    (wtb(['f5'])[:-1], 'a.wtb', 'truncated: its header says 1 games, 84 bytes'),
    (wtb(['f5'] * 3)[:100], 'a.wtb', '3 games, 220 bytes; it has 100'),
    (wtb(['f5']) + b'\0', 'a.wtb', 'too long'),
    (wtb(['f5'], num=-1), 'a.wtb', '-1 games'),
    (wtb(['f5'], board=10), 'a.wtb', 'board size 10; expected 8'),
    (wtb([]), 'a.wtb', 'no legal game'),
    (b'', 'a.txt', 'no legal game of othello(size=8) among 0'),
    (b'a1\nb1', 'a.txt', "the first: game 1, ply 1: illegal move 'a1'"),
    (b'\xff\xfe\x00', 'a.txt', 'no legal game'),
  ],
)
def test_bad_files_are_one_line(write, data, name, message, one_line):
  path = write(data, name)
  with one_line() as error:
    othello_records.read(path)
  assert message in str(error.value)
  assert name in str(error.value)


def test_missing_files_are_named(tmp_path):
  for path in (tmp_path / 'none.wtb', tmp_path):
    with pytest.raises(core.InputError, match='file'):
      othello_records.read(str(path))


def test_another_board_size_is_no_game_here(write):
  path = write('\n'.join(text_of(othello.World(), *_arrays(games(5)))))
  with pytest.raises(core.InputError, match='size=6'):
    othello_records.read(path, 6)


@pytest.fixture
def recorded(write):
  lines = text_of(othello.World(), *_arrays(games(400, 3)))
  path = write('\n'.join([*lines, 'a1', 'f5f5', lines[0]]))
  return registry.make('world', f'othello(records={path!r})')


def test_a_world_of_records_gives_each_game_once(recorded):
  assert recorded.sample(1, 0).distinct
  expected = games(400, 3)
  parts = [recorded.sample(1000, 1, split) for split in ('train', 'heldout')]
  assert [len(part) for part in parts] == [
    len(recorded.sample(1000, 7, split)) for split in ('train', 'heldout')
  ]
  rows = np.concatenate([part.tokens for part in parts])
  assert len(rows) == 400
  assert set(map(tuple, rows.tolist())) == set(
    map(tuple, expected.tokens.tolist())
  )
  assert 5 < len(parts[1]) < 50
  few = recorded.sample(5, 1, 'train')
  np.testing.assert_array_equal(few.tokens, parts[0].tokens[:5])
  assert not np.array_equal(recorded.sample(5, 2, 'train').tokens, few.tokens)
  assert (judging.judge(recorded, parts[0]) == 'valid').all()


def test_the_facts_of_a_world_say_what_was_left_out(recorded):
  assert recorded.stats() == {
    'games': 400,
    'unfinished games': 0,
    'duplicate': 1,
    'illegal move': 2,
    "ply 1: illegal move 'a1' after start, in game": 401,
    "ply 2: illegal move 'f5' after f5, in game": 402,
  }
  assert not core.can(othello.World(), core.Described.stats)


def test_trials_of_a_world_of_records_are_random_games(recorded):
  np.testing.assert_array_equal(
    recorded.sample_states(9, 1), othello.World().sample_states(9, 1)
  )


def test_a_folder_is_its_files_one_after_the_other(write, tmp_path):
  item, two = 'f5d6c3', 'f5f6e6'
  write(wtb([item, 'f5f5', two]), '2001.wtb')
  write(f'{two}\na1\nf5d6c4\n', '2002.txt')
  write('no games', 'readme.md')
  read = othello_records.read(str(tmp_path))
  world = othello.World()
  result = read.sequences
  assert text_of(world, result.tokens, result.lengths) == [item, two, 'f5d6c4']
  assert result.side['game'].tolist() == [1, 3, 3]
  assert result.counts == {'duplicate': 1, 'illegal move': 2}
  assert read.unfinished.sum() == 3
  assert [str(item).split(':')[0] for item in read.rejected] == [
    '2001.wtb, game 2, ply 2',
    '2002.txt, game 2, ply 1',
  ]
  facts = othello.World(records=str(tmp_path), lost=1).stats()
  assert facts["ply 1: illegal move 'a1' after start, in 2002.txt, game"] == 2


def test_a_folder_without_games_is_bad_input(tmp_path):
  with pytest.raises(core.InputError, match='no legal game'):
    othello_records.read(str(tmp_path))
