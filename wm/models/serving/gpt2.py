"""GPT-2 of Hugging Face, decoded by a compiled network with its weights.

A PyTorch module decodes one token at a time in Python, and reads or copies its
cache at each. A model that is exactly GPT-2 has the structure of
`transformer(...)`: its weights are copied there, and decoding is one program.
Where both disagree on a sample, or the model has hooks, PyTorch goes on.

  GPT-2                          transformer
  wte [V', D], rows of tokens    embedding.table [V, D], also the head's
  wpe [P, D]                     positions.table
  attn.c_attn [D, 3 D]           attention.qkv.kernel [D, 3, H, C]
  attn.c_proj [D, D]             attention.out.kernel [H, C, D]
  mlp.c_fc, mlp.c_proj           mlp.up.kernel, mlp.down.kernel
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import transformers

from wm import core
from wm.models import transformer
from wm.models.nn import network
from wm.models.serving import networks, tokenization

ACTIVATIONS = {
  'gelu_new': 'gelu',
  'gelu_pytorch_tanh': 'gelu',
  'gelu': 'gelu_erf',
}
# Sequences by which both are compared; their largest difference, nats.
SEQUENCES, TOLERANCE = 32, 1e-3
_USUAL = {
  'scale_attn_weights': True,
  'scale_attn_by_inverse_layer_idx': False,
  'add_cross_attention': False,
}


def _is_users(hook: Any) -> bool:
  """Is a hook not one by which transformers itself collects activations?"""
  hook = getattr(hook, 'func', hook)
  place = getattr(hook, '__module__', '') or ''
  return not place.startswith('transformers.')


def spec(module: Any) -> transformer.Model | None:
  """The spec of a network with the structure of a model; None for others."""
  if type(module) is not transformers.GPT2LMHeadModel:
    return None
  config = module.config
  wide = config.n_inner or 4 * config.n_embd
  plain = (
    config.activation_function in ACTIVATIONS
    and all(getattr(config, k, x) == x for k, x in _USUAL.items())
    and wide % config.n_embd == 0
    and module.lm_head.weight is module.transformer.wte.weight
    and all(x.dtype == torch.float32 for x in module.parameters())
  )
  changed = any(
    'forward' in vars(part)
    or any(map(_is_users, part._forward_hooks.values()))
    or any(map(_is_users, part._forward_pre_hooks.values()))
    for part in module.modules()
  )
  if changed or not plain:
    return None
  return transformer.Model(
    layers=config.n_layer,
    width=config.n_embd,
    heads=config.n_head,
    mlp=ACTIVATIONS[config.activation_function],
    ratio=wide // config.n_embd,
    epsilon=config.layer_norm_epsilon,
    context=config.n_positions,
    head_bias=True,
  )


def _weights(
  module: Any, pieces: np.ndarray
) -> Iterator[tuple[str, torch.Tensor]]:
  """Paths of the network's parameters, and their values in GPT-2's shapes.

  pieces: [V] the model's id of each token of the world.
  """
  body = module.transformer
  yield 'embedding.table', body.wte.weight[torch.as_tensor(pieces)]
  yield 'positions.table', body.wpe.weight
  bias = torch.zeros(len(pieces))
  bias[core.PAD] = -torch.inf  # No sequence has padding.
  yield 'tied_bias', bias
  norms = {'final': body.ln_f}
  for n, block in enumerate(body.h):
    norms[f'blocks.{n}.before_attention'] = block.ln_1
    norms[f'blocks.{n}.before_mlp'] = block.ln_2
    maps = {
      'attention.qkv': block.attn.c_attn,
      'attention.out': block.attn.c_proj,
      'mlp.up': block.mlp.c_fc,
      'mlp.down': block.mlp.c_proj,
    }
    for name, part in maps.items():
      yield f'blocks.{n}.{name}.kernel', part.weight
      yield f'blocks.{n}.{name}.bias', part.bias
  for name, part in norms.items():
    yield f'{name}.scale', part.weight
    yield f'{name}.bias', part.bias


class CompiledPredictor(tokenization.PiecePredictor):
  """A GPT-2 whose tokens are decoded by a network with its weights."""

  by_sequence = False

  def __init__(
    self,
    reader: tokenization.TextReader,
    spelled: tokenization.TokenSpelling,
    pieces: np.ndarray,
    model: transformer.Model,
    **fields: Any,
  ) -> None:
    """See `tokenization.PiecePredictor`.

    pieces: [V] the model's id of each token of the world. model: its `spec`.
    """
    super().__init__(reader, spelled, **fields)
    self._model = model
    self._pieces = np.maximum(pieces, 0)
    self._versions: list[tuple[int, int]] = []  # Of the weights in use.
    self.difference = 0.0

  @property
  def network(self) -> networks.NetworkPredictor:
    """The network, with the weights that the model has now."""
    module = self.reader.model
    versions = [(x.data_ptr(), x._version) for x in module.parameters()]
    if versions != self._versions:
      sizes = self.vocab_size, self.max_len
      structure = network.NetworkSpec(self._model, *sizes)
      values = dict(_weights(module, self._pieces))
      params = {
        path: values[path].detach().cpu().numpy().reshape(leaf.shape).copy()
        for path, leaf in structure.shapes.items()
      }
      self._network = networks.NetworkPredictor(
        self._model,
        structure.tree(params),
        *(self.vocab_size, self.end, self.max_len),
      )
      self._versions = versions
    return self._network

  def agrees(self, world: core.World) -> bool:
    """Has the network the model's probabilities, on sequences of a world?"""
    drawn = world.sample(SEQUENCES, 0)
    tokens = drawn.tokens[:, : self.max_len]
    lengths = np.minimum(drawn.lengths, self.max_len)
    used = np.arange(tokens.shape[1]) < lengths[:, None]
    mine, theirs = (
      np.maximum(log_probs(tokens, lengths)[used], tokenization.FLOOR)
      for log_probs in (self.log_probs, super().log_probs)
    )
    self.difference = float(np.abs(mine - theirs).max(initial=0))
    return self.difference <= TOLERANCE

  def diagnostics(self) -> list[str]:
    """See core.TokenReader."""
    return [
      *super().diagnostics(),
      'decoded by a compiled network with its weights; log-probabilities '
      f'differed by at most {self.difference:.1g} nats',
    ]

  def log_probs(self, tokens: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """See core.Predictor."""
    return self.network.log_probs(tokens, lengths)

  def session(
    self, prefixes: np.ndarray, lengths: np.ndarray, num: int
  ) -> core.Session:
    """See core.Predictor."""
    return self.network.session(prefixes, lengths, num)

  @property
  def devices(self) -> tuple[Any, ...]:
    """See core.Predictor."""
    return self.network.devices

  @property
  def prefers_device_loop(self) -> bool:
    """See core.Predictor."""
    return self.network.prefers_device_loop

  def machine(
    self, prefixes: np.ndarray, lengths: np.ndarray, **fields: Any
  ) -> Any:
    """See core.Predictor."""
    return self.network.machine(prefixes, lengths, **fields)
