import pytest

from wm.data import pgn_games

URL = b'https://lichess.org/FtUtQBEt'


@pytest.mark.parametrize(
  ('text', 'bucket'),
  [
    ('abc', 9392),
    ('', 388),
    ('cwm_random_00000', 304),
    ('cwm_random_00001', 3498),
    ('cwm_b17c8965ce036ac60703970f', 2787),
  ],
)
def test_published_buckets(text, bucket):
  assert pgn_games.bucket(text) == bucket


def test_published_share_of_random_games():
  names = [f'cwm_random_{k:05d}' for k in range(10_000)]
  held = [pgn_games.bucket(name) < pgn_games.HELDOUT for name in names]
  assert sum(held) == 47


def test_published_identifier():
  assert pgn_games.game_id(URL, b'test') == 'cwm_b17c8965ce036ac60703970f'
  assert not pgn_games.is_heldout(URL, b'test')


def test_our_split_does_not_move():
  assert pgn_games.SALT == b'wm.chess.1'
  assert pgn_games.game_id(URL) == pgn_games.game_id(URL, b'wm.chess.1')
  urls = [b'https://lichess.org/%08d' % k for k in range(20_000)]
  held = sum(map(pgn_games.is_heldout, urls))
  assert 60 <= held <= 140  # 100 expected, four standard deviations.


@pytest.mark.parametrize(
  ('site', 'known'),
  [
    (URL, True),
    (b'http://www.chess.com/game/live/123', True),
    (b'https://lichess.org', False),
    (b'https://lichess.org/', False),
    (b'lichess.org/FtUtQBEt', False),
    (b'https://lichess.org/a b', False),
    (b'Monaco', False),
    (b'?', False),
    (b'', False),
  ],
)
def test_only_a_url_of_a_game_names_it(site, known):
  item = pgn_games.identity(site, b'[White "a"]', b'xy')
  two = pgn_games.identity(site, b'[White "b"]', b'xy')
  three = pgn_games.identity(site, b'[White "a"]', b'xz')
  assert (item == site) == known
  assert (item == two) == known
  assert (item == three) == known


def test_blanks_around_tags_do_not_matter():
  item = pgn_games.identity(b'Oslo', b'[A "b"]\n[C "d"]\n\n', b'xy')
  two = pgn_games.identity(b'Oslo', b' [A "b"] \n\n[C "d"]', b'xy')
  assert item == two == b'[A "b"]\n[C "d"]\n\nxy'
