"""Scores against parameters, and Pareto fronts."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import page_text
from tests.reporting import chart_specs
from wm.reporting import collect, scaling, write

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
  (result,) = scaling.panels([run_of(tmp_path, name) for name in MODELS])
  return result


def point(parameters: int, value: float) -> scaling.Point:
  return scaling.Point('', '', parameters, {'value': value}, '')


def pair_of(item: scaling.Point) -> tuple[int, float]:
  return item.parameters, item.entry['value']


def test_a_front_of_known_points():
  points = [point(3, 0.5), point(1, 0.25), point(2, 0.25), point(9, 0.5)]
  points += [point(0, 0.9), point(1, 0.125), point(4, 0.75)]
  result = [pair_of(item) for item in scaling.front(points)]
  assert result == [(1, 0.25), (3, 0.5), (4, 0.75)]
  assert scaling.front([]) == []
  assert len(scaling.front([point(1, 0.5)] * 2)) == 2


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 6)), min_size=1))
def test_whatever_is_off_the_front_is_beaten_by_it(pairs):
  points = [point(*pair) for pair in pairs]
  best = {*map(pair_of, scaling.front(points))}
  for size, value in set(pairs):
    beaten = any(
      other != (size, value) and other[0] <= size and other[1] >= value
      for other in best
    )
    assert beaten == ((size, value) not in best)


def test_families_are_told_apart_by_what_is_not_their_size(panels):
  people, random = panels
  assert (people.spec, random.spec) == (PEOPLE, RANDOM)
  result = {item.name: item.family for item in people.points}
  assert result == {
    **{'slice_d128': 'slice', 'slice_d256': 'slice', 'naive': 'naive'},
    'slice_diagonal_d128': 'slice block_size=1',
    **{'mamba3_d128': 'mamba3', 'mamba2_d128': 'mamba2'},
  }
  printed = {item.name: item for item in people.printed}
  assert len(printed) == 28
  assert printed['slice_diagonal_d384'].parameters == 14_501_718
  assert printed['slice_diagonal_d384'].family == 'slice block_size=1'
  assert printed['deltanet_positive_d128'].entry['value'] == 0.4749
  exact = {item.name: item.entry['value'] for item in random.printed}
  assert exact['mamba3_d512'] == 0.8113


def test_one_size_alone_is_no_panel(tmp_path):
  names = 'slice_d128', 'naive'
  assert scaling.panels([run_of(tmp_path, name) for name in names]) == []


def test_data_of_training_are_told_apart_by_how_names_end(tmp_path):
  runs = []
  for data in ('human', 'uniform'):
    for name in ('slice_d128', 'slice_diagonal_d128', 'mamba3_d128'):
      run = run_of(tmp_path, name, f'_{data}')
      run.training['data_sha256'] = data[::-1]
      runs.append(run)
  ((people, _),) = scaling.panels([*runs, run_of(tmp_path, 'naive')])
  families = [first.family for first in people.points]
  assert families[:2] == ['slice,d128_human', 'slice block_size=1,d128_human']
  assert families[-2:] == ['mamba3,d128_uniform', 'naive']


def test_pictures_hold_ours_and_the_papers(panels):
  spec = scaling.draw_pareto(panels)
  scales = [chart_specs.encoding(spec, 'x', n)['scale'] for n in (0, 1)]
  assert [scale['type'] for scale in scales] == ['log'] * 2
  guides = chart_specs.rows(spec, 0, -1)
  labels = {row['model'] for row in guides}
  assert {'naive', 'Pareto front', "the paper's Pareto front"} <= labels
  level = [row['value'] for row in guides if row['model'] == 'naive']
  assert level == [0.15625] * 2
  rows = chart_specs.rows(spec, 1)
  ours = {(row['x'], row['value']) for row in rows if not row['pale']}
  assert ours == {(MODELS[name][1], MODELS[name][3]) for name in MODELS} - {
    (0, 0.03125)
  }
  theirs = {row['value'] for row in rows if row['pale']}
  assert {0.0566, 0.0492, 0.0414, 0.0209} <= theirs


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
  caption = 'Picture: exactness: exact against parameters; hollow: in the paper'
  assert caption in page_text.read(tmp_path / 'report')
  picture = tmp_path / 'report/exactness_exact_by_parameters.svg'
  assert picture.stat().st_size > 9999
