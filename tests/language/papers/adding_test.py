"""A sixth paper is a folder of its own: it runs, is scored and reported."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tests import copies

pytestmark = pytest.mark.process

SUMS = pathlib.Path(__file__).parent / 'sums'
RUN = """
import sys
import inspect_ai, wm
from wm.language import logs, registry
from wm.language.papers.sums import task
(log,) = inspect_ai.eval(task.sums(), model=f'wm/{sys.argv[1]}',
  log_dir='logs', display='none')
print(log.status, log.results.scores[0].metrics['mean'].value)
"""
REPORT = """
import wm
print(wm.report('logs', 'out'))
"""


@pytest.fixture(scope='module')
def copy(tmp_path_factory):
  """A copy of the package with one more folder."""
  folder = copies.make(tmp_path_factory.mktemp('checkout'), 'wm', 'launch')
  shutil.copytree(SUMS, folder / 'wm' / 'language' / 'papers' / 'sums')
  return folder


def run(copy, program, *words):
  done = subprocess.run(
    [sys.executable, '-c', program, *words],
    cwd=copy,
    capture_output=True,
    text=True,
    env={**os.environ, 'PYTHONPATH': str(copy)},
  )
  assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
  return done.stdout.split()


def test_a_folder_is_a_paper_without_an_entry_anywhere(copy):
  assert run(copy, RUN, 'solver')[-2:] == ['success', '1.0']
  assert run(copy, RUN, 'yes')[-2:] == ['success', '0.0']
  (live,) = map(pathlib.Path, run(copy, REPORT))
  text = (copy / live).read_text()
  assert 'Right sums' in text
  assert '<td>wm/solver</td><td>3</td><td>1.000<small>too few sums<' in text
  assert (copy / live).with_name('right.svg').read_text().startswith('<svg')
