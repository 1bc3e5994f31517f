"""One process: what is learned, what is counted, what is refused."""

import math
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny
from tests.training import mean_mlp
from wm import core
from wm.data import sampling, store
from wm.models.nn import network
from wm.options.calls import Sampling
from wm.options.training import Training
from wm.runtime import files
from wm.training import checkpoints, loop, run_log
from wm.training import loss as loss_lib
from wm.training import setup as setup_lib
from wm.worlds import lattice

mean_mlp.install()
BRIEF = {
  'steps': 12,
  'batch': 16,
  'warmup': 2,
  'eval_every': 6,
  'save_every': 4,
  'log_every': 3,
}
LEARN = {'lr': 0.03, 'eval_every': 50, 'save_every': 100}


def config(**fields) -> Training:
  return Training(**{**BRIEF, **fields})


def train(out, **fields) -> dict:
  """Its summary."""
  return loop.train(mean_mlp.WORLD, mean_mlp.MODEL, out, config(**fields))


def trainer_of(data, **fields) -> loop.Trainer:
  return loop.Trainer(config(**fields), tiny.World(), mean_mlp.Model(), data)


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
  """A run folder and its summary."""
  out = tmp_path_factory.mktemp('loop')
  mean_mlp.make_data(out)
  summary = train(out, steps=200, **LEARN)
  return out, summary


@pytest.mark.parametrize(
  'field',
  [
    {'lr': float('nan')},
    {'clip': float('inf')},
    {'seed': 2**32},
    {'beta2': 1.0},
    {'average': 0.01, 'steps': 99},
  ],
)
def test_a_config_of_numbers_that_are_none(field):
  with pytest.raises(core.InputError, match=f'{next(iter(field))}=.*expected'):
    config(**field)


def test_it_learns_nearly_what_bigrams_know(trained, tmp_path):
  out, summary = trained
  data = Training(data=str(out / 'data'))
  bigrams = loop.train(mean_mlp.WORLD, 'ngram(order=2)', tmp_path, data)
  assert 0.5 < summary['best_loss'] < bigrams['heldout_loss'] + 0.15
  rows = run_log.read(out / 'metrics.jsonl')
  train = [row['loss'] for row in rows if 'loss' in row]
  assert train[0] > 1.5 > 1.2 > train[-1]
  assert summary['step'] == 200
  assert files.read_json(out / 'train.json') == summary


def test_the_restored_predictor_has_the_loss_that_was_reported(trained):
  out, summary = trained
  heldout = store.open(out / 'data' / 'heldout').read(0, 1000)
  for which in ('best', 'last'):
    predictor, info = checkpoints.load(out, which)
    log_probs = predictor.log_probs(heldout.tokens, heldout.lengths)
    real = np.arange(1, heldout.tokens.shape[1]) < heldout.lengths[:, None]
    losses = -np.take_along_axis(
      log_probs[:, :-1], heldout.tokens[:, 1:, None], -1
    )[..., 0]
    assert losses[real].mean() == pytest.approx(
      info['heldout']['loss'], rel=1e-5
    )
    assert info['run']['model'] == 'mean_mlp()'
  assert info['step'] == summary['step']
  assert checkpoints.load(out, 'best')[1]['step'] == summary['best_step']


def test_pads_and_the_prompt_are_left_out_of_the_sums():
  model = mean_mlp.Model(dropout=0.0)
  spec = network.NetworkSpec(model, 8, 12)
  net = network.nnx.merge(spec.graph, network.init(spec, 0))
  rng = np.random.default_rng(0)
  tokens = rng.integers(1, 8, (3, 9)).astype(np.int32)
  lengths = np.array([9, 4, 0], np.int32)
  objective = loss_lib.NextTokenLoss(tiny.World())
  objective.prompt_len = 2
  judged = objective.per_token_loss(net, None, jnp.asarray(tokens))
  losses = np.asarray(judged.loss)
  sums = np.asarray(objective.sums(judged, jnp.asarray(lengths)))
  expected = [
    losses[0].sum() + losses[1, :3].sum(),
    8 + 3,
    losses[0, 1:].sum() + losses[1, 1:3].sum(),
    7 + 2,
  ]
  np.testing.assert_allclose(sums, expected, rtol=1e-5)
  tokens[1, 4:], tokens[2] = 0, 0  # What stands at pads makes no difference.
  again = objective.per_token_loss(net, None, jnp.asarray(tokens))
  again = objective.sums(again, jnp.asarray(lengths))
  np.testing.assert_allclose(again, sums, rtol=1e-6)


def test_training_starts_from_the_untrained_predictor(tmp_path):
  mean_mlp.make_data(tmp_path)
  data = setup_lib.open_data(tmp_path, tiny.World())
  trainer = trainer_of(data, seed=3)
  kept = loop.checkpoints_lib.Checkpoints(tmp_path, read_only=False)
  begun, book = trainer.begin(kept)
  kept.close()
  assert book['step'] == 0
  untrained = network.init(trainer.spec, 3)
  for first, other in zip(
    jax.tree.leaves(untrained),
    jax.tree.leaves(trainer.spec.tree(begun.params)),
    strict=True,
  ):
    np.testing.assert_array_equal(first, other)


def test_checkpoints_are_saved_at_their_steps_alone(tmp_path, monkeypatch):
  saved, save = [], loop.checkpoints_lib.Checkpoints.save

  def noted(self, step, *rest):
    saved.append(step)
    save(self, step, *rest)

  monkeypatch.setattr(loop.checkpoints_lib.Checkpoints, 'save', noted)
  mean_mlp.make_data(tmp_path)
  # Evaluated at the end only, so that no better step is saved besides.
  options = config(steps=11, save_every=4, eval_every=100)
  loop.train(mean_mlp.WORLD, mean_mlp.MODEL, tmp_path, options)
  assert saved == [4, 8, 11]


def test_dropout_depends_on_seed_and_step_alone(tmp_path):
  mean_mlp.make_data(tmp_path)
  data = setup_lib.open_data(tmp_path, tiny.World())
  tokens, lengths = data[0].take(np.arange(16))
  losses = {}
  for seed, at in ((0, 0), (0, 1), (1, 0), (0, 0)):
    trainer = trainer_of(data, seed=seed)
    begun = loop.state_lib.create(
      trainer.spec, 0, trainer.optimizer, trainer.abstract
    )
    batch = loop.place_batch(trainer.mesh, tokens, lengths)
    _, report = trainer.train_step(begun, np.int32(at), *batch)
    losses.setdefault((seed, at), []).append(float(report[0]))
  assert losses[0, 0][0] == losses[0, 0][1]
  assert len({values[0] for values in losses.values()}) == 3


def test_a_loss_that_is_not_finite_stops_before_it_is_saved(tmp_path):
  mean_mlp.make_data(tmp_path)
  with pytest.raises(run_log.LossError) as caught:
    train(tmp_path, lr=1e30, clip=0.0, save_every=1, warmup=0)
  message = str(caught.value)
  assert 'at step' in message
  assert '\n' not in message
  kept = loop.checkpoints_lib.Checkpoints(tmp_path, read_only=True)
  assert kept.last() is None or str(kept.folder) in message
  kept.close()
  for row in run_log.read(tmp_path / 'metrics.jsonl'):
    assert all(map(math.isfinite, row.values()))


def spoilt(monkeypatch, bad) -> None:
  """Makes the loss NaN on batches for which bad([B, L] tokens) is true."""
  honest = loss_lib.NextTokenLoss.per_token_loss

  def judge(self, net, key, tokens, *rest):
    judged = honest(self, net, key, tokens, *rest)
    factor = jnp.where(bad(tokens), jnp.nan, 1)
    return judged._replace(loss=judged.loss * factor)

  monkeypatch.setattr(loss_lib.NextTokenLoss, 'per_token_loss', judge)


def test_steps_without_a_finite_loss_are_left_out_and_counted(
  tmp_path, monkeypatch
):
  mean_mlp.make_data(tmp_path)
  spoilt(monkeypatch, lambda tokens: tokens.sum() % 3 == 0)
  summary = train(tmp_path, skips=12, eval_every=20, log_every=1)
  rows = run_log.read(tmp_path / 'metrics.jsonl')
  rows = [row for row in rows if 'skipped' in row]
  counts = [row['skipped'] for row in rows]
  assert 0 < summary['skipped'] < 12
  assert counts == sorted(counts)
  assert counts[-1] == summary['skipped']
  left_out = np.diff([0, *counts]) > 0
  assert [('loss' not in row) for row in rows] == left_out.tolist()
  rates = [row['lr'] for row in rows]
  for k in np.flatnonzero(left_out[:-1]):
    assert rates[k] == rates[k + 1]  # The schedule waits.
  for path in tmp_path.glob('checkpoints/*/params'):
    assert path.is_dir()
  predictor, _ = checkpoints.load(tmp_path, 'last')
  tokens = np.array([[1, 2, 3]], np.int32)
  assert np.isfinite(predictor.log_probs(tokens, np.array([3]))[0]).all()


def test_too_many_in_a_row_stop_the_run(tmp_path, monkeypatch):
  mean_mlp.make_data(tmp_path)
  spoilt(monkeypatch, lambda tokens: tokens.sum() >= 0)
  with pytest.raises(
    run_log.LossError, match='at step 4 and 3 steps before it'
  ):
    train(tmp_path, skips=3, save_every=50, eval_every=50)


def test_a_part_of_the_held_out_is_its_first_rows(trained):
  out, _ = trained
  data = setup_lib.open_data(out, tiny.World())
  trainer = trainer_of(data, eval_num=7)
  params = loop.state_lib.create(
    trainer.spec, 0, trainer.optimizer, trainer.abstract
  ).params
  sums = trainer.evaluate(params)
  assert sums[1] == (data[1].lengths[:7] - 1).sum()
  assert trainer.training.eval_num == 7
  whole = trainer_of(data)
  assert whole.evaluate(params)[1] == (data[1].lengths - 1).sum()


def test_runs_may_share_their_data(trained, tmp_path):
  out, _ = trained
  shared = config(data=str(out / 'data'), steps=2)
  summary = loop.train(mean_mlp.WORLD, mean_mlp.MODEL, tmp_path, shared)
  assert summary['step'] == 2
  assert not (tmp_path / 'data').exists()
  again = train(tmp_path, data=str(out / 'data') + '/.', steps=2)
  assert again['best_loss'] == summary['best_loss']
  with pytest.raises(core.InputError, match='none'):
    train(tmp_path, data=str(tmp_path / 'none'))


def test_named_data_may_be_of_another_world_that_writes_alike(tmp_path):
  made = lattice.World(length=8)
  sampling.make_dataset(made, tmp_path, Sampling(num=20, num_heldout=5, seed=0))
  longer, shorter = lattice.World(length=12), lattice.World(length=6)
  data = str(tmp_path / 'data')
  assert len(setup_lib.open_data(tmp_path, longer, data)[0]) == 20
  with pytest.raises(core.InputError, match=r'not of lattice\(length=12\)'):
    setup_lib.open_data(tmp_path, longer)
  with pytest.raises(core.InputError, match=r'have \d+ at most'):
    setup_lib.open_data(tmp_path, shorter, data)


def test_a_finished_run_is_left_as_it_is(trained):
  out, summary = trained
  before = (out / 'metrics.jsonl').read_bytes()
  again = train(out, steps=200, **LEARN)
  assert again == {**summary, 'first_step_s': None}
  assert (out / 'metrics.jsonl').read_bytes() == before


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'seed': 1}, 'its seed is 0, not 1'),
    ({'steps': 100}, 'its steps is 200, not 100'),
    ({'lr': 0.1}, 'another train run'),
    ({'mesh_data': 3}, 'does not fit the 2'),
    ({'batch': 15}, 'cannot be divided over 2'),
    ({'num_processes': 2}, 'None: expected host:port of process 0 of the 2'),
    ({'distributed': 'auto'}, 'auto: expected a process that SLURM, Open MPI'),
    (
      {'distributed': 'auto', 'num_processes': 2},
      'auto: expected no --coordinator',
    ),
    ({'coordinator': 'nonsense'}, '=nonsense: expected host:port'),
    ({'process_id': 5}, 'process_id=5 of --num_processes=1: expected 0 to 0'),
  ],
)
def test_another_run_in_the_folder_is_refused(trained, fields, message):
  expected = {'steps': 200, **LEARN, **fields}
  with pytest.raises(core.InputError, match=message):
    train(trained[0], **expected)


def test_a_run_from_before_a_field_was_there_is_of_its_default(
  trained, tmp_path
):
  out, summary = trained
  shutil.copytree(out, tmp_path / 'old')
  path = tmp_path / 'old' / 'train.run.json'
  run = files.read_json(path)
  for name in ('objective', 'loss', 'floor', 'skips', 'eval_num'):
    del run[name]
  files.write_json(path, run)
  again = train(tmp_path / 'old', steps=200, **LEARN)
  assert again['best_loss'] == summary['best_loss']
  with pytest.raises(core.InputError, match=r'its floor is 0\.0, not 0\.5'):
    train(tmp_path / 'old', steps=200, floor=0.5, **LEARN)


def test_models_without_anything_to_train_are_refused(trained):
  with pytest.raises(core.InputError, match='nothing to train'):
    loop.train(mean_mlp.WORLD, 'uniform()', trained[0], Training())


def test_no_data_names_the_command(tmp_path):
  with pytest.raises(core.InputError, match=r'launch/sample\.py'):
    train(tmp_path)
  assert not list(tmp_path.iterdir())


def test_a_batch_without_room_is_refused_and_claims_nothing(
  tmp_path, monkeypatch
):
  mean_mlp.make_data(tmp_path)

  def full(self, out, start):
    raise RuntimeError('INTERNAL: Out of memory allocating 9 bytes.\nmore')

  with monkeypatch.context() as patch:
    patch.setattr(loop.Trainer, 'run', full)
    with pytest.raises(core.InputError, match=r'batch=64 .* expected fewer'):
      train(tmp_path, batch=64)
  assert train(tmp_path, steps=2)['step'] == 2
