"""Real games through ingestion, against what python-chess says of them."""

import zlib

import numpy as np
import pytest

from tests.data.pgn_texts import rows
from wm import core
from wm.core import registry
from wm.data import pgn_games, pgn_ingest, sampling
from wm.worlds.chess import notation as chess_notation

WORLD = registry.make('world', pgn_ingest.WORLD)


@pytest.fixture(scope='module')
def folder(real):
  pytest.importorskip('zstandard')
  return real('chess')


def golden(folder, name):
  """Checksums of the tokens of the games of a file with 20 plies or more."""
  source = pgn_games.Source(folder / 'golden_labels.tsv.zst')
  head, *lines = b''.join(source.parts()).decode().splitlines()
  table = [
    dict(zip(head.split('\t'), x.split('\t'), strict=True)) for x in lines
  ]
  return [line for line in table if line['file'] == name]


@pytest.mark.parametrize(
  ('name', 'file', 'num'),
  [
    ('lichess_std', 'lichess_rated_standard_3172.pgn.zst', 3172),
    ('master_10k', 'gnuchess_book_sample_10000.pgn.zst', 3000),
  ],
)
def test_real_games_come_through_unchanged(tmp_path, folder, name, file, num):
  expected = golden(folder, name)
  assert len(expected) == num
  # Every game, short ones too, and in the order of the file.
  results = [
    pgn_games.read(block, 0, WORLD.length)
    for block in pgn_games.blocks(pgn_games.Source(folder / file))
  ]
  lengths = np.concatenate([item.lengths for item in results])[:num]
  assert lengths.tolist() == [int(line['plies']) for line in expected]
  assert not any(item.causes.any() for item in results)
  moves = np.concatenate([item.moves for item in results]).astype('<u2')
  start = np.array([chess_notation.PUBLISHED_START], '<u2')
  sums = [
    zlib.crc32(
      np.append(start, moves[end - size : end]).astype('<u2').tobytes()
    )
    for end, size in zip(np.cumsum(lengths), lengths, strict=True)
  ]
  assert sums == [int(line['crc32_tokens_u16le']) for line in expected]
  # In the stores: all but the short ones.
  made = pgn_ingest.make_dataset(WORLD, [folder / file], tmp_path)
  stored = {
    zlib.crc32(row)
    for split in sampling.SPLITS
    for row in rows(tmp_path / 'data' / split)
  }
  long = {
    int(line['crc32_tokens_u16le'])
    for line in expected
    if int(line['plies']) >= WORLD.least
  }
  assert long <= stored
  lines = made['train']['ingest']
  assert set(lines['rejected']) == {'too short'}
  if name == 'lichess_std':
    assert lines['rejected'] == {'too short': 73}
    assert len(stored) == lines['kept'] == 3172 - 73


def test_games_that_are_not_standard(tmp_path, folder):
  path = folder / 'lichess_nonstandard_240.pgn.zst'
  # Rightly lost, and too many to be overlooked.
  with pytest.raises(core.InputError, match=r'210 of 240 .*, from position'):
    pgn_ingest.make_dataset(WORLD, [path], tmp_path)
  made = pgn_ingest.make_dataset(WORLD, [path], tmp_path, lost=1)
  lines = made['train']['ingest']
  assert lines['games'] == 240
  assert lines['rejected']['from position'] == 210
  assert lines['rejected']['variant'] == 2
  short = lines['rejected'].get('too short', 0)
  assert lines['kept'] + short == 28
  assert [item['word'] for item in lines['examples']['variant']] == [
    'Three-check'
  ] * 2
