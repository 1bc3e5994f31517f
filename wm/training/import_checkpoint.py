"""GPT-2 and minGPT checkpoints (PyTorch state dicts) made training runs.

The published models of Vafa et al. 2024 are Hugging Face GPT-2 networks whose
vocabulary is `<pad>` and then all words in reverse lexicographic order (spec:
their tokenizer), so rows of the embedding are put in our world's order.

Othello-GPT (Li et al. 2023), which they evaluate too, is a minGPT: linear maps
are stored [out, in], queries, keys and values apart, the head is its own, the
activation is the exact GELU, and there is a place for each token of the longest
game but the last. It is brought into GPT-2's layout first.
"""

from __future__ import annotations

import pathlib
import re
import zipfile
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from flax import nnx

from wm import core
from wm.core import inputs, registry
from wm.models import transformer
from wm.models.nn import network
from wm.runtime import files
from wm.training import checkpoints, config, run_log, state

# Ours -> theirs, in a block; their Conv1D weights are [in, out], as ours.
_BLOCK = {
  'before_attention.scale': 'ln_1.weight',
  'before_attention.bias': 'ln_1.bias',
  'attention.qkv.kernel': 'attn.c_attn.weight',
  'attention.qkv.bias': 'attn.c_attn.bias',
  'attention.out.kernel': 'attn.c_proj.weight',
  'attention.out.bias': 'attn.c_proj.bias',
  'before_mlp.scale': 'ln_2.weight',
  'before_mlp.bias': 'ln_2.bias',
  'mlp.up.kernel': 'mlp.c_fc.weight',
  'mlp.up.bias': 'mlp.c_fc.bias',
  'mlp.down.kernel': 'mlp.c_proj.weight',
  'mlp.down.bias': 'mlp.c_proj.bias',
}
_HEAD = 'lm_head.weight'
_WHOLE = {
  'head.kernel': _HEAD,
  'embedding.table': 'wte.weight',
  'positions.table': 'wpe.weight',
  'final.scale': 'ln_f.weight',
  'final.bias': 'ln_f.bias',
}
# Causal masks that older versions kept among the weights.
_MASK = re.compile(r'h\.\d+\.attn\.(masked_)?bias')


def read(path: str | pathlib.Path) -> dict[str, np.ndarray]:
  """Name -> float32 array of a state dict in GPT-2's layout; see `load`."""
  return bare(load(path), path)


def load(path: str | pathlib.Path) -> dict[str, np.ndarray]:
  """Name -> float32 array of a PyTorch state dict.

  Only weights are loaded: a file that names any other object is refused.

  Raises:
    InputError: no such file, no torch, not a state dict, or not safe to open.
  """
  with inputs.extra('torch', 'reading PyTorch files'):
    import torch
  with inputs.reading_file(path, 'a PyTorch file'):
    if not zipfile.is_zipfile(path):
      raise core.InputError(
        f'{path} is no PyTorch file, or truncated; expected a zip archive as '
        'torch.save writes it'
      )
    # Looked at before loading: the file names its objects without being run.
    unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    if unsafe:
      raise core.InputError(
        f'{path} holds more than weights ({", ".join(sorted(unsafe)[:3])}) '
        'and is not opened; expected a state dict: save model.state_dict() '
        'alone, with the program that the file is from'
      )
    state_dict = torch.load(path, map_location='cpu', weights_only=True)
    if isinstance(state_dict, Mapping) and 'state_dict' in state_dict:
      state_dict = state_dict['state_dict']
    if not isinstance(state_dict, Mapping) or not all(
      isinstance(name, str) and isinstance(value, torch.Tensor)
      for name, value in state_dict.items()
    ):
      raise core.InputError(f'{path} holds no state dict (name -> tensor)')
    return {name: value.float().numpy() for name, value in state_dict.items()}


def bare(
  weights: dict[str, np.ndarray], path: str | pathlib.Path
) -> dict[str, np.ndarray]:
  """Weights by names without a prefix such as 'transformer.'."""
  tables = [name for name in weights if name.endswith('wte.weight')]
  if len(tables) != 1:
    listed = ', '.join(sorted(weights)[:5])
    raise core.InputError(
      f'{path} is not of a GPT-2 style model: expected one *wte.weight among '
      f'its names; found {listed or "none"}'
    )
  # Hugging Face's prefix is 'transformer.', others have none or their own.
  outer = tables[0].removesuffix('wte.weight')
  head = outer.removesuffix('transformer.') + _HEAD
  short_names = {}
  for name, value in weights.items():
    short = _HEAD if name == head else name.removeprefix(outer)
    if not _MASK.fullmatch(short):
      short_names[short] = value
  return short_names


def infer(
  weights: Mapping[str, np.ndarray], heads: int = 0, mlp: str = 'gelu'
) -> transformer.Model:
  """The model that these weights are of; heads=0 is one for every 64."""
  # Names such as h.0.attn.c_attn.weight: as many layers as numbers.
  # A state dict has no settings: all but the heads follow from the shapes.
  blocks = {int(n.split('.')[1]) for n in weights if n.startswith('h.')}
  table = weights['wte.weight']
  head = weights.get(_HEAD, table)
  # A state dict holds a tied head twice.
  tied = head.shape == table.shape and bool((head == table).all())
  # Rows of the table of places: longer sequences were never trained.
  context = weights['wpe.weight'].shape[0] if 'wpe.weight' in weights else 0
  return transformer.Model(
    layers=max(len(blocks), 1),
    width=table.shape[1],
    heads=heads,
    mlp=mlp,
    tied=tied,
    context=context,
  )


def published_order(vocab: Sequence[str]) -> np.ndarray:
  """[V] their id of each of our words: pad, then reverse lexicographic."""
  words = [vocab[core.PAD], *sorted(vocab[1:], reverse=True)]
  return order(vocab, words)


def order(vocab: Sequence[str], words: Sequence[str]) -> np.ndarray:
  """[V] place of each of our words in a list of theirs; raises InputError."""
  places = {word: place for place, word in enumerate(words)}
  missing = [word for word in vocab if word not in places]
  if missing:
    raise core.InputError(
      f'{len(missing)} words of the world are not in the vocabulary of the '
      f'checkpoint, such as {missing[0]!r}'
    )
  return np.array([places[word] for word in vocab])


def params(
  weights: Mapping[str, np.ndarray], shape: network.NetworkSpec, ids: np.ndarray
) -> nnx.State:
  """Our parameters from theirs.

  Args:
    weights: from `read`.
    shape: of a transformer in GPT-2 style, its vocabulary the world's.
    ids: [V] their token id of each of ours.

  Raises:
    InputError: a weight is missing, left over or of another shape.
  """
  # What is left in the end has no place in our network.
  left, flat = dict(weights), {}
  if ids.max() >= len(left.get('wte.weight', ())):
    raise core.InputError(
      f'the world has {len(ids)} tokens; the checkpoint has '
      f'{len(left.get("wte.weight", ()))}'
    )
  for path, leaf in nnx.to_flat_state(shape.abstract):
    name = _theirs(path)
    if name not in left:
      raise core.InputError(f'the checkpoint lacks {name}')
    value = left.pop(name)
    # Rows of the vocabulary, in the order of our world.
    if name in ('wte.weight', _HEAD):
      value = value[ids]
    # lm_head [V, D] is a PyTorch Linear, ours [D, V]; Conv1D is as ours.
    value = value.T if name == _HEAD else value
    if value.size != leaf.size:
      raise core.InputError(
        f'{name} of the checkpoint is {value.shape}; the model '
        f'{shape.model} takes {leaf.shape}'
      )
    flat[path] = leaf.replace(jnp.asarray(value.reshape(leaf.shape)))
  if isinstance(shape.model, transformer.Model) and shape.model.tied:
    left.pop(_HEAD, None)
  if left:
    raise core.InputError(
      f'the model {shape.model} has no place for {min(left)} of the checkpoint'
    )
  return nnx.from_flat_state(flat)


def _theirs(path: tuple[Hashable, ...]) -> str:
  """Their name of one of our parameters."""
  # blocks, 0, attention, qkv, kernel -> h.0.attn.c_attn.weight
  first, *rest = map(str, path)
  if first == 'blocks':
    return f'h.{rest[0]}.{_BLOCK[".".join(rest[1:])]}'
  return _WHOLE['.'.join((first, *rest))]


MINGPT_MLP = 'gelu_erf'
_MINGPT_TABLE = 'tok_emb.weight'
_MINGPT_MASK = re.compile(r'blocks\.\d+\.attn\.mask')  # Causal; a buffer.
_MINGPT_WHOLE = {_MINGPT_TABLE: 'wte.weight', 'pos_emb': 'wpe.weight'}
_MINGPT_PARTS = {
  'ln1': 'ln_1',
  'attn.proj': 'attn.c_proj',
  'ln2': 'ln_2',
  'mlp.0': 'mlp.c_fc',
  'mlp.2': 'mlp.c_proj',
}


def is_mingpt(weights: Mapping[str, np.ndarray]) -> bool:
  """True where the names of a state dict are minGPT's."""
  return sum(name.endswith(_MINGPT_TABLE) for name in weights) == 1


def from_mingpt(
  weights: Mapping[str, np.ndarray], max_len: int
) -> dict[str, np.ndarray]:
  """The same weights by the names and shapes that `params` takes.

  Args:
    weights: of the state dict, whatever prefix their names have.
    max_len: longest sequence of the world, in tokens. Nothing follows a last
      token, so a table of max_len - 1 places is given an empty last one.

  Raises:
    InputError: one of queries, keys and values is missing, or they differ in
      shape.
  """
  # Wrapped in another module, all names have its prefix.
  (table,) = (name for name in weights if name.endswith(_MINGPT_TABLE))
  prefix = table.removesuffix(_MINGPT_TABLE)
  left = {name.removeprefix(prefix): value for name, value in weights.items()}
  renamed = {}
  for query in [name for name in left if '.attn.query.' in name]:
    names = [query.replace('query', part) for part in ('query', 'key', 'value')]
    if missing := [name for name in names if name not in left]:
      raise core.InputError(f'the checkpoint lacks {missing[0]}')
    # three [out, in] -> [in, out], side by side: c_attn [D, 3 D]
    parts = [left.pop(name).T for name in names]
    if len({part.shape for part in parts}) > 1:
      shapes = ', '.join(str(part.T.shape) for part in parts)
      raise core.InputError(f'{", ".join(names)} differ in shape: {shapes}')
    name = query.replace('attn.query', 'attn.c_attn')
    renamed[_block(name)] = np.concatenate(parts, axis=-1)
  for name, value in left.items():
    if not _MINGPT_MASK.fullmatch(name):
      # Linear layers are [out, in], GPT-2's Conv1D [in, out]; biases and
      # norms are vectors, which transposing leaves alone.
      renamed[_gpt2_name(name)] = (
        value.T if name.startswith('blocks.') else value
      )
  if 'wpe.weight' in renamed:
    # minGPT stores them as [1, N, D].
    places = renamed['wpe.weight'].reshape(-1, renamed['wpe.weight'].shape[-1])
    last = np.zeros((int(len(places) == max_len - 1), places.shape[1]))
    renamed['wpe.weight'] = np.concatenate([places, last.astype(places.dtype)])
  return renamed


def _gpt2_name(name: str) -> str:
  """GPT-2's name of a weight; their own where GPT-2 has no such weight."""
  if name.startswith('head.'):
    return f'lm_{name}'
  # Anchored to a block, as 'ln1' alone is part of other names.
  for ours, theirs in _MINGPT_PARTS.items():
    name = re.sub(
      rf'^(blocks\.\d+)\.{re.escape(ours)}\.', rf'\1.{theirs}.', name
    )
  return _block(_MINGPT_WHOLE.get(name, name))


def _block(name: str) -> str:
  return re.sub(r'^blocks\.', 'h.', name)


@files.locked_stage(config.STAGE)
def import_gpt2(
  path: str | pathlib.Path,
  world: str,
  out: str | pathlib.Path,
  *,
  model: str | None = None,
  vocab: str | pathlib.Path | None = None,
) -> dict[str, Any]:
  """Makes a PyTorch state dict in GPT-2 style the training run OUT.

  Args:
    path: file of the state dict, in the layout of GPT-2 or of minGPT (as
      Othello-GPT is); only weights are loaded.
    world: spec of the world whose words it knows.
    out: the run's folder, for launch/score.py.
    model: spec, where the heads are not one for every 64 of width.
    vocab: file of the checkpoint's words, one a line in order of id, first
      padding; None is the published order (of GPT-2's layout reverse
      lexicographic, of minGPT's the world's own: squares ascending).

  Returns:
    Summary: model, world, parameters, checkpoint.

  Raises:
    InputError: the file is unusable or does not fit model or world, or OUT
      holds another run.
  """
  place: core.World = registry.resolve('world', world)
  with inputs.reading(path, 'a state dict in GPT-2 style'):
    weights = load(path)
    by_mingpt = is_mingpt(weights)
    if by_mingpt:
      weights = from_mingpt(weights, place.max_len)
      network_model = infer(weights, mlp=MINGPT_MLP)
    else:
      weights = bare(weights, path)
      network_model = infer(weights)
  if model is not None:
    chosen: core.Model = registry.resolve('model', model)
    if not isinstance(chosen, type(network_model)):
      raise core.InputError(f'{model!r} is no transformer(...)')
    chosen.check_world(place)
    network_model = chosen
  shape = network.NetworkSpec(network_model, len(place.vocab), place.max_len)
  ids = np.arange(len(place.vocab))
  if vocab is not None or not by_mingpt:
    ids = _ids(place, vocab)
  with inputs.reading(path, f'weights of {registry.spec(network_model)}'):
    arrays = params(weights, shape, ids)
  files.claim(out, config.STAGE, _describe(path, place, network_model))
  store = checkpoints.Checkpoints(out, read_only=False)
  try:
    # Started again after it was done, it says what is there.
    if store.last() is None:
      # Step 0 of a run that has no optimizer: it is scored, not trained on.
      start = state.State(network.flatten(arrays), {'count': jnp.zeros(())})
      store.save(0, start, run_log.fresh())
      store.wait()
    folder = str(store.folder / str(store.last()))
  finally:
    store.close()
  return {
    'model': registry.spec(network_model),
    'world': registry.spec(place),
    'parameters': shape.num_params,
    'checkpoint': folder,
  }


def _ids(world: core.World, vocab: str | pathlib.Path | None) -> Any:
  """[V] the checkpoint's id of each token of the world."""
  if vocab is None:
    return published_order(world.vocab)
  words = inputs.read_text(vocab, 'a file of words').split('\n')
  return order(world.vocab, words)


def _describe(
  path: str | pathlib.Path, world: core.World, model: core.Model
) -> dict[str, Any]:
  return {
    'imported_sha256': files.sha256(path),
    'world': registry.spec(world),
    'world_version': world.version,
    'model': registry.spec(model),
    'model_version': model.version,
    'max_len': world.max_len,
    'vocab_sha256': core.world.vocab_sha256(world),
  }
