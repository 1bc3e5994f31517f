"""A sixth paper is a folder of its own: it runs, is scored and reported."""

import pathlib
import shutil

import pytest

from tests import adding_test, copies

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


def test_a_folder_is_a_paper_without_an_entry_anywhere(copy):
  for model, right in (('solver', '1.0'), ('yes', '0.0')):
    result = adding_test.run(copy, '-c', RUN, model)
    assert result.split()[-2:] == ['success', right]
  (live,) = map(pathlib.Path, adding_test.run(copy, '-c', REPORT).split())
  text = (copy / live).read_text()
  assert 'Right sums' in text
  assert '<td>wm/solver</td><td>3</td><td>1.000<small>too few sums<' in text
  assert (copy / live).with_name('right.svg').read_text().startswith('<svg')
