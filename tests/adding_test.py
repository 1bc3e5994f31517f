"""A world, a model and a metric are added: one file each, of the examples."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

KINDS = {'worlds': 'frog', 'models': 'repeats', 'metrics': 'wander'}


@pytest.fixture(scope='module')
def added(root) -> dict[str, str]:
  """Path in a checkout -> source of each file that is added."""
  return {
    f'wm/{room}/{name}.py': (root / f'launch/examples/{name}.py').read_text()
    for room, name in KINDS.items()
  }


@pytest.fixture(scope='module')
def copy(root, added, tmp_path_factory):
  """A checkout that differs from this one in three new files only."""
  folder = tmp_path_factory.mktemp('checkout')
  for part in ('wm', 'launch', 'tests'):
    shutil.copytree(root / part, folder / part)
  shutil.copy(root / 'pyproject.toml', folder)
  for path, source in added.items():
    assert not (folder / path).exists()
    (folder / path).write_text(source, encoding='utf-8')
  return folder


def run(copy, *command: str) -> str:
  done = subprocess.run(
    [sys.executable, *command],
    cwd=copy,
    capture_output=True,
    text=True,
    env={**os.environ, 'PYTHONPATH': str(copy)},
  )
  assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
  return done.stdout


def score(copy, model: str, wander: str = 'wander()') -> dict:
  """(metric, quantity) -> entry of a model on the new world."""
  out = f'runs/{model}'
  run(
    copy,
    'launch/score.py',
    '--world=frog(stones=3)',
    f'--model={model}()',
    f'--metric={wander}',
    '--metric=compression(trials=50)',
    f'--out={out}',
  )
  entries = json.loads((copy / out / 'scores.json').read_text())
  assert {e['world'] for e in entries} == {'frog(stones=3)'}
  return {(e['metric'], e['quantity']): e for e in entries}


def test_the_examples_are_short(added):
  for source in added.values():
    assert source.count('\n') <= 55


def test_they_pass_the_linter(copy, added):
  pytest.importorskip('ruff')
  for command in (['check'], ['format', '--check']):
    run(copy, '-m', 'ruff', *command, *added)


def test_they_are_listed(copy):
  text = run(copy, 'launch/list.py')
  for line in (
    '  frog(stones=6)',
    '  repeats(again=0.5)',
    '  wander(num=200, ',
  ):
    assert line in text


def test_the_new_metric_scores_the_new_model_on_the_new_world(copy):
  found = score(copy, 'repeats')
  legal = found['wander', 'legal']
  assert (legal['model'], legal['n'], legal['unmeasured']) == (
    'repeats',
    200,
    {},
  )
  # On three stones no token is legal three times in a row.
  assert 0 <= legal['low'] <= legal['value'] < 0.1
  assert found['compression', 'precision']['value'] is not None


def test_the_new_world_and_metric_suit_the_models_that_are_there(copy):
  # After `hop` two of three tokens are legal, after `leap` one.
  legal = score(copy, 'uniform', 'wander(moves=1)')['wander', 'legal']
  assert legal['value'] == pytest.approx(0.5, abs=0.15)
  oracle = score(copy, 'oracle')
  assert oracle['wander', 'legal']['value'] == 1
  assert oracle['compression', 'precision']['value'] == 1


def test_the_conformance_tests_pick_them_up(copy):
  text = run(
    copy,
    *('-m', 'pytest', '-q', '-k', 'frog or wander'),
    'tests/worlds_test.py',
    'tests/capabilities_test.py',
    'tests/metrics_test.py',
  )
  passed = re.search(r'(\d+) passed', text)
  assert int(passed[1]) > 30, text[-2000:]
  assert 'failed' not in text
