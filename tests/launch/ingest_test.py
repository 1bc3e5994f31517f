"""launch/ingest.py as a user runs it."""

import re

import pytest

from tests.data.pgn_texts import pgn, random_games, url
from tests.launch import binaries

GAMES = 11_000  # Two blocks and a bit.


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  folder = tmp_path_factory.mktemp('pgn')
  games = random_games(GAMES, most=160)
  games[5] = 'e4 e5 Ke3 *'
  games[7] = 'e4 e5 1-0'
  games[10_000] = games[9]
  (folder / 'big.pgn').write_text(pgn(games))
  (folder / 'few.pgn').write_text(pgn(games[:60]))
  return folder


def test_it_says_what_became_of_the_games(folder, tmp_path):
  code, out, err = binaries.run(
    'ingest', f'--pgn={folder}/few.pgn', f'--out={tmp_path}/r'
  )
  assert code == 0, err
  assert err == ''
  result = re.fullmatch(
    r'60 games, 58 kept; left out: 1 illegal move, 1 too short\n'
    r'  illegal move: few\.pgn, game 6, ply 3: Ke3\n'
    r'\S+/data/train: (\d+) sequences, \d+ tokens\n'
    r'\S+/data/heldout: (\d+) sequences, \d+ tokens\n',
    out,
  )
  assert result, out
  assert int(result[1]) + int(result[2]) == 58


@pytest.mark.parametrize(
  ('flags', 'words'),
  [
    (('--out=x',), '--pgn is required, or --text_file'),
    (('--text_file=.', '--out=x', '--world=maps()'), r'\. is a folder'),
    (('--pgn=none.pgn',), '--out is required'),
    (('--pgn=none.pgn', '--out=x'), 'no such file: none.pgn'),
    (('--pgn=.', '--out=x'), r'\. is a folder'),
    (('--pgn=prose', '--out=x'), "prose is no PGN; it starts 'Once upon'"),
    (('--pgn=prose', '--out=x', '--world=maps()'), 'games of chess'),
    (('--text_file=prose', '--out=x'), '--world is required'),
    (('--text_file=prose', '--world=maps()'), '--out is required'),
    (
      ('--text_file=prose', '--out=x', '--world=maps()'),
      "prose, line 1: unknown token 'Once'",
    ),
    (
      ('--text_file=prose', '--pgn=prose', '--out=x', '--world=maps()'),
      '--text_file were given: expected one of the two',
    ),
    (
      ('--text_file=prose', '--games=3', '--out=x', '--world=maps()'),
      '--games=3 and --text_file were given',
    ),
    (
      ('--pgn=prose', '--heldout_file=prose', '--out=x'),
      'and --pgn were given',
    ),
  ],
)
def test_bad_input_is_one_line_and_nothing_is_left(
  tmp_path, monkeypatch, flags, words
):
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'prose').write_text('Once upon\na time')
  assert re.search(words, binaries.refused('ingest', *flags))
  assert [path.name for path in tmp_path.iterdir()] == ['prose']


def test_a_damaged_file_is_told(folder, tmp_path):
  import gzip

  pack = gzip.compress((folder / 'few.pgn').read_bytes())
  (tmp_path / 'few.pgn.gz').write_bytes(pack[:-2000])
  code, out, err = binaries.run(
    'ingest', f'--pgn={tmp_path}/few.pgn.gz', f'--out={tmp_path}/r'
  )
  assert code == 0
  assert re.fullmatch(
    r'warning: few\.pgn\.gz: truncated gzip data after [\d,]+ bytes of text\n',
    err,
  )
  assert '1 cut off' in out


def test_what_it_makes_is_trained_on(tmp_path):
  games = random_games(700, seed=2, most=30)
  sites = [url(k) for k in range(700)]
  (tmp_path / 'few.pgn').write_text(pgn(games, sites))
  flags = ('--world=chess(length=40)', f'--out={tmp_path}/r')
  binaries.printed('ingest', f'--pgn={tmp_path}/few.pgn', *flags)
  binaries.printed('train', *flags, '--model=ngram()', '--steps=1')
