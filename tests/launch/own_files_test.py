"""Plug-ins in the user's own files, as binaries take them and blame them."""

import json
import shutil
import subprocess
import sys

import pytest

from tests import page_text
from tests.launch import binaries

METRIC = """
import dataclasses

from wm import core


@dataclasses.dataclass(frozen=True)
class Raises(core.Metric):
  version = '1'

  def __call__(self, predictor, world, seed):
    return {}['key']
"""


@pytest.fixture(scope='module')
def folder(root, tmp_path_factory):
  """A folder of plug-ins: the examples in plug/, and faulty ones."""
  folder = tmp_path_factory.mktemp('own')
  (folder / 'plug').mkdir()
  for name in ('frog', 'repeats', 'wander'):
    shutil.copy(root / f'launch/examples/{name}.py', folder / 'plug')
  (folder / 'faulty.py').write_text(METRIC)
  return folder


def test_a_world_a_model_and_a_metric_are_scored_and_reported(folder):
  out = binaries.printed(
    *('score', '--world=plug/frog.py:World(stones=3)', '--out=run'),
    '--model=plug/repeats.py:Model(again=0.25)',
    '--metric=plug/wander.py:Metric(num=20)',
    cwd=folder,
  )
  assert 'plug/wander.py:Metric: legal' in out
  (entry,) = json.loads((folder / 'run' / 'scores.json').read_text())
  assert entry['world'] == 'plug/frog.py:World(stones=3)'
  assert entry['model_spec'] == 'plug/repeats.py:Model(again=0.25)'
  assert entry['spec'] == 'plug/wander.py:Metric(num=20)'


def test_a_report_shows_numbers_of_files_and_more_if_they_are_trusted(folder):
  score = (
    *('score', '--world=plug/frog.py:World(stones=3)', '--out=shown'),
    *('--model=plug/repeats.py:Model()', '--metric=plug/wander.py:Metric()'),
  )
  assert binaries.run(*score, cwd=folder)[0] == 0
  page = folder / 'shown' / 'report'
  words = 'Share of continuations that break no rule'
  out = binaries.printed('report', '--out=shown', cwd=folder)
  for name in ('wander', 'frog'):
    assert [x for x in out.splitlines() if f'--trust=plug/{name}.py' in x]
  assert '| plug/wander.py:Metric: legal |' in page_text.read(page)
  assert words not in page_text.read(page)
  code, out, err = binaries.run(
    'report', '--out=shown', '--trust=plug', cwd=folder
  )
  assert (code, 'trust' in out) == (0, False), err
  assert words in page_text.read(page)
  there = folder / 'plug'
  code, out, err = binaries.run('report', '--out=../shown', cwd=there)
  assert (code, '--trust=plug/frog.py' in out) == (0, True), err
  code, out, err = binaries.run(
    'report', '--out=../shown', '--trust=plug', cwd=there
  )
  assert (code, out, err.count('\n')) == (2, '', 1)
  assert '--trust=plug: no such file or folder in ' in err


@pytest.mark.process
def test_the_trace_is_there_where_it_is_asked_for(folder):
  flags = (
    *('--world=plug/frog.py:World(stones=3)', '--model=uniform()'),
    *('--metric=faulty.py:Raises()', '--out=traced', '--verbosity=1'),
  )
  done = subprocess.run(
    [sys.executable, f'{binaries.LAUNCH}/score.py', *flags],
    capture_output=True,
    text=True,
    cwd=folder,
  )
  assert done.returncode == 2
  assert "return {}['key']" in done.stderr
  line = done.stderr.splitlines()[-1]
  assert line.startswith('error: faulty.py:12: KeyError')
