"""Runs that start from another run's parameters."""

import json

import pytest

from tests.training import mean_mlp
from wm import core
from wm.options.training import Training
from wm.training import checkpoints, loop

mean_mlp.install()
BRIEF = {'batch': 16, 'warmup': 0, 'eval_every': 20, 'save_every': 20}
STILL = {'lr': 0.0, 'matrix_lr': 0.0, 'steps': 1}


def train(out, data, model=mean_mlp.MODEL, **fields):
  options = Training(**{**BRIEF, 'data': str(data / 'data'), **fields})
  return loop.train(mean_mlp.WORLD, model, out, options)


@pytest.fixture(scope='module')
def first(tmp_path_factory):
  """A run of twenty steps, and its loss."""
  out = tmp_path_factory.mktemp('first')
  mean_mlp.make_data(out)
  return out, train(out, out, steps=20, lr=0.03)['heldout_loss']


@pytest.fixture(scope='module')
def still(first, tmp_path_factory):
  """A run of one step that moves nothing, from where the first ended."""
  out = tmp_path_factory.mktemp('still')
  return out, train(out, first[0], start=str(first[0]), **STILL)


def test_training_begins_where_the_other_run_ended(first, still):
  assert still[1]['heldout_loss'] == first[1]
  assert first[1] < 1.5  # Uniform over the tokens is 2.08.


def test_a_run_is_known_by_what_it_started_from(first, still):
  about = json.loads((still[0] / 'train.run.json').read_text())
  assert about['start_sha256'] == checkpoints.load(first[0])[1]['sha256']
  assert 'start' not in about
  plain = json.loads((first[0] / 'train.run.json').read_text())
  assert 'start_sha256' not in plain
  # Started again it is done; without the start it is another run.
  again = train(still[0], first[0], start=str(first[0]), **STILL)
  assert again['heldout_loss'] == first[1]
  with pytest.raises(core.InputError, match='start_sha256'):
    train(still[0], first[0], **STILL)


@pytest.mark.parametrize(
  ('model', 'place', 'message'),
  [
    (
      'mean_mlp(width=8)',
      '',
      r"has model 'mean_mlp\(\)'; expected 'mean_mlp\(width=8\)'",
    ),
    (mean_mlp.MODEL, 'nowhere', 'holds no training run'),
    ('ngram()', '', 'is fitted by counting, without a start'),
  ],
)
def test_what_cannot_be_started_from_is_refused(
  first, tmp_path, model, place, message, one_line
):
  with one_line(message):
    train(tmp_path / 'o', first[0], model, start=str(first[0] / place), **STILL)
  assert not (tmp_path / 'o' / 'checkpoints').exists()
