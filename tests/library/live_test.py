"""Models in memory: functions, objects, modules of PyTorch and Flax."""

import inspect

import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import wm
from tests import small
from wm import core

WORLD = 'maps(rows=3, columns=3, max_moves=8)'
METRICS = ['next_token(num=10)']
world = wm.make('world', WORLD)
V = len(world.vocab)
TABLE = np.random.default_rng(0).normal(size=(V, V)).astype(np.float32)
RULE = TABLE - np.log(np.exp(TABLE).sum(-1, keepdims=True))


def valid_mass(source, **keywords) -> float:
  entries = small.scored(source, METRICS, WORLD, **keywords)
  return next(e['value'] for e in entries if e['quantity'] == 'valid_mass')


@pytest.fixture(scope='module')
def expected() -> float:
  """Of the bigram table, by a function of logits."""
  return valid_mass(lambda tokens: TABLE[tokens])


def test_function_of_log_probabilities(expected):
  assert valid_mass(lambda tokens: RULE[tokens]) == pytest.approx(expected)


def test_logits_among_other_outputs(expected):
  assert valid_mass(lambda tokens: (TABLE[tokens], None)) == pytest.approx(
    expected
  )


class Linen(flax.linen.Module):
  """A bigram table."""

  @flax.linen.compact
  def __call__(self, tokens):
    return flax.linen.Embed(V, V, name='table')(tokens)


def test_linen_with_parameters_and_bound(expected):
  params = {'table': {'embedding': jnp.asarray(TABLE)}}
  for source in (
    (Linen(), {'params': params}),
    (Linen(), params),
    Linen().bind({'params': params}),
  ):
    assert valid_mass(source) == pytest.approx(expected, rel=1e-5)
  with pytest.raises(core.InputError, match='linen without parameters; expect'):
    valid_mass(Linen())


class Nnx(nnx.Module):
  """A bigram table with dropout, and activations."""

  def __init__(self, rngs):
    self.table = nnx.Embed(V, V, rngs=rngs)
    self.dropout = nnx.Dropout(0.5, rngs=rngs)

  def hidden(self, tokens, layer):
    return self.table(tokens) if layer in (0, -1) else None

  def __call__(self, tokens):
    return self.dropout(self.hidden(tokens, -1))


def test_nnx_in_eval_mode_with_its_untrained_control(expected):
  module = Nnx(nnx.Rngs(0))
  module.table.embedding[...] = jnp.asarray(TABLE)
  assert valid_mass(module) == pytest.approx(expected, rel=1e-5)
  assert not module.dropout.deterministic, 'the module of the user is as it was'
  entries = small.scored(
    module,
    ['probe(num=40, epochs=2)'],
    WORLD,
    untrained=Nnx(nnx.Rngs(1)),
    name='mine',
  )
  assert {e['model'] for e in entries} == {'mine', 'mine, untrained'}
  rows = {(e['model'], e['quantity']): e['value'] for e in entries}
  # The control of the probe is the baseline's own probe.
  assert rows['mine', 'untrained'] == rows['mine, untrained', 'accuracy']


class Cache:
  """An object that reads a token at a time."""

  def start(self, tokens, lengths):
    last = tokens[np.arange(len(tokens)), lengths - 1]
    return list(last), TABLE[last]

  def step(self, states, tokens):
    return list(tokens), TABLE[tokens]


def test_object_with_a_cache(expected):
  assert valid_mass(Cache()) == pytest.approx(expected)


def test_files_of_the_untrained_are_beside_those_of_the_model(tmp_path):
  wm.score(
    lambda tokens: TABLE[tokens],
    METRICS,
    WORLD,
    untrained=lambda tokens: 0 * TABLE[tokens],
    out=tmp_path,
    name='mine',
  )
  for folder in tmp_path, tmp_path / 'untrained':
    assert set(wm.rows(folder).metric) == {'next_token'}


@pytest.mark.parametrize(
  ('source', 'line'),
  [
    (3, "3 is of type int; expected a run's folder, a spec such as 'unif"),
    (Linen, 'is a class; expected'),
    (lambda tokens: TABLE[tokens][:, 0], 'expected floats of shape [rows, '),
    (lambda tokens: TABLE[np.roll(tokens, -1, 1)], 'another later token'),
    (lambda tokens: 1 / 0, 'ZeroDivisionError'),
    ('/no/such/run', '/no/such/run: there is no such run; expected a folder'),
  ],
)
def test_refused_in_a_line(source, line):
  with pytest.raises(core.InputError) as error:
    wm.score(source, METRICS, WORLD)
  assert line in str(error.value)
  assert '\n' not in str(error.value)


def test_no_such_run_without_a_world(tmp_path):
  for missing in ('/no/such/run', tmp_path / 'run'):
    with pytest.raises(core.InputError, match='there is no such run'):
      wm.load_predictor(missing)


def test_methods_are_documented():
  text = inspect.getdoc(wm.wrap)
  for name in ('hidden', 'patched', 'start', 'step', 'answers'):
    assert f'{name}(' in text
  assert 'wm.wrap' in inspect.getdoc(wm.Model)
  assert 'wm.wrap' in inspect.getdoc(wm.score)


def test_settings_of_an_object():
  loaded = wm.wrap(lambda tokens: TABLE[tokens], WORLD, rows=4, max_len=6)
  assert loaded.predictor.max_len == 6
  with pytest.raises(core.InputError, match='gives the token just read'):
    wm.wrap(lambda tokens: 50 * np.eye(V)[tokens], WORLD)
  wm.wrap(lambda tokens: 50 * np.eye(V)[tokens], WORLD, copies=True)


def test_torch_module(expected):
  torch = pytest.importorskip('torch')

  class Module(torch.nn.Module):
    def __init__(self):
      super().__init__()
      self.table = torch.nn.Embedding(V, V)
      self.table.weight.data = torch.tensor(TABLE)
      self.dropout = torch.nn.Dropout(0.5)

    def hidden(self, tokens, layer):
      return self.table(tokens)

    def patched(self, tokens, layer, hidden):
      return hidden.float()

    def forward(self, tokens):
      return self.dropout(self.table(tokens))

  module = Module()
  assert valid_mass(module) == pytest.approx(expected, rel=1e-5)
  assert module.training
  reader = wm.wrap(module, WORLD).predictor
  assert isinstance(reader, core.HiddenStates)


def test_hugging_face_model():
  transformers = pytest.importorskip('transformers')
  config = transformers.GPT2Config(
    vocab_size=V, n_positions=32, n_embd=16, n_layer=2, n_head=2
  )
  network = transformers.GPT2LMHeadModel(config)
  reader = wm.wrap(network, WORLD, copies=True).predictor
  sample = world.sample(4, 0)
  hidden = reader.hidden(sample.tokens, sample.lengths, -1)
  assert hidden.shape == (*sample.tokens.shape, 16)
  assert 0 < valid_mass(wm.wrap(network, WORLD, copies=True)) < 1


def test_options_are_keywords(tmp_path):
  stores = wm.sample(WORLD, tmp_path, num=40, num_heldout=8, seed=1)
  assert len(stores['train']) == 40
  run = wm.train(WORLD, 'transformer(layers=1, width=8)', tmp_path, steps=2)
  assert run.summary['step'] == 2
  with pytest.raises(core.InputError, match='training and steps were given'):
    wm.train(WORLD, 'uniform()', tmp_path, wm.Training(), steps=2)
  with pytest.raises(core.InputError, match="train takes no 'step'"):
    wm.train(WORLD, 'uniform()', tmp_path, step=2)
  with pytest.raises(core.InputError, match='steps=0: expected at least 1'):
    wm.train(WORLD, 'uniform()', tmp_path, steps=0)


def test_score_returns_and_prints_what_was_asked(tmp_path):
  several = [f'compression(trials=4, samples=2, k={k})' for k in (1, 2, 3, 4)]
  lines = []
  wm.score('oracle()', several, WORLD, out=tmp_path, log=lines.append)
  table = '\n'.join(lines)
  for k in (1, 2, 3, 4):
    assert f'k={k}' in table
  entries = small.scored('oracle()', METRICS, WORLD, out=tmp_path)
  assert {e['metric'] for e in entries} == {'next_token'}
  assert wm.rows(tmp_path).spec.nunique() == 5


def test_jax_function():
  table = jnp.asarray(TABLE)
  assert 0 < valid_mass(jax.jit(lambda tokens: table[tokens])) < 1
