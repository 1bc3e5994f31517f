"""Mamba-2: a matrix state for each head, a scalar decay (Dao & Gu 2024).

Walker & Lyons 2026 train it with an MLP in each block:
`mamba2(layers=1, width=128, state=128)` and 2 x 256, 4 x 384, 6 x 512. Vafa et
al. 2025 train it without: `mamba2(layers=24, width=768, state=16, mlp=0,
weights='normal')`.
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
class HeadModel(recurrent.SsmModel):
  """Fields of the families with heads, besides those of `recurrent.SsmModel`.

  Attributes:
    state: N, columns of a head's state.
    channels: P, channels of a head.
    mlp: hidden width of the MLP in multiples of D; 0 omits the MLP.
    weights: initialisation of dense maps: 'torch' (PyTorch's default; maps into
      the stream are divided by the square root of their number) or 'normal'.
  """

  state: int = field(32, least=1)
  channels: int = field(64, least=1)
  mlp: int = field(4, least=0)
  weights: str = field('torch', choices=('torch', 'normal'))

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.inner % self.channels:
      raise self.error(
        f'width={self.width} times expand={self.expand} is not a multiple of '
        f'channels={self.channels}'
      )

  @property
  def heads(self) -> int:
    """Heads of the mixer."""
    return self.inner // self.channels

  @property
  def init(self) -> str:
    """The field `weights`."""
    return self.weights

  @property
  def parts(self) -> int:
    """Number of maps whose outputs are added to the stream."""
    return self.layers * (2 if self.mlp else 1)

  def wrapped(
    self, mixer: recurrent.Mixer, rngs: nnx.Rngs
  ) -> recurrent.Residual:
    """A block of this mixer and an MLP, where there is one."""
    mlp = None
    if self.mlp:
      mlp = recurrent.gated_mlp(
        self.width, self.mlp, rngs, init=self.init, parts=self.parts
      )
    return recurrent.Residual(self, mixer, mlp, epsilon=recurrent.EPSILON)


@dataclasses.dataclass(frozen=True)
class Model(HeadModel):
  """Mamba-2 (SSD): heads whose states decay by one number each."""

  def block(self, number: int, rngs: nnx.Rngs) -> recurrent.Residual:
    """One block."""
    del number
    return self.wrapped(Mamba2Mixer(self, rngs), rngs)


class Mamba2Mixer(recurrent.Mixer):
  """Projection, convolution, recurrence, gated norm, projection."""

  def __init__(self, model: Model, rngs: nnx.Rngs):
    self.model = model
    inner, heads, state = model.inner, model.heads, model.state
    # One product: gate, x | b | c (one convolution), step sizes.
    outputs = 2 * inner + 2 * state + heads
    self.up = layers.Linear(
      (model.width,), (outputs,), rngs, bias=False, init=model.init
    )
    self.conv = layers.Convolution(inner + 2 * state, rngs, init='torch')
    self.dt_bias = nnx.Param(recurrent.step_bias(heads, rngs))
    # One decay per head, where Mamba has one per number of the state: so the
    # recurrence is made of matrix products.
    rates = jax.random.uniform(rngs.params(), (heads,), minval=1, maxval=16)
    self.log_rate = nnx.Param(jnp.log(rates))
    self.skip = nnx.Param(jnp.ones(heads))
    self.norm = layers.Norm(inner, 'rms', recurrent.EPSILON)
    self.down = recurrent.down(
      inner, model.width, rngs, init=model.init, parts=model.parts, bias=False
    )

  def start(self, lead: tuple[int, ...]) -> Any:
    """The convolution's past, and zeros [*lead, H, P, N]."""
    model = self.model
    shape = (*lead, model.heads, model.channels, model.state)
    return self.conv.start(lead), jnp.zeros(shape)

  def __call__(
    self, x_BLD: jax.Array, lengths_B: jax.Array | None = None
  ) -> tuple[jax.Array, Any]:
    """See `recurrent.Block`."""
    gate, xbc, dt = self.project(x_BLD)
    xbc, past = self.conv(xbc, lengths_B)
    # x [B, L, 1, H, P]   b, c [B, L, 1, 1, N]   dt [B, L, H]
    x, b, c = self.read(xbc)
    dt = recurrent.used(dt, lengths_B)  # Pads: no decay, nothing added.
    y, state = scan_ssd.ssd(
      scan_ssd.Rates(self.decay(dt), dt),
      x[:, :, 0],  # The kernel has no dimension of ranks; `step` has one.
      b[:, :, 0],
      c[:, :, 0],
      self.start(x.shape[:1])[1],
    )
    return self.out(y[:, :, None], x, gate), (past, state)

  def step(self, x_XD: jax.Array, state_X: Any) -> tuple[jax.Array, Any]:
    """See `recurrent.Block.step`."""
    gate, xbc, dt = self.project(x_XD)
    xbc, past = self.conv.step(xbc, state_X[0])
    x, b, c = self.read(xbc)
    y, state = scan_ssd.ssd_step(x, self.decay(dt), b, c, dt, state_X[1])
    return self.out(y, x, gate), (past, state)

  def project(self, x_XD: jax.Array) -> list[jax.Array]:
    """Gate, inputs of the convolution, and step sizes [..., H] float32."""
    model = self.model
    # [gate: H P | x: H P, b: N, c: N | dt: H], as mamba-ssm lays them out.
    sizes = model.inner, model.inner + 2 * model.state, model.heads
    gate, xbc, dt = layers.cut(self.up(x_XD), sizes)
    dt = dt.astype(jnp.float32)
    return [
      gate,
      xbc,
      jax.nn.softplus(dt + layers.along(self.dt_bias[...], dt)),
    ]

  def read(self, xbc_XC: jax.Array) -> list[jax.Array]:
    """Inputs [..., 1, H, P], and b and c [..., 1, 1, N]."""
    model = self.model
    sizes = model.inner, model.state, model.state
    x, b, c = layers.cut(jax.nn.silu(xbc_XC), sizes)
    # All heads share b and c; the first 1 is the rank (see mamba3).
    x = recurrent.heads(x, model.channels)[..., None, :, :]
    return [x, b[..., None, None, :], c[..., None, None, :]]

  def decay(self, dt_XH: jax.Array) -> jax.Array:
    """Logarithms of the decays."""
    return -jnp.exp(layers.along(self.log_rate[...], dt_XH)) * dt_XH

  def out(
    self, y_X1HP: jax.Array, x_X1HP: jax.Array, gate_XC: jax.Array
  ) -> jax.Array:
    """The mixer's output [..., D], to be added to the stream."""
    skip = layers.along(self.skip[...][:, None], y_X1HP)
    y = recurrent.merged((y_X1HP + skip * x_X1HP)[..., 0, :, :])
    # The gate precedes the norm, which spans all heads.
    y = self.norm(y * jax.nn.silu(gate_XC.astype(jnp.float32)))
    return self.down(y.astype(gate_XC.dtype))
