"""Sessions of families of transformers say what their whole texts say."""

import json

import numpy as np
import pytest

from tests import tiny
from wm import core
from wm.core import registry

torch = pytest.importorskip('torch', reason='the extra torch is not installed')
hub = pytest.importorskip(
  'transformers', reason='transformers is not installed'
)
from wm.models.serving import tokenization  # noqa: E402 (needs PyTorch)

WINDOW, PIECES = 4, 24
LLAMA = {
  'vocab_size': PIECES,
  'max_position_embeddings': 64,
  'hidden_size': 32,
  'intermediate_size': 48,
  'num_hidden_layers': 2,
  'num_attention_heads': 4,
  'num_key_value_heads': 2,
}
GPT2 = {
  'vocab_size': PIECES,
  'n_positions': 64,
  'n_embd': 32,
  'n_layer': 2,
  'n_head': 4,
}
# Family -> sizes, and what makes texts longer than the window differ.
WINDOWED = {
  'mistral': (LLAMA, {'sliding_window': WINDOW}),
  'gemma3_text': (
    {**LLAMA, 'head_dim': 8, 'layer_types': ['sliding_attention'] * 2},
    {'sliding_window': WINDOW},
  ),
  'qwen2': (
    {**LLAMA, 'use_sliding_window': True, 'max_window_layers': 0},
    {'sliding_window': WINDOW},
  ),
  'gpt_neo': (
    {
      'vocab_size': PIECES,
      'max_position_embeddings': 64,
      'hidden_size': 32,
      'num_layers': 2,
      'num_heads': 4,
      'attention_types': [[['global', 'local'], 1]],
    },
    {'window_size': WINDOW},
  ),
  'recurrent_gemma': (
    {**LLAMA, 'num_hidden_layers': 3, 'lru_width': 32, 'head_dim': 8},
    {'attention_window_size': WINDOW},
  ),
}
WHOLE = {
  'gpt2': GPT2,
  'llama': LLAMA,
  'gpt_neox': LLAMA,
  'opt': {**LLAMA, 'ffn_dim': 48, 'word_embed_proj_dim': 32},
  'bloom': {'vocab_size': PIECES, 'hidden_size': 32, 'n_layer': 2, 'n_head': 4},
  'mpt': {'vocab_size': PIECES, 'd_model': 32, 'n_layers': 2, 'n_heads': 4},
  'falcon': {**LLAMA, 'alibi': True, 'new_decoder_architecture': False},
  'phi': LLAMA,
  'mamba': {**LLAMA, 'state_size': 4},
  'rwkv': {**LLAMA, 'attention_hidden_size': 32},
}
SETTINGS = {name: {**sizes, **mine} for name, (sizes, mine) in WINDOWED.items()}
SETTINGS |= WHOLE
CACHELESS = {'recurrent_gemma', 'mamba', 'rwkv'}


def network(family: str, settings: dict):
  if family == 'recurrent_gemma' and int(hub.__version__.split('.')[0]) < 5:
    pytest.skip('RecurrentGemma takes one size of batch in transformers 4')
  special = {'pad_token_id': 0, 'bos_token_id': 1, 'eos_token_id': 2}
  config = hub.AutoConfig.for_model(family, **settings, **special)
  torch.manual_seed(1)
  model = hub.AutoModelForCausalLM.from_config(config).eval()
  with torch.no_grad():
    for parameter in model.parameters():
      if parameter.ndim > 1:
        parameter.copy_(0.4 * torch.randn_like(parameter))
  return model


def loaded(folder, family: str) -> core.Predictor:
  network(family, SETTINGS[family]).save_pretrained(folder)
  table = {word: n + 3 for n, word in enumerate(tiny.World().vocab[1:])}
  (folder / 'tokens.json').write_text(json.dumps(table))
  tokens = str(folder / 'tokens.json')
  spec = f'huggingface(path={str(folder)!r}, tokens={tokens!r})'
  return registry.make('model', spec).predictor(tiny.World(), 0)


@pytest.mark.parametrize('family', SETTINGS)
def test_sessions_say_what_whole_texts_say(family, tmp_path):
  """Rows that begin and grow unevenly, and begin again."""
  result, world = loaded(tmp_path, family), tiny.World()
  noted = any('no cache is used' in line for line in result.diagnostics())
  assert noted == (family in CACHELESS)
  length = world.max_len
  assert length > 2 * WINDOW
  rng = np.random.default_rng(0)
  tokens = rng.integers(1, len(world.vocab), (4, length)).astype(np.int32)
  whole = result.log_probs(tokens, np.full(4, length))[..., 1:]
  # Rows [4, 2] of session: the text that each reads, and how far it has come.
  text = np.arange(4)[:, None] * np.ones(2, int)
  size = np.array([2, 7, 1, length - 2])[:, None] * np.ones(2, int)
  session = result.session(tokens, size[:, 0], 2)

  def check() -> None:
    got = session.log_probs()[..., 1:]
    np.testing.assert_allclose(got, whole[text, size - 1], rtol=0, atol=1e-4)

  check()
  for turn in range(length):
    going = (size < length) & (rng.random(size.shape) < 0.6)
    following = tokens[text, np.minimum(size, length - 1)]
    session.advance(np.where(going, following, core.DEAD))
    size = size + going
    check()
    if turn == length // 2:
      session.restart(np.array([3]), tokens[1:2], np.array([3]))
      text[3], size[3] = 1, 3
      check()
  assert size.max() == length


@pytest.mark.parametrize('family', WINDOWED)
def test_texts_are_longer_than_the_windows(family):
  sizes, window = WINDOWED[family]
  short = network(family, {**sizes, **window})
  long = network(family, {**sizes, **dict.fromkeys(window, 64)})
  ids = torch.arange(3, 3 + tiny.World().max_len)[None]
  with torch.no_grad():
    apart = (short(ids).logits - long(ids).logits).abs().amax(-1)[0]
  assert (apart[:WINDOW] < 1e-5).all()
  assert (apart[WINDOW + 1 :] > 1e-3).all()


class Wrapped(torch.nn.Module):
  """A network that fails in some way once it goes on from a cache."""

  def __init__(self, model, fault):
    super().__init__()
    self.model, self.fault = model, fault

  def forward(
    self,
    input_ids,
    attention_mask=None,
    position_ids=None,
    past_key_values=None,
    **inputs,
  ):
    more = past_key_values is not None and len(past_key_values.layers)
    outputs = self.model(
      input_ids=input_ids,
      attention_mask=attention_mask,
      position_ids=position_ids,
      past_key_values=past_key_values,
      **inputs,
    )
    if self.fault == 'off' and more:
      outputs.logits[..., 0] += 1
    if self.fault == 'raises' and more:
      raise AssertionError('no\nway')
    if self.fault == 'NaN':
      outputs.logits[:] = torch.nan
    if self.fault == 'sees what follows':
      outputs.logits[..., 0] += input_ids.sum(1)[:, None] / 100
    return outputs


def checked(fault):
  model = Wrapped(network('llama', LLAMA), fault).eval()
  texts = np.random.default_rng(0).integers(3, PIECES, (tokenization.ROWS, 20))
  return tokenization.text_reader(model, texts, 'it', 16)


@pytest.mark.parametrize(
  ('fault', 'why'),
  [
    ('none', ''),
    ('off', 'with it, predictions are off by'),
    ('raises', 'AssertionError: no way'),
  ],
)
def test_a_cache_is_checked_before_it_is_used(fault, why):
  reader, because = checked(fault)
  assert isinstance(reader, tokenization.CachedTextReader) == (not why)
  assert why in because
  assert bool(because) == bool(why)
  assert '\n' not in because


@pytest.mark.parametrize('fault', ['NaN', 'sees what follows'])
def test_what_is_no_causal_language_model_is_refused(fault):
  with pytest.raises(core.InputError, match=r'expected (log-prob|a causal)'):
    checked(fault)
