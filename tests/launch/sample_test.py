"""launch/sample.py and launch/list.py as a user runs them."""

import pathlib
import re
import signal
import sys
import time

import pytest

from tests.launch import binaries

CITY = '--world=maps(rows=4, columns=4)'


def tree(folder: pathlib.Path) -> dict[str, bytes]:
  return {
    str(path.relative_to(folder)): path.read_bytes()
    for path in sorted(folder.rglob('*'))
    if path.is_file() and path.suffix != '.lock'  # Of a killed process.
  }


@pytest.mark.process
@pytest.mark.parametrize(
  ('binary', 'flag', 'other'),
  [
    ('sample', '--num_heldout', '--[no]scan'),
    ('list', '--world', '--num_heldout'),
    ('score', '--checkpoint', '--steps'),
    ('ingest', '--games', '--num:'),
  ],
)
def test_help_shows_its_flags_alone(binary, flag, other):
  process = binaries.start(binary, '--help')
  out, err = process.communicate(timeout=600)
  assert process.returncode == 0, err
  assert flag in out
  assert other not in out


def test_sampling_makes_both_splits_and_says_so(tmp_path):
  flags = (CITY, '--num=500', '--num_heldout=40')
  out = binaries.printed('sample', *flags, f'--out={tmp_path}/r')
  assert re.search(r'data/train: 500 sequences, \d+ tokens', out)
  assert re.search(r'data/heldout: 40 sequences, \d+ tokens', out)
  result = {path.name for path in (tmp_path / 'r' / 'data').iterdir()}
  assert result == {'train', 'heldout'}


@pytest.mark.parametrize(
  ('flags', 'words'),
  [
    ((CITY,), '--out is required'),
    (('--out=x',), '--world is required'),
    ((CITY, '--out=x', '--nmu=3'), 'nmu.*num'),
    ((CITY, '--out=x', '--num=0'), 'num'),
    ((CITY, '--out=x', '--num=many'), 'num'),
    ((CITY, '--out=x', 'extra'), "unexpected argument 'extra'"),
    (('--world=mpas()', '--out=x'), "'mpas'.*did you mean 'maps'"),
    (("--world=maps(nodes='no.csv', edges='no.csv')", '--out=x'), r'no\.csv'),
    (
      ('--flagfile=none.flags',),
      r"e: No such file or directory: 'none\.flags'",
    ),
    (('--flagfile=',), "--flagfile: No such file or directory: ''"),
    (('--flagfile=/dev/zero',), '/dev/zero is no regular file'),
    ((f'--flagfile={sys.executable}',), 'is not UTF-8; expected a flagfile'),
    ((CITY, '--out=\udcff'), r"'--out=\\udcff' is not UTF-8"),
  ],
)
def test_bad_input_is_one_line_and_nothing_is_left(
  tmp_path, monkeypatch, flags, words
):
  monkeypatch.chdir(tmp_path)
  assert re.search(words, binaries.refused('sample', *flags))
  assert not list(tmp_path.iterdir())


def test_a_folder_of_another_run(tmp_path):
  flags = (CITY, '--num=50', '--num_heldout=5', f'--out={tmp_path}')
  assert binaries.run('sample', *flags)[0] == 0
  before = tree(tmp_path)
  line = binaries.refused('sample', *flags, '--seed=1')
  assert 'another sample run: its seed is 0, not 1' in line
  assert tree(tmp_path) == before
  assert binaries.run('sample', *flags)[0] == 0
  assert tree(tmp_path) == before


@pytest.mark.process
def test_an_interrupt_says_how_to_go_on(tmp_path):
  process = binaries.start(
    'sample', CITY, '--num=5000000', f'--out={tmp_path}/cut'
  )
  partial = tmp_path / 'cut' / 'data' / 'train.partial' / '00000.tokens'
  limit = time.monotonic() + 600
  while not partial.exists() and time.monotonic() < limit:
    time.sleep(0.01)
  process.send_signal(signal.SIGINT)
  err = process.communicate(timeout=600)[1]
  assert process.returncode == 130
  assert err == 'interrupted; run the same command again to go on\n'


def test_the_list_shows_a_model_counted_for_the_given_world():
  small = binaries.run('list', CITY, '--model=slice')[1]
  assert re.search(r'parameters for \d\d tokens and sequences of 102', small)
  assert 'block_size = 8' in small
  assert "'maps'" in binaries.refused('list', '--world=mpas()')


@pytest.mark.parametrize(
  'flag', ['--seed=1180591620717411303424', '--lr=nan', '--lr=inf']
)
def test_numbers_that_cannot_be_meant_are_refused(flag):
  name = flag.partition('=')[0].strip('-')
  out = '--out=runs/never'
  assert name in binaries.refused('train', CITY, '--model=rnn', out, flag)
