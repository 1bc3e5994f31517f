"""Task `wm/forces` with known answers, through Inspect."""

import math

import numpy as np
import pytest
from inspect_ai import eval as inspect_eval

from wm import core
from wm.language import providers
from wm.language.papers.forces import questions
from wm.language.papers.forces import report as reports
from wm.language.papers.forces import score as scoring
from wm.language.papers.forces import task as tasks

assert providers.KnownAnswers  # It is registered by its import.


def _run(task, model, folder, **inputs):
  (log,) = inspect_eval(
    task, model=model, display='none', log_dir=str(folder), **inputs
  )
  assert log.status == 'success', log.error
  return log


def _metrics(log):
  return {
    (score.name, name): metric.value
    for score in log.results.scores
    for name, metric in score.metrics.items()
  }


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp('logs')


def test_a_reader_of_the_published_prompts_believes_where_the_sun_is(
  folder, testdata
):
  """It answers by Newton's law around the origin, which is wrong."""
  log = _run(
    tasks.forces(folder=str(testdata / 'orbits'), num=2), 'wm/solver', folder
  )
  shown = questions.load(testdata / 'orbits')[:2]
  expected = [
    scoring.scores(scoring.newton_origin(item), item)['error'] for item in shown
  ]
  result = [
    sample.scores['forces_scorer'].value['error'] for sample in log.samples
  ]
  # Coordinates in the prompt have two decimals.
  np.testing.assert_allclose(result, expected, atol=3e-4)
  values = _metrics(log)
  assert values['error', 'mean'] == pytest.approx(np.mean(result))
  assert values['unread', 'mean'] == 0
  page = reports.page([log])
  cells = {row[0]: row[1:] for row in page.tables[0].rows}
  assert len(cells['wm/solver']) == 2
  assert cells['line'][1].startswith('0.0011')


def test_corrected_prompts_tell_the_law(folder):
  task = tasks.forces('corrected', num=2, every=30)
  log = _run(task, 'wm/solver', folder, epochs=2)
  values = _metrics(log)
  assert values['error', 'mean'] < 0.01
  assert values['answered', 'mean'] == 1
  assert len(log.samples) == 4
  # One who repeats a number has no correlation: it is left out.
  other = _metrics(_run(task, 'wm/yes', folder))
  assert math.isnan(other['r', 'mean'])
  assert other['distinct', 'mean'] == 1


def test_logs_of_other_prompts_have_pages_of_their_own(folder):
  asked = {'num': 1, 'every': 90}
  logs = [
    _run(tasks.forces(variant, **asked), 'wm/yes', folder)
    for variant in ('corrected', 'origin')
  ]
  with pytest.raises(core.InputError, match='asks otherwise'):
    reports.page(logs)
  page = reports.page([logs[0], logs[0]])
  speakers = {row['speaker'] for row in page.rows['forces']}
  assert {'wm/yes', 'wm/yes (2)'} <= speakers


def test_worlds_split_at_commas_are_joined():
  spec = questions.WORLD.split(',')
  task = tasks.forces('corrected', num=1, every=200, world=spec)
  assert len(task.dataset) == 1
