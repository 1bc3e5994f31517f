"""The worst trials: which they are."""

import csv
import json

import pytest

from wm import core
from wm.core import registry
from wm.explorer import page as explore
from wm.reporting import collect

COLUMNS = (
  *('metric', 'spec', 'quantity', 'row', 'value', 'reason', 'prefix'),
  *('other_prefix', 'state', 'other_state', 'suffix', 'wrong_at'),
)


def entry(metric='compression', quantity='precision', **more):
  return {
    **{'metric': metric, 'spec': f'{metric}()', 'quantity': quantity},
    **{'world': 'lattice()', 'model': 'm', 'n': 3, 'value': 0.5},
    **{'low': 0.0, 'high': 1.0, 'unmeasured': {}, 'seed': 0, **more},
  }


def run_of(folder, rows, entries=None) -> collect.Run:
  """A run with these rows, dicts that leave out what is usual."""
  folder.mkdir(exist_ok=True)
  (folder / 'scores.json').write_text(json.dumps(entries or [entry()]))
  usual = {'metric': 'compression', 'spec': 'compression()'}
  with open(folder / 'rows.csv', 'w', newline='') as file:
    writer = csv.DictWriter(file, COLUMNS, restval='')
    writer.writeheader()
    for number, row in enumerate(rows):
      known = {**usual, 'quantity': 'precision', 'row': number, **row}
      writer.writerow(known)
  return collect.load(folder)


def chosen(run, most=3) -> list[dict]:
  (group,) = explore.chosen(run, most)
  return group['trials']


def test_lowest_values_come_first_and_perfect_ones_never(tmp_path):
  values = [1.0, 0.5, 0.25, 1.0, 0.75]
  rows = [{'value': v, 'state': str(n)} for n, v in enumerate(values)]
  run = run_of(tmp_path / 'a', rows)
  assert [trial['value'] for trial in chosen(run, 9)] == [0.25, 0.5, 0.75]
  assert [trial['value'] for trial in chosen(run, 2)] == [0.25, 0.5]
  (group,) = explore.chosen(run, 3)
  assert (group['measured'], group['short']) == (5, 3)


def test_unmeasured_rows_are_no_failures(tmp_path):
  rows = [
    {'value': '', 'reason': 'vacuous', 'state': '0'},
    {'value': 0, 'state': '1'},
  ]
  run = run_of(tmp_path / 'a', rows)
  assert [trial['state'] for trial in chosen(run)] == ['1']
  assert explore.chosen(run, 3)[0]['measured'] == 1


def test_ties_come_in_an_order_of_states_not_of_rows(tmp_path):
  states = [str(n) for n in range(40)]
  orders = [
    [
      trial['state']
      for trial in chosen(
        run_of(tmp_path / name, [{'value': 0, 'state': s} for s in inputs]), 5
      )
    ]
    for name, inputs in (('a', states), ('b', states[::-1]))
  ]
  assert orders[0] == orders[1]
  assert orders[0] != states[:5]


def test_no_state_twice(tmp_path):
  rows = [
    {'value': 0, 'state': str(n % 4), 'suffix': f'left {"stay " * n}'}
    for n in range(40)
  ]
  run = run_of(tmp_path / 'a', rows)
  assert len({trial['state'] for trial in chosen(run, 3)}) == 3
  assert len(chosen(run, 6)) == 4


def test_a_series_is_one_quantity_and_other_specs_are_left_out(tmp_path):
  entries = [
    entry('detour', 'valid_0'),
    entry('detour', 'valid_0.5', spec='detour(num=7)'),
  ]
  fixed = {'metric': 'detour', 'spec': 'detour()'}
  rows = [
    {**fixed, 'quantity': 'valid_0', 'value': 0, 'state': '0'},
    {**fixed, 'quantity': 'valid_0.5', 'value': 0, 'state': '1'},
    {**fixed, 'quantity': 'detours_0.5', 'value': 0, 'state': '2'},
    {**fixed, 'spec': 'detour(num=7)', 'value': 0, 'state': '3'},
  ]
  run = run_of(tmp_path / 'a', rows, entries)
  (group,) = explore.chosen(run, 3)
  assert (group['quantity'], group['measured']) == ('valid', 2)
  assert {trial['state'] for trial in group['trials']} == {'0', '1'}


def test_metrics_without_prefix_and_state_are_left_out(tmp_path):
  run = run_of(tmp_path / 'a', [{'value': 0.25}, {'value': 1}])
  assert explore.chosen(run, 3) == []


def test_a_damaged_row_is_named(tmp_path):
  run = run_of(tmp_path / 'a', [{'value': 0}, {'value': 'much'}])
  with pytest.raises(core.InputError, match=r'rows\.csv.*much'):
    explore.chosen(run, 3)


def test_no_rows_no_trials(tmp_path):
  run = run_of(tmp_path / 'a', [])
  (run.folder / 'rows.csv').unlink()
  assert explore.chosen(run, 3) == []


def test_a_continuation_is_what_the_metric_declares(tmp_path):
  run = run_of(tmp_path / 'a', [{'value': 0, 'state': '0', 'suffix': 'left'}])
  (group,) = explore.chosen(run, 3)
  declared = registry.find('metric', 'compression').measures
  assert group['tells'] == declared['precision'].picture
