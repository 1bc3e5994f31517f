"""Trials of runs: read from CSV and Parquet alike, and joined."""

import numpy as np
import pytest

from tests.explorer import worst_trials_test
from wm import core
from wm.evaluation import results
from wm.explorer import page as explore
from wm.reporting import collect

ROWS = [
  {'value': 0.1 + 0.2, 'state': '7', 'prefix': 'a, "b"', 'wrong_at': 2},
  {'value': 1, 'state': '007', 'prefix': 'line\nbreak'},
  {'value': '', 'reason': 'vacuous', 'state': 'nan', 'suffix': 'NA x'},
  {'value': 0.5, 'other_state': 'é', 'suffix': 'x'},
]


@pytest.fixture(params=['csv', 'parquet'])
def way(request):
  """The file of rows: of an earlier version, or of today."""
  return request.param


def run_of(folder, rows, way) -> collect.Run:
  run = worst_trials_test.run_of(folder, rows)
  if way == 'parquet':
    source = folder / 'rows.csv'
    table = results.arrow_rows(source)
    results.write_parquet(table, folder / 'rows.parquet')
    source.unlink()
  return run


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
  assert [*whole] == [*worst_trials_test.COLUMNS]
  assert whole.suffix.tolist() == ['', '', 'NA x', 'x']


def test_worst_trials_are_the_same_by_every_way(tmp_path, way):
  (group,) = explore.chosen(run_of(tmp_path / 'a', ROWS, way), 3)
  assert (group['measured'], group['short']) == (3, 2)
  ids = {word: n for n, word in enumerate(['a,', '"b"', 'x'])}
  assert [explore._in_ids(row, ids) for row in group['trials']] == [
    {'value': 0.1 + 0.2, 'prefixes': [[0, 1]], 'suffix': [], 'at': 2},
    {},
  ]
  assert [row['other_state'] for row in group['trials']] == ['', 'é']


def test_integers_of_several_sizes_are_one_column():
  arrays = [np.arange(2, dtype=kind) for kind in (np.int32, np.int64, np.uint8)]
  tables = [
    results.arrow().table({'group': results._arrow_array('group', each)})
    for each in arrays
  ]
  group = results.concatenated(tables, ['group'])['group']
  assert group.to_pylist() == [0, 1] * 3


def test_columns_of_one_name_have_a_type_that_holds_both(tmp_path):
  lib = results.arrow()
  first = lib.table({'value': [0.5], 'size': [3], 'other': ['x']})
  second = lib.table({'value': [1.0], 'size': [0.25], 'other': [7]})
  third = lib.table({'value': [1.0], 'state': ['s']})
  names = ['value', 'size', 'other', 'state']
  frame = results.concatenated([first, second, third], names).to_pandas()
  assert frame['size'].tolist()[:2] == [3.0, 0.25]
  assert np.isnan(frame['size'][2])
  assert frame.other.tolist()[:2] == ['x', '7']
  assert frame.state.astype(str).tolist() == ['', '', 's']
  assert len(results.concatenated([], names)) == 0


def test_a_damaged_parquet_file_is_named(tmp_path):
  run = run_of(tmp_path / 'a', ROWS * 500, 'parquet')
  packed = run.folder / 'rows.parquet'
  whole = packed.read_bytes()
  for spoilt in (whole[:-30], whole[:40] + b'\xff' * 8 + whole[48:], b'junk'):
    packed.write_bytes(spoilt)
    with pytest.raises(core.InputError, match=r'rows\.parquet is not a table'):
      collect.trials(run)
