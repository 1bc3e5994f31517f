"""Calibration curves in reports: pairs of quantities, by bin."""

import json

import pytest

from wm.reporting import collect, curves, figures, tables, write

BINS = 0.05, 0.5, 0.95


def entry(quantity: str, value: float | None, model: str, spec: str) -> dict:
  some = value is not None
  return {
    **{'metric': 'extrapolation', 'spec': spec, 'quantity': quantity, 'n': 9},
    **{'world': 'lattice()', 'model': model, 'value': value},
    **{'low': value - 0.1 if some else None, 'unmeasured': {}, 'seed': 0},
    'high': value + 0.1 if some else None,
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
  values = [(a['value'], c['value']) for a, c in linear.lines['net']]
  assert values == [(-0.05, -0.025), (-0.95, -0.475)]
  assert [len(line) for line in near.lines.values()] == [3, 3]
  assert not curves.calibrations(
    tables.results([collect.Run(tmp_path, [lost], [], [], None)])
  )


def test_who_does_as_the_oracle_is_on_the_diagonal(runs, tmp_path, monkeypatch):
  kept = []
  monkeypatch.setattr(figures, 'to_png', lambda figure: kept.append(figure))
  runs.append(run_of(tmp_path, 'net', 0.25, 'extrapolation(num=7)'))
  (given,) = curves.calibrations(tables.results(runs))
  curves.draw_calibrations(given)
  limits = {(*a.get_xlim(), *a.get_ylim()) for a in kept[0].axes}
  ((left, right, low, high),) = limits
  assert (left, right) == (low, high)
  titles = [axis.get_title() for axis in kept[0].axes]
  assert titles == ['default', 'default', 'num=7', 'num=7']
  net, oracle, diagonal = kept[0].axes[1].get_lines()
  assert [*oracle.get_xdata()] == [*oracle.get_ydata()]
  assert [*diagonal.get_xdata()] == [*diagonal.get_ydata()] == [left, right]
  assert [*net.get_ydata()] == [0.5 * x for x in net.get_xdata()]


def test_a_report_has_the_picture(runs, tmp_path):
  (tmp_path / 'scores.json').write_text(json.dumps(runs[0].entries))
  write.report([tmp_path], tmp_path / 'out')
  assert (tmp_path / 'out' / 'extrapolation_calibration.png').is_file()
  text = (tmp_path / 'out' / 'report.md').read_text()
  assert 'extrapolation: model over oracle, by bins of pairs' in text
