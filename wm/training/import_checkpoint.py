"""Published PyTorch checkpoints made training runs.

Names of weights tell the layout, whatever they begin with; shapes tell the
model. Layouts:

  GPT-2      Vafa et al. 2024: a vocabulary of `<pad>` and then all words in
             reverse lexicographic order (spec: their tokenizer)
  minGPT     Othello-GPT (Li et al. 2023): exact GELU, a head of its own, a
             place for each token of the longest game but the last

A layout is two tables, of a block and of the rest: our module or parameter ->
theirs. Rows of embeddings are put in our world's order.
"""

from __future__ import annotations

import pathlib
import re
import zipfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from flax import nnx

from wm import core
from wm.core import inputs, registry
from wm.models import transformer
from wm.models.nn import network
from wm.runtime import files
from wm.training import checkpoints, run_log, setup, state

Arrays = list[np.ndarray]
# (arrays of theirs, our network) -> one array, its outputs first as theirs.
Join = Callable[[Arrays, network.NetworkSpec], np.ndarray]
# Ours -> a name of theirs, or what makes one array of several, and their names.
Table = dict[str, str | tuple[Join, *tuple[str, ...]]]
# Parameters with a row for each token; the head, of the next token's alone.
_OF_TOKENS = ('embedding', 'head')
# Causal masks that are kept among the weights.
_MASK = re.compile(r'(h|blocks)\.\d+\.attn\.(mask|(masked_)?bias)')


class Weights(dict[str, np.ndarray]):
  """Name -> float32 array; a missing one is an InputError."""

  def __missing__(self, name: str) -> np.ndarray:
    raise core.InputError(f'the checkpoint lacks {name}')

  def layers(self) -> int:
    """Blocks, by their numbers in names such as h.0.attn.c_attn.weight."""
    parts = [name.split('.') for name in self]
    blocks = (int(p[1]) for p in parts if p[1:] and p[1].isdigit())
    return 1 + max(blocks, default=0)


def _reversed_words(world: core.World) -> Sequence[str]:
  """Pad, and then reverse lexicographic order."""
  return [world.vocab[core.PAD], *sorted(world.vocab[1:], reverse=True)]


class WeightLayout(NamedTuple):
  """How one program names and shapes the weights of a family.

  Attributes:
    mark: a name that no other layout has.
    blocks: what precedes a block's number.
    block: of a block, ours -> theirs; biases and weights go with their module.
    whole: of the rest.
    infer: (weights, longest sequence) -> fields of a transformer but `layers`.
    words: world -> its words by their ids.
    linear: weights of maps are [outputs, inputs], as of PyTorch's Linear.
  """

  mark: str
  blocks: str
  block: Table
  whole: Table
  infer: Callable[[Weights, int], dict[str, Any]]
  words: Callable[[core.World], Sequence[str]]
  linear: bool = True

  def source(self, path: tuple[Hashable, ...]) -> tuple[Any, list[str]]:
    """What joins arrays, or None, and their names, of one of our parameters."""
    first, *rest = map(str, path)
    # blocks, 0, attention, qkv, kernel -> h.0.attn.c_attn.weight
    in_block = first == 'blocks'
    lead = f'{self.blocks}.{rest.pop(0)}.' if in_block else ''
    table, ours = (
      (self.block, rest) if in_block else (self.whole, [first, *rest])
    )
    # A parameter by itself, or one of a module, which has weight and bias.
    entry, leaf = table.get('.'.join(ours)), ''
    if entry is None:
      entry = table.get('.'.join(ours[:-1]))
      leaf = '.bias' if ours[-1] == 'bias' else '.weight'
    if entry is None:
      raise core.InputError(
        f'the checkpoint has nothing for {".".join(map(str, path))} of the '
        'model'
      )
    join, *names = (None, entry) if isinstance(entry, str) else entry
    return join, [f'{lead}{name}{leaf}' for name in names]


class Checkpoint(NamedTuple):
  """What a file holds.

  Attributes:
    layout: of the weights.
    weights: by the layout's names.
  """

  layout: WeightLayout
  weights: Weights

  def model(self, max_len: int) -> core.Trainable:
    """The model that these weights are of; raises InputError if none is."""
    fields = self.layout.infer(self.weights, max_len)
    fields['layers'] = self.weights.layers()
    # As a spec, for what shapes tell is checked as a user's fields are.
    listed = ', '.join(f'{field}={value!r}' for field, value in fields.items())
    return registry.make('model', f'transformer({listed})')


# What makes one array of several.


def _stacked(arrays: Arrays, spec: network.NetworkSpec) -> np.ndarray:
  """Outputs of one map after those of the other."""
  del spec
  return np.concatenate(arrays)


def _places(arrays: Arrays, spec: network.NetworkSpec) -> np.ndarray:
  """[1, N, D] -> [N, D]; nothing follows a last token, whose row is empty."""
  rows = arrays[0].reshape(-1, arrays[0].shape[-1])
  return np.pad(rows, ((0, int(len(rows) == spec.max_len - 1)), (0, 0)))


# Names of models and their fields.


def _gpt2(weights: Weights, max_len: int) -> dict[str, Any]:
  del max_len
  table = weights['wte.weight']
  head = weights.get('lm_head.weight', table)
  return {
    'width': table.shape[1],
    # A state dict holds a tied head twice.
    'tied': head.shape == table.shape and bool((head == table).all()),
    # Rows of the table of places: longer sequences were never trained.
    'context': len(weights.get('wpe.weight', ())),
  }


def _mingpt(weights: Weights, max_len: int) -> dict[str, Any]:
  places = weights['pos_emb'].shape[-2]
  return {
    'width': weights['tok_emb.weight'].shape[1],
    'mlp': 'gelu_erf',
    'tied': False,
    # See `_places`.
    'context': max_len if places == max_len - 1 else places,
  }


LAYOUTS = (
  # GPT-2: its Conv1D has weights [inputs, outputs], as ours.
  WeightLayout(
    mark='wte.weight',
    blocks='h',
    block={
      'before_attention': 'ln_1',
      'attention.qkv': 'attn.c_attn',
      'attention.out': 'attn.c_proj',
      'before_mlp': 'ln_2',
      'mlp.up': 'mlp.c_fc',
      'mlp.down': 'mlp.c_proj',
    },
    whole={
      'embedding': 'wte',
      'positions': 'wpe',
      'final': 'ln_f',
      'head': 'lm_head',
    },
    infer=_gpt2,
    words=_reversed_words,
    linear=False,
  ),
  # minGPT: queries, keys and values are maps of their own.
  WeightLayout(
    mark='blocks.0.attn.query.weight',
    blocks='blocks',
    block={
      'before_attention': 'ln1',
      'attention.qkv': (_stacked, 'attn.query', 'attn.key', 'attn.value'),
      'attention.out': 'attn.proj',
      'before_mlp': 'ln2',
      'mlp.up': 'mlp.0',
      'mlp.down': 'mlp.2',
    },
    whole={
      'embedding': 'tok_emb',
      'positions.table': (_places, 'pos_emb'),
      'final': 'ln_f',
      'head': 'head',
    },
    infer=_mingpt,
    words=lambda world: world.vocab,
  ),
)


def read(path: str | pathlib.Path) -> Checkpoint:
  """What a file of weights holds, by the names of its layout.

  Raises:
    InputError: see `load`; or its layout is none of LAYOUTS.
  """
  arrays = load(path)
  # In a wrapper, such as torch.compile's, all names have a prefix.
  for layout in LAYOUTS:
    marked = [
      f'.{name}' for name in arrays if f'.{name}'.endswith(f'.{layout.mark}')
    ]
    if len(marked) == 1:
      # 'model.transformer.' of the blocks, hence 'model.' of the head.
      outer = marked[0][1:].removesuffix(layout.mark)
      whole = outer[: outer[:-1].rfind('.') + 1]
      weights = Weights()
      for name, value in arrays.items():
        short = name.removeprefix(outer if name.startswith(outer) else whole)
        if not _MASK.fullmatch(short):
          weights[short] = value
      return Checkpoint(layout, weights)
  listed = ', '.join(sorted(arrays)[:5])
  raise core.InputError(
    f'{path} is of no layout that is read here: expected one of '
    f'{", ".join("*" + layout.mark for layout in LAYOUTS)} among its names; '
    f'found {listed or "none"}'
  )


def load(path: str | pathlib.Path) -> dict[str, np.ndarray]:
  """Name -> float32 array of a PyTorch state dict.

  Only weights and plain values are loaded: a file that names any other object
  is refused.

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
    # Harmless kinds of settings that programs save beside the weights.
    harmless = [
      *(torch.torch_version.TorchVersion, pathlib.PosixPath),
      *(np.dtype, np.float32(0).__reduce__()[0]),
      *(type(np.dtype(name)) for name in ('float32', 'float64', 'int64')),
    ]
    with torch.serialization.safe_globals(harmless):
      # Looked at before loading: the file names its objects without being run.
      unsafe = torch.serialization.get_unsafe_globals_in_checkpoint(path)
      if unsafe:
        raise core.InputError(
          f'{path} holds more than weights ({", ".join(sorted(unsafe)[:3])}) '
          'and is not opened; expected a state dict: save model.state_dict() '
          'alone, with the program that the file is from'
        )
      state_dict = torch.load(path, map_location='cpu', weights_only=True)
    # Alone, or beside others as Lightning ('state_dict') and programs save it.
    if isinstance(state_dict, Mapping):
      for name in ('state_dict', 'model'):
        if isinstance(state_dict.get(name), Mapping):
          state_dict = state_dict[name]
    if not isinstance(state_dict, Mapping) or not all(
      isinstance(name, str) and isinstance(value, torch.Tensor)
      for name, value in state_dict.items()
    ):
      raise core.InputError(f'{path} holds no state dict (name -> tensor)')
    return {name: value.float().numpy() for name, value in state_dict.items()}


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
  checkpoint: Checkpoint, spec: network.NetworkSpec, ids: np.ndarray
) -> nnx.State:
  """Our parameters from theirs.

  Args:
    checkpoint: from `read`.
    spec: of a network of its family, its vocabulary the world's.
    ids: [V] their token id of each of ours.

  Raises:
    InputError: a weight is missing, left over or of another shape.
  """
  layout, weights = checkpoint.layout, checkpoint.weights
  # What is not used in the end has no place in our network.
  flat, used = {}, set()
  for path, leaf in nnx.to_flat_state(spec.abstract):
    join, names = layout.source(path)
    used.update(names)
    arrays = [weights[name] for name in names]
    # [outputs, inputs], or as it is: vectors, tables, Conv1D.
    value = join(arrays, spec) if join else arrays[0]
    if path[0] in _OF_TOKENS:
      if ids.max() >= len(value):
        raise core.InputError(
          f'the world has {len(ids)} tokens; the checkpoint has {len(value)}'
        )
      value = value[ids]  # Rows of the vocabulary, in our world's order.
    if path[-1] == 'kernel' and (layout.linear or path[0] == 'head'):
      value = np.moveaxis(value, 0, -1)  # [outputs, inputs] -> ours
    # Ours have heads as dimensions of their own, hence sizes are compared.
    if value.size != leaf.size:
      raise core.InputError(
        f'{" and ".join(names)} of the checkpoint: {value.shape}; the model '
        f'{registry.spec(spec.model)} takes {leaf.shape}'
      )
    flat[path] = leaf.replace(jnp.asarray(value.reshape(leaf.shape)))
  # A state dict holds a tied head twice; ours is the embedding.
  if isinstance(spec.model, transformer.Model) and spec.model.tied:
    used.add('lm_head.weight')
  if left := weights.keys() - used:
    raise core.InputError(
      f'the model {registry.spec(spec.model)} has no place for {min(left)} of '
      'the checkpoint'
    )
  return nnx.from_flat_state(flat)


@files.locked_stage(setup.STAGE)
def import_gpt2(
  path: str | pathlib.Path,
  world: str,
  out: str | pathlib.Path,
  *,
  model: str | None = None,
  vocab: str | pathlib.Path | None = None,
) -> dict[str, Any]:
  """Makes a published PyTorch checkpoint the training run OUT.

  Args:
    path: file of a state dict in a layout of GPT-2 or of minGPT (as Othello-GPT
      is); only weights and plain values are loaded.
    world: spec of the world whose words it knows, such as 'othello()'.
    out: the run's folder, for launch/score.py.
    model: spec, where names and shapes do not tell all, such as GPT-2's heads
      where they are not one for every 64 of width.
    vocab: file of the checkpoint's words, one a line in order of id; None is
      the published order (of GPT-2's layout padding and then reverse
      lexicographic, of minGPT's the world's own: squares ascending).

  Returns:
    Summary: model, world, parameters, checkpoint.

  Raises:
    InputError: the file is unusable or does not fit model or world, or OUT
      holds another run.
  """
  truth: core.World = registry.resolve('world', world)
  with inputs.reading(path, 'a published state dict'):
    checkpoint = read(path)
    network_model = checkpoint.model(truth.max_len)
  if model is not None:
    chosen: core.Trainable = registry.resolve('model', model)
    if not isinstance(chosen, type(network_model)):
      raise core.InputError(f'{model!r} is no {network_model.name}(...)')
    chosen.check_world(truth)
    _check_positions(chosen, network_model)
    network_model = chosen
  words = checkpoint.layout.words(truth)
  if vocab is not None:
    words = inputs.read_text(vocab, 'a file of words').split('\n')
  ids = order(truth.vocab, words)
  sizes = len(truth.vocab), truth.max_len
  spec = network.NetworkSpec(network_model, *sizes)
  with inputs.reading(path, f'weights of {registry.spec(network_model)}'):
    arrays = params(checkpoint, spec, ids)
  files.claim(out, setup.STAGE, _describe(path, truth, network_model))
  return {
    'model': registry.spec(network_model),
    'world': registry.spec(truth),
    'parameters': spec.num_params,
    'checkpoint': _store(out, arrays),
  }


def _check_positions(chosen: Any, inferred: Any) -> None:
  """Raises InputError for positions that the weights were not trained on."""
  if not isinstance(chosen, transformer.Model):
    return
  # A rotation has no weights: nothing else would notice.
  if chosen.positions != inferred.positions:
    raise core.InputError(
      f'the checkpoint has positions={inferred.positions!r}, not '
      f'{chosen.positions!r}'
    )


def _store(out: str | pathlib.Path, params: nnx.State) -> str:
  """Folder of the one checkpoint of a run, made unless it is there."""
  store = checkpoints.Checkpoints(out, read_only=False)
  try:
    # Started again after it was done, it says what is there.
    if store.last() is None:
      # Step 0 of a run that has no optimizer: it is scored, not trained on.
      start = state.State(network.flatten(params), {'count': jnp.zeros(())})
      store.save(0, start, run_log.fresh())
      store.wait()
    return str(store.folder / str(store.last()))
  finally:
    store.close()


def _describe(
  path: str | pathlib.Path,
  world: core.World,
  model: core.Trainable,
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
