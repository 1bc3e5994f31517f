"""Declared tables: columns, groups in order, measures and dashes."""

import pandas as pd
import pytest

from wm import core
from wm.evaluation import statistics
from wm.language import pages

DECLARED = {
  'cluster': 'game',
  'interval': '{value:.2f}| [{low:.2f}, {high:.2f}]|, n={n}',
  'subsets': {'formed': "failure == ''"},
  'tables': {
    'groups': {
      'title': '{title} by model',
      'by': ['model', 'easy'],
      'note': '{num} answers',
      'columns': {
        'model': 'model',
        'kind': '{easy}, {n:03d}',
        'formed': 'n of formed',
        'success': 'interval success of formed',
        'macro': '{macro success of formed.value:.3f}',
        'share': 'share right moves',
        'twice': 'twice success of formed',
      },
    },
    'rows': {
      'title': 'Rows',
      'folded': True,
      'columns': {'name': '{name}| ({size})', 'each': 'models', 'why': 'why'},
    },
    'pivot': {
      'title': '{column} by game',
      'by': ['game'],
      'across': 'model',
      'cells': 'interval success',
      'total': 'all',
    },
    'wrong': {'title': '', 'by': ['model'], 'columns': {'a': 'meen success'}},
  },
}
ROWS = pd.DataFrame(
  [
    # model, easy, game, failure, success, right, moves
    ('y', False, 'a', '', 1.0, 1, 4),
    ('x', False, 'a', '', 1.0, 1, 2),
    ('x', False, 'a', '', 0.0, 0, 2),
    ('x', False, 'b', '', 1.0, 1, 1),
    ('x', False, 'b', 'empty', 0.0, 0, 0),
    ('x', True, 'b', 'empty', 0.0, 0, 0),
  ],
  columns=['model', 'easy', 'game', 'failure', 'success', 'right', 'moves'],
)


@pytest.fixture
def report(monkeypatch):
  monkeypatch.setattr(pages, 'declared', lambda paper, name: DECLARED)
  return pages.Report(
    'sums',
    labels={'easy': {True: 'easy', False: 'hard'}},
    measures={'twice': lambda rows, column: 2 * float(rows[column].sum())},
  )


def cells(table):
  return [dict(zip(table.heads, row, strict=True)) for row in table.rows]


def test_groups_are_rows_in_the_order_of_their_labels(report):
  table = report.table('groups', ROWS, title='Success', num=6)
  assert (table.title, table.note) == ('Success by model', '6 answers')
  first, easy, hard = cells(table)
  # Models by first appearance, difficulties as their labels stand.
  assert (first['model'], first['kind']) == ('y', 'hard, 001')
  assert (easy['kind'], hard['kind']) == ('easy, 001', 'hard, 004')
  assert (hard['formed'], hard['share'], hard['twice']) == (
    '3',
    '0.400',
    '4.000',
  )
  # Games weigh the same: (1/2 + 1) / 2, not 2 of 3.
  assert hard['macro'] == '0.750'
  low, high, _ = statistics.interval(
    pd.Series([1.0, 1.0]).to_numpy(), pd.Series([2.0, 1.0]).to_numpy(), (0, 1)
  )
  assert hard['success'] == f'0.67 [{low:.2f}, {high:.2f}], n=3'
  assert hard['success'].lines[1:] == (f'[{low:.2f}, {high:.2f}]', 'n=3')
  # Nothing is well-formed, and there are no moves.
  assert [easy[name] for name in ('success', 'macro', 'share')] == ['–'] * 3


def test_rows_may_have_columns_of_their_own(report):
  rows = [
    {'name': 'a', 'size': 1, 'models': {'x': 0.5, 'y': None}},
    {'name': 'b', 'size': None, 'models': {'z': 'no'}, 'why': 'one'},
  ]
  table = report.table('rows', rows)
  assert table.folded
  assert cells(table) == [
    {'name': 'a (1)', 'x': '0.500', 'y': '–', 'z': '', 'why': ''},
    {'name': '–', 'x': '', 'y': '', 'z': 'no', 'why': 'one'},
  ]


def test_a_column_for_each_model_and_a_row_of_all(report):
  table = report.table('pivot', ROWS, column='success')
  assert table.title == 'success by game'
  assert table.heads == ('game', 'y', 'x')
  assert [row[0] for row in table.rows] == ['a', 'b', 'all']
  assert [row[1].partition(' ')[0] for row in table.rows] == [
    '1.00',
    '–',
    '1.00',
  ]
  assert [row[2].partition(' ')[0] for row in table.rows] == [
    '0.50',
    '0.33',
    '0.40',
  ]
  assert table.rows[2][2].endswith('n=5')


def test_a_measure_that_is_none_is_named(report):
  with pytest.raises(core.InputError, match="'meen success'; available: n, me"):
    report.table('wrong', ROWS)


def test_repeats_of_a_question_widen_the_interval():
  values = pd.Series([0.0, 1.0] * 20).to_numpy()
  apart = pages.cluster_mean(values, range(40))
  alike = pages.cluster_mean(values, [k % 2 for k in range(40)])
  assert (apart.value, apart.clusters) == (alike.value, 20 * 2) == (0.5, 40)
  assert alike.clusters == 2
  assert alike.low < apart.low < apart.high < alike.high


def test_an_interval_of_few_clusters_says_so():
  few = pages.Report('mango')
  values = pd.Series([0.0, 1.0] * 20).to_numpy()
  # 19 games, of which one has half of all answers: as good as four.
  games = [0] * 20 + [1 + k % 18 for k in range(20)]
  unequal = pages.cluster_mean(values, games)
  assert (unequal.clusters, round(unequal.effective)) == (19, 4)
  assert str(few.shown(unequal)) == '0.500 too few games'
  assert '[' in str(few.shown(pages.cluster_mean(values, range(40))))
