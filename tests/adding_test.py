"""A world, a model and a metric are added: one file each, of the examples."""

import json
import os
import re
import subprocess
import sys

import pytest

from tests import copies

KINDS = {'worlds': 'frog', 'models': 'repeats', 'metrics': 'wander'}
# Run on the copy, files whole: what they check may depend on any file.
WHOLE = (
  *('house_test', 'registry_test', 'catalog_test'),
  *('test_a_world_has_14_members', 'test_some_world_has_each_ability'),
)
# By the names of what is added; some tests are named by `repr`.
NAMED = ('frog', 'stones', 'repeats', 'wander', 'what_plug_ins_are_made_from')

SCORE = """
import json, wm
metrics = ['{wander}', 'compression(trials=50)']
print(wm.score('{model}', metrics, 'frog(stones=3)').to_json(orient='records'))
"""


@pytest.fixture(scope='module')
def added(root) -> dict[str, str]:
  """Path in a checkout -> source of each file that is added."""
  return {
    f'wm/{room}/{name}.py': (root / f'launch/examples/{name}.py').read_text()
    for room, name in KINDS.items()
  }


@pytest.fixture(scope='module')
def copy(added, tmp_path_factory):
  """A checkout that differs from this one in three new files only."""
  folder = copies.make(
    tmp_path_factory.mktemp('checkout'),
    *('wm', 'launch', 'tests', 'third_party'),
    *('BUILD', 'CHANGELOG.md', 'CITATION.cff', 'README.md'),
    *('pyproject.toml', 'setup.py'),
  )
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


def test_the_examples_are_short(added):
  for source in added.values():
    assert source.count('\n') <= 55


@pytest.mark.process
def test_they_pass_the_linter(copy, added):
  pytest.importorskip('ruff')
  for command in (['check'], ['format', '--check']):
    run(copy, '-m', 'ruff', *command, *added)


@pytest.mark.process
def test_they_are_listed(copy):
  text = run(copy, 'launch/list.py')
  for line in (
    '  frog(stones=6)',
    '  repeats(again=0.5)',
    '  wander(num=200, ',
  ):
    assert line in text


@pytest.mark.process
def test_they_score_and_are_scored_beside_those_that_are_there(copy):
  """The new model on the new world by the new metric, and each with others."""
  asked = {
    'repeats': 'wander()',
    'uniform': 'wander(moves=1)',  # Two of three tokens are legal, or one.
    'oracle': 'wander()',
  }
  code = (SCORE.format(model=f'{m}()', wander=asked[m]) for m in asked)
  lines = map(json.loads, run(copy, '-c', ''.join(code)).splitlines())
  entries = dict(zip(asked, lines, strict=True))
  legal = {
    model: next(e for e in results if e['quantity'] == 'legal')
    for model, results in entries.items()
  }
  first = legal['repeats']
  assert (first['world'], first['model']) == ('frog(stones=3)', 'repeats')
  assert (first['n'], first['unmeasured']) == (200, {})
  # On three stones no token is legal three times in a row.
  assert 0 <= first['low'] <= first['value'] < 0.1
  assert legal['uniform']['value'] == pytest.approx(0.5, abs=0.15)
  assert legal['oracle']['value'] == 1
  (precision,) = (
    e['value'] for e in entries['oracle'] if e['quantity'] == 'precision'
  )
  assert precision == 1


def conformance(root) -> list[str]:
  """Test files that run over plug-ins found by name."""
  return [
    str(path.relative_to(root))
    for path in sorted((root / 'tests').rglob('*_test.py'))
    if re.search(r'registry\.names\(|every_world', path.read_text())
  ]


@pytest.mark.process
def test_the_house_and_what_runs_over_names_pass_on_the_copy(root, copy):
  # Three more files are more than the tree's limits allow.
  chosen = f'({" or ".join((*WHOLE, *NAMED))}) and not within_its_limits'
  files = ['tests/house_test.py', *conformance(root)]
  assert len(files) > 15
  text = run(copy, '-m', 'pytest', '-v', '-n', '0', '-k', chosen, *files)
  passed = re.findall(r'^(\S+?)::(.*) PASSED', text, re.M)
  ran = {f'{file}::{test}' for file, test in passed}
  for name in WHOLE:
    assert any(name in test for test in ran), name
  for name, least in (('frog', 60), ('repeats', 3), ('wander', 40)):
    assert sum(name in test for _, test in passed) >= least, text[-3000:]


@pytest.mark.slow
def test_all_that_runs_over_names_passes_on_the_copy(root, copy):
  """A network is added too: that of rnn under a new name."""
  source = (copy / 'wm/models/rnn.py').read_text()
  (copy / 'wm/models/turns.py').write_text(source)
  run(copy, '-m', 'pytest', '-q', '-n', '0', *conformance(root))
