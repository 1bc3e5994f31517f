"""Real and random games against what python-chess says of them.

The files are Lichess games, master games and uniformly random games, with
checksums of tokens, of the 75 labels of every state in both en-passant
conventions, and the last position.
"""

import io
import re
import zlib

import numpy as np
import pytest

from tests import chess_ids
from tests.kernels.chess.texts import joined
from wm.kernels import chess
from wm.kernels.chess import san as chess_san
from wm.worlds.chess import notation as chess_notation

LICHESS = 'lichess_rated_standard_3172.pgn.zst'
MASTER = 'gnuchess_book_sample_10000.pgn.zst'
OTHER = 'lichess_nonstandard_240.pgn.zst'
RANDOM = 'random_uniform_seed0_300.tsv.zst'
CHUNK = 500  # games labelled at once


@pytest.fixture(scope='module')
def folder(real):
  return real('chess')


def unpacked(path):
  """Text of a .zst file."""
  zstandard = pytest.importorskip('zstandard')
  with open(path, 'rb') as file:
    reader = zstandard.ZstdDecompressor().stream_reader(file)
    return io.TextIOWrapper(reader, encoding='utf-8').read()


def split(text):
  """Headers and words of each game of a PGN file without comments."""
  for game in re.split(r'\n\n(?=\[Event )', text.strip()):
    headers, _, moves = game.partition('\n\n')
    words = re.sub(r'\d+\.+', ' ', moves).split()
    yield dict(re.findall(r'\[(\w+) "(.*)"\]', headers)), words[:-1], moves


def read(words, rows=None):
  text, starts = joined([' '.join(game) for game in words])
  return chess_san.read(text, starts, rows)


@pytest.fixture(scope='module')
def lichess(folder):
  return list(split(unpacked(folder / LICHESS)))


@pytest.fixture(scope='module')
def master(folder):
  return list(split(unpacked(folder / MASTER)))


def table(folder, name):
  """Rows of a tab-separated file."""
  head, *lines = unpacked(folder / name).splitlines()
  names = head.split('\t')
  return [dict(zip(names, line.split('\t'), strict=True)) for line in lines]


def token_sums(moves, lengths):
  """CRC of start and packed ids of each game, in the published numbering."""
  index = chess_notation.token_ids('compact')
  for row, length in zip(moves, lengths.tolist(), strict=True):
    tokens = np.append(
      chess_notation.start_token('compact'), index[row[:length]]
    )
    ids = chess_ids.published(tokens, 'compact')
    yield zlib.crc32(ids.astype('<u2').tobytes())


def label_sums(moves, lengths, ep):
  """CRC of the labels of every state of each game."""
  for first in range(0, len(moves), CHUNK):
    sample = lengths[first : first + CHUNK]
    part = moves[first : first + CHUNK, : sample.max(initial=0)]
    labels = chess.replay_labels(part, sample, ep)
    for row, length in zip(labels, sample.tolist(), strict=True):
      yield zlib.crc32(row[: length + 1].tobytes())


def check(games, golden):
  """Tokens, labels and last positions of all games."""
  moves, lengths = games.moves, games.lengths
  assert lengths.tolist() == [int(line['plies']) for line in golden]
  for name, sums in (
    ('tokens_u16le', token_sums(moves, lengths)),
    ('states_u8_rawep', label_sums(moves, lengths, 'raw')),
    ('states_u8_legalep', label_sums(moves, lengths, 'legal')),
  ):
    assert list(sums) == [int(line[f'crc32_{name}']) for line in golden], name
  if 'final_fen_rawep' in golden[0]:
    steps, rows = chess.replay(moves, lengths)
    assert (steps == lengths).all()
    for row, line in zip(rows, golden, strict=True):
      assert chess_notation.format_fen(row) == line['final_fen_rawep']
      again = chess_notation.parse_fen(line['final_fen_rawep'])
      assert (again[:10] == row[:10]).all()


@pytest.mark.parametrize('name', ['lichess_std', 'master_10k'])
def test_real_games(folder, lichess, master, name):
  golden = [
    line
    for line in table(folder, 'golden_labels.tsv.zst')
    if line['file'] == name
  ]
  pgn = lichess if name == 'lichess_std' else master
  words = [pgn[int(line['index'])][1] for line in golden]
  assert len(words) == {'lichess_std': 3172, 'master_10k': 3000}[name]
  games = read(words)
  assert not games.errors.any()
  check(games, golden)


@pytest.mark.parametrize('name', ['lichess', 'master'])
def test_every_game_is_spelled_as_it_was(name, request):
  pgn = request.getfixturevalue(name)
  games = read([words for _, words, _ in pgn])
  assert not games.errors.any()
  spelled, steps = chess_san.write(games.moves, games.lengths)
  assert (steps == games.lengths).all()
  for row, length, (_, words, _) in zip(spelled, steps, pgn, strict=True):
    assert [word.decode() for word in row[:length].tolist()] == words


@pytest.mark.parametrize('name', ['lichess', 'master'])
def test_move_text_is_read_as_its_words(name, request):
  pgn = request.getfixturevalue(name)
  text, starts = joined([moves for _, _, moves in pgn])
  whole = chess_san.read(text, starts)
  apart = read([words for _, words, _ in pgn])
  assert (whole.moves == apart.moves).all()
  assert not whole.errors.any()


def test_games_from_other_positions(folder):
  pgn = list(split(unpacked(folder / OTHER)))
  fens = [headers.get('FEN', chess_notation.START_FEN) for headers, _, _ in pgn]
  assert sum('FEN' in headers for headers, _, _ in pgn) == 210
  rows = np.stack([chess_notation.parse_fen(fen) for fen in fens])
  games = read([words for _, words, _ in pgn], rows)
  assert len(games.lengths) == 240
  assert not games.errors.any()
  for row, fen in zip(rows, fens, strict=True):
    assert chess_notation.format_fen(row) == fen
  # From the standard position they go wrong.
  wrong = read([words for _, words, _ in pgn])
  assert wrong.errors.any()


@pytest.fixture(scope='module')
def uniform(folder):
  golden = table(folder, RANDOM)
  lines = [line['uci_moves'].split() for line in golden]
  lengths = np.array([len(line) for line in lines], np.int32)
  moves = np.full((len(lines), lengths.max()), -1, np.int32)
  for row, line in zip(moves, lines, strict=True):
    row[: len(line)] = [chess_ids.PACKED[word] for word in line]
  return golden, chess_san.ReadGames(moves, lengths, lengths * 0, lengths * 0)


def test_random_games(uniform):
  golden, games = uniform
  assert len(golden) == 300
  check(games, golden)


def test_random_games_through_notation(uniform):
  _, games = uniform
  words, _ = chess_san.write(games.moves, games.lengths)
  lines = [
    [word.decode() for word in row[:length].tolist()]
    for row, length in zip(words, games.lengths, strict=True)
  ]
  assert (read(lines).moves == games.moves).all()


def test_random_games_end_where_they_must(uniform):
  golden, games = uniform
  codes = chess.outcomes(games.moves, games.lengths)
  for row, line in zip(codes, golden, strict=True):
    plies = int(line['plies'])
    assert not row[:plies].any()
    assert chess.layout.OUTCOMES[row[plies]] == line['termination'].lower()
