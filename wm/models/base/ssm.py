"""Shared parts of the Mamba families: fields, step sizes, scaled maps.

As mamba-ssm has them (Walker & Lyons 2026). Shape letters as in `layers`; N is
the state's second dimension, P the channels of a head.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from wm.kernels.scan import forms
from wm.models.base import recurrent
from wm.models.nn import layers

EPSILON = 1e-5


@dataclasses.dataclass(frozen=True)
class SsmModel(recurrent.RecurrentModel):
  """Fields that all Mamba families have, besides `RecurrentModel`'s.

  Attributes:
    state: N, numbers of state for each channel.
    expand: the mixer is so many times as wide as the stream.
    form: how the recurrence is computed: 'sequential' (token by token),
      'chunked' (matrix products of chunks), 'associative' (a parallel scan),
      or 'auto', the fastest of them that was measured for the backend.
    chunk: steps of a chunk; 0 is the measured default.
  """

  state: int = 16
  expand: int = 2
  form: str = 'auto'
  chunk: int = 0

  def __post_init__(self) -> None:
    super().__post_init__()
    self.choose('form', forms.FORMS)
    self.at_least(1, 'state', 'expand')
    self.at_least(0, 'chunk')

  @property
  def inner(self) -> int:
    """Channels of the mixer."""
    return self.expand * self.width

  @property
  def init(self) -> str:
    """Initial weights of dense maps, as `layers.Linear` has them."""
    return 'normal'

  @property
  def style(self) -> recurrent.StackStyle:
    """Dropout on the embeddings alone, a final norm, a head with a bias."""
    return recurrent.StackStyle(epsilon=EPSILON, head=self.init, dropout=True)

  def bare(
    self, vocab_size: int, positions: int, rngs: nnx.Rngs, outputs: int = 0
  ) -> recurrent.RecurrentNetwork:
    """See `rows.RowModel`; the head's biases start at 0."""
    network = super().bare(vocab_size, positions, rngs, outputs)
    network.head.bias = nnx.Param(jnp.zeros(network.head.outputs))
    return network


def down(
  inputs: int, width: int, rngs: nnx.Rngs, *, init: str, parts: int, **rest: Any
) -> layers.Linear:
  """A map into the stream, one of `parts` that add to it.

  With PyTorch's initial weights these are divided by sqrt(parts), as mamba-ssm
  does.
  """
  linear = layers.Linear((inputs,), (width,), rngs, init=init, **rest)
  # So that the stream's variance does not grow with the number of maps.
  if init == 'torch':
    linear.kernel = nnx.Param(linear.kernel[...] * parts**-0.5)
  return linear


def gated_mlp(
  width: int, times: int, rngs: nnx.Rngs, *, init: str, parts: int
) -> layers.Mlp:
  """SwiGLU without biases, `times` D wide up to a multiple of 128."""
  # Up to a multiple of 128, as mamba-ssm has it for its matrix products.
  hidden = -(-times * width // 128) * 128
  mlp = layers.Mlp(width, 'swiglu', rngs, bias=False, hidden=hidden, init=init)
  mlp.down = down(hidden, width, rngs, init=init, parts=parts, bias=False)
  return mlp


def step_bias(num: int, rngs: nnx.Rngs) -> jax.Array:
  """[num] biases whose softplus is log-uniform in 0.001 to 0.1."""
  # Step sizes from 0.001 to 0.1: states that last from 10 to 1000 tokens.
  low, high = math.log(1e-3), math.log(1e-1)
  dt = jnp.exp(
    jax.random.uniform(rngs.params(), (num,), minval=low, maxval=high)
  )
  # The inverse of softplus: log(e^dt - 1), without the overflow of e^dt.
  return dt + jnp.log(-jnp.expm1(-dt))


def product(x_XC: jax.Array, kernel_CF: jax.Array) -> jax.Array:
  """[..., F], in x's dtype."""
  # One product of two dimensions, the fastest form on a CPU.
  flat = x_XC.reshape(-1, x_XC.shape[-1]) @ kernel_CF.astype(x_XC.dtype)
  return flat.reshape(*x_XC.shape[:-1], kernel_CF.shape[1])


def heads(x_XC: jax.Array, channels: int) -> jax.Array:
  """[..., H P] -> [..., H, P]."""
  return x_XC.reshape(*x_XC.shape[:-1], -1, channels)


def merged(x_XHP: jax.Array) -> jax.Array:
  """[..., H, P] -> [..., H P]."""
  return x_XHP.reshape(*x_XHP.shape[:-2], -1)
