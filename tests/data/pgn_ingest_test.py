import gzip
import tracemalloc

import pytest

import wm
from tests.data.pgn_texts import pgn, random_games, rows, tree, url
from wm import core
from wm.core import registry
from wm.data import batches, pgn_games, pgn_ingest, sampling
from wm.data import store as stores
from wm.options.calls import Sampling
from wm.runtime import tasks

WORLD = registry.make('world', pgn_ingest.WORLD)
SOME = 300


def make(tmp_path, *texts, out='out', jobs=1, world=WORLD, most=0):
  paths = []
  for number, text in enumerate(texts):
    paths.append(tmp_path / f'{number}.pgn')
    data = text if isinstance(text, bytes) else text.encode()
    paths[-1].write_bytes(data)
  return pgn_ingest.make_dataset(world, paths, tmp_path / out, most, jobs)


@pytest.fixture(scope='module')
def several():
  return random_games(SOME)


@pytest.fixture
def here(monkeypatch):
  """Tasks run in this process."""

  def run_shards(title, call, arguments, num):
    for k in reversed(range(num)):
      call(**arguments, shard=(k, num))

  monkeypatch.setattr(tasks, 'run_shards', run_shards)


@pytest.fixture
def small(monkeypatch):
  """Blocks of some ten games."""
  monkeypatch.setattr(pgn_games, 'PART', 5000)


def test_the_stores_are_what_sampling_makes(tmp_path, several):
  made = make(tmp_path, pgn(several))
  assert sum(made[split]['rows'] for split in made) == SOME
  world = registry.make('world', made['train']['world'])
  for split in sampling.SPLITS:
    store = stores.open(tmp_path / 'out' / 'data' / split)
    store.verify()
    sampling.check_vocab(store, world)
    expected = sampling.describe(world, 0, split, len(store))
    assert expected.items() <= store.manifest.items()
  store = stores.open(tmp_path / 'out' / 'data' / 'train')
  tokens, lengths = batches.Batches(store, 8, seed=0).at(0)
  steps, _ = world.walk(world.init(8), tokens, lengths)
  assert steps.tolist() == lengths.tolist()


def test_the_split_is_by_the_url_and_the_order_is_kept(tmp_path, several):
  make(tmp_path, pgn(several))
  held = [pgn_games.is_heldout(url(n).encode()) for n in range(SOME)]
  both = {False: [], True: []}
  other = make(tmp_path, pgn(several), out='whole')
  for split, where in (('train', False), ('heldout', True)):
    both[where] = rows(tmp_path / 'out' / 'data' / split)
    assert len(both[where]) == held.count(where) == other[split]['rows']
  alone = make(tmp_path, pgn([several[0], *several[5:9]]), out='few')
  assert alone['train']['rows'] == 5
  few = rows(tmp_path / 'few' / 'data' / 'train')
  assert few[0] == both[False][0]
  assert not set(both[True]) & set(both[False])


@pytest.mark.usefixtures('small', 'here')
@pytest.mark.parametrize('processes', [2, 3, 64])
def test_processes_make_what_one_makes(tmp_path, several, processes):
  more = pgn(several[:50] + random_games(80, 5)).encode()
  text = pgn(several), gzip.compress(more)
  make(tmp_path, *text, out='one')
  made = make(tmp_path, *text, out='many', jobs=processes)
  assert tree(tmp_path / 'many') == tree(tmp_path / 'one')
  # They are in other blocks than what they repeat.
  assert made['train']['ingest']['rejected'] == {'duplicate': 50}


@pytest.mark.usefixtures('small')
def test_a_killed_run_goes_on(tmp_path, several, monkeypatch):
  text = pgn(several)
  make(tmp_path, text, out='whole')
  read, calls = pgn_games.read, []

  def killed(block, *args):
    calls.append(block.first)
    if len(calls) % 3 == 0:
      raise KeyboardInterrupt
    return read(block, *args)

  monkeypatch.setattr(pgn_games, 'read', killed)
  kills = 0
  while True:
    try:
      made = make(tmp_path, text, out='cut')
    except KeyboardInterrupt:
      kills += 1
    else:
      break
  assert kills > 2
  assert made['train']['rows'] > 200
  # Two blocks are read in each turn, and only the third again.
  assert len(calls) - len(set(calls)) == kills
  assert tree(tmp_path / 'cut') == tree(tmp_path / 'whole')


def test_a_finished_run_is_found(tmp_path, several):
  first = make(tmp_path, pgn(several))
  before = tree(tmp_path / 'out')
  assert make(tmp_path, pgn(several)) == first
  assert tree(tmp_path / 'out') == before


def test_other_input_is_refused(tmp_path, several):
  make(tmp_path, pgn(several[:20]))
  before = tree(tmp_path / 'out')
  with pytest.raises(core.InputError, match='another ingest run: its files'):
    make(tmp_path, pgn(several[:21]))
  with pytest.raises(core.InputError, match='another ingest run: its world'):
    make(
      tmp_path,
      pgn(several[:20]),
      world=registry.make('world', 'chess(length=50)'),
    )
  assert tree(tmp_path / 'out') == before


def test_a_sampled_folder_is_refused(tmp_path, several):
  sampling.make_dataset(
    WORLD, tmp_path / 'out', Sampling(num=9, num_heldout=2, seed=0)
  )
  before = tree(tmp_path / 'out')
  with pytest.raises(core.InputError, match='holds other data, in data/train'):
    make(tmp_path, pgn(several[:20]))
  assert tree(tmp_path / 'out') == before


@pytest.mark.usefixtures('small', 'here')
@pytest.mark.parametrize('processes', [1, 3])
def test_it_stops_after_so_many_good_games(tmp_path, several, processes):
  games = ['e4 e5 1-0', *several[:40], several[3], *several[40:]]
  made = make(tmp_path, pgn(games), jobs=processes, most=50)
  lines = made['train']['ingest']
  assert lines['kept'] == 49
  assert lines['rejected'].pop('not asked for') < 10
  assert lines['rejected'] == {'too short': 1, 'duplicate': 1}
  assert lines['games'] < 70
  make(tmp_path, pgn(games[:51]), out='few')
  for split in sampling.SPLITS:
    item, two = (tmp_path / run / 'data' / split for run in ('out', 'few'))
    assert rows(item) == rows(two)
  make(tmp_path, pgn(games), out='one', most=50)
  assert tree(tmp_path / 'one') == tree(tmp_path / 'out')


# Duplicates.


def held_and_not():
  held = [n for n in range(2000) if pgn_games.is_heldout(url(n).encode())]
  free = [n for n in range(100) if n not in held]
  return [url(n) for n in held], [url(n) for n in free]


@pytest.mark.parametrize('hashes', [1, 7, 1 << 22])
def test_duplicates(tmp_path, several, monkeypatch, hashes):
  monkeypatch.setattr(pgn_ingest, 'HASHES', hashes)
  held, free = held_and_not()
  games = [several[k] for k in (0, 1, 0, 1, 2, 0, 2, 3)]
  sites = [
    free[0],
    held[0],
    free[1],
    held[1],
    held[2],
    held[3],
    free[2],
    free[3],
  ]
  made = make(tmp_path, pgn(games, sites))
  assert made['train']['rows'] == 2
  assert made['heldout']['rows'] == 2
  lines = made['train']['ingest']
  assert lines['rejected'] == {'duplicate': 2, 'duplicate across splits': 2}
  assert (lines['games'], lines['kept']) == (8, 4)


def test_equal_games_of_any_tags_are_duplicates(tmp_path, several):
  item, two = pgn(several[:30], ['Oslo'] * 30), pgn(several[:30], ['Rome'] * 30)
  made = make(tmp_path, item, two)
  lines = made['heldout']['ingest']
  assert lines['kept'] == 30
  assert sum(lines['rejected'].values()) == 30


def test_games_are_compared_as_they_are_kept(tmp_path, several):
  line = several[0].split()[:30]
  games = [' '.join(line[:n]) + ' *' for n in (22, 26, 30)]
  made = make(tmp_path, pgn(games))
  assert made['train']['ingest']['kept'] == 3
  world = registry.make('world', 'chess(length=24)')
  lines = make(tmp_path, pgn(games), out='cut', world=world)['train']['ingest']
  assert lines['rejected'] == {'duplicate': 1}
  assert lines['cut'] == 2


# What does not go well.


def test_damaged_files_give_what_is_whole(tmp_path, several):
  pack = gzip.compress(pgn(several).encode())
  made = make(tmp_path, pack[: len(pack) // 2], pgn(random_games(30, 4)))
  lines = made['train']['ingest']
  assert lines['damage'].keys() == {'0.pgn'}
  assert lines['damage']['0.pgn'].startswith('truncated gzip data after ')
  assert lines['rejected'] == {'cut off': 1}
  assert 100 < lines['kept'] < SOME


def test_no_game_left(tmp_path):
  text = pgn(['1. e4 e5 1-0'] * 3)
  with pytest.raises(
    core.InputError, match='no game is left of 3: 3 too short'
  ):
    make(tmp_path, text)
  assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize(
  ('texts', 'match'),
  [
    (('no games',), 'no PGN; it starts'),
    ((b'\x1f\x8b corrupt',), 'no PGN: .*gzip'),
    ((pgn(['1. e4 *']), 'x'), r'1\.pgn is no PGN'),
  ],
)
def test_a_file_that_is_no_pgn(tmp_path, texts, match):
  with pytest.raises(core.InputError, match=match):
    make(tmp_path, *texts)
  assert not (tmp_path / 'out').exists()


def test_a_damaged_block(tmp_path, several, monkeypatch):
  monkeypatch.setattr(pgn_games, 'PART', 5000)
  with monkeypatch.context() as patch:
    patch.setattr(pgn_ingest, 'join', lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
      make(tmp_path, pgn(several))
  block = next((tmp_path / 'out' / 'data' / 'ingest.partial').iterdir())
  block.write_bytes(block.read_bytes()[:-300])
  with pytest.raises(
    core.InputError, match=rf'{block.name} is not a whole block'
  ):
    make(tmp_path, pgn(several))
  block.unlink()
  assert make(tmp_path, pgn(several))


def test_other_worlds_have_no_pgn(tmp_path, several):
  with pytest.raises(core.InputError, match='games of chess'):
    make(tmp_path, pgn(several), world=registry.make('world', 'othello()'))


def test_memory_does_not_grow_with_the_file(tmp_path, several, monkeypatch):
  monkeypatch.setattr(pgn_games, 'PART', 20_000)
  monkeypatch.setattr(pgn_ingest, 'HASHES', 500)
  peaks = []
  for times in (4, 16):
    text = pgn(several * times, [url(n) for n in range(SOME * times)])
    path = tmp_path / f'{times}.pgn'
    path.write_text(text)
    del text
    tracemalloc.start()
    made = pgn_ingest.make_dataset(WORLD, [path], tmp_path / str(times))
    peaks.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    assert made['train']['ingest']['kept'] == SOME
  assert peaks[1] < 1.5 * peaks[0]


def test_a_file_without_held_out_games_is_warned_of(tmp_path, several, capfd):
  (tmp_path / 'few.pgn').write_text(pgn(several[:3]))
  wm.ingest(tmp_path / 'few.pgn', tmp_path / 'out')
  output = capfd.readouterr().err
  assert 'out has no held-out game' in output
  assert 'holds out 50 in 10,000' in output


def test_null_moves_in_many_games_refuse_the_file(tmp_path, several):
  text = pgn(several[:30])
  bad = pgn([several[0].replace(' ', ' -- ', 1), *several[1:30]])
  with pytest.raises(core.InputError, match=r'1 of 30 \(3\.3%\).*null move'):
    make(tmp_path, bad)
  assert not (tmp_path / 'out' / 'ingest.run.json').exists()
  assert make(tmp_path, text)
