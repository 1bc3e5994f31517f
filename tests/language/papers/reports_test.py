"""Declared charts, and causes of unread replies, on made-up answers."""

import types

import pandas as pd
import pytest

from wm.language.pages import Report
from wm.language.papers import reports
from wm.language.papers.mango import report as mango

DECLARED = {
  'cluster': 'game',
  'interval': '{value:.2f}',
  'few': '{value:.2f}| too few games',
  'subsets': {'formed': "failure == ''"},
  'charts': {
    'dots': {
      'panels': ['kind'],
      'x': 'game',
      'model': 'model',
      'value': 'interval won of formed',
      'title': 'mean won',
      'sorted': True,
    }
  },
}


@pytest.fixture
def report():
  made = Report('made', labels={'kind': {'k': 'a kind'}})
  vars(made)['declared'] = DECLARED  # In place of a file.
  return made


# Three games of sizes 1, 2, 3: two wins of two, one of two, none of one; one
# more answer is cut off.
FRAME = pd.DataFrame(
  [
    ('m', 'a', 1, 1.0, ''),
    ('m', 'a', 1, 1.0, ''),
    ('m', 'b', 2, 1.0, ''),
    ('m', 'b', 2, 0.0, ''),
    ('m', 'c', 3, 0.0, ''),
    ('m', 'c', 3, 0.0, 'cut_off'),
  ],
  columns=['model', 'game', 'size', 'won', 'failure'],
).assign(kind='k')


def marks(spec):
  """(x, value) of all marks of a chart, in its order."""
  return [
    (row['x'], row['value'])
    for part in spec.get('concat', [spec])
    for row in spec['datasets'][part['data']['name']]
  ]


def test_dots_go_by_their_mean(report):
  spec = reports.chart(report, 'dots', FRAME)
  assert marks(spec) == [('c', 0), ('b', 0.5), ('a', 1)]
  (rows,) = spec['datasets'].values()
  assert rows[1]['text'] == '0.50 too few games'
  assert [row['about'] for row in rows] == [
    *('1 answers', '2 answers', '2 answers')
  ]
  assert 'a kind' in str(spec)
  assert 'mean won' in str(spec)


def test_minigames_are_drawn_with_the_map_and_without():
  kinds = 'minigame', 'minigame with map'
  frame = pd.DataFrame(
    {
      'model': 'm',
      'game': ['a', 'b', 'a', 'b'],
      'kind': [kinds[0]] * 2 + [kinds[1]] * 2,
      'success': [0.0, 1.0, 1.0, 1.0],
    }
  )
  spec = reports.chart(mango.REPORT, 'mango_minigames', frame)
  assert marks(spec) == [('m', 0.5), ('m', 1)]
  others = frame.assign(kind='route')
  assert reports.chart(mango.REPORT, 'mango_minigames', others) == {}


def log(model, *failures):
  """A log with a sample for each failure."""
  samples = [
    types.SimpleNamespace(
      id='',
      epoch=1,
      metadata={},
      scores={
        's': types.SimpleNamespace(value=1, metadata={'failure': failure})
      },
    )
    for failure in failures
  ]
  about = types.SimpleNamespace(model=model)
  return types.SimpleNamespace(eval=about, samples=samples)


def test_replies_that_were_cut_off_are_a_cause_of_their_own():
  logs = [log('m', '', 'cut_off'), log('m', 'nothing', 'cut_off'), log('n', '')]
  (table,) = reports.unread(reports.sample_rows(logs))
  assert [list(row) for row in table.rows] == [
    ['m', '4', '3', 'cut_off 2, nothing 1'],
    ['n', '1', '0', ''],
  ]
  assert 'the limit of tokens cut off' in table.note
  assert reports.unread(reports.sample_rows([log('m', '', '')])) == []
