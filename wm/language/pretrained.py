"""Reads the weights that `save_pretrained` wrote, and refuses all else.

`load` returns a network of `transformers` with exactly the weights of a folder.
`wm.models.serving.tokenization` turns the network into a predictor.

A folder is data: only its JSON and safetensors files are read. Code that
config.json names is neither run nor looked up.
"""

from __future__ import annotations

import contextlib
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import transformers
from safetensors.torch import load_file

from wm import core
from wm.core import plugins, resources, schema

# Nothing is downloaded, and no code of the folder is run.
SAFE: dict[str, Any] = {'local_files_only': True, 'trust_remote_code': False}
# Keys of config.json that make transformers run or load other code ...
_CODE = (
  'auto_map',
  'attn_implementation',
  '_attn_implementation',
  '_attn_implementation_internal',
  'experts_implementation',
  '_experts_implementation',
  '_experts_implementation_internal',
  'fusion_config',
  'custom_pipelines',
)
# ... read other files, or interpret weights as other than plain numbers.
_REFUSED = (
  'quantization_config',
  'compression_config',
  'configuration_files',
  'transformers_weights',
)
# Keys of classifiers, not used here; a number decides how many there are.
_LABELS = ('num_labels', 'id2label', 'label2id')
# Masks that old networks were saved with; they are [1, 1, N, N] or scalars.
_MASKS = re.compile(r'\.(attn|attention)\.(masked_)?bias$')
_READ = ('.json', '.safetensors', '.txt', '.model', '.jinja')
_OTHER = ('.bin', '.pt', '.pth', '.h5', '.msgpack', '.gguf', '.ckpt')
WEIGHTS, PARTS = 'model.safetensors', 'model-*-of-*.safetensors'


def label(folder: str | pathlib.Path) -> str:
  """The name of a folder in errors."""
  return f'huggingface: {plugins.shortened(str(folder))}'


def load(folder: pathlib.Path) -> tuple[Any, tuple[str, ...]]:
  """The causal language model of a folder, float32, with all its weights.

  Returns:
    The network in evaluation mode, and remarks on ignored parts of the folder.

  Raises:
    InputError: a file is missing, damaged or of an unsupported kind; weights
      do not match the settings; or memory does not suffice.
  """
  name = label(folder)
  with plugins.user_code(name), _quietly():
    _check_files(folder, name)
    settings = _read_json(folder / 'config.json', name)
    ignored = _check_settings(settings, name)
    if (folder / 'tokenizer_config.json').exists():
      words = _read_json(folder / 'tokenizer_config.json', name)
      ignored += [f"its tokenizer's {key}" for key in _CODE if words.get(key)]
    network = _network(settings, _weights(folder, name), name)
  if not ignored:
    return network, ()
  keys = ', '.join(ignored)
  return network, (f'{name} names code ({keys}), which was not run',)


def tokenizer(folder: pathlib.Path) -> Any:
  """The tokenizer of a folder; raises InputError if it cannot be loaded."""
  with plugins.user_code(f'{label(folder)}: its tokenizer'), _quietly():
    # SAFE forbids code of the folder and downloads.
    return transformers.AutoTokenizer.from_pretrained(folder, **SAFE)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
  """Silences the long reports of transformers."""
  before = transformers.logging.get_verbosity()
  transformers.logging.set_verbosity(transformers.logging.CRITICAL)
  transformers.logging.disable_progress_bar()
  try:
    yield
  finally:
    transformers.logging.set_verbosity(before)


def _check_files(folder: pathlib.Path, name: str) -> None:
  """Raises InputError where a file is missing or not regular."""
  # Transformers would load the base model by name, from elsewhere.
  if (folder / 'adapter_config.json').exists():
    raise core.InputError(
      f'{name}: adapter_config.json makes it an adapter; expected a whole '
      'model, as merge_and_unload gives'
    )
  if not (folder / 'config.json').exists():
    raise core.InputError(
      f'huggingface: no config.json in {str(folder)!r}; expected path=, the '
      'folder that save_pretrained wrote'
    )
  for path in sorted(folder.iterdir()):
    # Reading a pipe would block; other folders and files are not read.
    if path.suffix in _READ and not path.is_file():
      raise core.InputError(f'{name}: {path.name} is no regular file')


def _read_json(path: pathlib.Path, name: str) -> dict[str, Any]:
  """The object in a JSON file; raises InputError if there is none."""
  with plugins.user_code(f'{name}/{path.name}'):
    return dict(schema.read(path, dict))


def _check_settings(settings: dict[str, Any], name: str) -> list[str]:
  """Removes keys that name code from config.json, and returns these keys.

  Raises:
    InputError: weights are not plain numbers, or transformers does not have
      this kind of model.
  """
  # The settings and, for models with parts, the settings of each part.
  ignored = []
  for part in (settings, *settings.values()):
    if not isinstance(part, dict):
      continue
    if refused := [key for key in _REFUSED if part.get(key) is not None]:
      raise core.InputError(
        f'{name}: config.json has {refused[0]}; expected a model whose weights '
        f'are plain numbers in {WEIGHTS}'
      )
    # Otherwise these keys are None or describe labels: no weight depends on
    # them.
    for key in (*_LABELS, *_REFUSED):
      part.pop(key, None)
    named = [key for key in _CODE if part.pop(key, None) is not None]
    ignored += [key for key in named if key not in ignored]
  kind = settings.get('model_type')
  if not isinstance(kind, str) or kind not in transformers.CONFIG_MAPPING:
    code = ', and code of its own (auto_map), which is not run'
    raise core.InputError(
      f'{name}: config.json has model_type {plugins.shortened(repr(kind))}'
      f'{code if "auto_map" in ignored else ""}; expected one of those that '
      f'transformers {transformers.__version__} has'
    )
  return ignored


def _weights(folder: pathlib.Path, name: str) -> dict[str, torch.Tensor]:
  """Name -> tensor of a folder's safetensors; InputError if there are none."""
  # Large models are saved in several files.
  files = [folder / WEIGHTS] if (folder / WEIGHTS).exists() else []
  if not (files := files or sorted(folder.glob(PARTS))):
    others = sorted(p.name for p in folder.iterdir() if p.suffix in _OTHER)
    hint = f'; {others[0]} is not read' if others else ''
    raise core.InputError(
      f'{name}: no {WEIGHTS}; expected weights as safetensors{hint}'
    )
  weights: dict[str, torch.Tensor] = {}
  for file in files:
    with plugins.user_code(f'{name}/{file.name}'):
      part = load_file(file)
    # The folder does not say which of the two is right.
    if twice := part.keys() & weights.keys():
      raise core.InputError(f'{name}: two files hold {min(twice)!r}')
    weights |= part
  return {
    key: tensor
    for key, tensor in weights.items()
    # Old checkpoints store causal masks as weights; networks build their own.
    if tensor.ndim not in (0, 4) or not _MASKS.search(key)
  }


def _network(
  settings: Mapping[str, Any], weights: dict[str, torch.Tensor], name: str
) -> Any:
  """The network of config.json with exactly these weights."""
  kind = transformers.CONFIG_MAPPING[settings['model_type']]
  config = kind.from_dict(dict(settings))
  with torch.device('meta'):  # Only shapes.
    shapes = transformers.AutoModelForCausalLM.from_config(
      config, trust_remote_code=False
    )
  # float32, whatever the dtype in the files.
  size = sum(4 * parameter.numel() for parameter in shapes.parameters())
  resources.require_memory(size, f'{name}, by config.json')
  # Integers and floats of 8 bits are quantised weights: they need scales.
  _check_floats(shapes, weights, name)
  network, report = type(shapes).from_pretrained(
    None,
    config=shapes.config,
    state_dict=dict(weights),
    dtype=torch.float32,
    output_loading_info=True,
    ignore_mismatched_sizes=True,  # Checked below, with names.
    local_files_only=True,
  )
  _check_report(report, network, weights, name)
  return network.eval()


def _check_floats(
  shapes: Any, weights: Mapping[str, torch.Tensor], name: str
) -> None:
  """Raises InputError for quantised weights such as int8, which need scales."""
  for tensor, expected in shapes.state_dict().items():
    held = weights[tensor].dtype if tensor in weights else torch.float32
    narrow = not held.is_floating_point or held.itemsize == 1
    if expected.is_floating_point() and narrow:
      raise core.InputError(
        f'{name}: {tensor!r} holds {held}; expected floats of 16 bits or more'
      )


def _check_report(
  report: Mapping[str, Any],
  network: Any,
  weights: Mapping[str, torch.Tensor],
  name: str,
) -> None:
  """Raises InputError where weights do not match the network."""
  for key, what in (
    ('missing_keys', 'the files lack'),
    ('unexpected_keys', 'config.json describes no'),
  ):
    if names := sorted(report[key]):
      more = f' and {len(names) - 1} more tensors' if names[1:] else ''
      raise core.InputError(
        f'{name}: {what} {names[0]!r}{more}; expected files that hold exactly '
        'the weights of the model that config.json describes'
      )
  for tensor, *_ in sorted(report['mismatched_keys']):
    expected = list(network.state_dict()[tensor].shape)
    held = list(weights[tensor].shape) if tensor in weights else 'another'
    raise core.InputError(
      f'{name}: {tensor!r} has shape {held}; expected {expected}, by '
      'config.json'
    )
