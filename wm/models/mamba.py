"""Mamba (S6): a diagonal state with selective step sizes (Gu & Dao 2023).

arXiv 2312.00752, in the variant of Vafa et al. 2025: projections with biases,
RMS norms on the step sizes, b and c; no MLP. Published: `mamba(layers=24,
width=768, steps='normal')`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from wm.core.fields import field
from wm.kernels.scan import state_space as scan_ssd
from wm.models.base import recurrent
from wm.models.nn import layers


@dataclasses.dataclass(frozen=True)
class Model(recurrent.SsmModel):
  """Mamba (S6): a diagonal recurrence whose steps depend on the input.

  Attributes:
    steps: initial weights of the map to step sizes: 'mamba' (sizes are
      log-uniform from 0.001 to 0.1), or 'normal' as in other maps. The
      published code uses 'normal', by accident.
  """

  steps: str = field('mamba', choices=('mamba', 'normal'))

  def block(self, number: int, rngs: nnx.Rngs) -> recurrent.Residual:
    """One block."""
    del number
    mixer = MambaMixer(self, rngs)
    return recurrent.Residual(self, mixer, None, epsilon=recurrent.EPSILON)


class MambaMixer(recurrent.Mixer):
  """Projection, convolution, selective scan, gate, projection."""

  def __init__(self, model: Model, rngs: nnx.Rngs):
    self.model = model
    inner, state = model.inner, model.state
    self.rank = -(-model.width // 16)  # Rank of the map to step sizes.
    self.up = layers.Linear((model.width,), (2 * inner,), rngs)
    self.conv = layers.Convolution(inner, rngs, init='torch')
    outputs = self.rank + 2 * state
    self.select = layers.Linear((inner,), (outputs,), rngs, bias=False)
    self.norm_dt = layers.Norm(self.rank, 'rms', recurrent.EPSILON)
    self.norm_b = layers.Norm(state, 'rms', recurrent.EPSILON)
    self.norm_c = layers.Norm(state, 'rms', recurrent.EPSILON)
    init = 'torch' if model.steps == 'mamba' else 'normal'
    self.dt = layers.Linear((self.rank,), (inner,), rngs, init=init)
    if model.steps == 'mamba':  # As in the paper of Mamba.
      self.dt.bias = nnx.Param(recurrent.step_bias(inner, rngs))
    # S4D-real: entries 1 to N of a channel's state decay at rates 1 to N.
    rates = jnp.broadcast_to(jnp.arange(1.0, state + 1), (inner, state))
    self.log_rate = nnx.Param(jnp.log(rates))
    self.skip = nnx.Param(jnp.ones(inner))
    self.down = layers.Linear((inner,), (model.width,), rngs)

  def start(self, lead: tuple[int, ...]) -> Any:
    """The convolution's past, and zeros [*lead, C, N]."""
    shape = (*lead, self.model.inner, self.model.state)
    return self.conv.start(lead), jnp.zeros(shape)

  def __call__(
    self, x_BLD: jax.Array, lengths_B: jax.Array | None = None
  ) -> tuple[jax.Array, Any]:
    """See `recurrent.Block`."""
    # x is convolved and scanned; the gate is not.
    x, gate = jnp.split(self.up(x_BLD), 2, -1)
    x, past = self.conv(x, lengths_B)
    x, dt, b, c = self.read(x)
    y, state = scan_ssd.selective(
      x,
      # Pads have step size 0, which leaves the state unchanged.
      recurrent.used(dt, lengths_B),
      self.rates(),
      b,
      c,
      self.start(x.shape[:1])[1],
    )
    return self.out(y, x, gate), (past, state)

  def step(self, x_XD: jax.Array, state_X: Any) -> tuple[jax.Array, Any]:
    """See `recurrent.Block.step`."""
    x, gate = jnp.split(self.up(x_XD), 2, -1)
    x, past = self.conv.step(x, state_X[0])
    x, dt, b, c = self.read(x)
    y, state = scan_ssd.selective_step(x, dt, self.rates(), b, c, state_X[1])
    return self.out(y, x, gate), (past, state)

  def read(self, x_XC: jax.Array) -> list[jax.Array]:
    """Inputs and step sizes [..., C], b and c [..., N], all float32."""
    x = jax.nn.silu(x_XC)
    state = self.model.state
    dt, b, c = layers.cut(self.select(x), (self.rank, state, state))
    # A low-rank map: `rank` numbers give the step size of each channel.
    dt = self.dt(self.norm_dt(dt)).astype(jnp.float32)
    leaves = [x, jax.nn.softplus(dt), self.norm_b(b), self.norm_c(c)]
    return [leaf.astype(jnp.float32) for leaf in leaves]

  def rates(self) -> jax.Array:
    """Decay rates [C, N], all negative."""
    return -jnp.exp(self.log_rate[...])

  def out(
    self, y_XC: jax.Array, x_XC: jax.Array, gate_XC: jax.Array
  ) -> jax.Array:
    """The mixer's output [..., D], to be added to the stream."""
    # `skip` connects the input to the output directly.
    y = y_XC + layers.along(self.skip[...], x_XC) * x_XC
    y = y * jax.nn.silu(gate_XC.astype(jnp.float32))
    return self.down(y.astype(gate_XC.dtype))
