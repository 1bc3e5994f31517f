"""Scores against parameters."""

import json

import pytest

from tests import page_text
from tests.reporting import chart_specs
from wm.reporting import collect, curves, write

PEOPLE = "exactness(data='games', num=500)"
RANDOM = 'exactness(num=200)'
# Name -> model, parameters, share of exact states on games of either kind.
MODELS = {
  'slice_d128': ('slice(layers=1, width=128)', 770, 0.25, 0.0625),
  'slice_d256': ('slice(layers=2, width=256)', 3200, 0.5, 0.125),
  'slice_diagonal_d128': (
    *('slice(layers=1, width=128, block_size=1)', 660),
    *(0.1875, 0.03125),
  ),
  'mamba3_d128': ('mamba3(layers=1, width=128)', 800, 0.375, 0.03125),
  'mamba2_d128': ('mamba2(layers=1, width=128)', 800, 0.125, 0.0),
  'naive': (None, 0, 0.15625, 0.03125),
}


def entry(name: str, spec: str, value: float, model: str | None) -> dict:
  return {
    **{'metric': 'exactness', 'spec': spec, 'quantity': 'exact', 'n': 9},
    **{'world': 'chess(length=704)', 'model': name, 'value': value},
    **{'low': value * 0.9, 'high': value * 1.1, 'unmeasured': {}, 'seed': 0},
    'model_spec': model,
  }


def run_of(tmp_path, name: str, variant='') -> collect.Run:
  model, parameters, people, random = MODELS[name]
  entries = [
    entry(name + variant, spec, value, model)
    for spec, value in ((PEOPLE, people), (RANDOM, random))
  ]
  trained = {'parameters': parameters} if parameters else {}
  return collect.Run(tmp_path, entries, [], [], None, trained=trained)


@pytest.fixture
def panels(tmp_path):
  (result,) = curves.sizes([run_of(tmp_path, name) for name in MODELS])
  return result


def test_families_are_told_apart_by_what_is_not_their_size(panels):
  people, random = panels
  assert (people.spec, random.spec) == (PEOPLE, RANDOM)
  result = {item['model']: family for family, _, item in people.points}
  assert result == {
    **{'slice_d128': 'slice', 'slice_d256': 'slice', 'naive': 'naive'},
    'slice_diagonal_d128': 'slice block_size=1',
    **{'mamba3_d128': 'mamba3', 'mamba2_d128': 'mamba2'},
  }


def test_one_size_alone_is_no_panel(tmp_path):
  names = 'slice_d128', 'naive'
  assert curves.sizes([run_of(tmp_path, name) for name in names]) == []


def test_pictures_hold_all_sizes_and_a_level(panels):
  spec = curves.draw_sizes(panels)
  scales = [chart_specs.encoding(spec, 'x', n)['scale'] for n in (0, 1)]
  assert [scale['type'] for scale in scales] == ['log'] * 2
  guides = chart_specs.rows(spec, 0, -1)
  level = [row['value'] for row in guides if row['model'] == 'naive']
  assert level == [0.15625] * 2
  rows = chart_specs.rows(spec, 1)
  ours = {(row['x'], row['value']) for row in rows}
  assert ours == {(MODELS[name][1], MODELS[name][3]) for name in MODELS} - {
    (0, 0.03125)
  }


def test_a_report_of_folders_has_them(tmp_path):
  folders = []
  for name in MODELS:
    run = run_of(tmp_path, name)
    folders.append(tmp_path / name)
    folders[-1].mkdir()
    for file, content in (
      ('scores.json', run.entries),
      ('train.json', run.trained),
    ):
      if content:
        (folders[-1] / file).write_text(json.dumps(content))
  write.report(folders, tmp_path / 'report')
  caption = 'Picture: exactness: exact against parameters'
  assert caption in page_text.read(tmp_path / 'report')
  picture = tmp_path / 'report/exactness_exact_by_parameters.svg'
  assert picture.stat().st_size > 9999
