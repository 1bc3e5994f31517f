"""One writer: refused, waited for, ended with its process."""

import errno
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest

import wm
from tests.training import mean_mlp
from wm import core
from wm.core import registry
from wm.data import pgn_ingest, sampling
from wm.options.calls import Reconstruction, Sampling
from wm.recon import run as recon
from wm.reporting import write
from wm.runtime import files
from wm.training import loop

WORLD = 'maps(rows=3, columns=3)'

# Holds a lock; so do not what it forks and what it starts.
HOLDER = """
import os, subprocess, sys, time
from wm.runtime import files
with files.stage_lock(sys.argv[1], 'train'):
  subprocess.Popen(['sleep', '60'], close_fds=False)
  if not os.fork():  # It has let go of the lock before it says so.
    print('held', flush=True)
  time.sleep(60)
"""


def test_the_second_is_refused_in_one_line(tmp_path):
  with files.stage_lock(tmp_path / 'run', 'train'):
    with (
      pytest.raises(files.Held) as error,
      files.stage_lock(tmp_path / 'run', 'train'),
    ):
      pass
    with files.stage_lock(tmp_path / 'run', 'score'):
      pass
  assert re.search(
    rf'run: another process \({os.getpid()} on {socket.gethostname()}\) is at '
    "its stage 'train'; wait",
    str(error.value),
  )
  with files.stage_lock(tmp_path / 'run', 'train'):
    pass
  assert not list(tmp_path.iterdir()), 'what was made for the lock is gone'


@pytest.mark.process
def test_it_dies_with_its_process(root, tmp_path):
  process = subprocess.Popen(
    [sys.executable, '-c', HOLDER, str(tmp_path)],
    cwd=root,
    stdout=subprocess.PIPE,
    text=True,
    start_new_session=True,
  )
  try:
    assert process.stdout.readline() == 'held\n'
    with pytest.raises(core.InputError, match=f'{process.pid} on '):
      files.stage_lock(tmp_path, 'train').__enter__()
    process.kill()
    process.wait()
    with files.stage_lock(tmp_path, 'train'):
      pass
  finally:
    os.killpg(process.pid, signal.SIGKILL)
    process.stdout.close()


def test_many_at_once_are_one_at_a_time(tmp_path):
  inside, most, done = [], [], []

  def work() -> None:
    for _ in range(20):
      with files.stage_lock(tmp_path / 'run', 'train', wait=True):
        inside.append(1)
        most.append(len(inside))
        inside.pop()
        done.append(1)

  threads = [threading.Thread(target=work) for _ in range(4)]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert max(most) == 1
  assert len(done) == 80


@pytest.fixture(autouse=True)
def quick(monkeypatch):
  monkeypatch.setattr(files, '_POLL', 0.001)


def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch, capsys):
  def none(*_: object) -> None:
    raise OSError(errno.ENOLCK, 'No locks available')

  monkeypatch.setattr(files.fcntl, 'flock', none)
  with files.stage_lock(tmp_path, 'train'):
    pass
  assert capsys.readouterr().err == (
    f'{tmp_path}: this file system has no locks (No locks available); take '
    'care that no second process writes there\n'
  )
  monkeypatch.setattr(files, 'fcntl', None)
  with files.stage_lock(tmp_path, 'train'):
    pass


def test_a_finished_data_set_is_found_where_nobody_may_write(
  tmp_path, monkeypatch
):
  world = registry.make('world', WORLD)
  sizes = {'num': 20, 'num_heldout': 5, 'seed': 0}
  made = sampling.make_dataset(world, tmp_path, Sampling(**sizes))

  def refused(*_: object) -> None:
    raise OSError(errno.EROFS, 'Read-only file system')

  monkeypatch.setattr(files.os, 'open', refused)
  assert sampling.make_dataset(world, tmp_path, Sampling(**sizes)) == made


@pytest.mark.process
def test_systems_without_locks_import_all_the_same(root):
  code = """
import sys
sys.modules['fcntl'] = sys.modules['resource'] = None
import wm.runtime.files, wm.data.pgn_ingest, wm.studies.sweep
"""
  subprocess.run([sys.executable, '-c', code], cwd=root, check=True)


def train(out) -> None:
  mean_mlp.install()
  loop.train(mean_mlp.WORLD, mean_mlp.MODEL, out, loop.Training(steps=1))


def _world() -> core.World:
  return registry.make('world', WORLD)


def score(out) -> None:
  wm.score('uniform()', 'next_token(num=2)', _world(), out=out)


def reconstruct(out) -> None:
  routes = out.parent / 'routes.txt'
  routes.write_text('n0 n1 E end\n')
  recon.from_file(_world(), routes, out, Reconstruction())


def sample(out) -> None:
  sampling.make_dataset(_world(), out, Sampling(num=1, num_heldout=1, seed=0))


def read_games(out) -> None:
  path = out.parent / 'a.pgn'
  path.write_text('')
  pgn_ingest.make_dataset(
    registry.make('world', 'chess(length=40)'), [str(path)], out
  )


def report(out) -> None:
  write.report([], out)


@pytest.mark.parametrize(
  ('stage', 'work'),
  [
    ('train', train),
    ('score', score),
    ('reconstruct', reconstruct),
    ('sample', sample),
    ('ingest', read_games),
    ('report', report),
  ],
)
def test_every_stage_has_one_writer(tmp_path, stage, work):
  out = tmp_path / 'run'
  with files.stage_lock(out, stage):
    with pytest.raises(files.Held, match=f"stage '{stage}"):
      work(out)
    assert [p.name for p in out.iterdir()] == [f'.{stage}.lock']


def left(path: pathlib.Path, number: int, host: str) -> pathlib.Path:
  temporary = path.with_name(f'.{path.name}{host}.{number}.tmp')
  temporary.write_text('half')
  return temporary


@pytest.mark.process
def test_what_a_killed_process_left_of_a_file_goes(tmp_path):
  path = tmp_path / 'train_sequences.txt'
  dead = subprocess.Popen([sys.executable, '-S', '-c', ''])
  dead.wait()
  here = f'.{socket.gethostname()}'
  gone = [left(path, dead.pid, host) for host in ('', here)]
  stay = [
    left(path, os.getppid(), here),
    left(path, dead.pid, '.elsewhere'),
    left(tmp_path / 'other.txt', dead.pid, here),
  ]
  files.write_text(path, 'whole')
  assert not any(item.exists() for item in gone)
  assert all(item.exists() for item in stay)


def test_a_folder_that_goes_while_it_is_made_is_made_again(
  tmp_path, monkeypatch
):
  make, errors = pathlib.Path.mkdir, [FileExistsError, FileNotFoundError]

  def removed(self, *args, **kwargs):
    if errors:  # Another holder has removed it between two system calls.
      raise errors.pop()
    make(self, *args, **kwargs)

  monkeypatch.setattr(pathlib.Path, 'mkdir', removed)
  with files.stage_lock(tmp_path / 'run', 'train'):
    pass
  assert not errors


def test_a_file_in_the_way_of_a_folder_is_an_error(tmp_path):
  (tmp_path / 'run').write_text('')
  with pytest.raises(FileExistsError):
    files.stage_lock(tmp_path / 'run', 'train').__enter__()


def test_a_holder_that_has_not_written_its_name_yet_is_waited_for(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(files, '_POLL', 2.0)
  path = tmp_path / '.train.lock'
  path.touch()
  name = f'7 {socket.gethostname()}'
  timer = threading.Timer(0.05, path.write_text, [name])
  timer.start()
  assert files._holder(path) == f'another process ({name.replace(" ", " on ")})'
  timer.join()
  path.write_text('')
  monkeypatch.setattr(files, '_POLL', 0.01)
  assert files._holder(path) == 'another process'
