"""Plug-ins in the user's own files, as binaries take them and blame them."""

import json
import shutil
import subprocess
import sys

import pytest

from tests import page_text
from tests.launch import binaries

MODEL = """
import numpy as np


def ahead(tokens):
  found = np.zeros((*tokens.shape, 4))
  found[:, :-1] = 3 * np.eye(4)[tokens[:, 1:]]
  return found


def raises(tokens):
  return 1 / 0
"""
METRIC = """
import dataclasses

from wm import core


@dataclasses.dataclass(frozen=True)
class Raises(core.Metric):
  version = '1'

  def __call__(self, predictor, world, seed):
    return {}['key']


@dataclasses.dataclass(frozen=True)
class Gives(Raises):
  def __call__(self, predictor, world, seed):
    return 3
"""


@pytest.fixture(scope='module')
def folder(root, tmp_path_factory):
  """A folder of plug-ins: the examples in plug/, and faulty ones."""
  folder = tmp_path_factory.mktemp('own')
  (folder / 'plug').mkdir()
  for name in ('frog', 'repeats', 'wander'):
    shutil.copy(root / f'launch/examples/{name}.py', folder / 'plug')
  (folder / 'm.py').write_text(MODEL)
  (folder / 'faulty.py').write_text(METRIC)
  return folder


def run(root, folder, binary: str, *flags: str) -> tuple[int, str, str]:
  if '--verbosity=1' not in flags:
    return binaries.run(binary, *flags, cwd=folder)
  done = subprocess.run(
    [sys.executable, str(root / 'launch' / f'{binary}.py'), *flags],
    capture_output=True,
    text=True,
    cwd=folder,
  )
  return done.returncode, done.stdout, done.stderr


def test_a_world_a_model_and_a_metric_are_scored_and_reported(root, folder):
  code, out, err = run(
    root,
    folder,
    'score',
    '--world=plug/frog.py:World(stones=3)',
    '--model=plug/repeats.py:Model(again=0.25)',
    '--metric=plug/wander.py:Metric(num=20)',
    '--out=run',
  )
  assert code == 0, err
  assert 'plug/wander.py:Metric: legal' in out
  (entry,) = json.loads((folder / 'run' / 'scores.json').read_text())
  assert entry['world'] == 'plug/frog.py:World(stones=3)'
  assert entry['model_spec'] == 'plug/repeats.py:Model(again=0.25)'
  assert entry['spec'] == 'plug/wander.py:Metric(num=20)'


def test_a_report_shows_numbers_of_files_and_more_if_they_are_trusted(
  root, folder
):
  score = (
    *('score', '--world=plug/frog.py:World(stones=3)', '--out=shown'),
    *('--model=plug/repeats.py:Model()', '--metric=plug/wander.py:Metric()'),
  )
  assert run(root, folder, *score)[0] == 0
  page = folder / 'shown' / 'report'
  words = 'Share of continuations that break no rule'
  code, out, err = run(root, folder, 'report', '--out=shown')
  assert code == 0, err
  for name in ('wander', 'frog'):
    assert [x for x in out.splitlines() if f'--trust=plug/{name}.py' in x]
  assert '| plug/wander.py:Metric: legal |' in page_text.read(page)
  assert words not in page_text.read(page)
  code, out, err = run(root, folder, 'report', '--out=shown', '--trust=plug')
  assert (code, 'trust' in out) == (0, False), err
  assert words in page_text.read(page)
  there = folder / 'plug'
  code, out, err = run(root, there, 'report', '--out=../shown')
  assert (code, '--trust=plug/frog.py' in out) == (0, True), err
  code, out, err = run(root, there, 'report', '--out=../shown', '--trust=plug')
  assert (code, out, err.count('\n')) == (2, '', 1)
  assert '--trust=plug: no such file or folder in ' in err


@pytest.mark.process
def test_the_trace_is_there_where_it_is_asked_for(root, folder):
  code, _, err = run(
    root,
    folder,
    'score',
    '--world=plug/frog.py:World(stones=3)',
    '--model=uniform()',
    '--metric=faulty.py:Raises()',
    '--out=traced',
    '--verbosity=1',
  )
  assert code == 2
  assert "return {}['key']" in err
  assert err.splitlines()[-1].startswith('error: faulty.py:12: KeyError')
