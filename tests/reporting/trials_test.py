"""Trials of runs: read from CSV, and joined."""

import csv

import pandas as pd

from tests.reporting import worst_test
from wm.reporting import collect, worst, write

ROWS = [
  {'value': 0.1 + 0.2, 'state': '7', 'prefix': 'a, "b"', 'wrong_at': 2},
  {'value': 1, 'state': '007', 'prefix': 'line\nbreak'},
  {'value': '', 'reason': 'vacuous', 'state': 'nan', 'suffix': 'NA x'},
  {'value': 0.5, 'other_state': 'é', 'suffix': 'x'},
]
run_of = worst_test.run_of


def cells(path) -> list[dict]:
  with open(path, newline='') as file:
    return [*csv.DictReader(file)]


def test_trials_are_the_same_as_written(tmp_path):
  run = run_of(tmp_path / 'a', ROWS)
  columns = 'metric', 'state', 'prefix', 'suffix', 'missing', 'trial_key'
  frame = collect.trials(run, columns, ('value', 'wrong_at'))
  frame = frame.astype(object).where(frame.notna(), None)
  assert frame.values.tolist() == [
    ['compression', '7', 'a, "b"', '', None, '', 0.1 + 0.2, 2],
    ['compression', '007', 'line\nbreak', '', None, '', 1, None],
    ['compression', 'nan', '', 'NA x', None, '', None, None],
    ['compression', '', '', 'x', None, '', 0.5, None],
  ]
  whole = collect.trials(run)
  assert [*whole] == [*worst_test.COLUMNS]
  assert whole.suffix.tolist() == ['', '', 'NA x', 'x']


def test_worst_trials_are_the_same_as_written(tmp_path):
  (groups,) = worst.groups([run_of(tmp_path / 'a', ROWS)])
  (group,) = groups
  assert (group.measured, group.short) == (3, 2)
  assert group.trials == (
    worst.Trial('0', 0.1 + 0.2, ('a, "b"',), ('7',), (), 2),
    worst.Trial('3', 0.5, (), ('é',), ('x',), 0),
  )


def test_joined_trials_are_those_of_the_runs(tmp_path):
  other = [{**row, 'row': n + 0.5, 'suffix': n} for n, row in enumerate(ROWS)]
  runs = [run_of(tmp_path / 'a', ROWS), run_of(tmp_path / 'b', other)]
  output = collect.join_trials(runs, tmp_path)
  assert output.startswith('All 8 trials are in rows.csv')
  joined = pd.read_csv(tmp_path / 'rows.csv', dtype={'state': str})
  assert joined.run.tolist() == [str(run.folder) for run in runs for _ in ROWS]
  assert set(joined.model) == {'m'}
  assert set(joined.world) == {'lattice()'}
  assert joined.row.tolist() == [0, 1, 2, 3, 0.5, 1.5, 2.5, 3.5]
  each = [row for run in runs for row in cells(run.folder / 'rows.csv')]
  both = cells(tmp_path / 'rows.csv')
  for name in ('metric', 'spec', 'reason', 'prefix', 'state', 'suffix'):
    assert [r[name] for r in both] == [r[name] for r in each], name
  for mine, row in zip(both, each, strict=True):
    assert mine['value'] == row['value'] or (
      float(mine['value']) == float(row['value'])
    )


def test_more_trials_than_spreadsheets_open_stay_apart(tmp_path, monkeypatch):
  monkeypatch.setattr(collect, 'MOST_OF_A_CSV', 4)
  run = run_of(tmp_path / 'a', ROWS)
  write.report([run.folder], tmp_path / 'report')
  assert (tmp_path / 'report' / 'rows.csv').is_file()
  run = run_of(tmp_path / 'a', [*ROWS, *ROWS])
  write.report([run.folder], tmp_path / 'report')
  assert not (tmp_path / 'report' / 'rows.csv').exists(), 'it would be old'
  page = (tmp_path / 'report' / 'report.html').read_text()
  assert 'Trials are in the rows.csv of each run' in page
