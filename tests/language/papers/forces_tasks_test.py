"""Task `wm/forces` with known answers, through Inspect."""

import math

import numpy as np
import pytest
from inspect_ai import eval as inspect_eval

from wm.language import providers
from wm.language.papers.forces import questions, recorded
from wm.language.papers.forces import report as reports
from wm.language.papers.forces import score as scoring
from wm.language.papers.forces import task as tasks

assert providers.KnownAnswers  # It is registered by its import.


def _run(task, model, folder, **given):
  (log,) = inspect_eval(
    task, model=model, display='none', log_dir=str(folder), **given
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
    tasks.forces(folder=str(testdata / 'orbits'), num=2),
    'wm/solver',
    folder,
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


def test_recorded_answers_are_logs_too(folder, testdata, tmp_path):
  """Of one model on one system, beside one who was asked otherwise."""
  for place, names in (
    ('llm-prompts', '*_1.npy'),
    ('llm-prompts', '1.txt'),
    ('llm-predictions/o3', '1.json'),
  ):
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    for path in (testdata / 'orbits' / place).glob(names):
      (tmp_path / place / path.name).write_bytes(path.read_bytes())
  (log,) = (log.scored() for log in recorded.logs(tmp_path))
  values = _metrics(log)
  assert values['error', 'mean'] == pytest.approx(0.0010, abs=5e-5)
  assert values['r_time', 'mean'] == pytest.approx(-1)
  assert log.eval.model == 'recorded/o3'
  other = _run(tasks.forces('corrected', num=1, every=90), 'wm/yes', folder)
  page = reports.page([log, other])
  assert [first.name for first in page.pictures] == [
    '1_forces.svg',
    '2_forces.svg',
  ]
  assert page.tables[0].title.endswith('(published prompts, 1)')
  assert {row['prompts'] for row in page.rows['forces']} == {
    'published prompts, 1',
    'corrected prompts, 2',
  }


def test_worlds_split_at_commas_are_joined():
  spec = questions.WORLD.split(',')
  task = tasks.forces('corrected', num=1, every=200, world=spec)
  assert len(task.dataset) == 1
