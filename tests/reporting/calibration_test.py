"""Calibration curves in reports: pairs of quantities, by bin."""

import json

import pytest

from tests import page_text
from tests.reporting import chart_specs
from wm.reporting import collect, curves, tables, write

BINS = 0.05, 0.5, 0.95


def entry(quantity: str, value: float | None, model: str, spec: str) -> dict:
  sample = value is not None
  return {
    **{'metric': 'extrapolation', 'spec': spec, 'quantity': quantity, 'n': 9},
    **{'world': 'lattice()', 'model': model, 'value': value},
    **{'low': value - 0.1 if sample else None, 'unmeasured': {}, 'seed': 0},
    'high': value + 0.1 if sample else None,
  }


def run_of(
  tmp_path, name: str, slope: float, spec='extrapolation()'
) -> collect.Run:
  entries = [entry('slope_linear', slope, name, spec)]
  for oracle in ('nearest', 'linear'):
    for middle in reversed(BINS):
      axis = -middle if oracle == 'linear' else -middle / 2
      for half, value in (('axis', axis), ('curve', slope * axis)):
        quantity = f'{half}_{oracle}_{middle:g}'
        entries.append(entry(quantity, value, name, spec))
  return collect.Run(tmp_path, entries, [], [], None)


@pytest.fixture
def runs(tmp_path) -> list[collect.Run]:
  return [run_of(tmp_path, 'net', 0.5), run_of(tmp_path, 'oracle', 1.0)]


def test_bins_are_paired_in_order(runs, tmp_path):
  lost = next(e for e in runs[0].entries if e['quantity'] == 'axis_linear_0.5')
  lost['value'] = None
  ((near, linear),) = curves.calibrations(tables.results(runs))
  assert (near.oracle, linear.oracle) == ('nearest', 'linear')
  values = [(r['x'], r['value']) for r in linear.rows if r['model'] == 'net']
  assert values == [(-0.05, -0.025), (-0.95, -0.475)]
  assert [row['model'] for row in near.rows] == ['net'] * 3 + ['oracle'] * 3
  assert not curves.calibrations(
    tables.results([collect.Run(tmp_path, [lost], [], [], None)])
  )


def test_who_does_as_the_oracle_is_on_the_diagonal(runs, tmp_path):
  runs.append(run_of(tmp_path, 'net', 0.25, 'extrapolation(num=7)'))
  (inputs,) = curves.calibrations(tables.results(runs))
  spec = curves.draw_calibrations(inputs, {})
  num = len(chart_specs.panels(spec))
  domains = [
    chart_specs.encoding(spec, axis, n)['scale']['domain']
    for axis in ('x', 'y')
    for n in range(num)
  ]
  assert domains == [domains[0]] * 2 * num
  titles = [' '.join(chart_specs.title(spec, n)) for n in range(num)]
  assert titles == ['default', 'default', 'num=7', 'num=7']
  lines = {'net': [], 'oracle': []}
  for row in chart_specs.rows(spec, 1):
    lines[row['model']].append((row['x'], row['value']))
  assert lines['oracle'] == [(x, x) for x, _ in lines['oracle']]
  assert lines['net'] == [(x, 0.5 * x) for x, _ in lines['net']]
  guide = chart_specs.rows(spec, 1, -1)
  assert [(row['x'], row['value']) for row in guide] == [
    (end, end) for end in domains[0]
  ]


def test_a_report_has_the_picture(runs, tmp_path):
  (tmp_path / 'scores.json').write_text(json.dumps(runs[0].entries))
  write.report([tmp_path], tmp_path / 'out')
  assert (tmp_path / 'out' / 'extrapolation_calibration.svg').is_file()
  text = page_text.read(tmp_path / 'out')
  assert 'extrapolation: model over oracle, by bins of pairs' in text
