"""Runs that go on, checkpoints that stay, parts of batches, smooth targets."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import wm
from tests.training import mean_mlp
from wm import core
from wm.library import course
from wm.options.training import Training
from wm.training import checkpoints, loop
from wm.training import loss as loss_lib
from wm.training import state as state_lib

mean_mlp.install()
TINY = wm.make('world', mean_mlp.WORLD)
BRIEF = {'batch': 16, 'warmup': 0, 'eval_every': 20, 'save_every': 20}


def train(out, data, **fields):
  options = Training(**{**BRIEF, 'data': str(data / 'data'), **fields})
  return loop.train(mean_mlp.WORLD, mean_mlp.MODEL, out, options)


@pytest.fixture(scope='module')
def data(tmp_path_factory):
  folder = tmp_path_factory.mktemp('data')
  mean_mlp.make_data(folder)
  return folder


@pytest.fixture(scope='module')
def kept(data, tmp_path_factory):
  """Sixty steps, with the checkpoints of every tenth."""
  out = tmp_path_factory.mktemp('kept')
  return out, train(out, data, steps=60, keep='every:10')


def rates(out):
  lines = (out / 'metrics.jsonl').read_text().splitlines()
  rows = [json.loads(line) for line in lines]
  return {row['step']: row['lr'] for row in rows if 'lr' in row}


def test_checkpoints_stay_and_change_nothing(kept, data, tmp_path):
  out, summary = kept
  assert checkpoints.steps(out) == [10, 20, 30, 40, 50, 60]
  plain = train(tmp_path, data, steps=60)
  assert plain['heldout_loss'] == summary['heldout_loss']
  assert len(checkpoints.steps(tmp_path)) <= 2
  step = wm.load_predictor(out, checkpoint='30').about['step']
  assert step == 30
  with pytest.raises(core.InputError, match=r'35 is gone; available: 10, 20'):
    wm.load_predictor(out, checkpoint='35')
  # Those that are not asked for any more are removed.
  train(out, data, steps=60, keep='every:30')
  assert set(checkpoints.steps(out)) >= {30, 60}


def test_more_steps_continue_a_run_by_their_schedule(data, tmp_path, capsys):
  train(tmp_path, data, steps=40)
  half = checkpoints.steps(tmp_path)
  assert rates(tmp_path)[40] < 1e-5  # The cosine has ended.
  train(tmp_path, data, steps=80)
  text = capsys.readouterr().err
  assert 'continues a run of 40 steps at step 40' in text
  assert half[-1] == 40
  whole = tmp_path / 'whole'
  train(whole, data, steps=80)
  assert rates(tmp_path)[60] == rates(whole)[60]
  about = json.loads((tmp_path / 'train.run.json').read_text())
  assert (about['steps'], about['continued']) == (80, [[40, 40]])
  # It is finished: again it is left as it is, with fewer steps refused.
  assert train(tmp_path, data, steps=80)['step'] == 80
  with pytest.raises(core.InputError, match='its steps is 80, not 40'):
    train(tmp_path, data, steps=40)
  with pytest.raises(core.InputError, match='its lr is'):
    train(tmp_path, data, steps=120, lr=0.5)
  assert json.loads((tmp_path / 'train.run.json').read_text()) == about


def test_a_run_starts_from_a_checkpoint_that_was_kept(kept, data, tmp_path):
  out, _ = kept
  still = {'lr': 0.0, 'matrix_lr': 0.0, 'steps': 1}
  begun = train(tmp_path, data, start=str(out / 'checkpoints' / '30'), **still)
  _, info = checkpoints.load(out, '30')
  about = json.loads((tmp_path / 'train.run.json').read_text())
  assert about['start_sha256'] == info['sha256']
  rows = [
    json.loads(line)
    for line in (out / 'metrics.jsonl').read_text().splitlines()
  ]
  losses = {r['step']: r['heldout_loss'] for r in rows if 'heldout_loss' in r}
  assert losses[20] > begun['heldout_loss'] > losses[40]


def step_of(**fields):
  """A step's gradients and sums from equal parameters and rows."""
  training = Training(batch=24, **fields)
  model = wm.make('model', 'transformer(layers=1, width=16, heads=2)')
  steps = loop.CompiledSteps(training, TINY, model, state_lib.mesh(1, 1))
  state = state_lib.create(steps.spec, 0, steps.optimizer, steps.abstract)
  drawn = TINY.sample(24, 0)
  lengths = np.maximum(drawn.lengths - np.arange(24) % 5, 1).astype(np.int32)
  batch = loop.place_batch(steps.mesh, drawn.tokens, lengths)
  return steps.train_step.gradient(state.params, np.uint32(0), 0, *batch)


@pytest.mark.parametrize('loss', ['token', 'sequence'])
@pytest.mark.parametrize('parts', [2, 3, 24])
def test_parts_of_a_batch_have_its_gradient(loss, parts):
  whole, sums = step_of(loss=loss)
  grads, same = step_of(loss=loss, accumulate=parts)
  np.testing.assert_allclose(same, sums, rtol=1e-6)
  for a, b in zip(*map(jax.tree.leaves, (grads, whole)), strict=True):
    np.testing.assert_allclose(a, b, atol=1e-6)


def test_smoothed_targets_by_hand():
  """(1 - s) (-log p of the token) + s times its mean over all real tokens."""
  rng = np.random.default_rng(0)
  logits = rng.normal(size=(2, 3, 5)).astype(np.float32)
  tokens = np.array([[1, 2, 3, 4], [4, 3, 0, 0]], np.int32)
  lengths = np.array([4, 2], np.int32)
  objective = loss_lib.NextTokenLoss(TINY, smoothing=0.3)
  losses = objective.per_token_loss(
    lambda tokens, key: jnp.asarray(logits), None, jnp.asarray(tokens)
  )
  log_p = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
  terms = [
    -0.7 * log_p[n, t, tokens[n, t + 1]] - 0.3 * log_p[n, t, 1:].mean()
    for n, size in enumerate(lengths)
    for t in range(size - 1)
  ]
  mean = objective.mean(losses, jnp.asarray(lengths))
  assert float(mean) == pytest.approx(np.mean(terms), abs=1e-6)
  plain = loss_lib.NextTokenLoss(TINY)
  reported = objective.sums(losses, jnp.asarray(lengths))[0]
  assert float(reported) == float(plain.sums(losses, jnp.asarray(lengths))[0])


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'keep': '500'}, "expected 'every:' and a number of steps"),
    ({'keep': 'every:0'}, "expected 'every:'"),
    ({'accumulate': 3}, 'expected a divisor of batch=64'),
    ({'accumulate': 0}, 'accumulate'),
    ({'smoothing': 1.0}, 'smoothing'),
    ({'smoothing': 0.1, 'objective': 'state'}, 'expected 0 with'),
  ],
)
def test_bad_options_are_one_line(fields, message, one_line):
  with one_line(message):
    Training(**fields)


def test_the_course_of_a_run_is_a_table_and_a_picture(kept):
  out, _ = kept
  table = wm.course(out, ['next_token(num=20)'])
  assert set(table[table.metric == 'next_token'].step) == set(
    checkpoints.steps(out)
  )
  assert (table.columns == [*course._COLUMNS]).all()
  written = pd.read_csv(out / 'course' / 'course.csv')
  assert len(written) == len(table)
  losses = table[table.metric == 'training'].set_index('step').value
  assert losses[60] < losses[20]
  picture = (out / 'course' / 'course.svg').read_text()
  assert 'training steps' in picture
  # The checkpoint of a step scores as it does alone.
  alone = wm.score(out, ['next_token(num=20)'], checkpoint='60')
  of_step = table[(table.step == 60) & (table.quantity == 'validity')]
  validity = alone[alone.quantity == 'validity'].value.item()
  assert of_step.value.item() == validity


def test_a_course_needs_a_run(tmp_path):
  with pytest.raises(core.InputError, match='holds no training run'):
    wm.course(tmp_path, ['next_token()'])
