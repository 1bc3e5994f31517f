"""The papers' numbers: each is in its file, and names settings that exist."""

import dataclasses
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from wm.core import registry
from wm.reporting import papers
from wm.training import setup

FIELDS = dataclasses.fields(setup.Training)


@pytest.mark.process
def test_papers_are_installed_with_the_package(root, tmp_path):
  library = tmp_path / 'lib'
  for command, folder in (
    (['setup.py', '-q', 'build_py', '--build-lib', str(library)], root),
    (
      ['-c', 'from wm.reporting import papers; print(*papers.papers())'],
      tmp_path,
    ),
  ):
    done = subprocess.run(
      [sys.executable, *command],
      **{'cwd': folder, 'capture_output': True, 'text': True, 'check': True},
      env={**os.environ, 'PYTHONPATH': str(library)},
    )
  assert done.stdout.split() == list(papers.papers())
  assert (library / 'wm/launch/flags/vafa2024/published.json').is_file()


def rows_of(world: str) -> list[papers.Row]:
  return [row for paper in papers.papers()[world] for row in paper.rows]


@pytest.mark.parametrize('world', papers.papers())
def test_rows_name_what_there_is(world):
  assert world in registry.names('world')
  for row in rows_of(world):
    known = {f.name for f in _fields(row.metric)}
    assert {*row.fields, *row.settings, *row.free} <= known
    assert set(row.world) <= set(_world(world))
    assert row.values
    most = np.inf if row.quantity == 'loss' else 1
    assert all(0 <= value <= most for value, _ in row.values.values())
    assert all(papers.model_key(name) == name for name in row.values)


def _world(name: str):
  return registry.find('world', name).__dataclass_fields__


@pytest.mark.parametrize('world', papers.papers())
def test_published_models_have_fields_that_there_are(world):
  for key, trained in papers.papers()[world][0].models.items():
    assert any(key in row.values for row in rows_of(world))
    fields = registry.find('model', trained.model['family'])
    known = {'family', *fields.__dataclass_fields__}
    assert set(trained.model) <= known
    assert set(trained.world) <= set(_world(world))
    assert set(trained.training) <= {f.name for f in FIELDS}


def _fields(metric: str):
  return registry.find('metric', metric).__dataclass_fields__.values()


MAIN = [f'table {number}' for number in range(1, 5)]


def printed(world: str, metric: str, quantity: str, model: str, **fields):
  """The one value that is printed."""
  result = [
    row.values[papers.model_key(model)][0]
    for row in rows_of(world)
    if row.page in ('', *MAIN)
    and (row.metric, row.quantity) == (metric, quantity)
    and all(row.fields.get(k) == v for k, v in fields.items())
  ]
  (value,) = result
  return value


def test_a_name_is_known_with_the_settings_of_a_sweep():
  assert papers.model_key('GPT-4') == 'gpt4'
  named = papers.model_key('slice_d128,lr=1e-2,human')
  assert named == papers.model_key('slice_d128,human')
  assert (
    printed('chess', 'exactness', 'exact', named, data=papers.GIVEN) == 0.412
  )
  assert not [
    row
    for row in rows_of('chess')
    if papers.model_key('slice_d128,lr=1e-2,uniform') in row.values
  ]


def test_golden_values():
  assert printed('seating', 'capability', 'accuracy', 'Llama-2-70B') == 0.77
  recall = 'distinction', 'recall_definition'
  assert printed('maps', *recall, 'shortest_paths') == 0.20
  assert printed('maps', 'probe', 'accuracy', 'random_walks') == 0.99
  assert printed('othello', *recall, 'championship') == 0.27
  assert printed('othello', *recall, 'untrained') == 0.14
  whole = 'compression', 'precision_published'
  assert printed('othello', *whole, 'synthetic') == 0.98
  records = 'detour', 'valid_0.01', 'championship'
  assert printed('othello', *records, kind='random') == 0.66
  assert printed('othello', *records, kind='adversarial') == 0.70
  random, adversarial = (
    [
      printed('othello', 'detour', f'valid_{p}', 'synthetic', kind=kind)
      for p in ('0', '0.01', '0.1', '0.25', '0.5')
    ]
    for kind in ('random', 'adversarial')
  )
  assert random == [1.00, 0.99, 0.97, 0.97, 0.99]
  assert adversarial == [1.00, 0.98, 0.99, 0.96, 0.97]
  assert printed('seating', 'compression', 'precision', 'Qwen1.5-110B') == 0.53
  assert printed('seating', 'distinction', 'recall', 'gpt_4') == 0.56


def test_untrained_distinction_is_compared_as_published():
  assert printed('maps', 'distinction', 'precision_published', 'untrained') == 0
  for world in ('maps', 'othello'):
    rows = {(r.metric, r.quantity) for r in rows_of(world)}
    assert ('distinction', 'precision_definition') not in rows
  assert '1,000 random' in papers.papers()['othello'][0].setting
  assert printed('maps', 'detour', 'valid_0.75', 'random_walks', kind='random')
  adversarial = {'kind': 'adversarial'}
  result = printed(
    'maps', 'detour', 'valid_0.01', 'shortest_paths', **adversarial
  )
  assert result == 0.66


def chess(quantity: str, model: str, **fields):
  return printed('chess', 'exactness', quantity, model, **fields)


def test_golden_values_of_chess():
  human, uniform = {'data': papers.GIVEN}, {'data': ''}
  assert chess('exact', 'transformer_d128', **human) == 0.2682
  assert chess('trajectory', 'transformer_d128', **human) == 0.0002
  assert chess('loss', 'transformer_d384', **human) == 7.65e-5
  assert chess('labelwise', 'slice_d512', **human) == 1
  assert chess('exact', 'deltanet_d128', **human) == 0.4947
  assert chess('exact', 'deltanet_positive_d512', **uniform) == 0.6117
  assert chess('loss', 'slice_diagonal_d256', **uniform) == 4.43e17
  assert chess('trajectory', 'mamba3_d512', **uniform) == 0.1082
  assert chess('exact', 'mamba2_d128,human', **uniform) == 0.0492
  whole = [row for row in rows_of('chess') if not row.where]
  assert all(len(row.values) == 56 for row in whole)


def test_every_bin_of_chess_is_printed():
  for quantity, model, values in (
    ('exact', 'mamba3_d512', (1, 0.9601, 0.8899, 0.8826, 0.4644, 0.2074, 0)),
    ('exact', 'deltanet_d512', (0.9998, 0.9507, 0.868, 0.1323, 0.0125, 0, 0)),
    ('labelwise', 'transformer_d512', (1, 0.9985, 0.9968, 0.9956, 0.9869)),
  ):
    steps = (0, 80, 160, 240, 320, 400, 500)
    results = {
      row.where['step']: row.values[papers.model_key(model)][0]
      for row in rows_of('chess')
      if row.where and row.quantity == quantity
    }
    assert list(results) == list(steps)
    for step, value in zip(steps, values, strict=False):
      assert results[step] == value


def test_searches_are_those_of_the_heads_and_sizes_those_of_the_networks(root):
  (paper,) = papers.papers()['chess']
  text = (root / 'launch/flags/chess2026/published.json').read_text()
  heads = json.loads(text)['files']
  for search, stage in zip(paper.searches, (1, 2), strict=True):
    assert f'table {4 + stage}' in search['table']
    assert search['quantities'][:3] == ['loss', 'exact', 'labelwise']
    for family, *numbers in heads[f'stage{stage}.flags']['rows']:
      for size, width in enumerate((128, 256, 384, 512)):
        values = search['values'][f'{family}_d{width}']
        loss, exact = values[:2]
        expected = numbers[2 * size : 2 * size + 2]
        assert [loss, exact * 100] == pytest.approx(expected)
  for key, model in paper.models.items():
    assert model.parameters > 3_000_000, key


def test_printed_parameters_are_those_of_the_flagfiles(root):
  files = list((root / 'launch/flags/chess2026/sizes').glob('*.flags'))
  known = papers.papers()['chess'][0].models
  assert len(files) == 28
  for file in files:
    count = re.findall(r'([\d,]+) parameters', file.read_text())[0]
    outcome = known[papers.model_key(file.stem)].parameters
    assert f'{outcome:,}' == count, file
