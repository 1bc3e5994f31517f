"""A world, a model and a metric are added as the README says: one file each."""

import json
import math
import os
import re
import shutil
import subprocess
import sys

import pytest

KINDS = {'worlds': 'brackets', 'models': 'repeats', 'metrics': 'surprise'}


def blocks(readme: str) -> dict[str, str]:
  """Path -> source of each file that the README shows how to add."""
  section = readme.split('## Adding ')[1].split('\n## ')[0]
  found = re.findall(
    r'here `(wm/\S+\.py)`.*?```python\n(.*?)```', section, re.S
  )
  return dict(found)


@pytest.fixture(scope='module')
def added(root) -> dict[str, str]:
  return blocks((root / 'README.md').read_text(encoding='utf-8'))


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


def score(copy, model: str) -> dict[tuple[str, str], dict]:
  """(metric, quantity) -> entry of a model on the new world."""
  out = f'runs/{model}'
  run(
    copy,
    'launch/score.py',
    '--world=brackets(depth=3)',
    f'--model={model}()',
    '--metric=surprise()',
    '--metric=compression(trials=50)',
    f'--out={out}',
  )
  entries = json.loads((copy / out / 'scores.json').read_text())
  assert {e['world'] for e in entries} == {'brackets(depth=3)'}
  return {(e['metric'], e['quantity']): e for e in entries}


def test_the_readme_shows_one_file_of_each_kind(added):
  paths = [f'wm/{package}/{name}.py' for package, name in KINDS.items()]
  assert list(added) == paths
  for source in added.values():
    assert source.count('\n') <= 40
    assert max(map(len, source.splitlines())) <= 80


def test_they_pass_the_linter(root, copy, added):
  pytest.importorskip('ruff')
  for command in (['check'], ['format', '--check']):
    run(copy, '-m', 'ruff', *command, *added)


def test_they_are_listed(copy):
  text = run(copy, 'launch/list.py', '--world=brackets(depth=2)')
  for line in (
    '  brackets(depth=4)',
    '  repeats(again=0.5)',
    '  surprise(num=200)',
  ):
    assert line in text


def test_the_new_metric_scores_the_new_model_on_the_new_world(copy):
  found = score(copy, 'repeats')
  nats = found['surprise', 'nats']
  assert (nats['model'], nats['n'], nats['unmeasured']) == ('repeats', 200, {})
  assert nats['low'] < nats['value'] < nats['high']
  # It looks at the last token only, and half its guesses are blind.
  least, most = -math.log(0.5 + 0.5 / 3), -math.log(0.5 / 3)
  assert least < nats['value'] < most
  assert found['compression', 'precision']['value'] is not None


def test_the_new_world_and_metric_suit_the_models_that_are_there(copy):
  uniform = score(copy, 'uniform')['surprise', 'nats']
  assert uniform['value'] == pytest.approx(math.log(2), abs=1e-6)
  oracle = score(copy, 'oracle')
  assert 0 < oracle['surprise', 'nats']['value'] < math.log(2)
  assert oracle['compression', 'precision']['value'] == 1


def test_the_conformance_tests_pick_the_new_world_up(copy):
  text = run(
    copy, '-m', 'pytest', '-q', 'tests/worlds_test.py', '-k', 'brackets'
  )
  assert re.search(r'\b\d\d passed', text), text[-2000:]
  assert 'failed' not in text
