"""Loading what a run left; refusing what does not fit."""

import dataclasses
import shutil

import numpy as np
import pytest

from tests import tiny
from tests.launch import binaries
from tests.training import mean_mlp
from wm import core
from wm.options.training import Training
from wm.runtime import files
from wm.training import checkpoints, loop

mean_mlp.install()


@pytest.fixture(scope='module')
def run(tmp_path_factory):
  out = tmp_path_factory.mktemp('restore')
  mean_mlp.make_data(out)
  loop.train(mean_mlp.WORLD, mean_mlp.MODEL, out, Training(steps=4, batch=16))
  return out


@pytest.fixture
def copy(run, tmp_path):
  return shutil.copytree(run, tmp_path / 'run')


def test_unknown_checkpoint_name(run):
  with pytest.raises(core.InputError, match='available: best, last'):
    checkpoints.load(run, 'newest')


def test_no_run_there(tmp_path):
  with pytest.raises(core.InputError, match=r'launch/train\.py'):
    checkpoints.load(tmp_path)


def test_no_checkpoint_yet(copy):
  shutil.rmtree(copy / 'checkpoints')
  with pytest.raises(core.InputError, match='no checkpoint in'):
    checkpoints.load(copy)
  assert not (copy / 'checkpoints').exists()


def test_a_checkpoint_that_training_replaces_meanwhile(copy, monkeypatch):
  params = checkpoints.Checkpoints.params

  def replaced(self, step, abstract):
    if step == 4:
      (copy / 'checkpoints' / '4').rename(copy / 'checkpoints' / '5')
    return params(self, step, abstract)

  monkeypatch.setattr(checkpoints.Checkpoints, 'params', replaced)
  assert checkpoints.load(copy, 'last')[1]['step'] == 5


def test_another_model_spec(run):
  checkpoints.load(run, model='mean_mlp()')
  with pytest.raises(core.InputError, match='does not fit the checkpoint'):
    checkpoints.load(run, model='mean_mlp(width=32)')


def test_a_model_spec_changed_in_the_record(copy):
  path = copy / 'train.run.json'
  files.write_json(
    path, {**files.read_json(path), 'model': 'mean_mlp(width=32)'}
  )
  with pytest.raises(core.InputError, match='does not fit checkpoint'):
    checkpoints.load(copy)


@dataclasses.dataclass(frozen=True)
class Labelled(tiny.World):
  """Has more labels than the tiny world."""

  heads = core.Heads((7, 7))


def test_another_head(copy):
  """A run of next tokens is neither resumed nor scored as one of states."""
  asked = '--world=tiny()', f'--out={copy}'
  brief = '--model=mean_mlp()', '--objective=state', '--steps=8', '--batch=16'
  output = binaries.refused('train', *asked, *brief)
  assert "its objective is 'next', not 'state'" in output
  path = copy / 'train.run.json'
  files.write_json(path, {**files.read_json(path), 'objective': 'state'})
  shutil.rmtree(copy / 'scores', ignore_errors=True)
  metric = '--metric=exactness(num=2)'
  output = binaries.refused('score', *asked, metric)
  assert 'the model does not fit checkpoint' in output
  assert 'head' in output
  assert not (copy / 'scores.json').exists()
  with pytest.raises(core.InputError, match=r'does not fit checkpoint.*head'):
    checkpoints.load(copy, world=Labelled())


def test_a_record_that_lacks_the_model(copy):
  files.write_json(copy / 'train.run.json', {'world': 'tiny()'})
  with pytest.raises(core.InputError, match='lacks max_len, model'):
    checkpoints.load(copy)


@pytest.mark.parametrize(
  ('field', 'value'),
  [('model', 3), ('max_len', '12'), ('max_len', True), ('seed', [1])],
)
def test_a_record_of_wrong_types(copy, field, value):
  path = copy / 'train.run.json'
  files.write_json(path, {**files.read_json(path), field: value})
  with pytest.raises(core.InputError, match=f'{field}: expected'):
    checkpoints.load(copy)


@dataclasses.dataclass(frozen=True)
class Renamed(tiny.World):
  @property
  def vocab(self):
    return ('<pad>', 'fin', *tiny.VOCAB[2:])


def test_another_vocabulary(run):
  checkpoints.load(run, world=tiny.World(ending=False))
  with pytest.raises(core.InputError, match='has another'):
    checkpoints.load(run, world=Renamed())


def test_the_hash_of_a_checkpoint_is_of_its_files(run, copy):
  hashes = [checkpoints.load(first)[1]['sha256'] for first in (run, copy)]
  assert hashes[0] == hashes[1]
  # The same steps from another seed, put in place of these.
  other = copy.parent / 'other'
  data = str(copy / 'data')
  loop.train(
    mean_mlp.WORLD,
    mean_mlp.MODEL,
    other,
    Training(steps=4, batch=16, seed=1, data=data),
  )
  shutil.rmtree(copy / 'checkpoints')
  shutil.copytree(other / 'checkpoints', copy / 'checkpoints')
  assert checkpoints.load(copy)[1]['sha256'] != hashes[0]


def test_a_best_checkpoint_that_was_removed(copy):
  kept = copy / 'checkpoints'
  path = kept / '4' / 'progress' / 'metadata'
  path.write_text(
    path.read_text().replace('"best": {"step": 4', '"best": {"step": 2')
  )
  hashes = kept / '4' / checkpoints.HASHES
  files.write_json(hashes, checkpoints._hashes(kept / '4'))
  with pytest.raises(core.InputError, match='is gone; available: 4'):
    checkpoints.load(copy, 'best')


def test_counted_models_are_fitted_kept_and_loaded(tmp_path):
  mean_mlp.make_data(tmp_path)
  asked = mean_mlp.WORLD, 'ngram(order=2)', tmp_path, Training()
  summary = loop.train(*asked)
  predictor, info = checkpoints.load(tmp_path, 'last')
  assert info['checkpoint'].endswith('fitted.npz')
  tokens = tiny.World().sample(5, 1)
  log_probs = predictor.log_probs(tokens.tokens, tokens.lengths)
  assert np.isfinite(log_probs[:, 0, 1:]).all()
  assert 0.3 < summary['heldout_loss'] < 2
  again = loop.train(*asked)
  assert again['heldout_loss'] == summary['heldout_loss']
  with pytest.raises(core.InputError, match='another train run'):
    loop.train(mean_mlp.WORLD, 'ngram(order=3)', tmp_path, Training())
