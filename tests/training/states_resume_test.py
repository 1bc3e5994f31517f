"""Runs trained on states that are killed, and commands end to end."""

import json

import jax
import numpy as np
import pytest

from tests.launch import binaries
from tests.training import mean_mlp
from tests.training.resume_test import SIGKILLED, copy, finish, start
from wm.runtime import files
from wm.training import checkpoints

mean_mlp.install()
STATES = {'objective': 'state', 'loss': 'sequence', 'steps': 40}


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
  """Holds `whole`, a run that nothing disturbed."""
  folder = tmp_path_factory.mktemp('states')
  mean_mlp.make_data(folder / 'whole')
  finish(start(folder / 'whole', **STATES))
  return folder


@pytest.mark.process
def test_killed_and_started_again_is_the_same_run_to_the_bit(folder):
  run = copy(folder, 'killed')
  finish(start(run, die=['batch', 25], **STATES), SIGKILLED)
  summary = finish(start(run, **STATES))
  whole = folder / 'whole'
  lines = (run / 'metrics.jsonl').read_bytes()
  assert lines == (whole / 'metrics.jsonl').read_bytes()
  assert b'heldout_exact' in lines
  assert (
    summary['heldout_exact']
    == files.read_json(whole / 'train.json')['heldout_exact']
  )
  pair = [checkpoints.load(out, 'last')[0] for out in (whole, run)]
  params = [result.placed(result.devices[0]) for result in pair]
  for first, other in zip(*map(jax.tree.leaves, params), strict=True):
    assert np.asarray(first).tobytes() == np.asarray(other).tobytes()
  about = files.read_json(run / 'train.run.json')
  assert (about['objective'], about['loss']) == ('state', 'sequence')


def call(binary, *flags) -> str:
  """What it prints; nothing to stderr but how far training is."""
  code, out, err = binaries.run(binary, *flags)
  assert code == 0, err
  assert not [line for line in err.splitlines() if 'train: ' not in line]
  return out


@pytest.mark.parametrize(
  'world',
  [
    'chess(length=24)',
    pytest.param('lattice(length=16)', marks=pytest.mark.slow),
  ],
)
def test_from_sampling_to_scores(tmp_path, world):
  what, out = f'--world={world}', f'--out={tmp_path}'
  call('sample', what, out, '--num=60', '--num_heldout=12')
  model = '--model=transformer(layers=1, width=16, heads=2)'
  brief = ['--objective=state', '--steps=6', '--batch=8', '--lr=0.01']
  output = call('train', what, model, out, *brief)
  summary = json.loads(output)
  assert summary['step'] == 6
  assert 0 <= summary['heldout_exact'] <= 1
  data = tmp_path / 'data' / 'heldout'
  metric = f"--metric=exactness(num=12, data='{data}')"
  if 'chess' in world:
    asked = ['--checkpoint=last', '--metric=compression(trials=2)']
    # It names states alone: nothing is measured.
    code, output, err = binaries.run('score', what, out, *asked)
    assert code == 1
    assert 'needs_predictor' in output
    assert 'was not measured in any trial' in err
  output = call('score', what, out, metric, '--checkpoint=last')
  scores = {e['quantity']: e for e in files.read_json(tmp_path / 'scores.json')}
  for name in ('exact', 'loss'):
    assert scores[name]['value'] == pytest.approx(
      summary[f'heldout_{name}'], rel=1e-4
    )
  assert 'exactness: exact' in output
