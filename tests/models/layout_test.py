"""What a model reads around a sequence, and what it returns, whatever its form.

Models are the world itself, in the forms that people have: it reads a BOS
first, gives logits of the last position alone, a dict, a loss beside them.
"""

import functools
import json
import re

import numpy as np
import pytest

import wm
from tests import small
from wm import core
from wm.core import registry

WORLD = registry.make(
  'world', "maps(rows=3, columns=3, traversal='shortest', max_moves=8)"
)
SIZE = len(WORLD.vocab)
BOS = SIZE
TOKENS = {word: token for token, word in enumerate(WORLD.vocab)}
METRICS = ['next_token(num=40)', 'compression(trials=4)']


@functools.cache
def oracle():
  return registry.make('model', 'oracle()').predictor(WORLD, 0)


def oracle_logits(tokens):
  """[R, L, V] of the world; illegal tokens are unlikely."""
  lengths = np.full(len(tokens), tokens.shape[1])
  return np.maximum(oracle().log_probs(tokens, lengths), -20)


def after_bos(tokens):
  """The oracle behind one BOS; uniform where a sequence begins otherwise."""
  logits = np.zeros((*tokens.shape, SIZE + 1), np.float32)
  logits[..., BOS] = -60
  good = (tokens[:, 0] == BOS) & ~(tokens[:, 1:] == BOS).any(1)
  if good.any() and tokens.shape[1] > 1:
    logits[good, 1:, :SIZE] = oracle_logits(tokens[good, 1:])
  return logits


def values(model, metrics=METRICS, **options):
  """(metric, quantity) -> value, and the cautions."""
  entries = small.scored(wm.wrap(model, WORLD, **options), metrics, WORLD)
  cautions = {text for entry in entries for text in entry['cautions']}
  return {(e['metric'], e['quantity']): e['value'] for e in entries}, cautions


@pytest.fixture(scope='module')
def right():
  return values(oracle_logits)[0]


def test_the_right_layout_is_the_oracle_and_gives_no_caution(right):
  assert right['next_token', 'validity'] == 1
  for options in (
    {'tokens': TOKENS | {'<bos>': BOS}},
    {'tokens': TOKENS, 'layout': wm.InputLayout(before=(BOS,))},
    {'tokens': TOKENS | {'<bos>': [BOS]}},
  ):
    assert values(after_bos, **options) == (right, set())


@pytest.mark.parametrize('before', [(), (BOS, BOS)])
def test_another_layout_than_the_best_is_a_caution(right, before):
  layout = wm.InputLayout(before=before)
  scores, cautions = values(after_bos, tokens=TOKENS, layout=layout)
  assert scores['next_token', 'validity'] < 0.9
  (caution,) = (text for text in cautions if 'nats a token' in text)
  assert caution.endswith(f'give before=({BOS},)')


def test_the_layout_is_told_in_one_line():
  loaded = wm.wrap(after_bos, WORLD, tokens=TOKENS | {'<bos>': BOS})
  described, compared, *_ = loaded.predictor.diagnostics()
  assert described == (
    'after_bos: reads [rows, length], gives logits of all positions, '
    f'{BOS} before each sequence'
  )
  assert 'with nothing; ' in compared
  assert 'if its logits are of the token just read' in compared


def test_layouts_are_compared_on_the_same_tokens():
  """A context that has no room for more leaves out the last token of all."""
  loaded = wm.wrap(oracle_logits, WORLD, max_len=WORLD.max_len)
  _, compared, *_ = loaded.predictor.diagnostics()
  assert compared.count(' nats') == 1


def test_logits_of_the_token_just_read_are_named_in_the_line():
  loaded = wm.wrap(
    lambda tokens: 20.0 * np.eye(SIZE)[tokens], WORLD, copies=True
  )
  _, compared, *_ = loaded.predictor.diagnostics()
  loss = re.search(r'([\d.e-]+) if its logits are of the token just', compared)
  assert float(loss[1]) < 1e-3


def test_no_layout_is_better_for_a_model_that_was_not_trained():
  noise = np.random.default_rng(0).normal(size=(SIZE, SIZE + 3))
  _, cautions = values(lambda tokens: noise[tokens % SIZE], tokens=TOKENS)
  assert not {text for text in cautions if 'it was trained so' in text}


@pytest.mark.parametrize(
  'form',
  [
    lambda logits: {'logits': logits},
    lambda logits: (logits, None),
    lambda logits: (np.float32(1.5), logits),
    lambda logits: (None, logits),
    lambda logits: list(logits),
    lambda logits: logits[:, -1:],
    lambda logits: logits[:, -1],
    lambda logits: (logits[:, -1:], None),
  ],
  ids=['dict', 'first', 'second', 'no loss', 'list', 'last', 'flat', 'nanoGPT'],
)
def test_forms_of_logits_are_read_alike(right, form):
  assert values(lambda tokens: form(oracle_logits(tokens))) == (right, set())
  with_bos, cautions = values(
    lambda tokens: form(after_bos(tokens)), tokens=TOKENS | {'<bos>': BOS}
  )
  assert (with_bos, cautions) == (right, set())


def test_a_window_shows_the_last_tokens_alone():
  """A model of two tokens' memory is the same with a window of four."""
  table = np.random.default_rng(0).normal(size=(SIZE, SIZE, SIZE))
  longest = []

  def pairs(tokens):
    longest.append(tokens.shape[1])
    before = np.pad(tokens, ((0, 0), (1, 0)))[:, :-1]
    return table[before, tokens]

  whole, _ = values(pairs)
  assert max(longest) > 4
  longest.clear()
  cut, _ = values(pairs, layout=wm.InputLayout(window=4))
  assert max(longest) == 4
  assert cut == whole


class Recurrent:
  """h = tanh(h W + embedding) over BOS and the sequence, in all the forms."""

  def __init__(self):
    rng = np.random.default_rng(1)
    self.embed, self.turn, self.head = (
      rng.normal(size=size) for size in ((SIZE + 1, 8), (8, 8), (8, SIZE + 1))
    )

  def hidden(self, tokens, layer):
    assert (tokens[:, 0] == BOS).all()
    if layer == 0:
      return self.embed[tokens]
    return self._after(self.embed[tokens])

  def _after(self, inputs):
    state, states = np.zeros((len(inputs), 8)), []
    for column in inputs.swapaxes(0, 1):
      state = np.tanh(state @ self.turn / 3 + column)
      states.append(state)
    return np.stack(states, 1)

  def __call__(self, tokens):
    return self.hidden(tokens, -1) @ self.head

  def patched(self, tokens, layer, hidden):
    return (hidden if layer == -1 else self._after(hidden)) @ self.head


class Stepping(Recurrent):
  patched = None

  def start(self, tokens, lengths):
    states = self.hidden(tokens, -1)[np.arange(len(tokens)), lengths - 1]
    return list(states), states @ self.head

  def step(self, states, tokens):
    after = np.tanh(np.array(states) @ self.turn / 3 + self.embed[tokens])
    return list(after), after @ self.head


@pytest.mark.parametrize('cls', [Recurrent, Stepping])
def test_activations_and_caches_have_the_prefix_too(cls):
  options = {'tokens': TOKENS | {'<bos>': BOS}}
  loaded = wm.wrap(cls(), WORLD, **options)  # The checks compare all forms.
  sequences = WORLD.sample(5, 3)
  tokens, lengths = sequences.tokens, sequences.lengths
  hidden = loaded.predictor.hidden(tokens, lengths, -1)
  whole = np.pad(tokens, ((0, 0), (1, 0)), constant_values=BOS)
  np.testing.assert_allclose(hidden, cls().hidden(whole, -1)[:, 1:], rtol=1e-5)
  assert 'activations' in loaded.predictor.contract.checked
  scores = small.scored(loaded, ['compression(trials=5)'], WORLD)
  plain = wm.wrap(lambda tokens: cls()(tokens), WORLD, **options)
  again = small.scored(plain, ['compression(trials=5)'], WORLD)
  assert [e['value'] for e in scores] == [e['value'] for e in again]


def test_a_module_of_flax_that_needs_a_mode_is_called_in_evaluation():
  import flax.linen as nn
  import jax

  class Network(nn.Module):
    @nn.compact
    def __call__(self, tokens, train):
      x = nn.Embed(SIZE, 8)(tokens)
      x = nn.Dropout(0.5, deterministic=not train)(x)
      return nn.Dense(SIZE)(x)

  class Masked(nn.Module):
    @nn.compact
    def __call__(self, tokens, mask):
      return nn.Dense(SIZE)(nn.Embed(SIZE, 8)(tokens)) * mask

  tokens = np.ones((1, 4), np.int32)
  network = Network()
  params = network.init(jax.random.key(0), tokens, False)
  assert values((network, params))[0]
  network = Masked()
  params = network.init(jax.random.key(0), tokens, 1.0)
  with pytest.raises(core.InputError, match="needs an argument 'mask'"):
    wm.wrap((network, params), WORLD)


def test_modules_of_nnx_may_change_their_variables():
  import jax.numpy as jnp
  from flax import nnx

  class Network(nnx.Module):
    def __init__(self, rngs):
      self.embed = nnx.Embed(SIZE, 8, rngs=rngs)
      self.rnn = nnx.RNN(nnx.GRUCell(8, 8, rngs=rngs))
      self.norm = nnx.BatchNorm(8, rngs=rngs)
      self.out = nnx.Linear(8, SIZE, rngs=rngs)
      self.calls = nnx.Variable(jnp.zeros((), jnp.int32))

    def __call__(self, tokens):
      self.calls[...] += 1
      return self.out(self.norm(self.rnn(self.embed(tokens))))

  network = Network(nnx.Rngs(0))
  assert values(network)[0]
  assert network.calls[...] == 0


@pytest.mark.parametrize(
  ('options', 'message'),
  [
    ({'before': (-1,)}, 'tuple of ids'),
    ({'before': 'bos'}, 'tuple of ids'),
    ({'before': [1]}, 'tuple of ids'),
    ({'before': (True,)}, 'tuple of ids'),
    ({'window': -1}, 'number of ids'),
    ({'window': 2.0}, 'number of ids'),
    ({'before': (1, 2), 'window': 2}, 'leave no room'),
  ],
)
def test_bad_layouts_are_one_line(options, message, one_line):
  with one_line(message):
    wm.InputLayout(**options)


def test_a_prefix_said_twice_must_agree():
  with pytest.raises(core.InputError, match='expected one of the two'):
    wm.wrap(
      after_bos,
      WORLD,
      tokens=TOKENS | {'<bos>': BOS},
      layout=wm.InputLayout(before=(0,)),
    )


def test_a_spec_has_the_same_layout(tmp_path, monkeypatch, right):
  (tmp_path / 'mine.py').write_text(
    'import numpy as np\n'
    'from tests.models import layout_test\n'
    'model = layout_test.after_bos\n'
  )
  monkeypatch.chdir(tmp_path)
  (tmp_path / 'ids.json').write_text(json.dumps(TOKENS))
  spec = (
    f"user(function='mine.py:model', tokens='ids.json', before=({BOS},), "
    'files=())'
  )
  entries = small.scored(spec, METRICS, WORLD)
  assert {(e['metric'], e['quantity']): e['value'] for e in entries} == right
