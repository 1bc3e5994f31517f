"""Weights of the inductive bias probes' program, and its fine-tuning.

`probes_program.npz` is what the program of Vafa et al. 2025 (commit 69d294f)
computed on a lattice of 5 states and sequences of 24 moves: logits of networks
with the weights below, and logits after it had fine-tuned them, 100 steps on
each of two data sets of 20 labelled sequences, from the heads in the file.
"""

import pathlib

import jax.numpy as jnp
import numpy as np
import pytest

import wm
from tests.marks import few
from wm import core
from wm.core import adapting, registry
from wm.models.nn import network
from wm.models.serving import adaptation, networks
from wm.training import import_checkpoint

WORLD = 'lattice(size=5, length=24)'
WIDTH, PLACES = 16, 23
PROGRAM = np.load(pathlib.Path(__file__).with_name('probes_program.npz'))
SPECS = {
  'gpt': (
    "transformer(width=16, heads=4, mlp='gelu_erf', head_bias=True, context=24)"
  ),
  'rnn': 'rnn(width=16)',
  'lstm': 'lstm(width=16)',
}


def shapes(family):
  """Names and shapes of the program's weights."""
  d = WIDTH
  sizes = {'output_head.weight': (3, d), 'output_head.bias': (3,)}
  if family != 'gpt':
    gates = {'rnn': 1, 'lstm': 4}[family]
    for n in range(2):
      for part in ('ih', 'hh'):
        sizes[f'core.weight_{part}_l{n}'] = gates * d, d
        sizes[f'core.bias_{part}_l{n}'] = (gates * d,)
    return sizes | {'embedding.weight': (3, d)}
  sizes |= {'pos_emb.weight': (PLACES, d)}
  norms = ['ln_f']
  for n in range(2):
    norms += [f'blocks.{n}.ln_1', f'blocks.{n}.ln_2']
    for name, rows, columns in (
      ('attn.c_attn', 3 * d, d),
      ('attn.c_proj', d, d),
      ('mlp.c_fc', 4 * d, d),
      ('mlp.c_proj', d, 4 * d),
    ):
      sizes[f'blocks.{n}.{name}.weight'] = rows, columns
      sizes[f'blocks.{n}.{name}.bias'] = (rows,)
  for name in norms:
    sizes |= {f'{name}.weight': (d,), f'{name}.bias': (d,)}
  return sizes


def weights(family):
  """Large ones, so that small mistakes show."""
  rng, arrays = np.random.RandomState(0), {}
  for name, shape in sorted(shapes(family).items()):
    values = rng.standard_normal(shape) * (0.3 if len(shape) > 1 else 0.1)
    if 'ln_' in name and name.endswith('weight'):
      values += 1
    arrays[name] = values.astype(np.float32)
  if family == 'gpt':
    arrays['embedding.weight'] = arrays['output_head.weight']
  return arrays


@pytest.fixture(params=few(1, SPECS))
def program(request, monkeypatch):
  """(family, the network's shape, its weights) as imported."""
  settings = {'n_head': 4} if request.param == 'gpt' else {}
  arrays = weights(request.param)
  monkeypatch.setattr(import_checkpoint, 'load', lambda _: (arrays, settings))
  checkpoint = import_checkpoint.read('ckpt.pt')
  world = registry.make('world', WORLD)
  model = checkpoint.model(world.max_len)
  assert registry.spec(model) == SPECS[request.param]
  ids = import_checkpoint.order(world.vocab, checkpoint.layout.words(world))
  shape = network.NetworkSpec(model, len(world.vocab), world.max_len)
  return (
    request.param,
    shape,
    import_checkpoint.params(checkpoint, shape, ids),
  )


def test_logits_are_the_programs(program):
  family, shape, params = program
  world = registry.make('world', WORLD)
  predictor = networks.NetworkPredictor(
    shape.model, params, len(world.vocab), world.end, world.max_len
  )
  tokens = PROGRAM['queries'].astype(np.int32) + 1
  ours = predictor.log_probs(tokens, np.full(len(tokens), PLACES))
  theirs = PROGRAM[f'{family}_logits'].astype(np.float64)
  theirs -= np.log(np.exp(theirs).sum(-1, keepdims=True))
  np.testing.assert_allclose(ours[..., 1:], theirs, atol=2e-5)
  # The program's vocabulary has no padding.
  assert (ours[..., core.PAD] < -1e8).all()


def test_fine_tuning_is_the_programs(program, monkeypatch):
  family, shape, params = program
  begin = adaptation.begin

  def with_its_head(task, body, seeds):
    weights, state = begin(task, body, seeds)
    head = jnp.asarray(PROGRAM[f'{family}_head'].T)
    for path, leaf in weights.items():
      if adaptation.of_head(path):
        fresh = head if path[-1] == 'kernel' else jnp.zeros(2)
        weights[path] = jnp.broadcast_to(fresh, leaf.shape)
    return weights, state

  monkeypatch.setattr(adaptation, 'begin', with_its_head)
  sets = adapting.FewShotTasks(
    PROGRAM['tokens'].astype(np.int32) + 1,
    PROGRAM['places'].astype(np.int32)[..., None],
    PROGRAM['labels'].astype(np.int32)[..., None, None],
  )
  tokens = PROGRAM['queries'].astype(np.int32) + 1
  every = np.arange(PLACES, dtype=np.int32)
  queries = adapting.QueryPoints(
    np.stack([tokens, tokens]), np.tile(every, (2, len(tokens), 1))
  )
  tuned = adaptation.Adapter(shape, params).adapt(
    sets,
    queries,
    adapting.Classes(),
    (100,),
    seed=0,
    config=adapting.FineTuneConfig(one_head=True),
  )
  ours, theirs = tuned[0, ..., 0, :], PROGRAM[f'{family}_tuned']
  assert np.ptp(theirs) > 1
  np.testing.assert_allclose(ours, theirs, atol=0.01)
  sure = np.abs(np.diff(theirs)[..., 0]) > 0.02
  assert sure.mean() > 0.9
  assert (ours.argmax(-1) == theirs.argmax(-1))[sure].all()


def test_a_saved_checkpoint_is_imported(tmp_path):
  torch = pytest.importorskip(
    'torch', reason='the extra torch is not installed'
  )
  state = {k: torch.from_numpy(v) for k, v in weights('gpt').items()}
  # As the program saves it: paths and NumPy's numbers are among the settings.
  saved = {
    'model': state,
    'optimizer': {},
    'model_args': {'train_file': pathlib.PosixPath('obs_train.npy')},
    'best_val_loss': np.float32(1.0),
    'config': {'n_head': 4, 'val_file': pathlib.PosixPath('obs_val.npy')},
  }
  torch.save(saved, tmp_path / 'ckpt.pt')
  summary = wm.import_gpt2(tmp_path / 'ckpt.pt', WORLD, tmp_path / 'run')
  assert summary['model'] == SPECS['gpt']
  entries = wm.score(tmp_path / 'run', 'next_token(num=5)', out=tmp_path / 's')
  assert entries[0]['metric'] == 'next_token'
