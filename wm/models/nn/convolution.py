"""A short causal convolution over time, by sequences and by steps.

Shape letters as in `layers`; W is the convolution's width.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from flax import nnx


class Convolution(nnx.Module):
  """Each channel alone: y_t = sum of kernel_w * x_(t - W + 1 + w), w < W.

  What comes before the sequence is zero. init: 'normal', weights N(0,
  scale^2), or 'torch', PyTorch's default +-1 / sqrt(W), for the bias too.
  """

  def __init__(
    self,
    channels: int,
    rngs: nnx.Rngs,
    *,
    width: int = 4,
    bias: bool = True,
    init: str = 'normal',
    scale: float = 0.02,
  ):
    shape, most = (width, channels), width**-0.5
    if init == 'torch':
      kernel = jax.random.uniform(
        rngs.params(), shape, minval=-most, maxval=most
      )
      offset = jax.random.uniform(
        rngs.params(), (channels,), minval=-most, maxval=most
      )
    else:
      kernel = scale * jax.random.normal(rngs.params(), shape)
      offset = jnp.zeros(channels)
    self.kernel = nnx.Param(kernel)
    self.bias = nnx.Param(offset) if bias else None

  def start(self, lead: tuple[int, ...]) -> jax.Array:
    """[*lead, W - 1, D] float32: the inputs before the first one."""
    width, channels = self.kernel.shape
    return jnp.zeros((*lead, width - 1, channels))

  def __call__(
    self, x_BLD: jax.Array, lengths_B: jax.Array | None = None
  ) -> tuple[jax.Array, jax.Array]:
    """Output [B, L, D], and what `step` needs after lengths_B inputs."""
    before, length = self.kernel.shape[0] - 1, x_BLD.shape[1]
    padded = jnp.pad(x_BLD, ((0, 0), (before, 0), (0, 0)))
    kernel = self.kernel[...].astype(x_BLD.dtype)
    y_BLD = sum(
      padded[:, w : w + length] * tap[None, None]
      for w, tap in enumerate(kernel)
    )
    if lengths_B is None:
      past = padded[:, length:]
    else:
      place = lengths_B[:, None] + jnp.arange(before)[None]
      past = jnp.take_along_axis(padded, place[..., None], axis=1)
    return self._offset(y_BLD), past.astype(jnp.float32)

  def step(
    self, x_XD: jax.Array, past: jax.Array
  ) -> tuple[jax.Array, jax.Array]:
    """One input [..., D] after the W - 1 of `past`; `past` after it."""
    last = x_XD[..., None, :]
    inputs = jnp.concatenate([past.astype(x_XD.dtype), last], -2)
    kernel = self.kernel[...].astype(x_XD.dtype)
    wide = (1,) * (x_XD.ndim - 1) + kernel.shape
    y_XD = (inputs * kernel.reshape(wide)).sum(-2)
    return self._offset(y_XD), inputs[..., 1:, :].astype(jnp.float32)

  def _offset(self, y_XD: jax.Array) -> jax.Array:
    if self.bias is None:
      return y_XD
    wide = (1,) * (y_XD.ndim - 1) + (-1,)
    return y_XD + self.bias[...].astype(y_XD.dtype).reshape(wide)
