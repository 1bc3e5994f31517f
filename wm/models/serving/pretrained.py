"""Weights that `save_pretrained` wrote, all of them and nothing else.

A folder is data: its files are read as JSON and safetensors here, and the
network is made of them. Nothing that config.json names is run or looked up.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import transformers
from safetensors.torch import load_file

from wm import core
from wm.core import plugins, resources

# Nothing is downloaded, and no code of the folder's is run.
SAFE: dict[str, Any] = {'local_files_only': True, 'trust_remote_code': False}
# Keys of config.json by which transformers runs, or loads, other code ...
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
# ... reads other files, or takes weights for something else than numbers.
_REFUSED = (
  'quantization_config',
  'compression_config',
  'configuration_files',
  'transformers_weights',
)
# Of classifiers. Without use here, and as many as a number says.
_LABELS = ('num_labels', 'id2label', 'label2id')
_LAYERS = (
  'n_layer',
  'n_layers',
  'num_layers',
  'num_hidden_layers',
  'attention_types',  # Of GPT-Neo: [[kinds, how many], ...].
)
# Masks that networks of old were saved with; they are [1, 1, N, N] or numbers.
_MASKS = re.compile(r'\.(attn|attention)\.(masked_)?bias$')
_READ = ('.json', '.safetensors', '.txt', '.model', '.jinja')
_OTHER = ('.bin', '.pt', '.pth', '.h5', '.msgpack', '.gguf', '.ckpt')
WEIGHTS, INDEX = 'model.safetensors', 'model.safetensors.index.json'


def label(folder: str | pathlib.Path) -> str:
  """The name of a folder in errors."""
  return f'huggingface: {plugins.shortened(str(folder))}'


def load(folder: pathlib.Path) -> tuple[Any, tuple[str, ...]]:
  """The causal language model of a folder, float32, with all its weights.

  Returns:
    The network in evaluation mode, and remarks on parts of the folder that were
    left out.

  Raises:
    InputError: a file is missing, damaged or none that is read here; weights
      and config.json do not fit each other; it takes more memory than there is.
  """
  name = label(folder)
  # Cheap checks first: files, settings, tensors, and the network last, so that
  # a bad folder is refused before its memory is taken.
  with plugins.user_code(name), _quietly():
    _check_files(folder, name)
    settings = read_json(folder / 'config.json', name)
    ignored = _check_settings(settings, name)
    if (folder / 'tokenizer_config.json').exists():
      words = read_json(folder / 'tokenizer_config.json', name)
      ignored += [f"its tokenizer's {key}" for key in _CODE if words.get(key)]
    weights = _weights(folder, name)
    _check_layers(settings, weights, name)
    network = _network(settings, weights, name)
  if not ignored:
    return network, ()
  keys = ', '.join(ignored)
  return network, (f'{name} names code ({keys}), which was not run',)


def tokenizer(folder: pathlib.Path) -> Any:
  """The tokenizer of a folder; InputError where it has none that loads."""
  with plugins.user_code(f'{label(folder)}: its tokenizer'), _quietly():
    # SAFE forbids code of the folder and downloads.
    return transformers.AutoTokenizer.from_pretrained(folder, **SAFE)


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
  """Silences reports of transformers, which take many lines."""
  before = transformers.logging.get_verbosity()
  transformers.logging.set_verbosity(transformers.logging.CRITICAL)
  transformers.logging.disable_progress_bar()
  try:
    yield
  finally:
    transformers.logging.set_verbosity(before)


def _check_files(folder: pathlib.Path, name: str) -> None:
  """Raises InputError where a file is missing or not regular."""
  if not (folder / 'config.json').exists():
    raise core.InputError(
      f'huggingface: no config.json in {str(folder)!r}; expected path=, the '
      'folder that save_pretrained wrote'
    )
  for path in sorted(folder.iterdir()):
    # A pipe would be waited for; other folders and files are not read.
    if path.suffix in _READ and not path.is_file():
      raise core.InputError(f'{name}: {path.name} is no regular file')
  # transformers would load the base model by its name, from elsewhere.
  if (folder / 'adapter_config.json').exists():
    raise core.InputError(
      f'{name}: adapter_config.json makes it an adapter; expected a whole '
      'model, as merge_and_unload gives'
    )


def read_json(path: pathlib.Path, name: str) -> dict[str, Any]:
  """The object that a JSON file holds; InputError where it holds none."""
  with plugins.user_code(f'{name}/{path.name}'):
    content = json.loads(path.read_text(encoding='utf-8'))
  if not isinstance(content, dict):
    raise core.InputError(
      f'{name}: {path.name} holds a {type(content).__name__}; expected an '
      'object'
    )
  return content


def _check_settings(settings: dict[str, Any], name: str) -> list[str]:
  """Removes keys that name code from config.json, and returns these keys.

  Raises:
    InputError: weights are not plain numbers, or it is a model of no kind that
      transformers has.
  """
  # The settings themselves and, of models with parts, those of each part.
  ignored = []
  for part in (settings, *settings.values()):
    if not isinstance(part, dict):
      continue
    if refused := [key for key in _REFUSED if part.get(key) is not None]:
      raise core.InputError(
        f'{name}: config.json has {refused[0]}; expected a model whose weights '
        f'are plain numbers in {WEIGHTS}'
      )
    # What is left of these is None or describes labels: no weight depends on
    # it.
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
  """Name -> tensor of a folder's safetensors."""
  # One file, or those that an index names.
  files = [WEIGHTS]
  if not (folder / WEIGHTS).exists() and (folder / INDEX).exists():
    files = _shards(read_json(folder / INDEX, name), name)
  weights: dict[str, torch.Tensor] = {}
  for file in files:
    if not (folder / file).is_file():
      others = sorted(p.name for p in folder.iterdir() if p.suffix in _OTHER)
      hint = f'; {others[0]} is not read' if others else ''
      raise core.InputError(
        f'{name}: no {file}; expected weights as safetensors{hint}'
      )
    with plugins.user_code(f'{name}/{file}'):
      part = load_file(folder / file)
    # Which of the two is right, nothing in the folder says.
    if twice := part.keys() & weights.keys():
      raise core.InputError(f'{name}: two files hold {min(twice)!r}')
    weights |= part
  return {
    key: tensor
    for key, tensor in weights.items()
    # Old checkpoints hold causal masks among the weights; networks make their
    # own.
    if tensor.ndim not in (0, 4) or not _MASKS.search(key)
  }


def _shards(index: Mapping[str, Any], name: str) -> list[str]:
  """Files that an index names; InputError for all but safetensors in there."""
  shards = index.get('weight_map')
  if not isinstance(shards, dict) or not shards:
    raise core.InputError(
      f'{name}: {INDEX} has no weight_map; expected {{tensor: file}}'
    )
  for file in shards.values():
    # A name with a folder in it could point outside of this one.
    plain = isinstance(file, str) and pathlib.PurePath(file).name == file
    if not plain or not file.endswith('.safetensors'):
      raise core.InputError(
        f'{name}: {INDEX} names {plugins.shortened(repr(file))}; expected '
        'safetensors in the same folder'
      )
  return sorted(set(shards.values()))


def _check_layers(
  settings: Mapping[str, Any], weights: Mapping[str, Any], name: str
) -> None:
  """Raises InputError for more layers than tensors, before they are built."""
  for part in (settings, *settings.values()):
    for key in _LAYERS if isinstance(part, dict) else ():
      # The number itself, or the numbers in a list of layers' kinds.
      numbers = re.findall(r'\d+', json.dumps(part.get(key)))
      if (most := max(map(int, numbers), default=0)) > len(weights):
        raise core.InputError(
          f'{name}: config.json has {most} layers ({key}), the files hold '
          f'{len(weights)} tensors; expected at least one tensor a layer'
        )


def _network(
  settings: Mapping[str, Any], weights: dict[str, torch.Tensor], name: str
) -> Any:
  """The network of config.json with these weights, every one of them."""
  with tempfile.TemporaryDirectory() as folder:
    # Without the keys that were taken out, and without any file beside it.
    text = json.dumps(settings)
    (pathlib.Path(folder) / 'config.json').write_text(text, encoding='utf-8')
    config = transformers.AutoConfig.from_pretrained(folder, **SAFE)
  if type(config) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
    raise core.InputError(
      f'{name}: transformers has no causal language model of model_type '
      f'{config.model_type!r}'
    )
  with torch.device('meta'):  # Shapes alone.
    shapes = transformers.AutoModelForCausalLM.from_config(
      config, trust_remote_code=False
    )
  _check_architecture(settings, shapes, name)
  # float32, whatever the files hold.
  sizes = [4 * parameter.numel() for parameter in shapes.parameters()]
  sizes += [buffer.nbytes for buffer in shapes.buffers()]
  resources.require_memory(sum(sizes), f'{name}, by config.json')
  # Integers and floats of 8 bits are quantised weights: they need scales.
  _check_floats(shapes, weights, name)
  network, report = type(shapes).from_pretrained(
    None,
    config=shapes.config,
    state_dict=dict(weights),
    dtype=torch.float32,
    output_loading_info=True,
    ignore_mismatched_sizes=True,  # They are refused here, by name.
    local_files_only=True,
  )
  _check_report(report, network, weights, name)
  _check_tied(network, weights, name)
  return network.eval()


def _check_architecture(
  settings: Mapping[str, Any], shapes: Any, name: str
) -> None:
  """Raises InputError where config.json names a network of another kind."""
  named = settings.get('architectures')
  if not named or shapes.config.model_type != settings['model_type']:
    return  # Not said, or transformers knows better.
  named = named if isinstance(named, list) else [named]
  kinds = [type(shapes).__name__, type(shapes.base_model).__name__]
  # Some folders write MPTForCausalLM where transformers writes Mpt...
  if not {str(x).lower() for x in named} & {x.lower() for x in kinds}:
    raise core.InputError(
      f'{name}: config.json has architectures {plugins.shortened(repr(named))}'
      f' and model_type {settings["model_type"]!r}; the language model of that '
      f'type is {kinds[0]}'
    )


def _check_floats(
  shapes: Any, weights: Mapping[str, torch.Tensor], name: str
) -> None:
  """Raises InputError for weights that need more to be read, as int8 does."""
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
  """Raises InputError where weights and network do not fit each other."""
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
  for entry in sorted(report['mismatched_keys']):
    # A name, or one and two shapes, as the version of transformers has it.
    tensor = entry if isinstance(entry, str) else entry[0]
    expected = list(network.state_dict()[tensor].shape)
    held = list(weights[tensor].shape) if tensor in weights else 'another'
    raise core.InputError(
      f'{name}: {tensor!r} has shape {held}; expected {expected}, by '
      'config.json'
    )
  if errors := report.get('error_msgs'):
    raise core.InputError(f'{name}: {plugins.shortened(" ".join(errors), 300)}')


def _check_tied(
  network: Any, weights: Mapping[str, torch.Tensor], name: str
) -> None:
  """Raises InputError where the network ties tensors that differ."""
  shared: dict[int, str] = {}
  for tensor, values in network.state_dict().items():
    if tensor not in weights:
      continue
    # Tied tensors share their memory: one address, several names.
    first = shared.setdefault(values.data_ptr(), tensor)
    if first != tensor and not torch.equal(weights[first], weights[tensor]):
      raise core.InputError(
        f'{name}: {first!r} and {tensor!r} differ, which config.json ties'
      )
