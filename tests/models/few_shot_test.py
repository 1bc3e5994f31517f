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
from wm.models.serving import few_shot

D, N, M = 2, 24, 9
WORLD = registry.make('world', 'lattice(size=4, length=12)')
V, L = len(WORLD.vocab), WORLD.max_len
TABLE = np.random.default_rng(0).normal(size=(V, V)).astype(np.float32)
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


class Rule:
  """Learns by a method of its own: the commonest label of each last token."""

  answer = 'labels'

  def __call__(self, tokens):
    return TABLE[tokens]

  def adapt(self, tokens, places, labels, task):
    last, k = tokens[places], getattr(task.kind, 'k', 0)
    mean = np.stack(
      [(labels * (last == v)[:, None]).sum(0) / max((last == v).sum(), 1)
       for v in range(V)]
    )  # fmt: skip
    if not k:
      return lambda tokens, places: mean[tokens[places]]
    named = mean.round().astype(int)
    if self.answer == 'labels':
      return lambda tokens, places: named[tokens[places]]
    return lambda tokens, places: np.eye(k)[named[tokens[places]]]


class Scores(Rule):
  answer = 'scores'


class Silent:
  """Says yes and no, and learns by a method."""

  adapt = Rule.adapt
  answer = 'labels'

  def answers(self, prefixes, suffixes):
    return [1] * len(prefixes)


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
  'method': lambda: wrapped(Rule()),
  'scores': lambda: wrapped(Scores()),
  'yes and no': lambda: wrapped(Silent()),
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


@pytest.mark.parametrize('name', ['method', 'nnx', 'torch'])
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


def oracle_of(world, constant=False):
  """A user's model whose adapt gives a table of true states, or a constant."""

  class Oracle:
    def __call__(self, tokens):
      return np.zeros((*tokens.shape, len(world.vocab)))

    def adapt(self, tokens, places, labels, task):
      def states(tokens, places):
        at = places[1][:, None]
        return adapting.at_places(world, tokens[places[0]], at)[0][:, 0]

      known = dict(zip(states(tokens, places), labels[:, 0], strict=True))

      def answer(tokens, places):
        if constant:
          return np.ones(len(places[0]), int)
        return np.array([known.get(x, x % 2) for x in states(tokens, places)])

      return answer

  return Oracle()


SMALL = {'num': 32, 'states': 12, 'pool': 40}


@pytest.mark.parametrize(
  ('constant', 'values'),
  [
    (False, {'r_ib': 1, 'd_ib_normalised': 1, 'accuracy': 1}),
    # All pairs are answered alike: 1 - 2 * 0 and 2 * 0.
    (True, {'r_ib': 1, 'd_ib': 0, 'd_ib_q_equal': 0, 'd_ib_normalised': 0}),
  ],
)
def test_a_users_method_has_the_scores_of_what_it_answers(constant, values):
  entries = wm.score(
    oracle_of(WORLD, constant),
    f'inductive_bias({", ".join(f"{k}={v}" for k, v in SMALL.items())})',
    WORLD,
  )
  result = {entry['quantity']: entry['value'] for entry in entries}
  assert {name: result[name] for name in values} == values


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


def test_belief_is_a_table_where_it_is_sure_and_a_mixture_where_not():
  world = registry.make('world', "hmm(preset='mess3')")
  reader = registry.make('model', 'bayes()').predictor(world, 0)
  tokens = world.sample(60, 1).tokens[None]
  places = np.full((1, 60, 1), 8)
  belief = reader.hidden(tokens[0], np.full(60, 9), -1)[:, 8]
  labels = (belief @ np.array([1.0, -2.0, 0.5]))[None, :, None, None]
  shown = adapting.FewShotTasks(tokens, places, labels.astype(np.float32))
  asked = adapting.QueryPoints(tokens, places)
  real = reader.adapt(shown, asked, adapting.Real(1), (1,), 0)
  np.testing.assert_allclose(real[0], labels, atol=1e-4)
  named = belief.argmax(1)[None, :, None, None]
  shown = adapting.FewShotTasks(tokens, places, named)
  kind = adapting.Classes(3)
  result = reader.adapt(shown, asked, kind, (1,), 0)[0, 0, :, 0, 0]
  np.testing.assert_allclose(np.exp(result).sum(1), 1, atol=1e-5)
  assert (result.argmax(1) == named.ravel()).mean() > 0.8


def test_modules_of_a_user_stay_as_they_were():
  module = Nnx(nnx.Rngs(0))
  before = np.array(module.table.embedding[...])
  adapt(wrapped(module), KINDS[0])
  np.testing.assert_array_equal(module.table.embedding[...], before)
  assert not module.dropout.deterministic


def test_ids_of_its_own_reach_adapt_and_modules():
  table_ = {name: 2 * n for n, name in enumerate(WORLD.vocab)}
  seen = []

  class Own(Rule):
    def __call__(self, tokens):
      return np.zeros((*tokens.shape, 2 * V))

    def adapt(self, tokens, places, labels, task):
      seen.append(tokens)
      return lambda tokens, places: np.zeros((len(places[0]), 1), int)

  reader = wm.wrap(Own(), WORLD, tokens=table_).predictor
  adapt(reader, KINDS[0])
  assert set(np.unique(seen[0])) <= {0, 2, 4, 6}
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


def answering(value):
  class Answering(Rule):
    def adapt(self, tokens, places, labels, task):
      return value if not callable(value) else value(places)

  return Answering()


@pytest.mark.parametrize(
  ('thing', 'kind', 'line'),
  [
    (answering(3), KINDS[0], 'adapt gave a int; expected a function of tokens'),
    (
      answering(lambda _: lambda tokens, places: np.zeros(3)),
      KINDS[0],
      r'answers 32 places by float64 of shape \[3\]; expected labels \[32, 1\]',
    ),
    (
      answering(lambda _: lambda tokens, places: np.full(len(places[0]), 2)),
      KINDS[0],
      'integers from 0 to 1, or scores',
    ),
    (
      answering(lambda _: lambda tokens, places: np.zeros((len(places[0]), 3))),
      KINDS[2],
      r'expected numbers \[32, 2\]',
    ),
    (
      answering(lambda _: lambda tokens, places: 1 / 0),
      KINDS[0],
      'ZeroDivisionError: division by zero',
    ),
    (answering(lambda _: [][1]), KINDS[0], 'IndexError'),
  ],
)
def test_answers_of_another_form_are_one_line(thing, kind, line):
  with pytest.raises(core.InputError, match=line) as error:
    adapt(wrapped(thing), kind)
  assert '\n' not in str(error.value)


def test_scores_of_named_classes():
  scores = few_shot.class_scores(np.array([2, 0]), 3)
  np.testing.assert_allclose(np.exp(scores), [[0.5, 0.5, 1.5], [1.5, 0.5, 0.5]])
