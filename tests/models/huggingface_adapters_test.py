"""Folders of peft, merged into their base models: against peft itself."""

import functools
import json
import os
import shutil

import numpy as np
import pytest

from tests import tiny
from tests.models import hub_folders
from wm import core
from wm.core import registry

torch = pytest.importorskip('torch', reason='the extra torch is not installed')
hub = pytest.importorskip(
  'transformers', reason='transformers is not installed'
)
peft = pytest.importorskip('peft', reason='peft is not installed')
from safetensors.torch import load_file, save_file  # noqa: E402 (not always)

from wm.models.serving import pretrained  # noqa: E402

PIECES = 24
WORDS = tiny.World().vocab[1:]
TABLE = {word: n + 3 for n, word in enumerate(WORDS)}
CONFIG, WEIGHTS = 'adapter_config.json', 'adapter_model.safetensors'
HALF = ['q_proj', 'v_proj']


@pytest.fixture(scope='module')
def bases(tmp_path_factory):
  """GPT-2 and Llama, both with heads that are tied to the embedding."""
  place = tmp_path_factory.mktemp('bases')
  sizes = {'vocab_size': PIECES, 'hidden_size': 16, 'num_hidden_layers': 2}
  sizes |= {'num_attention_heads': 2, 'max_position_embeddings': 40}
  sizes |= {'bos_token_id': 1, 'eos_token_id': 2, 'tie_word_embeddings': True}
  for name, config in (
    ('gpt2', hub.GPT2Config(**sizes)),
    ('llama', hub.LlamaConfig(**sizes, intermediate_size=24)),
  ):
    torch.manual_seed(1)
    net = hub.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
      for weight in net.parameters():
        weight.copy_(0.3 * torch.randn_like(weight))
    net.save_pretrained(place / name)
  return place


def save_adapter(folder, base, config, dtype=torch.float32):
  """An adapter of random weights; peft's predictions with it, after loading."""
  torch.manual_seed(2)
  config.task_type = config.task_type or 'CAUSAL_LM'
  model = peft.get_peft_model(
    hub.AutoModelForCausalLM.from_pretrained(base), config
  )
  with torch.no_grad():
    for weight in model.parameters():
      if weight.requires_grad:
        weight.add_(0.3 * torch.randn_like(weight))
  model.save_pretrained(folder)
  held = {k: x.to(dtype) for k, x in load_file(folder / WEIGHTS).items()}
  save_file(held, folder / WEIGHTS, {'format': 'pt'})
  base = hub.AutoModelForCausalLM.from_pretrained(base)
  return peft.PeftModel.from_pretrained(base, folder).eval()


def load(folder, tokens, **fields) -> core.Predictor:
  tokens.write_text(json.dumps(TABLE))
  more = ''.join(f', {key}={value!r}' for key, value in fields.items())
  spec = f'huggingface(path={str(folder)!r}, tokens={str(tokens)!r}{more})'
  return registry.make('model', spec).predictor(tiny.World(), 0)


def expected(theirs, tokens: np.ndarray) -> np.ndarray:
  """[N, L, V] log-probabilities of the world's tokens, read whole."""
  ids = torch.as_tensor(tokens.astype(np.int64) + 2)
  with torch.no_grad():
    log_probs = theirs(input_ids=ids).logits.log_softmax(-1)
  return log_probs[..., 3 : 3 + len(WORDS)].numpy()


def lora(**fields):
  return peft.LoraConfig(**{'r': 2, 'target_modules': 'all-linear'} | fields)


ADAPTERS = {
  'LoRA': lora,
  'ranks': lambda: lora(rank_pattern={'up_proj': 3}, use_rslora=True),
  'DoRA': lambda: lora(use_dora=True),
  'biases': lambda: lora(bias='all'),
  'PiSSA': lambda: lora(init_lora_weights='pissa'),
  'of the tied head': lambda: lora(target_modules=['lm_head']),
  'of the embedding': lambda: lora(target_modules=['embed_tokens']),
  'a head of its own': lambda: lora(modules_to_save=['lm_head']),
  'tokens': lambda: lora(trainable_token_indices=[4, 5]),
  'AdaLoRA': lambda: peft.AdaLoraConfig(
    init_r=3, target_r=2, total_step=9, target_modules=HALF
  ),
  'IA3': peft.IA3Config,
  'VeRA': lambda: peft.VeraConfig(r=2, target_modules=['q_proj']),
  'norms': peft.LNTuningConfig,
  'LoHa': lambda: peft.LoHaConfig(r=2, target_modules=HALF),
  'LoKr': lambda: peft.LoKrConfig(r=2, target_modules=HALF),
  'OFT': lambda: peft.OFTConfig(oft_block_size=4, target_modules=HALF),
}


@pytest.mark.parametrize(
  ('family', 'name'),
  [('llama', name) for name in ADAPTERS]
  # Its layers hold their weights turned.
  + [('gpt2', name) for name in ('LoRA', 'DoRA', 'of the tied head', 'IA3')],
)
def test_predictions_are_those_of_peft(bases, tmp_path, family, name):
  folder = tmp_path / 'adapter'
  theirs = save_adapter(folder, bases / family, ADAPTERS[name]())
  network, remarks = pretrained.load(folder, pretrained.base_of(folder, ''))
  base = hub.AutoModelForCausalLM.from_pretrained(bases / family)
  pieces = torch.randint(0, PIECES, (3, 8), generator=torch.manual_seed(0))
  with torch.no_grad():
    got, want, plain = (
      net(input_ids=pieces).logits.numpy() for net in (network, theirs, base)
    )
  np.testing.assert_allclose(got, want, atol=1e-4)
  assert abs(plain - want).max() > 2e-3  # The adapter does something.
  assert not remarks


def test_weights_of_16_bits_and_another_folder_of_the_base(bases, tmp_path):
  shutil.copytree(bases / 'llama', tmp_path / 'base')
  folder, tokens = tmp_path / 'adapter', tmp_path / 'tokens.json'
  theirs = save_adapter(folder, tmp_path / 'base', lora(), torch.bfloat16)
  shutil.rmtree(tmp_path / 'base')
  with pytest.raises(core.InputError, match=r'is no folder here, .*base='):
    load(folder, tokens)
  model = load(folder, tokens, base=str(bases / 'llama'))
  sample = np.array([[1, 2, 3, 1]], np.int32)
  got = model.log_probs(sample, np.full(1, 4))[..., 1:]
  np.testing.assert_allclose(got, expected(theirs, sample), atol=1e-4)
  (line,) = model.diagnostics()  # A cache is used, and nothing was left out.
  assert 'of the probability' in line


def test_inputs_are_declared_by_base_alone(bases, saved):
  def undeclared(fields: str) -> str:
    spec = f'huggingface(path={str(saved)!r}{fields})'
    return registry.make('model', spec).undeclared_inputs()

  assert 'names the base model' in undeclared('')
  assert not undeclared(f', base={str(bases / "gpt2")!r}')
  spec = f'huggingface(path={str(bases / "gpt2")!r})'
  assert not registry.make('model', spec).undeclared_inputs()


def test_a_tokenizer_of_the_base_model_is_used(bases, tmp_path):
  tokenizers = pytest.importorskip('tokenizers')
  pieces = {'[UNK]': 0, **{word: n + 1 for n, word in enumerate(WORDS)}}
  cut = tokenizers.Tokenizer(tokenizers.models.WordLevel(pieces, '[UNK]'))
  cut.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
  words = hub.PreTrainedTokenizerFast(tokenizer_object=cut, unk_token='[UNK]')
  shutil.copytree(bases / 'gpt2', tmp_path / 'base')
  words.save_pretrained(tmp_path / 'base')
  save_adapter(tmp_path / 'adapter', tmp_path / 'base', lora())
  spec = f'huggingface(path={str(tmp_path / "adapter")!r})'
  model = registry.make('model', spec).predictor(tiny.World(), 0)
  assert model.vocab_size == len(WORDS) + 1


@pytest.fixture(scope='module')
def saved(bases, tmp_path_factory):
  folder = tmp_path_factory.mktemp('saved')
  save_adapter(folder, bases / 'gpt2', lora())
  return folder


settings = functools.partial(hub_folders.settings, CONFIG)
tensors = functools.partial(hub_folders.tensors, WEIGHTS)


def content(name, text):
  def change(folder):
    (folder / name).unlink(missing_ok=True)
    if text is os.mkfifo:
      os.mkfifo(folder / name)
    elif text is not None:
      (folder / name).write_bytes(text)

  return change


def to_bin(folder):
  torch.save(load_file(folder / WEIGHTS), folder / 'adapter_model.bin')
  (folder / WEIGHTS).unlink()


def of_itself(folder):
  settings(base_model_name_or_path=str(folder))(folder)


KEY = 'base_model.model.transformer.h.0.attn.c_attn.lora_A.weight'
FAULTS = {
  'no base': (
    settings(base_model_name_or_path=None),
    'base model None is no folder here',
  ),
  'a base of the hub': (
    settings(base_model_name_or_path='gpt2'),
    r"'gpt2' is no folder here, .* expected base=",
  ),
  'a base of numbers': (settings(base_model_name_or_path=[1]), r'\[1\] is no'),
  'an adapter of itself': (of_itself, 'an adapter; expected a whole model'),
  'an empty base': (
    lambda folder: (
      (folder / 'none').mkdir(),
      settings(base_model_name_or_path=str(folder / 'none'))(folder),
    ),
    'no config.json',
  ),
  'a whole model too': (
    content('model.safetensors', b'x'),
    'model.safetensors a whole model; expected one of them',
  ),
  'pickled': (to_bin, rf'no {WEIGHTS}; .*adapter_model.bin is not read'),
  'no weights': (content(WEIGHTS, None), rf'no {WEIGHTS}; expected'),
  'weights cut': (content(WEIGHTS, b'\x80' * 99), 'header too large'),
  'weights a pipe': (content(WEIGHTS, os.mkfifo), 'no regular file'),
  'a tensor less': (
    tensors(lambda w: {k: x for k, x in w.items() if k != KEY}),
    r"the file lacks '.*h\.0\.attn\.c_attn\.lora_A.*'; expected",
  ),
  'no tensors': (tensors(lambda w: {}), 'at most 0 rows'),
  'a tensor more': (
    tensors(lambda w: w | {'more': torch.zeros(3)}),
    "describes no '.*more'; expected",
  ),
  'another shape': (
    tensors(lambda w: w | {KEY: torch.zeros(2, 5)}),
    r'size mismatch for .*c_attn\.lora_A',
  ),
  'bytes': (
    tensors(lambda w: w | {KEY: torch.zeros(2, 16, dtype=torch.int8)}),
    'holds torch.int8; expected floats',
  ),
  'NaN': (
    tensors(lambda w: w | {KEY: torch.full((2, 16), torch.nan)}),
    '(?i)nan',
  ),
  'a rank less': (settings(r=1), 'size mismatch'),
  'no end of ranks': (settings(r=10**12), 'rank 1000000000000, the tensors'),
  'a rank below zero': (settings(r=-1), 'positive integer'),
  'a pattern without end': (
    settings(rank_pattern={'attn': 10**12}),
    'rank 1000000000000',
  ),
  'a rank in words': (settings(r='two'), 'TypeError'),
  'other layers': (settings(target_modules=['nope']), 'nope'),
  'of prompts': (settings(peft_type='PREFIX_TUNING'), 'expected one of LORA'),
  'of no kind': (settings(peft_type=...), 'peft_type None; expected one of'),
  'a list of kinds': (settings(peft_type=['LORA']), r"\['LORA'\]; expected"),
  'a classifier': (settings(task_type='SEQ_CLS'), "expected 'CAUSAL_LM'"),
  'code of Megatron': (
    settings(megatron_config={}, megatron_core='megatron.evil'),
    'has megatron_config',
  ),
  'more layers': (settings(layer_replication=[[0, 2]]), 'layer_replication'),
  'of some prompts': (settings(alora_invocation_tokens=[3]), 'merg'),
  'settings cut': (content(CONFIG, b'{"peft_type": '), CONFIG),
  'settings a list': (content(CONFIG, b'[]'), 'expected an object'),
  'settings bytes': (content(CONFIG, b'\xff'), 'Unicode'),
  'settings deep': (content(CONFIG, b'[' * 100_000), 'Recursion'),
  'settings a pipe': (content(CONFIG, os.mkfifo), 'makes it an adapter'),
}


@pytest.mark.parametrize('name', FAULTS)
def test_faults_of_adapters(saved, tmp_path, capfd, name):
  change, message = FAULTS[name]
  shutil.copytree(saved, tmp_path / 'adapter')
  change(tmp_path / 'adapter')
  capfd.readouterr()
  with pytest.raises(core.InputError, match=message) as error:
    load(tmp_path / 'adapter', tmp_path / 'tokens.json')
  assert '\n' not in str(error.value)
  assert len(str(error.value)) < 1000
  assert capfd.readouterr().err == ''


def test_bad_bases(bases, saved, tmp_path):
  tokens = tmp_path / 'tokens.json'
  with pytest.raises(core.InputError, match=f'there is no {CONFIG}'):
    load(bases / 'gpt2', tokens, base=str(bases / 'llama'))
  with pytest.raises(core.InputError, match=r'transformer\.h.* not found'):
    load(saved, tokens, base=str(bases / 'llama'))
  with pytest.raises(core.InputError, match='nowhere'):
    load(saved, tokens, base='nowhere')


def test_settings_that_peft_does_not_know_are_named(saved, tmp_path):
  folder = tmp_path / 'adapter'
  shutil.copytree(saved, folder)
  evil = {'base_model_class': 'Evil', 'parent_library': 'evil'}
  settings(of_later=True, unused=None, auto_mapping=evil)(folder)
  (line,) = load(folder, tmp_path / 'tokens.json').diagnostics()
  assert 'of_later' in line
  assert 'unused' not in line
