"""Mamba-3: a turning state and a trapezoidal rule (Lahoti et al. 2026).

arXiv 2603.15569. No convolution; the transition of a head is a scalar decay
times rotations of pairs of the state's columns, by angles that come from the
token, so that parity and counting modulo k are in reach. Published sizes of
Walker & Lyons 2026: `mamba3(layers=1, width=128, state=128)` and 2 x 256,
4 x 384, 6 x 512; their paper says rank=4, their parameter counts rank=1.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from wm.kernels import scan_ssd
from wm.models import layers, mamba2, recurrent, ssm


@dataclasses.dataclass(frozen=True)
class Model(mamba2.HeadModel):
  """A Mamba-3's size; fields as in `mamba2.HeadModel`, and one more.

  Attributes:
    rank: 1 is one input and one output a head and step (SISO); more are as
      many pairs that share the head's state (MIMO).
  """

  version: ClassVar[str] = '1'

  rank: int = 1

  def __post_init__(self) -> None:
    super().__post_init__()
    self.at_least('rank', 1)
    if self.state % 4:
      raise ssm.error(self, f'state={self.state} is not a multiple of 4')

  def block(self, number: int, rngs: nnx.Rngs) -> ssm.Block:
    """One block."""
    del number
    return self.wrapped(Mixer(self, rngs), rngs)


class _Given(NamedTuple):
  """What the projection gives.

  Attributes:
    gate: [..., C].
    x: [..., H, P].
    b, c: [..., R, H, N], not turned yet.
    dt: [..., H] step sizes.
    a: [..., H] logarithms of the decays, for a step of size 1.
    share: [..., H] of a step's weight that goes to its own input.
    rate: [..., N / 4] turns for a step of size 1.
  """

  gate: jax.Array
  x: jax.Array
  b: jax.Array
  c: jax.Array
  dt: jax.Array
  a: jax.Array
  share: jax.Array
  rate: jax.Array


class Mixer(ssm.Mixer):
  """Projection, turning and trapezoidal recurrence, gate, projection.

  A state is (h [*X, H, P, N], the last input [*X, H, P] and turned b [*X, R,
  H, N], turns so far [*X, H, N / 4]).
  """

  def __init__(self, model: Model, rngs: nnx.Rngs):
    self.model = model
    rank, heads, state = model.rank, model.heads, model.state
    self.sizes = (
      *(model.inner, model.inner, rank * state, rank * state),
      *(heads, heads, heads, state // 4),
    )
    self.up = layers.Linear(
      (model.width,), (sum(self.sizes),), rngs, bias=False, init=model.init
    )
    self.dt_bias = nnx.Param(ssm.step_bias(heads, rngs))
    self.norm_b = layers.Norm(state, 'rms', ssm.EPSILON)
    self.norm_c = layers.Norm(state, 'rms', ssm.EPSILON)
    self.bias_b = nnx.Param(jnp.ones((rank, heads, state)))
    self.bias_c = nnx.Param(jnp.ones((rank, heads, state)))
    self.skip = nnx.Param(jnp.ones(heads))
    even = jnp.ones((rank, heads, model.channels))
    self.spread = nnx.Param(even / rank) if rank > 1 else None
    self.gates = nnx.Param(even) if rank > 1 else None
    self.collect = nnx.Param(even / rank) if rank > 1 else None
    self.down = ssm.down(
      model.inner,
      model.width,
      rngs,
      init=model.init,
      parts=model.parts,
      bias=False,
    )

  def start(self, lead: tuple[int, ...]) -> Any:
    """Zeros."""
    model = self.model
    heads, state = model.heads, model.state
    return (
      jnp.zeros((*lead, heads, model.channels, state)),
      jnp.zeros((*lead, heads, model.channels)),
      jnp.zeros((*lead, model.rank, heads, state)),
      jnp.zeros((*lead, heads, state // 4)),
    )

  def __call__(
    self, x_BLD: jax.Array, lengths_B: jax.Array | None = None
  ) -> tuple[jax.Array, Any]:
    """See `recurrent.Block`."""
    given = self.project(x_BLD)
    dt = ssm.used(given.dt, lengths_B)
    moved = _within(dt[..., None] * given.rate[..., None, :])
    turns = jax.lax.associative_scan(_add_turns, moved, axis=1)
    b, c = (self.turn(v, turns) for v in (given.b, given.c))
    # The next step's share of this input; nothing comes after the last.
    late = jnp.pad(((1 - given.share) * dt)[:, 1:], ((0, 0), (0, 1), (0, 0)))
    inputs = self.ranks(given.x)
    first = self.start(x_BLD.shape[:1])
    y, h = scan_ssd.ssd(
      inputs,
      given.a * dt,
      b,
      c,
      given.share * dt,
      first[0],
      late=late,
      form=self.model.form,
      chunk=self.model.chunk,
    )
    last = [
      recurrent.at_length(v, lengths_B, zero).astype(jnp.float32)
      for v, zero in zip((given.x, b, turns), first[1:], strict=True)
    ]
    return self.out(y, inputs, given.gate), (h, *last)

  def step(self, x_XD: jax.Array, state_X: Any) -> tuple[jax.Array, Any]:
    """See `recurrent.Block.step`."""
    given = self.project(x_XD)
    h, last_x, last_b, turns = state_X
    dt = given.dt
    moved = _within(dt[..., None] * given.rate[..., None, :])
    turns = _add_turns(turns, moved)
    b, c = (self.turn(v, turns) for v in (given.b, given.c))
    late = ((1 - given.share) * dt)[..., None, None]
    h = h + late * scan_ssd.outer(self.ranks(last_x), last_b)
    inputs, weight = self.ranks(given.x), given.share * dt
    y, h = scan_ssd.step(inputs, given.a * dt, b, c, weight, h)
    last = (leaf.astype(jnp.float32) for leaf in (given.x, b, turns))
    return self.out(y, inputs, given.gate), (h, *last)

  def project(self, x_XD: jax.Array) -> _Given:
    """All that a token gives; decays and angles in float32."""
    model = self.model
    gate, x, b, c, *rest = ssm.split(self.up(x_XD), *self.sizes)
    dt, a, trap, rate = (part.astype(jnp.float32) for part in rest)
    return _Given(
      gate,
      ssm.heads(x, model.channels),
      self.biased(b, self.norm_b, self.bias_b[...]),
      self.biased(c, self.norm_c, self.bias_c[...]),
      jax.nn.softplus(dt + ssm.along(self.dt_bias[...], dt)),
      jnp.minimum(-jax.nn.softplus(a), -1e-4),
      jax.nn.sigmoid(trap),
      jnp.tanh(rate) / 2,
    )

  def biased(
    self, b_XC: jax.Array, norm: layers.Norm, bias_RHN: jax.Array
  ) -> jax.Array:
    """[..., R N] -> [..., R, H, N]: after the norm, and each head's bias."""
    b_XRN = norm(ssm.heads(b_XC, self.model.state)).astype(jnp.float32)
    b_XRHN = b_XRN[..., None, :]
    return b_XRHN + ssm.along(bias_RHN, b_XRHN, 3)

  def turn(self, b_XRHN: jax.Array, turns_XHA: jax.Array) -> jax.Array:
    """Turns pairs of the first dimensions, as many as there are angles.

    A pair is (2 i, 2 i + 1) for one rank, (i, i + N / 2) for more, i < N / 4;
    half of the dimensions stay as they are.
    """
    angles = 2 * jnp.pi * turns_XHA[..., None, :, :]
    cos, sin = jnp.cos(angles), jnp.sin(angles)
    quarter, state = self.model.state // 4, self.model.state
    if self.model.rank == 1:
      first, second = b_XRHN[..., : 2 * quarter : 2], b_XRHN[..., 1::2]
      second = second[..., :quarter]
    else:
      first = b_XRHN[..., :quarter]
      second = b_XRHN[..., 2 * quarter : 3 * quarter]
    one, two = first * cos - second * sin, second * cos + first * sin
    if self.model.rank == 1:
      pairs = jnp.stack([one, two], -1)
      pairs = pairs.reshape(*pairs.shape[:-2], 2 * quarter)
      parts = [pairs, b_XRHN[..., 2 * quarter :]]
    else:
      middle = b_XRHN[..., quarter : 2 * quarter]
      parts = [one, middle, two, b_XRHN[..., 3 * quarter : state]]
    return jnp.concatenate(parts, -1).astype(self.model.dtype)

  def ranks(self, x_XHP: jax.Array) -> jax.Array:
    """[..., R, H, P]: the input of each rank."""
    x_XRHP = x_XHP[..., None, :, :]
    if self.spread is None:
      return x_XRHP
    spread = self.spread[...].astype(x_XHP.dtype)
    return x_XRHP * ssm.along(spread, x_XRHP, 3)

  def out(
    self, y_XRHP: jax.Array, x_XRHP: jax.Array, gate_XC: jax.Array
  ) -> jax.Array:
    """What is added to the stream."""
    y = y_XRHP + ssm.along(self.skip[...][:, None], y_XRHP, 2) * x_XRHP
    gate = ssm.heads(gate_XC.astype(jnp.float32), self.model.channels)
    gate = gate[..., None, :, :]
    if self.gates is not None:
      gate = gate * ssm.along(self.gates[...], gate, 3)
    y = y * jax.nn.silu(gate)
    if self.collect is not None:
      y = y * ssm.along(self.collect[...], y, 3)
    return self.down(ssm.merged(y.sum(-3)).astype(gate_XC.dtype))


def _within(turns: jax.Array) -> jax.Array:
  """Without the whole turns: -1/2 to 1/2, where no digits are lost."""
  return turns - jax.lax.stop_gradient(jnp.round(turns))


def _add_turns(first: jax.Array, second: jax.Array) -> jax.Array:
  return _within(first + second)
