"""Folders that are damaged, or no model that is read here: a line each."""

import json
import os
import shutil

import numpy as np
import pytest

from tests import tiny
from wm import core
from wm.core import registry

torch = pytest.importorskip('torch', reason='the extra torch is not installed')
hub = pytest.importorskip(
  'transformers', reason='transformers is not installed'
)
from safetensors.torch import load_file, save_file  # noqa: E402 (not always)

PIECES, WEIGHTS = 24, 'model.safetensors'
WORDS = tiny.World().vocab[1:]
TABLE = {word: n + 3 for n, word in enumerate(WORDS)}
CODE = "import pathlib\npathlib.Path('ran').touch()\n"


@pytest.fixture(scope='module')
def folders(tmp_path_factory):
  """GPT-2, whose embedding is tied, and a tokenizer."""
  place = tmp_path_factory.mktemp('folders')
  sizes = {'vocab_size': PIECES, 'hidden_size': 16, 'num_hidden_layers': 2}
  sizes |= {'num_attention_heads': 2, 'max_position_embeddings': 40}
  config = hub.GPT2Config(**sizes, bos_token_id=1, eos_token_id=2)
  torch.manual_seed(1)
  hub.GPT2LMHeadModel(config).save_pretrained(place / 'gpt2')
  tokenizers = pytest.importorskip('tokenizers')
  pieces = {'[UNK]': 0, **{word: n + 1 for n, word in enumerate(WORDS)}}
  cut = tokenizers.Tokenizer(tokenizers.models.WordLevel(pieces, '[UNK]'))
  cut.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
  words = hub.PreTrainedTokenizerFast(tokenizer_object=cut, unk_token='[UNK]')
  words.save_pretrained(place / 'words')
  return place


def load(folder, tokens=None) -> core.Predictor:
  tokens = '' if tokens is None else f', tokens={str(tokens)!r}'
  spec = f'huggingface(path={str(folder)!r}{tokens})'
  return registry.make('model', spec).predictor(tiny.World(), 0)


def settings(**changes):
  """Changes settings of the model."""

  def change(folder):
    path = folder / 'config.json'
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))

  return change


def tensors(function):
  """Changes the tensors of the file of weights."""

  def change(folder):
    weights = function(load_file(folder / WEIGHTS))
    save_file(weights, folder / WEIGHTS, {'format': 'pt'})

  return change


def without(part):
  return tensors(lambda w: {k: v for k, v in w.items() if part not in k})


def file(name, content):
  """Gives a file a content, or makes it a pipe or a folder, or removes it."""

  def change(folder):
    path = folder / name
    before = path.read_bytes() if path.exists() else b''
    path.unlink(missing_ok=True)
    if content is os.mkfifo:
      os.mkfifo(path)
    elif content is os.mkdir:
      path.mkdir()
    elif content is len:  # Half of what it was.
      path.write_bytes(before[: len(before) // 2])
    elif content is not None:
      path.write_bytes(
        content if isinstance(content, bytes) else content.encode()
      )

  return change


def shards(*numbers):
  """Some of two files of weights."""

  def change(folder):
    weights = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    names = sorted(weights)
    for n in numbers:
      held = {
        key: weights[key]
        for key in names[8 * (n - 1) :][: 8 if n == 1 else None]
      }
      path = folder / f'model-0000{n}-of-00002.safetensors'
      save_file(held, path, {'format': 'pt'})

  return change


def to_bin(folder):
  torch.save(load_file(folder / WEIGHTS), folder / 'pytorch_model.bin')
  (folder / WEIGHTS).unlink()


def extended(key, values):
  return tensors(lambda weights: weights | {key: values})


LN = 'transformer.h.0.ln_1.weight'
LAYER = r"the files lack 'transformer\.h\.[12]\.\S+' and 11 more tensors"
# What is changed of a folder, what the line says.
FAULTS = {
  'a layer less': (without('.h.1.'), LAYER),
  'a tensor less': (without(LN), rf"the files lack '{LN}'; expected"),
  'a tensor more': (
    extended('more', torch.zeros(3)),
    "describes no 'more'; expected",
  ),
  'another shape': (
    extended(LN, torch.zeros(5)),
    rf"'{LN}' has shape \[5\]; expected \[16\]",
  ),
  'bytes': (
    extended(LN, torch.zeros(16, dtype=torch.int8)),
    rf"'{LN}' holds torch.int8; expected floats",
  ),
  'NaN': (extended(LN, torch.full((16,), torch.nan)), 'gives NaN'),
  'fewer layers': (settings(n_layer=1), r"no 'transformer\.h\.1"),
  'no layers': (settings(n_layer=0), 'config.json describes no'),
  'layers in words': (settings(n_layer='two'), 'TypeError'),
  'memory': (settings(vocab_size=10**12), 'GB of memory are needed'),
  'unknown kind': (settings(model_type='x'), "model_type 'x'; expected"),
  'no language model': (settings(model_type='vit'), 'vit'),
  'quantised': (
    settings(quantization_config={'quant_method': 'gptq', 'bits': 4}),
    'config.json has quantization_config',
  ),
  'unknown code': (
    settings(model_type='x', auto_map={'AutoModelForCausalLM': 'evil.M'}),
    r'code of its own \(auto_map\), which is not run',
  ),
  'an adapter': (
    file('adapter_config.json', '{}'),
    'makes it an adapter; expected a whole model',
  ),
  'no config.json': (file('config.json', None), 'no config.json in'),
  'config.json a pipe': (file('config.json', os.mkfifo), 'no regular'),
  'config.json a list': (file('config.json', '[]'), r'has \[\]'),
  'no weights': (file(WEIGHTS, None), f'no {WEIGHTS}; expected'),
  'weights a pipe': (file(WEIGHTS, os.mkfifo), 'no regular file'),
  'weights cut': (file(WEIGHTS, len), f'{WEIGHTS}'),
  'weights pickled': (to_bin, 'pytorch_model.bin is not read'),
  'a file less': (shards(1), 'the files lack'),
}


@pytest.mark.parametrize('name', FAULTS)
def test_faults_of_folders(folders, tmp_path, capfd, name, one_line):
  change, message = FAULTS[name]
  folder = tmp_path / 'model'
  shutil.copytree(folders / 'gpt2', folder)
  change(folder)
  (tmp_path / 'tokens.json').write_text(json.dumps(TABLE))
  capfd.readouterr()
  with one_line(message) as error:
    load(folder, tmp_path / 'tokens.json')
  assert str(folder) in str(error.value)
  assert capfd.readouterr().err == ''  # No report of transformers beside it.


WORDS_FAULTS = {
  'cut': file('tokenizer.json', len),
  'another': file('tokenizer.json', '{"version": 3}'),
  'away': file('tokenizer.json', None),
  'a pipe': file('tokenizer.json', os.mkfifo),
  'settings a list': file('tokenizer_config.json', '[]'),
  'a number for a class': file(
    'tokenizer_config.json', '{"tokenizer_class": 5}'
  ),
}


@pytest.mark.parametrize('name', WORDS_FAULTS)
def test_faults_of_tokenizers(folders, tmp_path, name, one_line):
  folder = tmp_path / 'model'
  shutil.copytree(folders / 'gpt2', folder)
  shutil.copytree(folders / 'words', folder, dirs_exist_ok=True)
  assert load(folder).vocab_size == len(WORDS) + 1
  WORDS_FAULTS[name](folder)
  with one_line('tokenizer'):
    load(folder)


READ = {
  'as saved': lambda folder: None,
  'names of the network alone': tensors(
    lambda w: {k.removeprefix('transformer.'): v for k, v in w.items()}
  ),
  'masks of old': tensors(
    lambda w: (
      w
      | {
        'transformer.h.0.attn.bias': torch.ones(1, 1, 40, 40),
        'transformer.h.0.attn.masked_bias': torch.tensor(-1e4),
      }
    )
  ),
  'two files': shards(1, 2),
  'of a classifier': settings(num_labels=10**9),
  'not quantised': settings(quantization_config=None),
}


@pytest.mark.parametrize('name', READ)
def test_what_is_read_as_ever(folders, tmp_path, name):
  folder, tokens = tmp_path / 'model', tmp_path / 'tokens.json'
  shutil.copytree(folders / 'gpt2', folder)
  READ[name](folder)
  tokens.write_text(json.dumps(TABLE))
  sample = tiny.World().sample(3, 1)
  models = load(folders / 'gpt2', tokens), load(folder, tokens)
  want, result = (x.log_probs(sample.tokens, sample.lengths) for x in models)
  assert (want == result).all()
  assert models[1].diagnostics()[1:-1] == []


def test_a_head_that_is_not_the_embedding_is_never_left_out(folders, tmp_path):
  folder, tokens = tmp_path / 'model', tmp_path / 'tokens.json'
  shutil.copytree(folders / 'gpt2', folder)
  tokens.write_text(json.dumps(TABLE))
  head = torch.zeros(PIECES, 16)
  extended('lm_head.weight', head)(folder)
  sample = tiny.World().sample(3, 1)
  log_probs = load(folder, tokens).log_probs(sample.tokens, sample.lengths)
  first = log_probs[:, 0, 1:]
  assert abs(first + np.log(PIECES)).max() < 1e-5  # Of logits that are all 0.


@pytest.mark.parametrize(
  ('name', 'key', 'value'),
  [
    ('config.json', 'auto_map', {'AutoModelForCausalLM': 'evil.Model'}),
    ('config.json', 'auto_map', {'AutoConfig': 'evil.Config'}),
    ('config.json', 'attn_implementation', 'evil/kernel'),
    ('config.json', '_attn_implementation', 'evil/kernel'),
    ('tokenizer_config.json', 'auto_map', {'AutoTokenizer': ['evil.T', None]}),
  ],
)
def test_code_is_named_and_not_run(
  folders, tmp_path, monkeypatch, name, key, value
):
  folder = tmp_path / 'model'
  shutil.copytree(folders / 'gpt2', folder)
  shutil.copytree(folders / 'words', folder, dirs_exist_ok=True)
  (folder / 'evil.py').write_text(CODE)
  path = folder / name
  path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
  monkeypatch.chdir(tmp_path)
  line, _ = load(folder).diagnostics()
  assert key in line
  assert 'which was not run' in line
  assert not (tmp_path / 'ran').exists()
