"""Elman networks with tanh, as Vafa et al. 2025 train them.

Each layer is h_t = tanh(W x_t + b + U h_{t-1} + c) from h = 0, without norm or
residual, with both biases and the default initialisation of PyTorch. Published:
`rnn(layers=6, width=768)`, 2 layers for the lattice.

The recurrence is not associative, so no parallel scan exists: on any device a
layer takes L sequential steps forward and L backward.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from wm.models.base import recurrent
from wm.models.nn import layers


@dataclasses.dataclass(frozen=True)
class Model(recurrent.RecurrentModel):
  """An Elman network: each state is tanh of the input and the last state."""

  def block(self, number: int, rngs: nnx.Rngs) -> RnnCell:
    """One layer; there is no dropout after the last, as in PyTorch."""
    last = number == self.layers - 1
    return RnnCell(self, 1, 0.0 if last else self.dropout, rngs)


class RnnCell(recurrent.Block):
  """One tanh layer: `gates` = 1 affine maps of input and state."""

  def __init__(
    self,
    model: recurrent.RecurrentModel,
    gates: int,
    rate: float,
    rngs: nnx.Rngs,
  ):
    # kernels [D, G, D]: G gates are one product; an RNN has one, an LSTM four.
    width = model.width
    shape = (width,), (gates, width)
    self.input = layers.Linear(*shape, rngs, init='torch')
    self.state = layers.Linear(*shape, rngs, init='torch')
    self.width, self.rate, self.dtype = width, rate, model.dtype

  def start(self, lead: tuple[int, ...]) -> tuple[jax.Array, ...]:
    """Zeros [*lead, D]."""
    return (jnp.zeros((*lead, self.width)),)

  def __call__(
    self,
    x_BLD: jax.Array,
    lengths_B: jax.Array | None = None,
    key: jax.Array | None = None,
  ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """See `recurrent.Block`; steps run one after the other."""
    # The input's half of the affine maps needs no state: it is one product for
    # all tokens. The scan computes the state's half.
    given_LBGD = self.input(x_BLD.astype(self.dtype)).swapaxes(0, 1)
    start = self.start(x_BLD.shape[:1])

    def body(state: Any, given_BGD: jax.Array) -> tuple[Any, Any]:
      state = self.cell(given_BGD, state)
      return state, state

    # A scan goes along the first axis: [L, B, ...] inside, [B, L, ...] outside.
    states_LBD = jax.lax.scan(body, start, given_LBGD)[1]
    states_BLD = [leaf.swapaxes(0, 1) for leaf in states_LBD]
    y_BLD = layers.dropout(states_BLD[0], self.rate, key)
    return y_BLD, tuple(
      recurrent.at_length(leaf, lengths_B, first)
      for leaf, first in zip(states_BLD, start, strict=True)
    )

  def step(
    self, x_XD: jax.Array, state_X: tuple[jax.Array, ...]
  ) -> tuple[jax.Array, tuple[jax.Array, ...]]:
    """One token; the output is the first array of the state."""
    state_X = self.cell(self.input(x_XD.astype(self.dtype)), state_X)
    return state_X[0], state_X

  def cell(
    self, given_XGD: jax.Array, state_X: tuple[jax.Array, ...]
  ) -> tuple[jax.Array, ...]:
    """The state after the input's part [*X, G, D] of the affine maps."""
    (given_XD,) = self.gates(given_XGD, state_X[0])
    return (jnp.tanh(given_XD),)

  def gates(self, given_XGD: jax.Array, y_XD: jax.Array) -> list[jax.Array]:
    """The affine maps' sums, each [*X, D] float32."""
    # Products in the model's dtype, their sum and the state in float32.
    held_XGD = self.state(y_XD.astype(self.dtype))
    sums = given_XGD.astype(jnp.float32) + held_XGD.astype(jnp.float32)
    return [sums[..., gate, :] for gate in range(sums.shape[-2])]
