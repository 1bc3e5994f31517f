"""Gated DeltaNet: a matrix state that is corrected, not only added to.

Yang, Kautz, Hatamizadeh 2024, as trained by Walker and Lyons 2026. Each block
adds the output of the delta rule and then that of a gated perceptron, each
after an RMS norm; only the head has a bias. With `negative` the eigenvalues of
the transition range from -1 to 1 (Grazzi et al. 2024), which parity and groups
need. Published sizes: `deltanet(layers=1, width=128)` to (6, 512).
"""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
from flax import nnx

from wm.core.fields import field
from wm.kernels.scan import delta_rule as scan_delta
from wm.models.base import recurrent
from wm.models.nn import layers

EPSILON = 1e-6


@dataclasses.dataclass(frozen=True)
class Model(recurrent.RecurrentModel):
  """A gated DeltaNet: heads that overwrite the value stored for a key.

  Attributes:
    heads: number of heads; 0 means one per 64 of width.
    key: width of a head's keys; 0 means 3/4 of width / heads.
    value: width of a head's values; 0 means twice that of the keys.
    hidden: width of the perceptron; 0 means 8/3 D rounded up to 256.
    negative: allow negative eigenvalues: beta ranges up to 2, not 1.
  """

  undecayed: ClassVar[tuple[str, ...]] = ('a_log', 'dt_bias')  # As published.

  heads: int = field(0, least=0)
  key: int = field(0, least=0)
  value: int = field(0, least=0)
  hidden: int = field(0, least=0)
  negative: bool = True

  def __post_init__(self) -> None:
    super().__post_init__()
    if min(self.sizes) < 1:
      raise self.error(
        f'width={self.width} leaves no key for each of {self.heads} heads; '
        f'expected at least {2 * self.heads} or a key'
      )

  @property
  def sizes(self) -> tuple[int, int, int]:
    """Heads, width of a key and of a value, with the defaults filled in."""
    heads = self.heads or max(self.width // 64, 1)
    key = self.key or 3 * (self.width // heads) // 4
    return heads, key, self.value or 2 * key

  @property
  def style(self) -> recurrent.StackStyle:
    """A final norm, and a head with a bias."""
    return recurrent.StackStyle(epsilon=EPSILON, dropout=True)

  def block(self, number: int, rngs: nnx.Rngs) -> recurrent.Residual:
    """One block; all have the same structure."""
    del number
    hidden = self.hidden or 256 * math.ceil(int(self.width * 8 / 3) / 256)
    mixer = DeltaMixer(self, rngs)
    mlp = layers.Mlp(self.width, 'swiglu', rngs, bias=False, hidden=hidden)
    return recurrent.Residual(
      self, mixer, mlp, epsilon=EPSILON, rate=self.dropout
    )


class DeltaMixer(recurrent.Mixer):
  """Short convolutions, the gated delta rule, and a gated norm.

  inputs: [D] -> [H, 2 K + 2 V]: query, key and value, which are convolved, and
  the gate of the output. rates: [D] -> [2, H]: beta and the decay.
  """

  def __init__(self, model: Model, rngs: nnx.Rngs):
    self.sizes = heads, key, value = model.sizes
    # At beta = 2 a step reflects along its key: eigenvalue 1 - beta = -1.
    self.most = 2.0 if model.negative else 1.0
    self.mixed = 2 * key + value
    width = (model.width,)
    self.inputs = layers.Linear(
      width, (heads, self.mixed + value), rngs, bias=False
    )
    self.rates = layers.Linear(width, (2, heads), rngs, bias=False)
    self.convolution = layers.Convolution(heads * self.mixed, rngs, bias=False)
    rates = jax.random.uniform(
      rngs.params(), (heads,), minval=1e-6, maxval=16.0
    )
    self.a_log = nnx.Param(jnp.log(rates))
    self.dt_bias = nnx.Param(recurrent.step_bias(heads, rngs))
    self.norm = layers.Norm(value, 'rms', EPSILON)
    self.out = layers.Linear((heads, value), width, rngs, bias=False)

  def start(self, lead: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """Zeros: the last inputs of the convolution, and [*lead, H, K, V]."""
    return self.convolution.start(lead), jnp.zeros((*lead, *self.sizes))

  def __call__(
    self, x_BLD: jax.Array, lengths_B: jax.Array | None = None
  ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """Output [B, L, D], and the state after lengths_B tokens."""
    # [H, (q | k | v) | gate]: the first three are convolved, head by head flat.
    x_BLHF = self.inputs(x_BLD)
    flat = x_BLHF[..., : self.mixed].reshape(*x_BLD.shape[:2], -1)
    flat, past = self.convolution(flat, lengths_B)
    g_BLH, beta_BLH = self.decay(x_BLD)
    # Pads leave the state unchanged: no decay (g = 0), no correction (beta =
    # 0).
    start = jnp.zeros((len(x_BLD), *self.sizes))
    y_BLHV, state = scan_delta.delta(
      *self.vectors(flat),
      recurrent.used(g_BLH, lengths_B),
      recurrent.used(beta_BLH, lengths_B),
      start,
    )
    return self.gated(y_BLHV, x_BLHF[..., self.mixed :]), (past, state)

  def step(
    self, x_XD: jax.Array, state_X: tuple[jax.Array, jax.Array]
  ) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    """One token: output [*X, D] and the state after it."""
    # F = 2 K + 2 V: as in `__call__`, for one token.
    x_XHF, (past, state) = self.inputs(x_XD), state_X
    flat = x_XHF[..., : self.mixed].reshape(*x_XD.shape[:-1], -1)
    flat, past = self.convolution.step(flat, past)
    y_XHV, state = scan_delta.delta_step(
      *self.vectors(flat), *self.decay(x_XD), state
    )
    return self.gated(y_XHV, x_XHF[..., self.mixed :]), (past, state)

  def vectors(self, flat: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Queries, keys (of unit length) and values, float32 [*X, H, ...]."""
    heads, key, _ = self.sizes
    # Float32 from here on: the state is a sum over the whole sequence.
    mixed = jax.nn.silu(flat.astype(jnp.float32))
    mixed = mixed.reshape(*flat.shape[:-1], heads, self.mixed)
    # [H, 2 K + V] -> q, k [H, K] and v [H, V]
    q, k, v = jnp.split(mixed, [key, 2 * key], axis=-1)
    # Keys of unit length keep I - beta k k^T a contraction for beta < 2.
    return _unit(q) * key**-0.5, _unit(k), v

  def decay(self, x_XD: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Logarithms g of the decays, at most 0, and beta: float32 [*X, H]."""
    # The decay is that of Mamba-2: exp(-a dt), dt by token and a by head.
    rates = self.rates(x_XD).astype(jnp.float32)
    beta, dt = rates[..., 0, :], rates[..., 1, :]
    dt = jax.nn.softplus(dt + layers.along(self.dt_bias[...], dt))
    g_XH = -jnp.exp(layers.along(self.a_log[...], dt)) * dt
    return g_XH, self.most * jax.nn.sigmoid(beta)

  def gated(self, y_XHV: jax.Array, gate_XHV: jax.Array) -> jax.Array:
    """Norm of each head, gate and projection: [*X, D]."""
    # Unlike Mamba-2, the norm precedes the gate and acts on each head alone.
    y_XHV = self.norm(y_XHV) * jax.nn.silu(gate_XHV.astype(jnp.float32))
    return self.out(y_XHV.astype(gate_XHV.dtype))


def _unit(x: jax.Array) -> jax.Array:
  """Vectors scaled to length 1; zero vectors stay zero."""
  return x * jax.lax.rsqrt(jnp.square(x).sum(-1, keepdims=True) + EPSILON)
