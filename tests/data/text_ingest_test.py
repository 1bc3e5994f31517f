"""Sequence files as data sets: what is kept, by what cause lines are not."""

import json

import pytest

import wm
from tests import tiny
from tests.data.sampling_test import rows, tree
from wm import core
from wm.data import text

WORLD = tiny.World()
LINES = (
  'at0 x x end',
  'at0 y y end',
  '',
  'at0 x y end',  # No such edge.
  'at0 x x',
  'at3' + ' x' * 12 + ' end',  # 14 tokens; the world has at most 12.
  'at1 x end',
  'at3 end',  # Short, and complete.
)


def put(folder, name, lines):
  path = folder / name
  path.write_text('\n'.join(lines))
  return path


def told(path, tmp_path, **inputs):
  lines = []
  stores = wm.ingest_text(
    path, tmp_path / 'r', WORLD, **inputs, log=lines.append
  )
  return stores, lines


def test_an_empty_file_is_said_to_be_empty(tmp_path):
  with pytest.raises(core.InputError, match=r'empty\.txt: 0 bytes$'):
    told(put(tmp_path, 'empty.txt', []), tmp_path)


def test_lines_that_are_no_sequences_are_left_out_and_counted(tmp_path):
  path = put(tmp_path, 'train.txt', LINES)
  held = put(tmp_path, 'held.txt', ['at1 x end', 'at2 y end'])
  stores, lines = told(path, tmp_path, heldout=held, lost=1)
  assert rows(tmp_path / 'r' / 'data' / 'train') == [
    (4, 2, 2, 1),
    (4, 3, 3, 1),
    (7, 1),
  ]
  assert rows(tmp_path / 'r' / 'data' / 'heldout') == [(5, 2, 1), (6, 3, 1)]
  assert stores['train'].manifest['counts'] == {
    'blank': 1,
    'illegal': 1,
    'without end': 1,
    'too long': 1,
    'of the other split': 1,
  }
  assert lines[0].endswith(
    'data/train: 3 sequences, 10 tokens, blank 1, illegal 1, too long 1, '
    'without end 1, of the other split 1'
  )
  assert lines[1].endswith('data/heldout: 2 sequences, 6 tokens')


def test_the_world_divides_one_file_by_split_key(tmp_path):
  data = WORLD.sample(4000, 1)
  path = tmp_path / 'all.txt'
  path.write_text(text.render(data, WORLD))
  stores, _ = told(path, tmp_path)
  splits = [set(rows(tmp_path / 'r' / 'data' / s)) for s in stores]
  assert len(stores['train']) + len(stores['heldout']) == 4000
  assert splits[1]
  assert not splits[0] & splits[1]
  for split in stores:
    other = 4000 - len(stores[split])
    assert stores[split].manifest['counts'] == {'of the other split': other}


@pytest.mark.parametrize(
  ('lines', 'message'),
  [
    (['at0 x x end', 'at0 z end'], r"train.txt, line 2: unknown token 'z'"),
    (
      ['at0 x y end', '', ''],
      'no train sequence is left .*: 1 blank, 1 illegal',
    ),
    ([], 'no train sequence is left'),
  ],
)
def test_unusable_files_leave_nothing(tmp_path, lines, message):
  path = put(tmp_path, 'train.txt', lines)
  held = put(tmp_path, 'held.txt', ['at2 y end'])
  with pytest.raises(core.InputError, match=message):
    told(path, tmp_path, heldout=held)
  with pytest.raises(core.InputError, match='no such file'):
    told(tmp_path / 'none', tmp_path)
  assert not (tmp_path / 'r').exists()


def test_other_data_are_left_alone(tmp_path):
  wm.sample(WORLD, tmp_path / 'r', wm.Sampling(num=40, num_heldout=4))
  before = tree(tmp_path / 'r')
  with pytest.raises(core.InputError, match='other data, in data/train'):
    told(put(tmp_path, 'train.txt', LINES), tmp_path)
  assert tree(tmp_path / 'r') == before


@pytest.mark.parametrize(
  ('moves', 'says'),
  [
    (
      [20480, 20481],
      'line 1 holds the number 20481; expected 20480, the start',
    ),
    ([-1], 'line 1 holds the number -1; expected'),
    ([20480, 0.5], 'line 1 holds 0.5; expected a text of tokens'),
    ([20480, 0], 'no heldout sequence is left .*: 1 illegal'),
  ],
)
def test_numbers_that_are_no_moves(tmp_path, moves, says):
  path = tmp_path / 'games.jsonl'
  path.write_text(json.dumps({'moves': moves}))
  with pytest.raises(core.InputError, match=says):
    wm.ingest_text(path, tmp_path / 'out', 'chess(length=30)')
