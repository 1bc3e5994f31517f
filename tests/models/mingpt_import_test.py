"""Imported minGPT weights give the logits of a minGPT, written out here."""

import json

import numpy as np
import pytest

import wm
from wm import core
from wm.core import registry

torch = pytest.importorskip('torch', reason='the extra torch is not installed')

WORLD = 'othello(size=4)'
LAYERS, WIDTH, HEADS, PLACES, V = 2, 128, 2, 11, 13


def state(**changes):
  """A state dict with large random weights, which show small mistakes."""
  shapes = {'tok_emb.weight': (V, WIDTH), 'pos_emb': (1, PLACES, WIDTH)}
  for n in range(LAYERS):
    block = f'blocks.{n}'
    for part in ('ln1', 'ln2'):
      shapes[f'{block}.{part}.weight'] = shapes[f'{block}.{part}.bias'] = (
        WIDTH,
      )
    for part in ('attn.key', 'attn.query', 'attn.value', 'attn.proj'):
      shapes[f'{block}.{part}.weight'] = WIDTH, WIDTH
      shapes[f'{block}.{part}.bias'] = (WIDTH,)
    shapes[f'{block}.mlp.0.weight'] = 4 * WIDTH, WIDTH
    shapes[f'{block}.mlp.0.bias'] = (4 * WIDTH,)
    shapes[f'{block}.mlp.2.weight'] = WIDTH, 4 * WIDTH
    shapes[f'{block}.mlp.2.bias'] = (WIDTH,)
  shapes |= {'ln_f.weight': (WIDTH,), 'ln_f.bias': (WIDTH,)}
  shapes |= {'head.weight': (V, WIDTH)}
  torch.manual_seed(0)
  made = {name: 0.5 * torch.randn(shape) for name, shape in shapes.items()}
  for n in range(LAYERS):
    made[f'blocks.{n}.attn.mask'] = torch.ones(1, 1, PLACES, PLACES).tril()
  return made | changes


def logits(weights, tokens):
  """[B, L, V] by the definition: pre-norm blocks, exact GELU, causal."""
  f = torch.nn.functional

  def linear(x, name):
    return f.linear(x, weights[f'{name}.weight'], weights[f'{name}.bias'])

  def norm(x, name):
    inputs = weights[f'{name}.weight'], weights[f'{name}.bias']
    return f.layer_norm(x, (WIDTH,), *inputs)

  def split(x):
    return x.unflatten(-1, (HEADS, WIDTH // HEADS)).transpose(1, 2)

  length = tokens.shape[1]
  x = weights['tok_emb.weight'][tokens] + weights['pos_emb'][0, :length]
  future = torch.ones(length, length, dtype=torch.bool).triu(1)
  for n in range(LAYERS):
    block = f'blocks.{n}'
    h = norm(x, f'{block}.ln1')
    q, k, v = (
      split(linear(h, f'{block}.attn.{part}'))
      for part in ('query', 'key', 'value')
    )
    scores = q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5
    y = scores.masked_fill(future, -torch.inf).softmax(-1) @ v
    y = y.transpose(1, 2).flatten(-2)
    x = x + linear(y, f'{block}.attn.proj')
    h = f.gelu(linear(norm(x, f'{block}.ln2'), f'{block}.mlp.0'))
    x = x + linear(h, f'{block}.mlp.2')
  return f.linear(norm(x, 'ln_f'), weights['head.weight'])


def test_logits_are_those_of_the_definition(tmp_path):
  weights = state()
  # As a data-parallel program saves it.
  named = {f'module.{name}': value for name, value in weights.items()}
  torch.save(named, tmp_path / 'gpt.ckpt')
  summary = wm.import_gpt2(tmp_path / 'gpt.ckpt', WORLD, tmp_path / 'run')
  assert summary['model'] == (
    "transformer(width=128, mlp='gelu_erf', tied=False, context=12)"
  )
  # One place more than theirs: of the last token, which nothing follows.
  parameters = [v for name, v in weights.items() if 'mask' not in name]
  theirs = sum(value.numel() for value in parameters)
  assert summary['parameters'] == theirs + WIDTH
  loaded = wm.load_predictor(tmp_path / 'run')
  world = registry.make('world', WORLD)
  assert (len(world.vocab), world.max_len) == (V, PLACES + 1)
  games = world.sample(6, 0)
  want = torch.log_softmax(
    logits(weights, torch.from_numpy(games.tokens[:, :PLACES]).long()), -1
  )
  assert np.ptp(want.numpy()) > 5
  result = loaded.predictor.log_probs(games.tokens, games.lengths)
  for row, length in enumerate(games.lengths):
    length = min(length, PLACES)
    np.testing.assert_allclose(
      result[row, :length], want[row, :length], atol=2e-4
    )
  metrics = ['next_token(num=20)', 'compression(trials=10, samples=2)']
  entries = wm.score(loaded, metrics, out=tmp_path / 'scores')
  assert {entry['metric'] for entry in entries} == {'next_token', 'compression'}
  assert json.loads((tmp_path / 'scores' / 'scores.json').read_text())


def test_words_in_another_order(tmp_path):
  world = registry.make('world', WORLD)
  torch.save(state(), tmp_path / 'gpt.ckpt')
  words = tmp_path / 'words.txt'
  words.write_text('\n'.join([world.vocab[0], *world.vocab[:0:-1]]))
  wm.import_gpt2(tmp_path / 'gpt.ckpt', WORLD, tmp_path / 'own')
  wm.import_gpt2(tmp_path / 'gpt.ckpt', WORLD, tmp_path / 'turned', vocab=words)
  games = world.sample(4, 0)
  turned = np.where(games.tokens > 0, V - games.tokens, 0).astype(np.int32)
  first = wm.load_predictor(tmp_path / 'own').predictor
  other = wm.load_predictor(tmp_path / 'turned').predictor
  order = [0, *range(V - 1, 0, -1)]
  np.testing.assert_allclose(
    first.log_probs(games.tokens, games.lengths),
    other.log_probs(turned, games.lengths)[..., order],
    atol=1e-5,
  )


@pytest.mark.parametrize(
  ('changes', 'drop', 'message'),
  [
    ({}, 'blocks.1.attn.key.weight', r'lacks blocks\.1\.attn\.key\.weight'),
    ({}, 'blocks.1.mlp.2.bias', r'lacks blocks\.1\.mlp\.2\.bias'),
    ({}, 'pos_emb', 'lacks pos_emb'),
    ({'blocks.0.attn.key.bias': torch.ones(3)}, '', 'takes'),
    ({'blocks.0.gate': torch.ones(3)}, '', r'no place for blocks\.0\.gate'),
    ({'pos_emb': torch.ones(1, 9, WIDTH)}, '', 'context=9 is shorter'),
    ({'tok_emb.weight': torch.ones(9, WIDTH)}, '', 'the checkpoint has 9'),
    ({'head.weight': torch.ones(V, 3)}, '', 'takes'),
  ],
)
def test_what_does_not_fit_is_one_line_and_leaves_nothing(
  tmp_path, changes, drop, message
):
  weights = state(**changes)
  weights.pop(drop, None)
  torch.save(weights, tmp_path / 'gpt.ckpt')
  with pytest.raises(core.InputError, match=message):
    wm.import_gpt2(tmp_path / 'gpt.ckpt', WORLD, tmp_path / 'run')
  assert not (tmp_path / 'run').exists()
