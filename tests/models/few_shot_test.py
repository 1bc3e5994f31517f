"""Every way to learn small tasks: one conformance test, and known answers."""

import flax.linen
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import wm
from tests.marks import few
from tests.metrics import table
from wm import core
from wm.core import adapting, registry
from wm.metrics import inductive_bias

D, N, M = 2, 24, 9
WORLD = registry.make('world', 'lattice(size=4, length=12)')
V, L = len(WORLD.vocab), WORLD.max_len
KINDS = adapting.Classes(2), adapting.Classes(3, 2), adapting.Real(2)
# Enough for a head on random features.
TUNED = adapting.FineTuneConfig(0.03)


def rows(num, seed):
  """Sequences [D, num, L] and two places of each, some of them none."""
  tokens = WORLD.sample(D * num, seed).tokens.reshape(D, num, L)
  places = np.random.default_rng(seed).integers(0, L, (D, num, 2))
  places[:, ::3, 1] = core.DEAD
  return tokens, places.astype(np.int32)


def tasks(kind, seed=1, num=N):
  """Labels tell whether the last token was the first of the vocabulary."""
  tokens, places = rows(num, seed)
  last = np.take_along_axis(tokens, np.maximum(places, 0), 2) == 1
  width = kind.shape[0]
  number = 'int64' if isinstance(kind, adapting.Classes) else 'float32'
  labels = np.repeat(last[..., None], width, -1).astype(number)
  return adapting.FewShotTasks(tokens, places, labels)


class Linen(flax.linen.Module):
  """A bigram table."""

  @flax.linen.compact
  def __call__(self, tokens):
    return flax.linen.Embed(V, 16, name='table')(tokens)[..., :V]


class Nnx(nnx.Module):
  """Another, with a layer called head and one that is not tuned."""

  def __init__(self, rngs):
    self.table = nnx.Embed(V, 16, rngs=rngs)
    self.head = nnx.Linear(16, V, rngs=rngs)
    self.dropout = nnx.Dropout(0.5, rngs=rngs)
    self.norm = nnx.BatchNorm(16, rngs=rngs)

  def hidden(self, tokens, layer):
    return self.norm(self.dropout(self.table(tokens)))

  def __call__(self, tokens):
    return self.head(self.hidden(tokens, -1))


def torch_module():
  torch = pytest.importorskip('torch')
  torch.manual_seed(0)
  return torch.nn.Sequential(torch.nn.Embedding(V, V), torch.nn.Linear(V, V))


def wrapped(thing):
  return wm.wrap(thing, WORLD).predictor


def ngram():
  model = registry.make('model', 'ngram(order=2)')
  return model.fit([WORLD.sample(50, 0)], WORLD)


def by_spec(spec):
  return registry.make('model', spec).predictor(WORLD, 0)


# Readers that learn what the last token says; and those that know less or more.
KNOWING = {
  'linen': lambda: wrapped(
    (Linen(), {'params': {'table': {'embedding': 2 * jnp.eye(V, 16)}}})
  ),
  'nnx': lambda: wrapped(Nnx(nnx.Rngs(0))),
  'torch': lambda: wrapped(torch_module()),
  'ngram': ngram,
  'lookup': lambda: by_spec("lookup(by='last_token')"),
}
OTHERS = {
  'bayes': lambda: by_spec('bayes()'),
  'uniform': lambda: by_spec('uniform()'),
  'copy_start': lambda: by_spec('copy_start()'),
  'noisy_oracle': lambda: by_spec('noisy_oracle()'),
}


def adapt(reader, kind, seed=1, d=slice(None), steps=(30,), config=TUNED):
  shown = adapting.FewShotTasks(*(x[d] for x in tasks(kind, seed)))
  asked = adapting.QueryPoints(*(x[d] for x in rows(M, 5)))
  return reader.adapt(shown, asked, kind, steps, 7, config)


@pytest.mark.parametrize('name', few(4, [*KNOWING, *OTHERS]))
def test_every_adapter_answers_each_data_set_alone(name):
  reader = (KNOWING | OTHERS)[name]()
  assert isinstance(reader, core.Adaptable)
  truth = tasks(KINDS[0], 5, M)
  used = truth.places != core.DEAD
  answers = [adapt(reader, kind) for kind in KINDS]
  for kind, outputs in zip(KINDS, answers, strict=True):
    assert outputs.shape == (1, D, M, 2, *kind.shape)
    assert np.isfinite(outputs[0][used]).all()
    np.testing.assert_array_equal(adapt(reader, kind), outputs)
  # The other data set says nothing of this one.
  alone, whole = adapt(reader, KINDS[0], d=slice(1)), answers[0]
  np.testing.assert_allclose(alone[:, 0], whole[:, 0], atol=1e-4)
  if name in KNOWING:
    right = whole[0].argmax(-1)[used] == truth.labels[used]
    assert right.all(), name
    real = adapt(reader, KINDS[2], steps=(300,))[0]
    apart = np.abs(real[used] - truth.labels[used])
    assert apart.max() < 0.2, name


@pytest.mark.parametrize('name', ['nnx', 'torch'])
def test_numbers_of_steps_and_streams(name):
  reader, kind = KNOWING[name](), KINDS[0]
  assert adapt(reader, kind, steps=(1, 40)).shape[0] == 2
  stream = adapting.TaskStream(lambda step: tasks(kind, 1 + step))
  asked = adapting.QueryPoints(*rows(M, 5))
  result = reader.adapt(stream, asked, kind, (30,), 7, TUNED)
  truth = tasks(kind, 5, M)
  used = truth.places != core.DEAD
  right = result[0].argmax(-1)[used] == truth.labels[used]
  assert right.all()


SMALL = {'num': 32, 'states': 12, 'pool': 40}


def bias(reader, world, **fields):
  metric = inductive_bias.Metric(**{**SMALL, **fields})
  return table.by_name(metric(reader, world, 1))


def test_a_share_of_wrong_prefixes_shows_as_it_should():
  """Pairs agree if neither is wrong, and are coins else: R is (1 - w)^2."""
  world = registry.make('world', 'lattice(size=5, length=40)')
  for wrong in (0.0, 0.3):
    spec = f"noisy_oracle(wrong={wrong}, by='prefix')"
    reader = registry.make('model', spec).predictor(world, 0)
    result = bias(reader, world, num=64, states=32, pool=60)
    # A wrong prefix is taken for its own state as often as for another.
    again = 1 - (1 - wrong) ** 2
    low, high = (1 - wrong) ** 2, 1 - again * 0.6
    assert low - 0.06 <= table.mean(result['r_ib']) <= high + 0.06


def test_modules_of_a_user_stay_as_they_were():
  module = Nnx(nnx.Rngs(0))
  before = np.array(module.table.embedding[...])
  adapt(wrapped(module), KINDS[0])
  np.testing.assert_array_equal(module.table.embedding[...], before)
  assert not module.dropout.deterministic


def test_ids_of_its_own_reach_modules():
  table_ = {name: 2 * n for n, name in enumerate(WORLD.vocab)}
  table_['<bos>'] = 2 * V - 1  # Places lie behind it.
  params = {'params': {'table': {'embedding': 2 * jnp.eye(2 * V, 16)}}}

  class Wide(flax.linen.Module):
    @flax.linen.compact
    def __call__(self, tokens):
      return flax.linen.Embed(2 * V, 16, name='table')(tokens)[..., : 2 * V]

  reader = wm.wrap((Wide(), params), WORLD, tokens=table_).predictor
  truth = tasks(KINDS[0], 5, M)
  used = truth.places != core.DEAD
  result = adapt(reader, KINDS[0])[0].argmax(-1)
  assert (result[used] == truth.labels[used]).all()
