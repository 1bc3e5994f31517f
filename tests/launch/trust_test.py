"""Code that only data name is not run: results, logs, manifests, checkpoints.

Each test lets a file write a mark when it is run, and has data name it.
"""

import json
import pathlib
import shutil

import pytest

from tests.launch import binaries

EVIL = """
import dataclasses
import pathlib

import numpy as np

pathlib.Path(__file__).with_name('ran').write_text('')

from wm import core
from wm.metrics import next_token
from wm.models import ngram, uniform
from wm.worlds import lattice


@dataclasses.dataclass(frozen=True)
class World(lattice.World):
  version = '1'


@dataclasses.dataclass(frozen=True)
class Model(ngram.Model):
  version = '1'


@dataclasses.dataclass(frozen=True)
class Metric(next_token.Metric):
  version = '1'


def logits(tokens):
  return np.zeros((*tokens.shape, 4))
"""
# Of each kind, as data may name it.
METRICS = ('dl/evil.py:Metric()', "exactness(world='dl/evil.py:World()')")
MODELS = (
  'dl/evil.py:Model()',
  'user(function="dl/evil.py:logits")',
  'user(function="dl.evil:logits")',
  'language(model="wm/yes", before="dl/evil.py:World()")',
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
  """The current folder, with dl/evil.py and a scored and trained run."""
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'dl').mkdir()
  (tmp_path / 'dl' / 'evil.py').write_text(EVIL)
  return tmp_path


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
  """A run: data, a trained model, scores."""
  out = tmp_path_factory.mktemp('trained') / 'run'
  for line in (
    ('sample', '--num=60', '--num_heldout=20'),
    ('train', '--model=ngram(order=2)'),
    ('score', '--metric=next_token(num=5)'),
  ):
    binaries.printed(*line, '--world=lattice()', f'--out={out}')
  return out


@pytest.fixture
def run(folder, trained):
  """A copy of the run, whose files a test may change."""
  shutil.copytree(trained, folder / 'run')
  return folder / 'run'


def ran(folder: pathlib.Path) -> bool:
  return (folder / 'dl' / 'ran').exists()


def change(path: pathlib.Path, **values: object) -> None:
  """Sets values of a JSON object, or of all objects of a list."""
  held = json.loads(path.read_text())
  for item in held if isinstance(held, list) else [held]:
    item.update(values)
  path.write_text(json.dumps(held))


def refused(folder: pathlib.Path, binary: str, *flags: str) -> None:
  """The line names --trust and the file, which was not run; then it is."""
  line = binaries.refused(binary, *flags)
  assert '--trust=dl/evil.py ' in line, line
  assert not ran(folder)
  line = binaries.refused(binary, *flags, '--trust=run')
  assert '--trust=dl/evil.py ' in line, line
  binaries.run(binary, *flags, '--trust=dl')  # It may be refused for more.


@pytest.mark.parametrize(
  'values',
  [
    {'metric': 'dl/evil.py:Metric', 'spec': 'dl/evil.py:Metric()'},
    {'metric': 'dl/evil.py:Metric', 'spec': "dl/evil.py:Metric(a='b')"},
    {'spec': METRICS[1]},
    {'world': 'dl/evil.py:World()'},
    *({'model_spec': model} for model in MODELS),
  ],
)
@pytest.mark.parametrize('name', ['scores.json', 'breakdown.json'])
def test_a_report_of_results_shows_numbers_and_runs_nothing(
  folder, run, name, values
):
  (run / 'breakdown.json').write_text((run / 'scores.json').read_text())
  change(run / name, **values)
  out = binaries.printed('report', '--out=run')
  assert not ran(folder)
  shown = {values.get('metric'), values.get('world')} & {
    'dl/evil.py:Metric',
    'dl/evil.py:World()',
  }
  assert ('--trust=dl/evil.py' in out) == bool(shown and name == 'scores.json')


def test_a_report_runs_what_is_trusted(folder, run):
  change(run / 'scores.json', metric='dl/evil.py:Metric')
  code, out, err = binaries.run('report', '--out=run', '--trust=dl/evil.py')
  assert (code, 'trust' in out, ran(folder)) == (0, False, True), err


@pytest.mark.parametrize('model', MODELS)
def test_a_checkpoint_that_names_a_model(folder, run, model):
  change(run / 'train.run.json', model=model)
  score = ('score', '--world=lattice()', '--metric=next_token(num=5)')
  refused(folder, *score, '--out=run')


def test_a_checkpoint_that_names_a_world(folder, run):
  change(run / 'train.run.json', world='dl/evil.py:World()')
  refused(folder, 'score', '--metric=next_token(num=5)', '--out=run')
  assert ran(folder)


def test_a_manifest(folder, run):
  for split in ('train', 'heldout'):
    change(run / 'data' / split / 'manifest.json', world='dl/evil.py:World()')
  flags = '--world=lattice()', '--model=ngram(order=2)', '--data=run/data'
  binaries.run('train', *flags, '--out=again')  # It may be refused.
  assert not ran(folder)


def test_a_part_of_scores_is_measured_anew_only_where_it_is_named(folder, run):
  from wm.evaluation import results

  (path,) = results.paths(run)
  part = results.read(path)
  results.write(path, type(part)(**{**vars(part), 'spec': METRICS[0]}))
  out = binaries.printed(
    *('score', '--world=lattice()', '--metric=next_token(num=4)', '--out=run')
  )
  assert '--trust=dl/evil.py' in out
  assert not ran(folder)


@pytest.mark.process
def test_the_table_of_a_sweep(folder, run):
  flags = {'world': 'lattice()', 'model': 'ngram(order=2)', 'seed': 0}
  row = {
    **{'status': 'done', 'best_loss': 1.0, 'labels': {'seed': '0'}},
    **{'flags': {**flags, 'model': 'dl/evil.py:Model()'}, 'chosen': {}},
  }
  pathlib.Path('first').mkdir()
  path = pathlib.Path('first', 'sweep.json')
  path.write_text(json.dumps({'per': [], 'runs': [row]}))
  sweep = ('sweep', '--winners_of=first', '--grid=seed=1', '--data=run/data')
  refused(folder, *sweep, '--out=second')


def test_findings_and_their_results(folder):
  pathlib.Path('minis').mkdir()
  finding = {'metric': 'dl/evil.py:Metric()'}
  pathlib.Path('minis', 'findings.json').write_text(json.dumps([finding]))
  binaries.refused('report', '--miniatures=minis', '--out=out')
  assert not ran(folder)


def test_what_a_command_names_is_trusted_where_data_name_it_too(folder):
  typed = ('--world=dl/evil.py:World()', '--out=run')
  for line in (
    ('sample', '--num=60', '--num_heldout=20'),
    ('train', '--model=dl/evil.py:Model(order=2)'),
    ('train', '--model=dl/evil.py:Model(order=2)'),  # It goes on.
    ('score', '--metric=dl/evil.py:Metric(num=5)'),
    ('score', "--metric=exactness(world='dl/evil.py:World()')"),
    ('report',),
  ):
    code, out, err = binaries.run(*line, *typed)
    # A model of next tokens names no states: nothing is measured then.
    assert code == int('exactness' in line[-1]), err
    assert 'trust' not in out + err or line == ('report',)


@pytest.mark.process
def test_jobs_trust_what_their_command_names(folder):
  row = 'a: dl/evil.py:Model(order=2) on dl/evil.py:World()'
  out = binaries.printed(
    *('study', '--world=lattice()', '--metric=dl/evil.py:Metric(num=5)'),
    *(f'--row={row}', f'--row=b{row[1:]}', '--jobs=2', '--out=study'),
    *('--num=60', '--num_heldout=20'),
  )
  assert 'trust' not in out
  shutil.rmtree('dl/__pycache__', ignore_errors=True)
  pathlib.Path('dl/ran').unlink()
  row = '--row=net: study/a'
  flags = '--world=lattice()', '--metric=next_token(num=5)', '--out=again'
  code, _, err = binaries.run('study', row, *flags)
  assert (code, err.count('\n')) == (2, 1)
  assert '--trust=dl/evil.py ' in err
  assert not ran(folder)
  binaries.printed('study', row, *flags, '--trust=dl/evil.py')
