"""Trials of runs: read from CSV and Parquet alike, and joined."""

import csv
import os

import pandas as pd
import pytest

from tests.reporting import worst_test
from wm import core
from wm.evaluation import results
from wm.reporting import collect, worst, write

ROWS = [
  {'value': 0.1 + 0.2, 'state': '7', 'prefix': 'a, "b"', 'wrong_at': 2},
  {'value': 1, 'state': '007', 'prefix': 'line\nbreak'},
  {'value': '', 'reason': 'vacuous', 'state': 'nan', 'suffix': 'NA x'},
  {'value': 0.5, 'other_state': 'é', 'suffix': 'x'},
]
WAYS = 'csv', 'arrow', 'parquet'


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
  """How rows are read: by the csv module, or by pyarrow from either file."""
  if request.param == 'csv':
    monkeypatch.setattr(results, 'arrow', lambda part='': None)
  return request.param


def run_of(folder, rows, way) -> collect.Run:
  run = worst_test.run_of(folder, rows)
  if way == 'parquet':
    source = folder / 'rows.csv'
    assert results.write_parquet(source, source.with_suffix('.parquet'))
  return run


def cells(path) -> list[dict]:
  with open(path, newline='') as file:
    return [*csv.DictReader(file)]


def test_trials_are_the_same_by_every_way(tmp_path, way):
  run = run_of(tmp_path / 'a', ROWS, way)
  columns = 'metric', 'state', 'prefix', 'suffix', 'missing', 'trial_key'
  frame = collect.trials(run, columns, ('value', 'wrong_at'))
  frame = frame.astype(object).where(frame.notna(), None)
  assert frame.values.tolist() == [
    ['compression', '7', 'a, "b"', '', None, '', 0.1 + 0.2, 2],
    ['compression', '007', 'line\nbreak', '', None, '', 1, None],
    ['compression', 'nan', '', 'NA x', None, '', None, None],
    ['compression', '', '', 'x', None, '', 0.5, None],
  ]
  few = collect.trials(run, ['state'], at=[3, 0])
  assert few.state.tolist() == ['', '7']
  whole = collect.trials(run)
  assert [*whole] == [*worst_test.COLUMNS]
  assert whole.suffix.tolist() == ['', '', 'NA x', 'x']


def test_worst_trials_are_the_same_by_every_way(tmp_path, way):
  (group,) = worst.groups(run_of(tmp_path / 'a', ROWS, way), 3)
  assert (group.measured, group.short) == (3, 2)
  assert group.trials == (
    worst.Trial('0', 0.1 + 0.2, ('a, "b"',), ('7',), (), 2),
    worst.Trial('3', 0.5, (), ('é',), ('x',), 0),
  )


def test_joined_trials_are_those_of_the_runs(tmp_path, way):
  other = [{**row, 'row': n + 0.5, 'suffix': n} for n, row in enumerate(ROWS)]
  runs = [run_of(tmp_path / 'a', ROWS, way), run_of(tmp_path / 'b', other, way)]
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
  packed = tmp_path / 'rows.parquet'
  assert packed.exists() == (way != 'csv')
  if packed.exists():
    table = pd.read_parquet(packed)
    assert [*table] == [*joined]
    assert table.suffix.tolist() == [row['suffix'] for row in each]
    assert table.value.dropna().tolist() == joined.value.dropna().tolist()


def test_more_trials_than_spreadsheets_open_are_parquet_alone(
  tmp_path, monkeypatch
):
  monkeypatch.setattr(collect, 'MOST_OF_A_CSV', 4)
  run = worst_test.run_of(tmp_path / 'a', ROWS)
  write.report([run.folder], tmp_path / 'report')
  assert (tmp_path / 'report' / 'rows.csv').is_file()
  run = worst_test.run_of(tmp_path / 'a', [*ROWS, *ROWS])
  write.report([run.folder], tmp_path / 'report')
  assert not (tmp_path / 'report' / 'rows.csv').exists(), 'it would be old'
  assert len(pd.read_parquet(tmp_path / 'report' / 'rows.parquet')) == 8
  page = (tmp_path / 'report' / 'report.html').read_text()
  assert 'All 8 trials are in rows.parquet. There is no rows.csv' in page


@pytest.mark.parametrize('by', ['size', 'time'])
def test_a_parquet_file_of_another_csv_is_not_read(tmp_path, by):
  run = run_of(tmp_path / 'a', ROWS, 'parquet')
  source = run.folder / 'rows.csv'
  text = source.read_text()
  before = os.stat(source).st_mtime_ns
  if by == 'size':
    source.write_text(text.replace(',007,', ',0007,'))
    os.utime(source, ns=(before, before))
  else:
    source.write_text(text.replace(',007,', ',008,'))
    os.utime(source, ns=(before, before + 10**12))
  state = collect.trials(run, ['state']).state[1]
  assert state == {'size': '0007', 'time': '008'}[by]


def test_a_damaged_parquet_file_is_named(tmp_path):
  run = run_of(tmp_path / 'a', ROWS * 500, 'parquet')
  packed = run.folder / 'rows.parquet'
  whole = packed.read_bytes()
  for spoilt in (whole[:-30], whole[:40] + b'\xff' * 8 + whole[48:], b'junk'):
    packed.write_bytes(spoilt)
    with pytest.raises(core.InputError, match=r'rows\.parquet is not a table'):
      collect.trials(run)
