"""LSTM networks (Hochreiter and Schmidhuber 1997), as Vafa et al. 2025.

PyTorch's cell with both biases, gates in the order input, forget, cell, output,
and the default initialisation; no norm, no residual, zero initial state.
Published: `lstm(layers=6, width=768)`, 2 layers for the lattice. As in an RNN,
the L steps of a layer run one after the other on any device.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from flax import nnx

from wm.models import rnn
from wm.models.base import recurrent


@dataclasses.dataclass(frozen=True)
class Model(recurrent.RecurrentModel):
  """An LSTM: gated layers, each with a memory cell beside its output."""

  def block(self, number: int, rngs: nnx.Rngs) -> LstmCell:
    """One layer; there is no dropout after the last, as in PyTorch."""
    last = number == self.layers - 1
    return LstmCell(self, 4, 0.0 if last else self.dropout, rngs)


class LstmCell(rnn.RnnCell):
  """One LSTM layer; its state is output and cell, each [*X, D]."""

  def start(self, lead: tuple[int, ...]) -> tuple[jax.Array, ...]:
    """Two arrays of zeros: output and cell."""
    return super().start(lead) * 2

  def cell(
    self, given_XGD: jax.Array, state_X: tuple[jax.Array, ...]
  ) -> tuple[jax.Array, ...]:
    """The state after the input's part [*X, 4, D] of the affine maps."""
    # PyTorch's order: input, forget, cell and output gate.
    input, forget, new, output = self.gates(given_XGD, state_X[0])
    # c = f c + i g, the cell; h = o tanh(c), the output.
    cell_XD = jax.nn.sigmoid(forget) * state_X[1]
    cell_XD += jax.nn.sigmoid(input) * jnp.tanh(new)
    return jax.nn.sigmoid(output) * jnp.tanh(cell_XD), cell_XD
