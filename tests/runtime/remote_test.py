"""Folders behind URLs: mirrors, what is published, heartbeats, and faults."""

import contextlib
import fcntl
import json
import os
import pathlib
import random
import shutil
import sys
import threading
import time

import pytest

import wm
from tests.runtime import s3
from wm import core
from wm.core import registry
from wm.data import sampling
from wm.data import store as stores
from wm.options.calls import Sampling
from wm.runtime import files, remote

upath = pytest.importorskip('upath')
URL = 'memory://shelf/runs/a'
WORLD = 'maps(rows=4, columns=4)'


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
  """Makes this process one of another machine, by number."""

  def become(number: int) -> None:
    place = tmp_path / f'machine{number}' / remote.MIRRORS
    monkeypatch.setattr(remote, 'root', lambda: place)
    remote._opened.cache_clear()

  monkeypatch.setenv(remote._HOLDS, '')
  monkeypatch.setattr(remote, 'EVERY', 0.05)
  monkeypatch.setattr(remote, 'LIFE', 0.2)
  become(0)
  yield become
  for thread in threading.enumerate():
    if thread.name == remote.HEARTBEAT:  # It may be in the midst of an upload.
      thread.join(60)
  memory = upath.UPath('memory://').fs
  memory.store.clear()
  memory.pseudo_dirs[:] = ['']
  remote._opened.cache_clear()


def until(condition) -> None:
  end = time.monotonic() + 60
  while not condition():
    assert time.monotonic() < end
    time.sleep(0.01)


def put(place: pathlib.Path, **contents: str) -> None:
  for name, text in contents.items():
    path = place / name.replace('__', '/').replace('_', '.')
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f'.{path.name}.tmp')
    part.write_text(text)
    part.replace(path)


def other(url: str = URL) -> remote.Heartbeat:
  """Of a process of another machine."""
  heart = remote.Heartbeat(remote.at(url), 'train')
  heart.cache = 'elsewhere'
  return heart


def texts(place: pathlib.Path) -> dict[str, str]:
  return {
    str(path.relative_to(place)): path.read_text()
    for path in sorted(place.rglob('*'))
    if path.is_file()
  }


def there() -> dict[str, bytes]:
  fs, base = remote.at(URL).fs, remote.at(URL).path
  return {key[len(base) + 1 :]: fs.cat_file(key) for key in fs.find(base)}


def test_a_folder_goes_to_another_machine_and_back(machine):
  place = remote.local(URL)
  put(place, rows_csv='1', scores_json='{}', deep__er__x_bin='22')
  remote.publish(place)
  machine(1)
  copy = remote.local(URL)
  assert copy != place
  assert texts(copy) == texts(place)
  put(copy, rows_csv='changed')
  (copy / 'scores.json').unlink()
  remote.publish(copy)
  machine(0)
  put(place, unpublished_txt='x')  # Others have written since: it is dropped.
  assert texts(remote.local(URL)) == {
    'rows.csv': 'changed',
    'deep/er/x.bin': '22',
  }


def test_a_mirror_that_is_ahead_goes_on():
  place = remote.local(URL)
  put(place, rows_csv='1')
  remote.publish(place)
  put(place, rows_csv='12', more_csv='3')  # Then it is killed.
  assert texts(remote.local(URL)) == {'rows.csv': '12', 'more.csv': '3'}


def test_what_was_cleared_from_the_cache_is_not_removed_elsewhere():
  place = remote.local(URL)
  put(place, rows_csv='1', scores_json='{}', data__train__x='9')
  put(place, data__train__manifest_json='{}')
  remote.publish(place)
  for skip, left in (((), 4), (('data',), 4)):
    for name in ('rows.csv', 'data/train/x'):
      (place / name).unlink()
    remote.local(URL, skip)
    remote.publish(place)
    assert len(there()) == left
    remote.local(URL)
    assert len(texts(place)) == left


def test_a_file_is_fetched_by_itself():
  fs = remote.at(URL).fs
  fs.pipe_file('/shelf/data/train/games.pgn', b'1. c4')  # In no store of wm's.
  assert remote.local('memory://shelf/data/train/games.pgn').is_file()
  fs.pipe_file('/shelf/games.pgn', b'1. e4 e5')
  assert remote.local('memory://shelf/games.pgn').read_text() == '1. e4 e5'
  fs.pipe_file('/shelf/games.pgn', b'1. d4 d5 2. c4')
  assert remote.local('memory://shelf/games.pgn').read_text() == (
    '1. d4 d5 2. c4'
  )


def test_a_store_is_fetched_by_itself():
  fs = remote.at(URL).fs
  fs.pipe_file('/shelf/data/train/x', b'9')
  url = 'memory://shelf/data/train'
  assert not texts(remote.local(url))
  fs.pipe_file('/shelf/data/train/manifest.json', b'{}')
  assert texts(remote.local(url)) == {'manifest.json': '{}', 'x': '9'}


def test_temporary_files_and_locks_stay_here():
  place = remote.local(URL)
  put(place, rows_csv='1', tmp__x_csv='a folder like others')
  (place / '.train.lock').write_text('')
  (place / '.rows.csv.host.1.tmp').write_text('')
  step = place / 'checkpoints' / '7.orbax-checkpoint-tmp'
  step.mkdir(parents=True)
  (step / 'params').write_text('half')
  remote.publish(place)
  assert sorted(there()) == ['rows.csv', 'tmp/x.csv']


def test_a_damaged_table_is_made_anew():
  place = remote.local(URL)
  put(place, rows_csv='1')
  remote.publish(place)
  (remote.root() / 'memory' / 'shelf.tags.json').write_bytes(b'\xff' * 1000)
  assert texts(remote.local(URL)) == {'rows.csv': '1'}


class Broken(RuntimeError):
  """Of a network that is lost for good."""


def lose_after(monkeypatch, calls: int) -> None:
  """Makes the file system fail for good after so many uploads."""
  fs, left = remote.at(URL).fs, [calls]
  for name in ('put_file', 'pipe_file', 'rm_file'):
    act = getattr(type(fs), name)

    def fail(*args, act=act, **keywords):
      left[0] -= 1
      if left[0] < 0:
        raise Broken('lost')
      return act(fs, *args, **keywords)

    monkeypatch.setattr(fs, name, fail, raising=False)


def test_a_machine_lost_at_any_upload_leaves_a_whole_or_no_store(
  machine, monkeypatch
):
  world = registry.make('world', WORLD)
  options = Sampling(num=40, num_heldout=10)
  uploads, whole = 0, False
  while not whole:
    upath.UPath('memory://').fs.store.clear()
    machine(2 * uploads)
    with monkeypatch.context() as patch:
      patch.setattr(remote, '_TRIES', 1)
      place = remote.local(URL)
      lose_after(patch, uploads)
      with contextlib.suppress(OSError, core.InputError):
        sampling.make_dataset(world, place, options)
        whole = True
    machine(2 * uploads + 1)
    time.sleep(2 * remote.LIFE)  # The sign of the lost machine grows old.
    place = remote.local(URL)
    seen = [s for s in ('train', 'heldout') if (place / 'data' / s).exists()]
    for split in seen:
      stores.open(place / 'data' / split).verify()
    made = sampling.make_dataset(world, place, options)  # It goes on.
    assert made['train']['rows'] == 40
    uploads += 1
  assert uploads > 6
  assert len(seen) == 2


def test_records_have_the_bytes_of_before(monkeypatch):
  """A record that is replaced meanwhile waits for what it describes."""
  place = remote.local(URL)
  put(place, shard_bin='1', manifest_json='1 shard')
  fs, act = remote.at(URL).fs, type(remote.at(URL).fs).put_file

  def write_more(*args, **keywords):
    put(place, late_bin='2', manifest_json='2 shards')
    return act(fs, *args, **keywords)

  monkeypatch.setattr(fs, 'put_file', write_more, raising=False)
  remote.publish(place)
  assert there() == {'shard.bin': b'1', 'manifest.json': b'1 shard'}
  remote.publish(place)
  assert there()['manifest.json'] == b'2 shards'


def test_half_an_answer_is_not_read(monkeypatch):
  remote.at(URL).fs.pipe_file('/shelf/runs/a/rows.csv', b'123456')
  fs, act, cuts = remote.at(URL).fs, type(remote.at(URL).fs).get_file, [2]

  def cut(key, path, **keywords):
    act(fs, key, path, **keywords)
    cuts[0] -= 1
    if cuts[0] >= 0:
      pathlib.Path(path).write_bytes(pathlib.Path(path).read_bytes()[:3])

  monkeypatch.setattr(fs, 'get_file', cut, raising=False)
  assert texts(remote.local(URL)) == {'rows.csv': '123456'}
  cuts[0] = 99
  fs.pipe_file('/shelf/runs/a/rows.csv', b'abcdefg')
  with pytest.raises(core.InputError, match='changes while it is read'):
    remote.local(URL)
  assert not texts(remote.at(URL).mirror)


def test_a_lock_has_a_heartbeat_and_publishes(machine):
  place = remote.local(URL)
  with files.stage_lock(place, 'train'):
    put(place, metrics_jsonl='1')
    assert '.train.lease' in there()
    until(lambda: 'metrics.jsonl' in there())
  assert [*there()] == ['metrics.jsonl']


def test_two_machines_do_not_write_one_stage(machine, monkeypatch):
  entered, leave = threading.Event(), threading.Event()
  place = remote.local(URL)

  def hold() -> None:
    with files.stage_lock(place, 'train'):
      entered.set()
      leave.wait(60)

  thread = threading.Thread(target=hold)
  thread.start()
  entered.wait(60)
  os.environ[remote._HOLDS] = ''  # It is another process's.
  machine(1)
  with (
    pytest.raises(files.Held, match=f"{URL}: another process .* stage 'train'"),
    files.stage_lock(remote.local(URL), 'train'),
  ):
    pass
  os.environ[remote._HOLDS] = f'{URL}\n'
  leave.set()
  thread.join()


def test_a_cleared_cache_removes_nothing_elsewhere(monkeypatch):
  monkeypatch.setattr(remote, '_TRIES', 2)  # Each waits twice as long.
  place = remote.local(URL)
  put(place, rows_csv='1')
  remote.publish(place)
  with (
    pytest.raises(OSError, match='the cache was cleared'),
    files.stage_lock(place, 'train'),
  ):
    shutil.rmtree(place)
  assert [*there()] == ['rows.csv']


def test_a_fetch_that_fails_removes_nothing_elsewhere(machine, monkeypatch):
  place = remote.local(URL)
  put(place, rows_csv='1', scores_json='{}')
  remote.publish(place)
  machine(1)
  put(remote.local(URL), rows_csv='changed', more_csv='2')
  remote.publish(remote.at(URL).mirror)
  machine(0)
  before, fs = there(), remote.at(URL).fs
  for again in (1, 2):
    with monkeypatch.context() as patch:
      patch.setattr(fs, 'get_file', lambda *_: 1 / 0, raising=False)
      with pytest.raises(core.InputError), files.stage_lock(place, 'train'):
        pass
    if again == 1:
      (place / 'scores.json').unlink()
    assert there() == before
  assert texts(remote.local(URL)) == {
    name: content.decode() for name, content in before.items()
  }


def test_a_file_that_is_replaced_or_removed_while_it_is_read(monkeypatch):
  fs, act = remote.at(URL).fs, type(remote.at(URL).fs).get_file
  fs.pipe_file('/shelf/runs/a/metrics.jsonl', b'1')
  fs.pipe_file('/shelf/runs/a/old.csv', b'1')

  def grow(key, path, **keywords):
    if fs.exists('/shelf/runs/a/old.csv'):
      fs.rm_file('/shelf/runs/a/old.csv')
      fs.pipe_file('/shelf/runs/a/metrics.jsonl', b'1, 2')
    act(fs, key, path, **keywords)

  monkeypatch.setattr(fs, 'get_file', grow, raising=False)
  assert texts(remote.local(URL)) == {'metrics.jsonl': '1, 2'}


def test_a_file_whose_name_goes_on_is_another():
  fs = remote.at(URL).fs
  fs.pipe_file('/shelf/runs/a0', b'1')
  remote.local(f'{URL}0')
  assert remote.at(URL).tags() == {}


def test_a_dead_process_of_another_machine_bars_a_while(machine):
  place = remote.local(URL)
  other().acquire(wait=False)  # And it never gives a sign again.
  with pytest.raises(files.Held), files.stage_lock(place, 'train'):
    pass
  start = time.monotonic()
  with files.stage_lock(place, 'train', wait=True):
    assert time.monotonic() > start + remote.LIFE / 2
  assert there() == {}


def test_a_dead_process_of_this_cache_is_not_waited_for(monkeypatch):
  remote.Heartbeat(remote.at(URL), 'train').acquire(wait=False)
  monkeypatch.setattr(remote, 'LIFE', 1e9)
  remote.Heartbeat(remote.at(URL), 'train').acquire(wait=False)


def test_signs_are_given_during_a_long_upload(machine, monkeypatch):
  fs, act = remote.at(URL).fs, type(remote.at(URL).fs).put_file
  # On a busy machine a thread may have to wait for a part of this.
  monkeypatch.setattr(remote, 'LIFE', 0.6)

  def crawl(*args, **keywords):
    time.sleep(8 * remote.LIFE)
    return act(fs, *args, **keywords)

  monkeypatch.setattr(fs, 'put_file', crawl, raising=False)
  place = remote.local(URL)
  with files.stage_lock(place, 'train'):
    put(place, rows_csv='1')
    end = time.monotonic() + 6 * remote.LIFE
    while time.monotonic() < end:
      with pytest.raises(files.Held):
        other().acquire(wait=False)
      time.sleep(remote.EVERY)


def test_a_reader_leaves_what_a_process_of_this_machine_writes():
  place = remote.local(URL)
  put(place, a__metrics_jsonl='1', b__rows_csv='1')
  remote.publish(place)
  fs = remote.at(URL).fs
  for name in ('a/metrics.jsonl', 'b/rows.csv'):
    fs.pipe_file(f'/shelf/runs/a/{name}', b'old')
  with open(place / 'a' / '.train.lock', 'w') as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert texts(remote.local(URL) / 'b') == {'rows.csv': '1'}
  (place / 'a' / '.train.lock').unlink()
  assert texts(remote.local(URL) / 'b') == {'rows.csv': 'old'}


@pytest.mark.parametrize(
  ('url', 'says'),
  [
    ('nope://a/b', "Unsupported filesystem: 'nope'; gs, s3"),
    ('file:///tmp/x', 'expected a plain path'),
    ('memory://a/../b', r"a URL has no part '\.\.'"),
    ('memory://a//b', "a URL has no part ''"),
    ('abfs://a/b', 'adlfs'),
  ],
)
def test_a_url_that_is_none(url, says):
  with pytest.raises(core.InputError, match=says):
    remote.local(url)


@pytest.mark.parametrize(
  'world',
  [
    "maps(file='s3://a/b.graphml')",
    "maps(nodes='s3://a/n.csv', edges='s3://a/e.csv')",
    "automaton(file='gs://a/b.json')",
    's3://a/frog.py:World()',
    's3://a/frog.py:World',
  ],
)
def test_a_spec_names_files_of_this_machine(tmp_path, world):
  says = r'(s3|gs)://a/\S+ is a URL; expected a file of this machine'
  with pytest.raises(core.InputError, match=says):
    wm.sample(world, tmp_path / 'r')
  assert not [*tmp_path.iterdir()]


def test_a_package_that_is_missing(monkeypatch):
  monkeypatch.setitem(sys.modules, 'upath', None)
  with pytest.raises(core.InputError, match=r"pip install -e '\.\[cloud\]'"):
    remote.local(URL)


def test_paths_and_urls():
  assert remote.is_url('s3://a/b')
  assert remote.is_url(pathlib.Path('s3://a/b'))  # Which has lost a slash.
  for path in ('runs/a', '/a', 'a:b', pathlib.Path('a'), 3, 'x://', None):
    assert not remote.is_url(path)
  mirror = remote.at(URL).mirror
  assert remote.url_of(mirror) == URL
  assert remote.url_of('/tmp/x') is None
  assert remote.shown(f'no {mirror}/x: it') == f'no {URL}/x: it'


def test_checkpoints_that_live_shorter_than_an_upload_are_published(
  monkeypatch,
):
  """A run replaces its checkpoints while they are sent, slowly."""
  place = remote.at(URL)
  folder = place.mirror / 'checkpoints'
  ended = threading.Event()

  def step(number: int) -> None:
    part = folder / f'{number}.tmp'
    part.mkdir(parents=True)
    for name in ('a', 'b', 'c', 'sha256.json'):
      (part / name).write_text(f'{number}')
    part.rename(folder / f'{number}')
    shutil.rmtree(folder / f'{number - 1}', ignore_errors=True)

  def run() -> None:
    number = 1
    while not ended.wait(0.02):
      number += 1
      step(number)

  step(1)
  put, seen = place.fs.put_file, []

  def slow(*args, **kwargs):
    time.sleep(0.1)
    return put(*args, **kwargs)

  monkeypatch.setattr(place.fs, 'put_file', slow)
  thread = threading.Thread(target=run)
  thread.start()
  try:
    for _ in range(4):
      place.publish()
      sent = [*there()]
      whole = {n.split('/')[1] for n in sent if n.endswith('sha256.json')}
      seen.append(max(map(int, whole)))
      for number in whole:
        names = {n for n in sent if n.startswith(f'checkpoints/{number}/')}
        assert len(names) == 4
  finally:
    ended.set()
    thread.join()
  assert seen == sorted(set(seen))
  place.publish()
  assert {*there()} == {*texts(place.mirror)}
  assert not [*place.mirror.glob('.sending*')]


@pytest.fixture(scope='module')
def server(tmp_path_factory):
  pytest.importorskip('s3fs')
  pytest.importorskip('moto')
  with s3.served(tmp_path_factory.mktemp('s3') / 'log') as port:
    yield port


@pytest.fixture
def fresh(machine, monkeypatch, tmp_path):
  """Gives this process a port for S3, and an empty cache."""
  s3fs = pytest.importorskip('s3fs')
  from fsspec import config

  def use(port: int, number: int = 0) -> None:
    machine(number)
    for name, value in s3.environment(port, tmp_path).items():
      monkeypatch.setenv(name, value)
    monkeypatch.delenv('XDG_CACHE_HOME')
    config.set_conf_env(config.conf)
    remote._opened.cache_clear()
    s3fs.S3FileSystem.clear_instance_cache()

  yield use
  config.conf.pop('s3', None)


@pytest.mark.process
def test_a_real_server(server, fresh):
  fresh(server)
  url = f's3://{s3.BUCKET}/real'
  with files.stage_lock(remote.local(url), 'train'):
    put(remote.at(url).mirror, rows_csv='1', scores_json='{}')
    with pytest.raises(files.Held):
      other(url).acquire(wait=False)
  fresh(server, 1)
  assert texts(remote.local(url)) == {'rows.csv': '1', 'scores.json': '{}'}


def test_a_server_of_googles_protocol(machine, monkeypatch, tmp_path):
  gcsfs = pytest.importorskip('gcsfs')
  pytest.importorskip('gcp_storage_emulator')
  with s3.started(tmp_path / 'log', 'tests.runtime.gcs') as port:
    address = f'http://127.0.0.1:{port}'
    monkeypatch.setenv('STORAGE_EMULATOR_HOST', address)
    gcsfs.GCSFileSystem.clear_instance_cache()
    url = 'gs://shelf/real'
    with files.stage_lock(remote.local(url), 'train'):
      put(remote.at(url).mirror, rows_csv='1', scores_json='{}')
      with pytest.raises(files.Held):
        other(url).acquire(wait=False)
    machine(1)
    gcsfs.GCSFileSystem.clear_instance_cache()
    assert texts(remote.local(url)) == {'rows.csv': '1', 'scores.json': '{}'}
    with files.stage_lock(remote.local(url), 'train'):
      (remote.at(url).mirror / 'rows.csv').write_text('22')
    machine(2)
    assert texts(remote.local(url))['rows.csv'] == '22'
  gcsfs.GCSFileSystem.clear_instance_cache()


@pytest.mark.process
def test_a_bucket_that_is_not_there(server, fresh):
  fresh(server)
  with (
    pytest.raises(core.InputError, match='bucket does not exist'),
    files.stage_lock(remote.local('s3://nowhere/a'), 'train'),
  ):
    pass


@pytest.mark.process
def test_no_credentials(server, fresh, monkeypatch):
  fresh(server)
  for name in ('AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'):
    monkeypatch.delenv(name)
  monkeypatch.setenv('AWS_EC2_METADATA_DISABLED', 'true')
  with pytest.raises(core.InputError, match='Unable to locate credentials'):
    remote.local(f's3://{s3.BUCKET}/a')


@pytest.mark.process
def test_requests_that_fail_stall_and_return_half(server, fresh, monkeypatch):
  """Nothing is lost, and nothing half-written read."""
  dice, url = random.Random(1), f's3://{s3.BUCKET}/faults'
  contents = {
    f'{k}.bin': dice.randbytes(dice.randrange(1, 9000)) for k in range(8)
  }
  with s3.failing(server, 0.4) as proxy:
    fresh(proxy.port)
    place = remote.at(url).mirror
    place.mkdir(parents=True)
    for name, content in contents.items():
      (place / name).write_bytes(content)
    (place / 'manifest.json').write_text(json.dumps(sorted(contents)))
    publish(place)
    for machine in range(1, 2):
      fresh(proxy.port, machine)
      place = fetched(url)
      names = json.loads((place / 'manifest.json').read_text())
      assert {name: (place / name).read_bytes() for name in names} == contents
    assert all(proxy.spoilt.values()), proxy.spoilt


def publish(place: pathlib.Path) -> None:
  """Publishes; what cannot be sent says so and is sent by the next call."""
  for _ in range(50):
    try:
      return remote.publish(place)
    except OSError:
      pass
  raise AssertionError('nothing gets through')


def fetched(url: str) -> pathlib.Path:
  for _ in range(50):
    try:
      return remote.local(url)
    except core.InputError:
      pass
  raise AssertionError('nothing gets through')
