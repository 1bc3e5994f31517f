"""A live GPT-2 is decoded by a compiled network with its weights."""

import copy

import numpy as np
import pytest

import wm
from tests import small
from wm.models import user

torch = pytest.importorskip('torch')
transformers = pytest.importorskip('transformers')
gpt2 = pytest.importorskip('wm.models.serving.gpt2')
tokenization = pytest.importorskip('wm.models.serving.tokenization')

WORLD = 'maps(rows=3, columns=3, max_moves=8)'


@pytest.fixture(scope='module')
def world():
  return wm.make('world', WORLD)


def _module(size, length, **fields):
  torch.manual_seed(0)
  config = transformers.GPT2Config(
    vocab_size=size,
    n_positions=length,
    **{'n_embd': 24, 'n_layer': 2, 'n_head': 3, 'initializer_range': 0.5},
    **{'bos_token_id': None, 'eos_token_id': None},
    **fields,
  )
  module = transformers.GPT2LMHeadModel(config).eval()
  for name, weights in module.named_parameters():
    if 'bias' in name:  # They are 0 at first.
      torch.nn.init.normal_(weights, std=0.1)
  return module


def _log_probs(module, world, ids=None):
  """Log-probabilities [R, L, V] by PyTorch alone, and the sequences."""
  drawn = world.sample(8, 0)
  ids = np.arange(len(world.vocab)) if ids is None else ids
  tokens = torch.as_tensor(ids[drawn.tokens]).long()
  with torch.no_grad():
    logits = module(tokens).logits.numpy()[..., ids]
  logits[..., 0] = -np.inf
  return logits - np.logaddexp.reduce(logits, -1, keepdims=True), drawn


@pytest.mark.parametrize(
  'fields',
  [
    {},
    {'activation_function': 'gelu'},
    {'n_inner': 48, 'layer_norm_epsilon': 1e-2},
  ],
)
def test_it_gives_the_probabilities_of_the_module(world, fields):
  module = _module(len(world.vocab), world.max_len, **fields)
  reader = user.checked_predictor(module, world, 'GPT')
  assert isinstance(reader, gpt2.CompiledPredictor)
  expected, drawn = _log_probs(module, world)
  used = np.arange(drawn.tokens.shape[1]) < drawn.lengths[:, None]
  log_probs = reader.log_probs(drawn.tokens, drawn.lengths)
  np.testing.assert_allclose(log_probs[used], expected[used], atol=1e-4)
  sizes = np.full(len(drawn.tokens), 3)
  session = reader.session(drawn.tokens, sizes, 2)
  session.advance(np.repeat(drawn.tokens[:, 3:4], 2, 1))
  np.testing.assert_allclose(
    session.log_probs()[:, 1], expected[:, 3], atol=1e-4
  )
  assert any('compiled network' in line for line in reader.diagnostics())


def test_ids_of_the_module_may_be_in_another_order(world):
  module = _module(len(world.vocab) + 5, world.max_len)
  ids = np.random.default_rng(0).permutation(len(world.vocab) + 5)
  ids = ids[: len(world.vocab)]
  table = dict(zip(world.vocab[1:], ids[1:].tolist(), strict=True))
  reader = user.checked_predictor(module, world, 'GPT', tokens=table)
  assert isinstance(reader, gpt2.CompiledPredictor)
  ids[0] = 0
  expected, drawn = _log_probs(module, world, ids)
  used = np.arange(drawn.tokens.shape[1]) < drawn.lengths[:, None]
  log_probs = reader.log_probs(drawn.tokens, drawn.lengths)
  np.testing.assert_allclose(log_probs[used], expected[used], atol=1e-4)


def test_weights_that_change_are_copied_again(world):
  module = _module(len(world.vocab), world.max_len)
  reader = user.checked_predictor(module, world, 'GPT')
  with torch.no_grad():
    module.transformer.h[0].mlp.c_fc.weight.mul_(-1)
  expected, drawn = _log_probs(module, world)
  log_probs = reader.log_probs(drawn.tokens, drawn.lengths)
  np.testing.assert_allclose(log_probs[:, :3], expected[:, :3], atol=1e-4)


def test_it_is_compiled_again_after_activations_were_read(world):
  """transformers leaves hooks of its own, by which it collects them."""
  module = _module(len(world.vocab), world.max_len)
  for _ in range(2):
    reader = user.checked_predictor(module, world, 'GPT')
    assert isinstance(reader, gpt2.CompiledPredictor)
    drawn = world.sample(2, 0)
    reader.hidden(drawn.tokens, drawn.lengths, 1)


def test_many_trials_run_as_one_program(world, monkeypatch):
  from wm.evaluation import engine

  monkeypatch.setattr(engine, 'WORTH', 1)
  module = _module(len(world.vocab), world.max_len)
  one, again = (
    small.scored(module, 'compression(trials=20)', world) for _ in range(2)
  )
  monkeypatch.setattr(engine, 'WORTH', 1 << 60)
  other = small.scored(module, 'compression(trials=20)', world)
  values = [[entry['value'] for entry in each] for each in (one, again, other)]
  assert values[0] == values[1] == values[2]


def _hooked(module):
  module.transformer.h[0].register_forward_hook(lambda *_: None)


def _replaced(module):
  module.forward = module.forward


def _untied(module):
  module.lm_head.weight = torch.nn.Parameter(module.lm_head.weight.clone())


def _of_other_class(module):
  module.__class__ = type('Mine', (type(module),), {})


@pytest.mark.parametrize(
  'change', [_hooked, _replaced, _untied, _of_other_class, lambda m: m.double()]
)
def test_other_models_are_called_as_they_are(world, change):
  module = _module(len(world.vocab), world.max_len)
  assert gpt2.spec(module)
  change(module)
  assert gpt2.spec(module) is None


def test_a_module_that_differs_is_called_as_it_is(world):
  """Such as one whose method is changed where no hook shows it."""
  module = _module(len(world.vocab), world.max_len)
  block = copy.copy(type(module.transformer.h[0]))
  mine = type('Block', (block,), {'forward': lambda self, x, *a, **k: x})
  module.transformer.h[0].__class__ = mine
  assert gpt2.spec(module)
  reader = user.checked_predictor(module, world, 'GPT')
  assert isinstance(reader, tokenization.PiecePredictor)
  assert not isinstance(reader, gpt2.CompiledPredictor)
