"""Weights in minGPT's layout (PyTorch state dicts) under GPT-2's names.

Othello-GPT (Li et al. 2023), which Vafa et al. 2024 evaluate, is a minGPT:
linear maps are stored [out, in], queries, keys and values apart, the head is
its own, the activation is the exact GELU, and there is a place for each token
of the longest game but the last.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from wm import core

MLP = 'gelu_erf'
_TABLE = 'tok_emb.weight'
_MASK = re.compile(r'blocks\.\d+\.attn\.mask')  # Causal; a buffer.
_WHOLE = {_TABLE: 'wte.weight', 'pos_emb': 'wpe.weight'}
_PARTS = {
  'ln1': 'ln_1',
  'attn.proj': 'attn.c_proj',
  'ln2': 'ln_2',
  'mlp.0': 'mlp.c_fc',
  'mlp.2': 'mlp.c_proj',
}


def is_layout(weights: Mapping[str, np.ndarray]) -> bool:
  """Do the names of a state dict show minGPT's layout?"""
  return sum(name.endswith(_TABLE) for name in weights) == 1


def as_gpt2(
  weights: Mapping[str, np.ndarray], max_len: int
) -> dict[str, np.ndarray]:
  """The same weights by the names and shapes that `gpt2.params` takes.

  Args:
    weights: of the state dict, whatever prefix their names have.
    max_len: longest sequence of the world, in tokens. Nothing follows a last
      token, so a table of max_len - 1 places is given an empty last one.

  Raises:
    InputError: one of queries, keys and values is missing, or they differ in
      shape.
  """
  (table,) = (name for name in weights if name.endswith(_TABLE))
  prefix = table.removesuffix(_TABLE)
  left = {name.removeprefix(prefix): value for name, value in weights.items()}
  found = {}
  for query in [name for name in left if '.attn.query.' in name]:
    names = [query.replace('query', part) for part in ('query', 'key', 'value')]
    if missing := [name for name in names if name not in left]:
      raise core.InputError(f'the checkpoint lacks {missing[0]}')
    parts = [left.pop(name).T for name in names]
    if len({part.shape for part in parts}) > 1:
      shapes = ', '.join(str(part.T.shape) for part in parts)
      raise core.InputError(f'{", ".join(names)} differ in shape: {shapes}')
    name = query.replace('attn.query', 'attn.c_attn')
    found[_block(name)] = np.concatenate(parts, axis=-1)
  for name, value in left.items():
    if not _MASK.fullmatch(name):
      found[_name(name)] = value.T if name.startswith('blocks.') else value
  if 'wpe.weight' in found:
    places = found['wpe.weight'].reshape(-1, found['wpe.weight'].shape[-1])
    last = np.zeros((int(len(places) == max_len - 1), places.shape[1]))
    found['wpe.weight'] = np.concatenate([places, last.astype(places.dtype)])
  return found


def _name(name: str) -> str:
  """GPT-2's name of a weight; their own where GPT-2 has no such weight."""
  if name.startswith('head.'):
    return f'lm_{name}'
  for ours, theirs in _PARTS.items():
    name = re.sub(
      rf'^(blocks\.\d+)\.{re.escape(ours)}\.', rf'\1.{theirs}.', name
    )
  return _block(_WHOLE.get(name, name))


def _block(name: str) -> str:
  return re.sub(r'^blocks\.', 'h.', name)
