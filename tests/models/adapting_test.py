"""Networks adapted to small data sets, beside a plain loop."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx

from tests.marks import few
from wm import core
from wm.core import adapting, basics, registry
from wm.models.nn import layers, network
from wm.models.serving import adaptation

D, N, M, L = 3, 16, 7, 12
WORLD = registry.make('world', f'lattice(size=3, length={L})')
MODEL = registry.make('model', 'transformer(layers=1, width=8)')


def rows(num, seed):
  """Sequences [D, num, L], and a place of each [D, num, 1]."""
  tokens = WORLD.sample(D * num, seed).tokens.reshape(D, num, L)
  rng = np.random.default_rng(seed)
  return tokens, rng.integers(0, L, (D, num, 1)).astype(np.int32)


def sets(num=N, seed=1):
  """The label is whether the last token is the first of the vocabulary."""
  tokens, places = rows(num, seed)
  last = np.take_along_axis(tokens, places, 2)
  return adapting.FewShotTasks(
    tokens, places, (last == 1).astype(np.int64)[..., None]
  )


ASKED = adapting.QueryPoints(*rows(M, 2))
NONE, LATE = sets().tokens, [sets().labels, sets().labels + 1]


@pytest.fixture(scope='module')
def predictor():
  return MODEL.predictor(WORLD, 0)


def run(
  predictor, arguments=None, asked=ASKED, steps=(2, 5), parallel=2, **tuning
):
  params = predictor.placed(predictor.devices[0])
  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(adaptation, 'chunk_size', lambda *_: 2)
    patch.setattr(adaptation, 'max_parallel', lambda device: parallel)
    return adaptation.Adapter(predictor.spec, params).adapt(
      *(arguments or sets(), asked, adapting.Classes(2), steps, 3),
      adapting.FineTuneConfig(**tuning),
    )


@pytest.fixture(scope='module')
def result(predictor):
  return run(predictor)


def plain(predictor, d, steps, seed=3, draw=lambda step: sets()):
  """One data set alone: whole sequences, PyTorch's AdamW as optax has it."""
  spec = network.NetworkSpec(MODEL, len(WORLD.vocab), L, 2)
  word = np.uint32(basics.hash64(seed, d) >> np.uint64(32))
  params = nnx.split(spec.build(nnx.Rngs(jax.random.key(word))))[1]
  fresh = dict(nnx.to_flat_state(params))
  body = dict(nnx.to_flat_state(predictor.placed(predictor.devices[0])))
  params = {
    path: (leaf if 'head' in path else body[path])[...]
    for path, leaf in fresh.items()
  }
  optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.adamw(
      6e-4,
      b2=0.95,
      weight_decay=0.1,
      mask=lambda tree: {p: p[-1] in ('kernel', 'table') for p in tree},
    ),
  )

  def answers(params, tokens, places):
    flat = [(path, fresh[path].replace(x)) for path, x in params.items()]
    net = nnx.merge(spec.graph, nnx.from_flat_state(flat))
    return net(tokens)[np.arange(len(places)), places[:, 0]]

  def loss(params, arguments):
    scores = answers(params, arguments.tokens, arguments.places)
    chance = jax.nn.log_softmax(scores)
    return -chance[np.arange(N), arguments.labels[:, 0, 0]].mean()

  @jax.jit
  def tuned(params, arguments):
    def step(carry, arguments):
      params, state = carry
      result = jax.grad(loss)(params, arguments)
      updates, state = optimizer.update(result, state, params)
      return (optax.apply_updates(params, updates), state), None

    start = params, optimizer.init(params)
    (params, _), _ = jax.lax.scan(step, start, arguments)
    return answers(params, ASKED.tokens[d], ASKED.places[d])

  batches = [[x[d] for x in draw(step)] for step in range(steps)]
  return tuned(
    params, adapting.FewShotTasks(*map(np.stack, zip(*batches, strict=True)))
  )


def test_data_sets_side_by_side_are_tuned_as_each_alone(predictor, result):
  assert result.shape == (2, D, M, 1, 1, 2)
  # The last one is in a chunk that is filled up.
  alone = plain(predictor, D - 1, 5)
  np.testing.assert_allclose(
    result[1, -1, :, 0, 0], alone, rtol=1e-3, atol=1e-5
  )


def test_a_stream_that_replays_the_data_sets_is_the_data_sets(
  predictor, result
):
  again = run(predictor, adapting.TaskStream(lambda step: sets()))
  np.testing.assert_array_equal(again, result)


def fresh(step):
  return sets(seed=1 + step)


def test_each_step_of_a_stream_reads_its_own_sequences(predictor, result):
  streamed = run(predictor, adapting.TaskStream(fresh))
  alone = plain(predictor, D - 1, 5, draw=fresh)
  last = streamed[1, -1, :, 0, 0]
  np.testing.assert_allclose(last, alone, rtol=1e-3, atol=1e-5)
  assert not np.allclose(streamed, result, rtol=1e-3, atol=1e-5)


def test_what_data_sets_share_may_be_one_array(predictor):
  """As of functions of one sequence: labels differ, sequences do not."""

  def shared(step, copy):
    tokens, places, labels = fresh(step)
    every = np.broadcast_to(tokens[:1], tokens.shape)
    places = np.broadcast_to(places[:1], places.shape)
    return adapting.FewShotTasks(copy(every), copy(places), labels)

  first, other = (
    run(predictor, adapting.TaskStream(lambda step, c=copy: shared(step, c)))
    for copy in (np.asarray, np.array)
  )
  np.testing.assert_array_equal(first, other)


def test_programs_at_a_time_change_nothing(predictor, result):
  alone = run(predictor, parallel=1)
  np.testing.assert_array_equal(alone, result)


def test_what_follows_the_last_place_is_not_read(predictor, result):
  def spoiled(tokens, places):
    later = np.arange(L) > places.max(-1)[..., None]
    return np.where(later, 10**6, tokens)

  inputs = sets()
  inputs = inputs._replace(tokens=spoiled(inputs.tokens, inputs.places))
  asked = ASKED._replace(tokens=spoiled(ASKED.tokens, ASKED.places))
  # Ids that the model does not have stand where nothing is read.
  again = run(predictor, inputs, asked)
  np.testing.assert_array_equal(again, result)


def test_labels_are_learned(predictor):
  got = run(predictor, steps=(2, 100), rate=0.05)
  last = np.take_along_axis(ASKED.tokens, ASKED.places, 2)[..., 0]
  answers = got[1, ..., 0, 0, :].argmax(-1)
  assert (answers == (last == 1)).mean() > 0.9


def test_steps_of_one_call_change_nothing(predictor, monkeypatch):
  inputs, kind = sets(), adapting.Classes()
  answers = []
  for piece in (2, 50):
    monkeypatch.setattr(adaptation, 'PIECE', piece)
    many = predictor.adapt(inputs, ASKED, kind, (3, 9), 0)
    answers.append(many)
  np.testing.assert_array_equal(*answers)


@dataclasses.dataclass(frozen=True)
class Odd(type(MODEL)):
  """Does otherwise what is asked for a head."""

  fault: str = ''

  def build(self, vocab_size, max_len, rngs, outputs=0):
    if self.fault == 'ignores':
      outputs = 5
    net = super().build(vocab_size, max_len, rngs, outputs)
    if self.fault == 'renames':
      net.last, net.head = net.head, None
    if self.fault == 'adds' and outputs:
      net.more = layers.Norm(9, 'layer')
    return net


def test_a_new_head_takes_the_place_of_a_tied_one_with_its_bias():
  model = dataclasses.replace(MODEL, head_bias=True)
  predictor = model.predictor(WORLD, 0)
  params = predictor.placed(predictor.devices[0])
  result = []
  for bias in (0.0, 5.0):
    params['tied_bias'].set_value(np.full(len(WORLD.vocab), bias, np.float32))
    spec = predictor.spec
    task = sets(), ASKED, adapting.Classes(2), (2,), 3, adapting.FINE_TUNE
    adapter = adaptation.Adapter(spec, params)
    result.append(adapter.adapt(*task))
  np.testing.assert_array_equal(*result)
  assert np.isfinite(result[0]).all()


@pytest.mark.parametrize(
  ('fault', 'message'),
  [
    ('ignores', 'with outputs=2 it gives 5 for a token'),
    ('renames', "no parameter has 'head' in its path"),
    ('adds', "with it .*'more', .* changes"),
  ],
)
def test_a_head_that_cannot_be_replaced_is_one_line(fault, message):
  model = Odd(layers=1, width=8, fault=fault)
  with pytest.raises(core.InputError, match='cannot be replaced: ' + message):
    run(model.predictor(WORLD, 0))


@pytest.mark.parametrize(
  ('change', 'message'),
  [
    ({'steps': (5, 2)}, r'steps=\(5, 2\) were given'),
    ({'steps': ()}, 'steps=.. were given'),
    ({'rate': 0.0}, 'rate=0.0; expected more than 0'),
    (
      {'arguments': sets()._replace(labels=sets().labels + 1)},
      'label 2 was given',
    ),
    (
      {'arguments': sets()._replace(places=sets().places + L)},
      'expected 0 to 11',
    ),
    (
      {'arguments': sets()._replace(places=0 * sets().places - 1)},
      'set 0 has no',
    ),
    (
      {'arguments': sets()._replace(labels=sets().labels[:, :1])},
      'labels have',
    ),
    ({'arguments': sets()._replace(tokens=sets().tokens + 9)}, 'ids 0 to 3'),
    (
      {'asked': adapting.QueryPoints(*(x[:1] for x in ASKED))},
      '3 data sets and quer',
    ),
    (
      {
        'arguments': adapting.TaskStream(
          lambda step: sets()._replace(labels=LATE[step])
        )
      },
      'step 1: label 2 was given; expected 0 to 1',
    ),
    (
      {
        'arguments': adapting.TaskStream(
          lambda step: sets()._replace(tokens=9 + 0 * NONE)
        )
      },
      'token 9: the model has ids 0 to 3',
    ),
  ],
)
def test_bad_input_is_one_line(predictor, change, message):
  with pytest.raises(core.InputError, match=message):
    run(predictor, **change)


@pytest.mark.parametrize(
  'spec',
  few(
    2,
    [
      'transformer(layers=2, width=16, heads=2)',
      "transformer(layers=1, width=16, positions='rotary')",
      'mamba2(layers=2, width=16, channels=8, state=4, mlp=24)',
      'lstm(layers=1, width=8)',
    ],
  ),
)
def test_logits_at_some_places_are_those_of_whole_sequences(spec):
  """And so are their gradients, wherever a family leaves others out."""
  shape = network.NetworkSpec(registry.make('model', spec), 9, 12)
  params = jax.tree.map(lambda leaf: 3 * leaf, network.init(shape, 0))
  rng = np.random.default_rng(0)
  tokens, places = rng.integers(1, 9, (5, 12)), rng.integers(0, 12, (5, 2))

  def total(params, ask):
    logits = ask(nnx.merge(shape.graph, params))
    return jnp.sin(logits).sum(), logits

  both = [
    jax.jit(jax.grad(functools.partial(total, ask=ask), has_aux=True))(params)
    for ask in (
      lambda net: net.at(tokens, places),
      lambda net: layers.taken(net(tokens), places),
    )
  ]
  jax.tree.map(
    functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4), *both
  )
