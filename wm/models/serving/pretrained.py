"""Reads the weights that `save_pretrained` wrote, and refuses all else.

`load` returns a network of `transformers` with exactly the weights of a folder.
`tokenization` turns the network into a predictor.

A folder is data: only its JSON and safetensors files are read. Code and files
that config.json names are neither run nor looked up.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import transformers
from safetensors.torch import load_file

from wm import core
from wm.core import plugins, resources, schema
from wm.models.serving import few_shot

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
_LAYERS = (
  'n_layer',
  'n_layers',
  'num_layers',
  'num_hidden_layers',
  'attention_types',  # Of GPT-Neo: [[kinds, how many], ...].
)
# Masks that old networks were saved with; they are [1, 1, N, N] or scalars.
_MASKS = re.compile(r'\.(attn|attention)\.(masked_)?bias$')
_READ = ('.json', '.safetensors', '.txt', '.model', '.jinja')
_OTHER = ('.bin', '.pt', '.pth', '.h5', '.msgpack', '.gguf', '.ckpt')
WEIGHTS, INDEX = 'model.safetensors', 'model.safetensors.index.json'
# Files of an adapter, as peft's save_pretrained writes them.
ADAPTER, ADAPTER_WEIGHTS = 'adapter_config.json', 'adapter_model.safetensors'
# Kinds of peft that change weights. Others add virtual tokens or read files.
_KINDS = (
  *('LORA', 'ADALORA', 'IA3', 'LOHA', 'LOKR', 'OFT', 'VERA'),
  'LN_TUNING',
)
# Settings of adapters that import code of another library, or copy layers.
_ADAPTER_REFUSED = ('megatron_config', 'layer_replication')
# Settings of adapters, not used here. The first would make peft import code.
_ADAPTER_UNUSED = ('auto_mapping', 'runtime_config')
# Largest permitted change of log-probabilities, nats, by merging an adapter.
MERGE_TOLERANCE = 1e-3


def label(folder: str | pathlib.Path) -> str:
  """The name of a folder in errors."""
  return f'huggingface: {plugins.shortened(str(folder))}'


def base_of(folder: pathlib.Path, base: str) -> pathlib.Path | None:
  """The folder of the base model of an adapter; None for a whole model.

  base: this folder, or '' for the one that adapter_config.json names.
  """
  name = label(folder)
  if not os.path.isfile(folder / ADAPTER):
    if base:
      raise core.InputError(
        f'{name}: base={plugins.shortened(repr(base))} was given, and there is '
        f'no {ADAPTER}; expected the folder of an adapter'
      )
    return None
  named = base or read_json(folder / ADAPTER, name).get(
    'base_model_name_or_path'
  )
  # peft would look an unknown name up at the hub.
  if isinstance(named, str) and os.path.isdir(named):
    return pathlib.Path(named)
  raise core.InputError(
    f'{name}: its base model {plugins.shortened(repr(named))} is no folder '
    'here, and nothing is downloaded; expected base=, the folder of a whole '
    'model'
  )


def load(
  folder: pathlib.Path, base: pathlib.Path | None = None
) -> tuple[Any, tuple[str, ...]]:
  """The causal language model of a folder, float32, with all its weights.

  Args:
    folder: of a whole model, or of an adapter.
    base: folder of the adapter's base model, see `base_of`; None where `folder`
      is a whole model.

  Returns:
    The network in evaluation mode, and remarks on ignored parts of the folders.

  Raises:
    InputError: a file is missing, damaged or of an unsupported kind; weights
      do not match the settings; memory does not suffice; peft is not installed,
      or cannot merge the adapter.
  """
  if base is None:
    return _load_whole(folder)
  name = label(folder)
  with plugins.user_code(name), _quietly():
    # Before the base model, which may be large.
    config, weights, remarks = _adapter(folder, name)
    network, more = _load_whole(base)
    return _merged(network, config, weights, name), (*more, *remarks)


def _load_whole(folder: pathlib.Path) -> tuple[Any, tuple[str, ...]]:
  """As `load`, of a folder that holds a whole model."""
  name = label(folder)
  # Cheap checks first: files, settings, tensors, then the network, so that a
  # bad folder is refused before memory is allocated.
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
    with warnings.catch_warnings():
      warnings.simplefilter('ignore')  # Those of peft; errors are raised here.
      yield
  finally:
    transformers.logging.set_verbosity(before)


def _check_files(folder: pathlib.Path, name: str) -> None:
  """Raises InputError where a file is missing or not regular."""
  # Otherwise transformers would load the base model by name, from elsewhere.
  if (folder / ADAPTER).exists():
    raise core.InputError(
      f'{name}: {ADAPTER} makes it an adapter; expected a whole model, as '
      'merge_and_unload gives'
    )
  if not (folder / 'config.json').exists():
    raise core.InputError(
      f'huggingface: no config.json in {str(folder)!r}; expected path=, the '
      'folder that save_pretrained wrote'
    )
  _check_regular(folder, name)


def _check_regular(folder: pathlib.Path, name: str) -> None:
  """Raises InputError if a file that is read is not a regular file."""
  for path in sorted(folder.iterdir()):
    # Reading a pipe would block; other folders and files are not read.
    if path.suffix in _READ and not path.is_file():
      raise core.InputError(f'{name}: {path.name} is no regular file')


def read_json(path: pathlib.Path, name: str) -> dict[str, Any]:
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
  """Name -> tensor of a folder's safetensors."""
  # One file, or the files that an index names.
  files = [WEIGHTS]
  if not (folder / WEIGHTS).exists() and (folder / INDEX).exists():
    files = _shards(read_json(folder / INDEX, name), name)
  weights: dict[str, torch.Tensor] = {}
  for file in files:
    part = _tensors(folder, file, name)
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


def _tensors(
  folder: pathlib.Path, file: str, name: str
) -> dict[str, torch.Tensor]:
  """Name -> tensor of one file; InputError where it cannot be read."""
  if not (folder / file).is_file():
    others = sorted(p.name for p in folder.iterdir() if p.suffix in _OTHER)
    hint = f'; {others[0]} is not read' if others else ''
    raise core.InputError(
      f'{name}: no {file}; expected weights as safetensors{hint}'
    )
  with plugins.user_code(f'{name}/{file}'):
    return load_file(folder / file)


def _shards(index: Mapping[str, Any], name: str) -> list[str]:
  """Files that an index names; InputError unless safetensors in the folder."""
  shards = index.get('weight_map')
  if not isinstance(shards, dict) or not shards:
    raise core.InputError(
      f'{name}: {INDEX} has no weight_map; expected {{tensor: file}}'
    )
  for file in shards.values():
    # A name with a path separator could point outside the folder.
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
  """Raises InputError for more layers than tensors, before building them."""
  for part in (settings, *settings.values()):
    for key in _LAYERS if isinstance(part, dict) else ():
      # The number itself, or the counts in a list of kinds of layers.
      numbers = re.findall(r'\d+', json.dumps(part.get(key)))
      if (most := max(map(int, numbers), default=0)) > len(weights):
        raise core.InputError(
          f'{name}: config.json has {most} layers ({key}), the files hold '
          f'{len(weights)} tensors; expected at least one tensor a layer'
        )


def _network(
  settings: Mapping[str, Any], weights: dict[str, torch.Tensor], name: str
) -> Any:
  """The network of config.json with exactly these weights."""
  with tempfile.TemporaryDirectory() as folder:
    # Without the removed keys, and without any other file.
    text = json.dumps(settings)
    (pathlib.Path(folder) / 'config.json').write_text(text, encoding='utf-8')
    config = transformers.AutoConfig.from_pretrained(folder, **SAFE)
  if type(config) not in transformers.MODEL_FOR_CAUSAL_LM_MAPPING:
    raise core.InputError(
      f'{name}: transformers has no causal language model of model_type '
      f'{config.model_type!r}'
    )
  with torch.device('meta'):  # Only shapes.
    shapes = transformers.AutoModelForCausalLM.from_config(
      config, trust_remote_code=False
    )
  _check_architecture(settings, shapes, name)
  # float32, whatever the dtype in the files.
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
    ignore_mismatched_sizes=True,  # Checked below, with names.
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
    return  # Not stated, or left to transformers.
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
  for entry in sorted(report['mismatched_keys']):
    # A name, or a name and two shapes, depending on transformers' version.
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


def _adapter(
  folder: pathlib.Path, name: str
) -> tuple[Any, dict[str, torch.Tensor], tuple[str, ...]]:
  """Settings of peft, float32 weights and remarks of an adapter's folder."""
  _check_regular(folder, name)
  # Trainers may save both; the folder does not say which one is meant.
  if whole := [file for file in (WEIGHTS, INDEX) if (folder / file).exists()]:
    raise core.InputError(
      f'{name}: {ADAPTER} makes it an adapter, {whole[0]} a whole model; '
      'expected one of them'
    )
  settings = read_json(folder / ADAPTER, name)
  _check_adapter(settings, name)
  weights = _tensors(folder, ADAPTER_WEIGHTS, name)
  # Quantised weights need scales, as for whole models.
  for key, tensor in weights.items():
    if not tensor.is_floating_point() or tensor.itemsize == 1:
      raise core.InputError(
        f'{name}: {key!r} holds {tensor.dtype}; expected floats of 16 bits or '
        'more'
      )
  _check_ranks(settings, weights, name)
  peft = few_shot.peft_library(f'{name}, an adapter,')
  fields = {
    key: value for key, value in settings.items() if key not in _ADAPTER_UNUSED
  }
  # The weights of an adapter are its trainable parameters.
  config = peft.PeftConfig.from_peft_type(**fields | {'inference_mode': False})
  # A later version of peft may have saved settings unknown to this one.
  declared = {field.name for field in dataclasses.fields(config)}
  remarks = tuple(
    f'{name}: {key} of {ADAPTER} was left out, as peft {peft.__version__} does '
    'not know it'
    for key in sorted(fields.keys() - declared)
    if fields[key]
  )
  return config, {key: x.float() for key, x in weights.items()}, remarks


def _check_adapter(settings: Mapping[str, Any], name: str) -> None:
  """Raises InputError for an adapter of a kind that is not merged here."""
  kind, task = settings.get('peft_type'), settings.get('task_type')
  if kind not in _KINDS:
    raise core.InputError(
      f'{name}: {ADAPTER} has peft_type {plugins.shortened(repr(kind))}; '
      f'expected one of {", ".join(_KINDS)}'
    )
  if task not in (None, 'CAUSAL_LM'):
    raise core.InputError(
      f'{name}: {ADAPTER} has task_type {plugins.shortened(repr(task))}; '
      "expected 'CAUSAL_LM'"
    )
  for key in _ADAPTER_REFUSED:
    if settings.get(key) is not None:
      raise core.InputError(
        f'{name}: {ADAPTER} has {key}; expected an adapter of the layers of '
        'its base model'
      )


def _check_ranks(
  settings: Mapping[str, Any], weights: Mapping[str, torch.Tensor], name: str
) -> None:
  """Raises InputError for ranks larger than any dimension of the tensors.

  Allocating such ranks could take more memory than the files.
  """
  # In all kinds of adapters, the rank is the rows or columns of a tensor.
  most = max((max(w.shape, default=0) for w in weights.values()), default=0)
  pattern = settings.get('rank_pattern')
  ranks = [settings.get('r'), settings.get('init_r')]
  ranks += pattern.values() if isinstance(pattern, dict) else []
  for rank in ranks:
    if isinstance(rank, int | float) and rank > most:
      raise core.InputError(
        f'{name}: {ADAPTER} has rank {rank}, the tensors of {ADAPTER_WEIGHTS} '
        f'have at most {most} rows or columns'
      )


def _merged(
  network: Any, config: Any, weights: dict[str, torch.Tensor], name: str
) -> Any:
  """Merges an adapter into the base model, for evaluation."""
  peft = few_shot.peft_library(name)
  model = peft.get_peft_model(network, config).eval()
  # Biases and whole modules may be trained too, not only the parts peft adds.
  trained = [key for key, x in model.named_parameters() if x.requires_grad]
  report = peft.set_peft_model_state_dict(model, weights)
  for what, keys in (
    ('the file lacks', sorted({*trained} & {*report.missing_keys})),
    (f'{ADAPTER} describes no', sorted(report.unexpected_keys)),
  ):
    if keys:
      more = f' and {len(keys) - 1} more tensors' if keys[1:] else ''
      raise core.InputError(
        f'{name}: {what} {keys[0]!r}{more}; expected {ADAPTER_WEIGHTS} with '
        f'exactly the weights that {ADAPTER} describes'
      )
  _untie(model)
  # Arbitrary pieces, which check that merging preserves the function.
  pieces = torch.arange(8)[None] % network.config.get_text_config().vocab_size
  with torch.no_grad():
    before = model(input_ids=pieces).logits.log_softmax(-1)
    merged = model.merge_and_unload(safe_merge=True).eval()
    after = merged(input_ids=pieces).logits.log_softmax(-1)
  # A large change: the adapter cannot be merged, or peft has a fault.
  if not (change := (after - before).abs().max()) <= MERGE_TOLERANCE:
    raise core.InputError(
      f'{name}: merged into its base model it predicts otherwise, by '
      f'{change:.2g} nats; expected an adapter that merge_and_unload keeps'
    )
  return merged


def _untie(model: Any) -> None:
  """Unties weights below adapters from other weights, in place.

  Otherwise merging would also change tied weights, such as the head tied to an
  embedding, which the adapter does not affect.
  """
  held = [*model.named_parameters(remove_duplicate=False)]
  uses = collections.Counter(weight.data_ptr() for _, weight in held)
  for path, weight in held:
    parent, _, leaf = path.rpartition('.')
    # peft names the layer below an adapter `base_layer`.
    if uses[weight.data_ptr()] > 1 and '.base_layer.' in path:
      copy = torch.nn.Parameter(weight.detach().clone(), requires_grad=False)
      setattr(model.get_submodule(parent), leaf, copy)
