"""Losses by hand, labels made on the way, and states that are learned."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests import tiny
from tests.marks import few
from tests.training import mean_mlp
from wm import core
from wm.core import registry
from wm.data import batches, sampling, store
from wm.metrics import exactness
from wm.models.nn import layers, network
from wm.models.serving import networks
from wm.options.calls import Sampling
from wm.options.training import Training
from wm.training import checkpoints, loop, state
from wm.training import loss as loss_lib
from wm.training import setup as setup_lib

mean_mlp.install()
RNG = np.random.default_rng(0)


class Fixed:
  """A network whose logits are given."""

  def __init__(self, logits):
    self.logits = jnp.asarray(logits, jnp.float32)

  parts = network.Network.parts

  def __call__(self, tokens, key=None):
    del key
    return self.logits[:, : tokens.shape[1]]


def log_softmax(x):
  x = x.astype(np.float64)
  return x - np.log(np.exp(x).sum(-1, keepdims=True))


def chess(length=20):
  return registry.make('world', f'chess(length={length})')


def batch(world, num=6):
  result = world.sample(num, 0)
  lengths = np.maximum(result.lengths - 3 * np.arange(num), 1).astype(np.int32)
  lengths[-1] = 0  # As where a batch is filled up.
  labels = world.sequence_labels(result.tokens, lengths)
  return result.tokens, lengths, labels


def judged(objective, logits, tokens, labels=()):
  act = jax.jit(
    lambda x, *batch: objective.per_token_loss(Fixed(x), None, *batch)
  )
  return act(logits, jnp.asarray(tokens), *labels)


def test_zero_logits_cost_what_the_paper_says():
  world = chess()
  tokens, lengths, labels = batch(world)
  for loss in ('token', 'sequence'):
    objective = loss_lib.StateLoss(world, loss)
    assert objective.outputs == 1878
    zeros = np.zeros((*tokens.shape, objective.outputs))
    result = judged(objective, zeros, tokens, (jnp.asarray(labels),))
    want = (64 * np.log(13) + 5 * np.log(2) + np.log(27) + 4 * np.log(256)) / 75
    assert want == pytest.approx(2.574654, abs=1e-6)
    mean = float(objective.mean(result, jnp.asarray(lengths)))
    assert mean == pytest.approx(want, rel=3e-6)
    sums = np.asarray(objective.evaluation(result, jnp.asarray(lengths)))
    assert objective.means(sums)['trajectory'] == 0
    assert sums[1] == lengths.sum()
    assert sums[3] == np.maximum(lengths - 1, 0).sum()
    np.testing.assert_allclose(sums[0] / sums[1], want, rtol=1e-5)


def test_losses_by_hand():
  """Against one softmax after the other, in double precision."""
  world = chess(8)
  tokens, lengths, labels = batch(world, 3)
  objective = loss_lib.StateLoss(world)
  logits = RNG.normal(0, 2, (*tokens.shape, objective.outputs)).astype(
    np.float32
  )
  want = np.zeros(labels.shape)
  named = np.zeros(labels.shape, np.int64)
  first = 0
  for k, classes in enumerate(world.heads.sizes):
    part = log_softmax(logits[..., first : first + classes])
    want[..., k] = -np.take_along_axis(
      part, labels[..., k, None].astype(int), -1
    )[..., 0]
    named[..., k] = part.argmax(-1)
    first += classes
  heads = world.heads.sizes
  act = jax.jit(functools.partial(layers.state_losses, heads=heads))
  result = act(logits, labels)
  np.testing.assert_allclose(result, want, rtol=1e-5)
  np.testing.assert_array_equal(layers.state_classes(logits, heads), named)
  real = np.arange(tokens.shape[1]) < lengths[:, None]
  inputs = judged(objective, logits, tokens, (jnp.asarray(labels),))
  sums = np.asarray(objective.evaluation(inputs, jnp.asarray(lengths)))
  parts = ('loss_board', 'loss_rules', 'loss_counters')
  assert objective.names == (*parts, 'exact', 'labelwise', 'trajectory')
  exact = (named == labels).all(-1)
  np.testing.assert_allclose(
    sums,
    [
      want.mean(-1)[real].sum(),
      real.sum(),
      want.mean(-1)[:, 1:][real[:, 1:]].sum(),
      real[:, 1:].sum(),
      want[..., :64].mean(-1)[real].sum(),
      want[..., :71].mean(-1)[real].sum(),
      want[..., 71:].mean(-1)[real].sum(),
      exact[real].sum(),
      (named == labels).mean(-1)[real].sum(),
      (exact | ~real)[lengths > 0].all(-1).sum(),
      (lengths > 0).sum(),
    ],
    rtol=1e-5,
  )


@pytest.mark.parametrize('kind', [loss_lib.NextTokenLoss, loss_lib.StateLoss])
def test_by_token_and_by_sequence(kind):
  world = tiny.World()
  tokens, lengths, labels = batch(world, 5)
  extra = (jnp.asarray(labels),) if kind is loss_lib.StateLoss else ()
  size = 5 if extra else len(tiny.VOCAB)
  logits = RNG.normal(size=(*tokens.shape, size))
  result = {}
  for loss in ('token', 'sequence'):
    objective = kind(world, loss)
    inputs = judged(objective, logits, tokens, extra)
    result[loss] = float(objective.mean(inputs, jnp.asarray(lengths)))
  table = log_softmax(logits)
  if extra:
    picked = -np.take_along_axis(table, labels.astype(int), -1)[..., 0]
    rows = [row[:size] for row, size in zip(picked, lengths, strict=True)]
  else:
    picked = -np.take_along_axis(table[:, :-1], tokens[:, 1:, None], -1)
    rows = [
      row[: max(size - 1, 0), 0]
      for row, size in zip(picked, lengths, strict=True)
    ]
  rows = [row for row in rows if len(row)]
  assert result['token'] == pytest.approx(np.concatenate(rows).mean(), rel=1e-5)
  by_row = np.mean([row.mean() for row in rows])
  assert result['sequence'] == pytest.approx(by_row, rel=1e-5)
  assert abs(by_row - np.concatenate(rows).mean()) > 1e-3


def test_labels_come_with_the_batch_and_are_those_of_the_rows(tmp_path):
  world = chess(40)
  sampling.make_dataset(
    world, tmp_path, Sampling(num=40, num_heldout=8, seed=0)
  )
  kept = store.open(tmp_path / 'data' / 'train')
  everything = kept.read(0, 40)
  stored = world.sequence_labels(everything.tokens, everything.lengths)
  source = batches.Batches(kept, 8, 3, 'random', loop.MULTIPLE)
  with loop.Prefetch(source, state.mesh(2, 1), 4, 41, world) as running:
    for step, (tokens, lengths, labels) in running.run(0):
      assert labels.shape == (*tokens.shape, 75)
      assert labels.dtype == np.uint8
      assert labels.addressable_shards[0].data.shape[0] == 4
      want = stored[source.rows(step)]
      width = min(labels.shape[1], want.shape[1])
      np.testing.assert_array_equal(labels[:, :width], want[:, :width])
      assert not np.asarray(labels)[:, width:].any()
      assert (
        np.asarray(lengths) == everything.lengths[source.rows(step)]
      ).all()


def test_each_process_makes_labels_of_its_own_rows_once():
  asked = []

  class Spy(tiny.World):
    def sequence_labels(self, tokens, lengths):
      asked.append(len(tokens))
      return super().sequence_labels(tokens, lengths)

  result = tiny.World().sample(6, 0)
  for mesh, expected in (((2, 1), [3, 3]), ((1, 2), [6])):
    asked.clear()
    labels = loop.place_batch(
      state.mesh(*mesh), result.tokens, result.lengths, Spy()
    )[2]
    assert asked == expected
    np.testing.assert_array_equal(
      labels, tiny.World().sequence_labels(result.tokens, result.lengths)
    )


MODEL = 'mean_mlp(dropout=0.0)'


def config(**fields) -> Training:
  return Training(
    **{
      'objective': 'state',
      'steps': 60,
      'batch': 16,
      'warmup': 2,
      'lr': 0.03,
      'eval_every': 30,
      'save_every': 100,
      **fields,
    }
  )


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
  out = tmp_path_factory.mktemp('states')
  mean_mlp.make_data(out)
  return out, loop.train(mean_mlp.WORLD, MODEL, out, config())


def test_the_restored_predictor_is_as_exact_as_was_reported(trained):
  out, summary = trained
  predictor, info = checkpoints.load(out, 'last')
  assert info['run']['objective'] == 'state'
  assert isinstance(predictor, networks.NetworkStatePredictor)
  world, held = tiny.World(), store.open(out / 'data' / 'heldout').read(0, 99)
  metric = exactness.Metric(num=99, data=str(out / 'data' / 'heldout'))
  scores = {s.quantity: s for s in metric(predictor, world, 0)}
  for quantity in ('exact', 'loss', 'labelwise', 'trajectory'):
    rows = scores[quantity]
    value = (rows.value * rows.weight).sum() / rows.weight.sum()
    assert value == pytest.approx(summary[f'heldout_{quantity}'], rel=1e-5)
  assert summary['heldout_exact'] > 0.35  # Means of embeddings cannot do all.
  named = predictor.states(held.tokens, held.lengths)
  assert named.shape == (*held.tokens.shape, 1)
  again, loss = predictor.state_loss(
    held.tokens, held.lengths, world.sequence_labels(held.tokens, held.lengths)
  )
  np.testing.assert_array_equal(named, again)
  real = np.arange(held.tokens.shape[1]) < held.lengths[:, None]
  assert loss[real].mean() == pytest.approx(summary['heldout_loss'], rel=1e-5)
  assert not named[~real].any()
  item = predictor.states(held.tokens[[3]], held.lengths[[3]])
  np.testing.assert_array_equal(item[0], named[3])


def test_a_network_of_states_gives_no_next_token(trained):
  predictor, _ = checkpoints.load(trained[0], 'last')
  tokens = np.array([[4, 2]], np.int32), np.array([2])
  assert not isinstance(predictor, core.Predictor)
  assert isinstance(predictor, core.HiddenStates)
  control = predictor.untrained(1)
  assert control.states(*tokens).shape == (1, 2, 1)
  assert control.spec == predictor.spec


@pytest.mark.parametrize(
  ('fields', 'message'),
  [
    ({'objective': 'pixels'}, "objective='pixels'; available: next, state"),
    ({'loss': 'word'}, "loss='word'; available: token, sequence"),
    ({'model': 'ngram(order=2)'}, 'has objective=next only'),
  ],
)
def test_bad_objectives_are_named(trained, fields, message):
  fields = dict(fields)
  model = fields.pop('model', MODEL)
  with pytest.raises(core.InputError, match=message):
    loop.train(mean_mlp.WORLD, model, trained[0], config(**fields))


def test_a_world_without_labels_is_named():
  with pytest.raises(core.InputError, match='no labels'):
    loss_lib.StateLoss(tiny.Plain())
  spec = network.NetworkSpec(mean_mlp.Model(), 8, 12, 5)
  params = network.init(spec, 0)
  with pytest.raises(core.InputError, match='no labels'):
    networks.NetworkStatePredictor(mean_mlp.Model(), params, tiny.Plain(), 12)


@pytest.mark.parametrize('scale', [1.0, 30.0])
def test_small_and_large_losses_keep_their_digits(scale):
  """And so do gradients: the softmax less one at the label."""
  heads = (5, 5, 3)
  logits = RNG.normal(size=(50, 13)).astype(np.float32) * scale
  labels = RNG.integers(0, 3, (50, 3))
  firm = logits.copy()  # Sure of the right class.
  for k, first in enumerate((0, 5, 10)):
    firm[np.arange(50), first + labels[:, k]] += 20
  for inputs in (logits, firm):
    want, slope, first = np.zeros((50, 3)), np.zeros((50, 13)), 0
    for k, classes in enumerate(heads):
      part = inputs[:, first : first + classes].astype(np.float64)
      # The others' logits against the label's, summed without cancellation.
      gap = part - np.take_along_axis(part, labels[:, [k]], 1)
      np.put_along_axis(gap, labels[:, [k]], -np.inf, 1)
      top = np.maximum(gap.max(1), 0)
      mass = np.exp(gap - top[:, None]).sum(1)
      want[:, k] = np.where(
        top > 0, top + np.log(np.exp(-top) + mass), np.log1p(mass)
      )
      share = np.exp(gap - want[:, [k]])
      np.put_along_axis(share, labels[:, [k]], -share.sum(1, keepdims=True), 1)
      slope[:, first : first + classes] = share
      first += classes
    truth = jnp.asarray(labels)
    act = jax.jit(functools.partial(layers.state_losses, heads=heads))
    losses, back = jax.vjp(act, jnp.asarray(inputs), truth)
    np.testing.assert_allclose(losses, want, rtol=3e-5, atol=1e-30)
    result = back(jnp.ones_like(losses))[0]
    np.testing.assert_allclose(result, slope, rtol=3e-4, atol=1e-7)
    assert np.isfinite(result).all()


@pytest.mark.parametrize(
  'spec', few(1, ['lattice(length=12)', 'chess(length=6)'])
)
def test_one_batch_is_learned_to_exact_states(tmp_path, spec):
  """With every head, every position and every row in the loss."""
  world = registry.make('world', spec)
  sampling.make_dataset(world, tmp_path, Sampling(num=4, num_heldout=2, seed=0))
  model = registry.make('model', 'transformer(layers=1, width=32, heads=2)')
  data = setup_lib.open_data(tmp_path, world)
  plain = {'batch': 4, 'lr': 1e-2, 'weight_decay': 0.0}
  plain |= {'schedule': 'constant', 'optimizer': 'adamw', 'mesh_data': 1}
  trainer = loop.Trainer(config(**plain), world, model, (data[0], data[0]))
  now = state.create(trainer.spec, 0, trainer.optimizer, trainer.abstract)
  tokens, lengths = data[0].take(np.arange(4))
  placed = loop.place_batch(trainer.mesh, tokens, lengths, world)
  for step in range(300):
    now, report = trainer.train_step(now, np.int32(step), *placed)
  sums = trainer.evaluate(now.params)
  assert sums[1] == lengths.sum()
  result = trainer.objective.means(sums)
  assert result['exact'] == result['trajectory'] == 1, result
  assert float(report[0] / report[1]) < 0.02
  params = jax.device_get(trainer.spec.tree(now.params))
  predictor = networks.NetworkStatePredictor(
    model, params, world, world.max_len
  )
  np.testing.assert_array_equal(
    predictor.states(tokens, lengths), world.sequence_labels(tokens, lengths)
  )
