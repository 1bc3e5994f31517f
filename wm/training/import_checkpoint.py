"""Published PyTorch checkpoints made training runs.

Names of weights tell the layout, whatever they begin with; shapes, and settings
where the file has them, tell the model. Layouts and their models:

  GPT-2      Vafa et al. 2024: a vocabulary of `<pad>` and then all words in
             reverse lexicographic order (spec: their tokenizer)
  minGPT     Othello-GPT (Li et al. 2023): exact GELU, a head of its own, a
             place for each token of the longest game but the last
  chess      Walker and Lyons 2026, whose program saves weights and settings:
             the state after each move, by 75 heads. Transformer, SLiCE (blocks
             and diagonal), gated DeltaNet (negative and positive eigenvalues),
             Mamba-2, Mamba-3 (SISO and MIMO)
  probes     Vafa et al. 2025 (inductive bias probes): transformer with exact
             GELU and a head that has a bias, RNN, LSTM; padding is the last
             token, or none

A layout is two tables, of a block and of the rest: our module or parameter ->
theirs. Rows of embeddings are put in our world's order.
"""

from __future__ import annotations

import math
import pathlib
import re
import types
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
from wm.worlds.chess import notation

Settings = Mapping[str, Any]
Arrays = list[np.ndarray]
# (arrays of theirs, our network) -> one array, its outputs first as theirs.
Join = Callable[[Arrays, network.NetworkSpec], np.ndarray]
# Ours -> a name of theirs, or what makes one array of several, and their names.
Table = dict[str, str | tuple[Join, *tuple[str, ...]]]
# The program of Walker and Lyons saves all of its settings. A state dict alone
# is taken to be of its published ones.
PUBLISHED = types.MappingProxyType(
  {
    'dropout': 0.1,
    'n_heads': 0,
    'slice_scale': 0.1,
    'slice_init_std': 0.1,
    'slice_path_mode': 'values',
    'gated_deltanet_allow_neg_eigval': True,
  }
)
# PyTorch's recurrent modules put a layer's number last: core.weight_ih_l0.
_RECURRENT_NAME = re.compile(r'core\.(weight|bias)_(ih|hh)_l(\d+)')
# Bias of a token that a vocabulary lacks: its probability is 0.
_NEVER = -1e9
# Parameters with a row for each token; the head, of the next token's alone.
_OF_TOKENS = ('embedding', 'head', 'tied_bias')
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


def _packed_moves(world: core.World) -> Sequence[str]:
  """Moves, start, pad: the ids of Walker and Lyons 2026."""
  del world
  pad, *rest = notation.vocab('packed')
  return [*rest, pad]


def _padding_last(world: core.World) -> Sequence[str]:
  """The world's words, and then padding."""
  return [*world.vocab[1:], world.vocab[core.PAD]]


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
    infer: (weights, settings) -> the model's name and fields but `layers`.
    words: world -> its words by their ids.
    by_state: the head gives the labels of a state, not the next token.
    linear: weights of maps are [outputs, inputs], as of PyTorch's Linear.
    padded: padding is a token; otherwise the last of `words` may have no row.
    fixed: settings of which our family has one value.
  """

  mark: str
  blocks: str
  block: Table
  whole: Table
  infer: Callable[[Weights, Settings], tuple[str, dict[str, Any]]]
  words: Callable[[core.World], Sequence[str]] = _packed_moves
  by_state: bool = True
  linear: bool = True
  padded: bool = True
  fixed: Mapping[str, Any] = types.MappingProxyType({})

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
    settings: of the program that wrote them, published ones where it says none.
  """

  layout: WeightLayout
  weights: Weights
  settings: Settings

  def model(self, max_len: int) -> core.Trainable:
    """The model that these weights are of; raises InputError if none is."""
    for name, ours in self.layout.fixed.items():
      if self.settings.get(name, ours) != ours:
        raise core.InputError(
          f'the checkpoint has {name}={self.settings[name]!r}, which no model '
          f'here has; expected {ours!r}'
        )
    settings = {**self.settings, 'max_len': max_len}
    name, fields = self.layout.infer(self.weights, settings)
    fields['layers'] = self.weights.layers()
    # As a spec, for settings of a file are checked as a user's are.
    listed = ', '.join(f'{field}={value!r}' for field, value in fields.items())
    return registry.make('model', f'{name}({listed})')


# What makes one array of several.


def _stacked(arrays: Arrays, spec: network.NetworkSpec) -> np.ndarray:
  """Outputs of one map after those of the other."""
  del spec
  return np.concatenate(arrays)


def _by_head(arrays: Arrays, spec: network.NetworkSpec) -> np.ndarray:
  """Outputs of all maps for the first head, then for the next."""
  heads = spec.shapes['blocks.0.mixer.a_log'].size
  # [H K, ...] of each map -> [H, K, ...], then side by side for each head.
  rows = [x.reshape(heads, -1, *x.shape[1:]) for x in arrays]
  return np.concatenate(rows, 1).reshape(-1, *arrays[0].shape[1:])


def _half(number: int) -> Join:
  """The first or the second half of a map's outputs."""
  return lambda arrays, spec: np.split(arrays[0], 2)[number]


def _ranks_first(arrays: Arrays, spec: network.NetworkSpec) -> np.ndarray:
  """[H, R, N] -> [R, H, N]."""
  del spec
  return arrays[0].swapaxes(0, 1)


def _places(arrays: Arrays, spec: network.NetworkSpec) -> np.ndarray:
  """[1, N, D] -> [N, D]; nothing follows a last token, whose row is empty."""
  rows = arrays[0].reshape(-1, arrays[0].shape[-1])
  return np.pad(rows, ((0, int(len(rows) == spec.max_len - 1)), (0, 0)))


# Names of models and their fields.


def _gpt2(weights: Weights, settings: Settings) -> tuple[str, dict[str, Any]]:
  del settings
  table = weights['wte.weight']
  head = weights.get('lm_head.weight', table)
  return 'transformer', {
    'width': table.shape[1],
    # A state dict holds a tied head twice.
    'tied': head.shape == table.shape and bool((head == table).all()),
    # Rows of the table of places: longer sequences were never trained.
    'context': len(weights.get('wpe.weight', ())),
  }


def _mingpt(weights: Weights, settings: Settings) -> tuple[str, dict[str, Any]]:
  places, max_len = weights['pos_emb'].shape[-2], settings['max_len']
  return 'transformer', {
    'width': weights['tok_emb.weight'].shape[1],
    'mlp': 'gelu_erf',
    'tied': False,
    # See `_places`.
    'context': max_len if places == max_len - 1 else places,
  }


def _probed(weights: Weights, settings: Settings) -> tuple[str, dict[str, Any]]:
  table, head = weights['embedding.weight'], weights['output_head.weight']
  width, max_len = table.shape[1], settings['max_len']
  if 'core.0.ih.weight' in weights:
    gates = len(weights['core.0.ih.weight']) // width
    return ('lstm' if gates == 4 else 'rnn'), {'width': width}
  places, heads = len(weights['pos_emb.weight']), settings.get('n_head', 0)
  return 'transformer', {
    'width': width,
    'heads': 0 if heads == max(width // 64, 1) else heads,
    'mlp': 'gelu_erf',
    'tied': head.shape == table.shape and bool((head == table).all()),
    'head_bias': True,
    # See `_places`.
    'context': max_len if places == max_len - 1 else places,
  }


def _chess_transformer(
  weights: Weights, settings: Settings
) -> tuple[str, dict[str, Any]]:
  width, hidden = weights['blocks.0.mlp.out_proj.weight'].shape
  return 'transformer', {
    'width': width,
    # No shape tells them; 0 is one for every 64 of width, as published.
    'heads': settings['n_heads'],
    # As they ran it, not as their paper has it.
    'positions': 'rotary_published',
    'norm': 'rms',
    'mlp': 'swiglu',
    'tied': False,
    'dropout': settings['dropout'],
    'ratio': hidden // width,
    'biases': True,
    'head_bias': True,
    'init': 'torch',
    'epsilon': 1e-6,
  }


def _slice(weights: Weights, settings: Settings) -> tuple[str, dict[str, Any]]:
  width = len(weights['layers.0.slice.init'])
  # Of increments, a layer's input drives the state, not its difference.
  increments = settings['slice_path_mode'] == 'increments'
  return 'slice', {
    'width': width,
    'dropout': settings['dropout'],
    'block_size': len(weights['layers.0.slice.vf_A.weight']) // width,
    'scale': settings['slice_scale'],
    'init_std': settings['slice_init_std'],
    'path': 'sums' if increments else 'values',
  }


def _deltanet(
  weights: Weights, settings: Settings
) -> tuple[str, dict[str, Any]]:
  heads = len(weights['layers.0.attn.A_log'])
  hidden, width = weights['layers.0.mlp.gate_proj.weight'].shape
  usual = 256 * math.ceil(int(width * 8 / 3) / 256)
  return 'deltanet', {
    'width': width,
    'heads': heads,
    'key': len(weights['layers.0.attn.q_proj.weight']) // heads,
    'value': len(weights['layers.0.attn.o_norm.weight']),
    # Not said where it is the default, so that specs of flagfiles are equal.
    'hidden': 0 if hidden == usual else hidden,
    'negative': settings['gated_deltanet_allow_neg_eigval'],
  }


def _mamba(weights: Weights, settings: Settings) -> tuple[str, dict[str, Any]]:
  width, inner = weights['layers.0.mixer.out_proj.weight'].shape
  heads = len(weights['layers.0.mixer.dt_bias'])
  mlp = weights.get('layers.0.mlp.fc2.weight', np.zeros((width, 0)))
  sizes = {
    'width': width,
    'dropout': settings['dropout'],
    'expand': inner // width,
    'channels': inner // heads,
    # Theirs and ours are rounded up to a multiple of 128 alike.
    'mlp': mlp.shape[1] // width,
  }
  if 'layers.0.mixer.B_bias' in weights:
    _, rank, columns = weights['layers.0.mixer.B_bias'].shape
    return 'mamba3', {**sizes, 'rank': rank, 'state': columns}
  if 'layers.0.mixer.x_proj.weight' in weights:
    raise core.InputError(
      'the checkpoint is of Mamba-1, which has none of the norms and biases of '
      'mamba(...) here; expected Mamba-2 or Mamba-3'
    )
  # Rows: gate, x | b, c | a step size for each head.
  rows = len(weights['layers.0.mixer.in_proj.weight'])
  return 'mamba2', {**sizes, 'state': (rows - 2 * inner - heads) // 2}


_MAMBA_BLOCK: Table = {
  'before_mixer': 'norm',
  'mixer.up': 'mixer.in_proj',
  'mixer.dt_bias': 'mixer.dt_bias',
  'mixer.skip': 'mixer.D',
  'mixer.down': 'mixer.out_proj',
  'before_mlp': 'norm2',
  # Their gate is the second half.
  'mlp.up': (_half(0), 'mlp.fc1'),
  'mlp.gate': (_half(1), 'mlp.fc1'),
  'mlp.down': 'mlp.fc2',
}
_RECURRENT: Table = {
  'embedding': 'embedding',
  'final': 'final_norm',
  'head': 'output_head',
}
_GPT2_BLOCK: Table = {
  'before_attention': 'ln_1',
  'attention.qkv': 'attn.c_attn',
  'attention.out': 'attn.c_proj',
  'before_mlp': 'ln_2',
  'mlp.up': 'mlp.c_fc',
  'mlp.down': 'mlp.c_proj',
}
_MAMBA_FIXED: dict[str, Any] = {
  'mamba_ngroups': 1,
  'mamba_norm_eps': 1e-5,
}

LAYOUTS = (
  # GPT-2: its Conv1D has weights [inputs, outputs], as ours.
  WeightLayout(
    mark='wte.weight',
    blocks='h',
    block=_GPT2_BLOCK,
    whole={
      'embedding': 'wte',
      'positions': 'wpe',
      'final': 'ln_f',
      'head': 'lm_head',
    },
    infer=_gpt2,
    words=_reversed_words,
    by_state=False,
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
    by_state=False,
  ),
  # Inductive bias probes: nanoGPT's blocks; and PyTorch's recurrent modules.
  WeightLayout(
    mark='blocks.0.attn.c_attn.weight',
    blocks='blocks',
    block=_GPT2_BLOCK,
    whole=_RECURRENT
    | {
      'positions.table': (_places, 'pos_emb.weight'),
      'final': 'ln_f',
      'tied_bias': 'output_head.bias',
    },
    infer=_probed,
    words=_padding_last,
    by_state=False,
    padded=False,
  ),
  WeightLayout(
    mark='core.0.ih.weight',
    blocks='core',
    block={'input': 'ih', 'state': 'hh'},
    whole=_RECURRENT,
    infer=_probed,
    words=_padding_last,
    by_state=False,
    padded=False,
  ),
  # From here on chess. Transformer: gate and value of the MLP are one map.
  WeightLayout(
    mark='blocks.0.attn.qkv.weight',
    blocks='blocks',
    block={
      'before_attention': 'norm1',
      'attention.qkv': 'attn.qkv',
      'attention.out': 'attn.out_proj',
      'before_mlp': 'norm2',
      'mlp.gate': (_half(0), 'mlp.in_proj'),
      'mlp.up': (_half(1), 'mlp.in_proj'),
      'mlp.down': 'mlp.out_proj',
    },
    whole=_RECURRENT | {'embedding': 'tok_emb'},
    infer=_chess_transformer,
  ),
  # SLiCE, of torch-slices 0.3.3; blocks of 1 are the diagonal variant.
  WeightLayout(
    mark='layers.0.slice.init',
    blocks='layers',
    block={
      'before_scan': 'norm1',
      'transition': 'slice.vf_A',
      'drive': 'slice.vf_B',
      'first': 'slice.init',
      'before_mlp': 'norm2',
      'mlp.up': 'token_mlp.0',
      'mlp.down': 'token_mlp.2',
    },
    whole=_RECURRENT,
    infer=_slice,
    # Names and shapes tell of most; said by the setting it is understood.
    fixed={
      'slice_diagonal_dense': False,
      'slice_input_dependent_init': False,
      'slice_norm_type': 'rmsnorm',
      'slice_norm_eps': 1e-6,
      'slice_ff_style': 'mlp',
      'slice_ff_activation': 'gelu',
      'slice_final_norm': False,
    },
  ),
  # Gated DeltaNet, of flash-linear-attention 0.5.0. Ours has the vectors of a
  # head side by side, theirs all queries, then all keys, and so on.
  WeightLayout(
    mark='layers.0.attn.A_log',
    blocks='layers',
    block={
      'before_mixer': 'attn_norm',
      'mixer.inputs': (
        *(_by_head, 'attn.q_proj', 'attn.k_proj'),
        *('attn.v_proj', 'attn.g_proj'),
      ),
      # Ours are beta and then the decay.
      'mixer.rates': (_stacked, 'attn.b_proj', 'attn.a_proj'),
      'mixer.convolution': (
        *(_by_head, 'attn.q_conv1d', 'attn.k_conv1d', 'attn.v_conv1d'),
      ),
      'mixer.a_log': 'attn.A_log',
      'mixer.dt_bias': 'attn.dt_bias',
      'mixer.norm': 'attn.o_norm',
      'mixer.out': 'attn.o_proj',
      'before_mlp': 'mlp_norm',
      'mlp.gate': 'mlp.gate_proj',
      'mlp.up': 'mlp.up_proj',
      'mlp.down': 'mlp.down_proj',
    },
    whole=_RECURRENT | {'embedding': 'embeddings', 'final': 'norm'},
    infer=_deltanet,
    fixed={
      'gated_deltanet_use_gate': True,
      'gated_deltanet_use_short_conv': True,
      'gated_deltanet_norm_eps': 1e-6,
    },
  ),
  # Mamba-2, of mamba-ssm at b267be48.
  WeightLayout(
    mark='layers.0.mixer.A_log',
    blocks='layers',
    block=_MAMBA_BLOCK
    | {
      'mixer.conv': 'mixer.conv1d',
      'mixer.log_rate': 'mixer.A_log',
      'mixer.norm': 'mixer.norm',
    },
    whole=_RECURRENT,
    infer=_mamba,
    fixed=_MAMBA_FIXED,
  ),
  # Mamba-3, of the same: later versions have another decay, by the same names.
  WeightLayout(
    mark='layers.0.mixer.B_bias',
    blocks='layers',
    block=_MAMBA_BLOCK
    | {
      'mixer.norm_b': 'mixer.B_norm',
      'mixer.norm_c': 'mixer.C_norm',
      # Ranks come first in ours, heads in theirs.
      'mixer.bias_b': (_ranks_first, 'mixer.B_bias'),
      'mixer.bias_c': (_ranks_first, 'mixer.C_bias'),
      'mixer.spread': (_ranks_first, 'mixer.mimo_x'),
      'mixer.gates': (_ranks_first, 'mixer.mimo_z'),
      'mixer.collect': (_ranks_first, 'mixer.mimo_o'),
    },
    whole=_RECURRENT,
    infer=_mamba,
    fixed=_MAMBA_FIXED
    | {'mamba3_rope_fraction': 0.5, 'mamba3_is_outproj_norm': False},
  ),
)


def read(path: str | pathlib.Path) -> Checkpoint:
  """What a file of weights holds, by the names of its layout.

  Raises:
    InputError: see `load`; or its layout is none of LAYOUTS.
  """
  arrays, settings = load(path)
  # core.weight_ih_l0 -> core.0.ih.weight, as other layouts number their blocks
  arrays = {
    _RECURRENT_NAME.sub(r'core.\3.\2.\1', name): value
    for name, value in arrays.items()
  }
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
      return Checkpoint(layout, weights, PUBLISHED | dict(settings))
  listed = ', '.join(sorted(arrays)[:5])
  raise core.InputError(
    f'{path} is of no layout that is read here: expected one of '
    f'{", ".join("*" + layout.mark for layout in LAYOUTS)} among its names; '
    f'found {listed or "none"}'
  )


def load(
  path: str | pathlib.Path,
) -> tuple[dict[str, np.ndarray], Mapping[str, Any]]:
  """Name -> float32 array of a PyTorch state dict, and settings beside it.

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
    settings: Any = {}
    # Alone, or as Lightning ('state_dict'), Walker and Lyons ('model' beside
    # 'args' and the optimizer) and Vafa et al. ('model', 'config') save it.
    if isinstance(state_dict, Mapping):
      settings = state_dict.get('args', state_dict.get('config'))
      for name in ('state_dict', 'model'):
        if isinstance(state_dict.get(name), Mapping):
          state_dict = state_dict[name]
    if not isinstance(state_dict, Mapping) or not all(
      isinstance(name, str) and isinstance(value, torch.Tensor)
      for name, value in state_dict.items()
    ):
      raise core.InputError(f'{path} holds no state dict (name -> tensor)')
    arrays = {name: value.float().numpy() for name, value in state_dict.items()}
    return arrays, settings if isinstance(settings, Mapping) else {}


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
    tokens = ('embedding',) if layout.by_state else _OF_TOKENS
    if path[0] in tokens:
      if not layout.padded and len(value) == len(ids) - 1:
        bias = path[0] == 'tied_bias' or path[-1] == 'bias'
        row = np.full_like(value[:1], _NEVER if bias else 0)
        value = np.concatenate([value, row])
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
    used |= {'lm_head.weight', 'output_head.weight'}
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
    path: file of a state dict, alone or as the programs of Walker and Lyons
      (2026) and Vafa et al. (2025) save it, in a layout of GPT-2, of minGPT (as
      Othello-GPT is), of the former's seven families of chess or of the
      latter's transformer, RNN and LSTM; only weights and plain values are
      loaded.
    world: spec of the world whose words it knows, such as
      "chess(vocabulary='packed', length=704)".
    out: the run's folder, for launch/score.py.
    model: spec, where names and shapes do not tell all, such as GPT-2's heads
      where they are not one for every 64 of width.
    vocab: file of the checkpoint's words, one a line in order of id; None is
      the published order (of GPT-2's layout padding and then reverse
      lexicographic, of minGPT's the world's own: squares ascending, of chess
      packed ids).

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
  outputs = 0
  if checkpoint.layout.by_state:
    if not isinstance(truth, core.Labelled):
      raise core.InputError(f'{truth.name} gives its states no labels')
    outputs = sum(truth.heads.sizes)
  words = checkpoint.layout.words(truth)
  if vocab is not None:
    words = inputs.read_text(vocab, 'a file of words').split('\n')
  ids = order(truth.vocab, words)
  sizes = len(truth.vocab), truth.max_len, outputs
  spec = network.NetworkSpec(network_model, *sizes)
  with inputs.reading(path, f'weights of {registry.spec(network_model)}'):
    arrays = params(checkpoint, spec, ids)
  files.claim(out, setup.STAGE, _describe(path, truth, network_model, outputs))
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
  outputs: int,
) -> dict[str, Any]:
  return {
    **({'objective': 'state'} if outputs else {}),
    'imported_sha256': files.sha256(path),
    'world': registry.spec(world),
    'world_version': world.version,
    'model': registry.spec(model),
    'model_version': model.version,
    'max_len': world.max_len,
    'vocab_sha256': core.world.vocab_sha256(world),
  }
