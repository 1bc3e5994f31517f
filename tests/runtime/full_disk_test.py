"""A disk that fills up: exit code 1, one line, nothing half-written."""

import os
import pathlib
import resource
import subprocess
import sys

import pytest

BYTES = 1 << 20
FLAGS = ('--world=maps(rows=4, columns=4)', '--num=200000', '--num_heldout=10')


def sample(root, out: pathlib.Path, *flags: str, **options) -> tuple[int, str]:
  binary = str(root / 'launch' / 'sample.py')
  got = subprocess.run(
    [sys.executable, binary, *FLAGS, *flags, f'--out={out}'],
    capture_output=True,
    text=True,
    timeout=600,
    check=False,
    env={**os.environ, 'PYTHONDONTWRITEBYTECODE': '1'},
    **options,
  )
  return got.returncode, got.stderr.strip()


@pytest.fixture
def small_disk(tmp_path):
  """A tmpfs of one megabyte; needs the right to mount."""
  disk = tmp_path / 'disk'
  disk.mkdir()
  options = ['-t', 'tmpfs', '-o', f'size={BYTES}', 'tmpfs', str(disk)]
  if (
    os.geteuid()
    or subprocess.run(
      ['mount', *options], capture_output=True, check=False
    ).returncode
  ):
    pytest.skip('no right to mount a tmpfs')
  yield disk
  subprocess.run(['umount', str(disk)], check=True)


@pytest.mark.process
def test_what_cannot_fit_on_the_disk_is_refused(root, small_disk):
  code, err = sample(root, small_disk / 'run')
  assert code == 2
  assert err.splitlines() == [err]
  assert 'B of disk at' in err
  assert not list(small_disk.iterdir())


@pytest.mark.process
def test_a_full_disk(root, small_disk):
  (small_disk / 'mine.txt').write_text('mine')
  code, err = sample(root, small_disk / 'run', '--num=80000')
  assert code == 1
  assert err.splitlines() == [err]
  assert err.startswith(f'error: No space left on device: {small_disk}/run')
  assert [path.name for path in small_disk.iterdir()] == ['mine.txt']


@pytest.mark.process
def test_a_file_size_limit(root, tmp_path):
  def limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (BYTES, BYTES))

  code, err = sample(root, tmp_path / 'run', preexec_fn=limit)
  assert code == 1
  assert err.splitlines() == [err]
  assert 'File too large' in err
  assert not list(tmp_path.iterdir())
