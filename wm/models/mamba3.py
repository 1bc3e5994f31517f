"""Mamba-3: a rotating state and a trapezoidal rule (Lahoti et al. 2026).

arXiv 2603.15569. No convolution. The transition of a head is a scalar decay
times rotations of pairs of columns of the state. The token decides the angles,
so the state can track parity and count modulo k. Published sizes of Walker &
Lyons 2026: `mamba3(layers=1, width=128, state=128)` and 2 x 256, 4 x 384,
6 x 512. Their paper says rank=4; their parameter counts imply rank=1.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from wm.core.fields import field
from wm.kernels.scan import state_space as scan_ssd
from wm.models import mamba2
from wm.models.base import recurrent
from wm.models.nn import layers


@dataclasses.dataclass(frozen=True)
class Model(mamba2.HeadModel):
  """Mamba-3: heads whose states rotate as well as decay.

  Attributes:
    rank: inputs and outputs of a head per step, which share the head's state;
      1 is SISO, more are MIMO.
  """

  rank: int = field(1, least=1)

  def __post_init__(self) -> None:
    super().__post_init__()
    if self.state % 4:
      raise self.error(f'state={self.state} is not a multiple of 4')

  def block(self, number: int, rngs: nnx.Rngs) -> recurrent.Residual:
    """One block."""
    del number
    return self.wrapped(Mamba3Mixer(self, rngs), rngs)


class _Turned(NamedTuple):
  """The block's input and the accumulated angles.

  Attributes:
    x: [..., D] the block's input.
    turns: [..., H, N / 4] accumulated angles, in turns.
  """

  x: jax.Array
  turns: jax.Array


class _Projected(NamedTuple):
  """Inputs of the recurrence, and the gate.

  Attributes:
    x: [..., H, P] input.
    b, c: [..., R, H, N], rotated.
    gate: [..., H, P] float32.
  """

  x: jax.Array
  b: jax.Array
  c: jax.Array
  gate: jax.Array


class _HeadRates(NamedTuple):
  """Step sizes, decays, shares and rotation rates of each head, float32.

  Attributes:
    dt: [..., H] step sizes.
    a: [..., H] log decay for a step of size 1.
    share: [..., H] share of a step's weight that goes to its own input.
    rate: [..., N / 4] turns for a step of size 1.
  """

  dt: jax.Array
  a: jax.Array
  share: jax.Array
  rate: jax.Array


class Mamba3Mixer(recurrent.Mixer):
  """Projection, rotating and trapezoidal recurrence, gate, projection.

  A state is (h [*X, H, P, N], the last input [*X, H, P], the last rotated b
  [*X, R, H, N], accumulated turns [*X, H, N / 4]).
  """

  def __init__(self, model: Model, rngs: nnx.Rngs):
    self.model = model
    rank, heads, state = model.rank, model.heads, model.state
    # gate | x | b | c, then step size, decay and share of each head, then the
    # turns, which all heads share. `rates` reads the part after c.
    self.sizes = (
      *(model.inner, model.inner, rank * state, rank * state),
      *(heads, heads, heads, state // 4),
    )
    self.up = layers.Linear(
      (model.width,), (sum(self.sizes),), rngs, bias=False, init=model.init
    )
    self.dt_bias = nnx.Param(recurrent.step_bias(heads, rngs))
    self.norm_b = layers.Norm(state, 'rms', recurrent.EPSILON)
    self.norm_c = layers.Norm(state, 'rms', recurrent.EPSILON)
    self.bias_b = nnx.Param(jnp.ones((rank, heads, state)))
    self.bias_c = nnx.Param(jnp.ones((rank, heads, state)))
    self.skip = nnx.Param(jnp.ones(heads))
    # MIMO: x is spread over the ranks; each rank has a gate; the outputs of
    # the ranks are combined.
    even = jnp.ones((rank, heads, model.channels))
    self.spread = nnx.Param(even / rank) if rank > 1 else None
    self.gates = nnx.Param(even) if rank > 1 else None
    self.collect = nnx.Param(even / rank) if rank > 1 else None
    self.down = recurrent.down(
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
    rates = self.rates(x_BLD)
    # The trapezoidal rule weighs both ends of a step:
    #   h_t = decay_t (h_{t-1} + late_t x_{t-1} b_{t-1}) + now_t x_t b_t
    # so an input is added once with the weight of its own step, and again with
    # the weight of the next step.
    dt = recurrent.used(rates.dt, lengths_B)
    moved = within(dt[..., None] * rates.rate[..., None, :])
    # Angles add up along the sequence. Rotating b and c by the sums replaces
    # rotations of the state.
    turns = jax.lax.associative_scan(add_turns, moved, axis=1)
    inputs, weights = _Turned(x_BLD, turns), self.weights()
    # The weight of this input in the next step; 0 for the last input.
    late = jnp.pad(((1 - rates.share) * dt)[:, 1:], ((0, 0), (0, 1), (0, 0)))
    first = self.start(x_BLD.shape[:1])
    y, h = scan_ssd.between(
      self.ends,
      weights,
      inputs,
      scan_ssd.Rates(rates.a * dt, rates.share * dt, late),
      first[0],
    )
    # `step` needs the input and the rotated b of the last token.
    at = _Turned(*(recurrent.at_length(leaf, lengths_B) for leaf in inputs))
    read = _parts(self.model, weights, at)
    # Rows of length 0 keep the state of `start`: zeros.
    last = [
      recurrent.used(leaf[:, None], lengths_B)[:, 0].astype(jnp.float32)
      for leaf in (read.x, read.b, at.turns)
    ]
    return y, (h, *last)

  def step(self, x_XD: jax.Array, state_X: Any) -> tuple[jax.Array, Any]:
    """See `recurrent.Block.step`."""
    rates, weights = self.rates(x_XD), self.weights()
    h, last_x, last_b, turns = state_X
    dt = rates.dt
    moved = within(dt[..., None] * rates.rate[..., None, :])
    turns = add_turns(turns, moved)
    # The last input's second weight depends on the size of this step.
    late = ((1 - rates.share) * dt)[..., None, None]
    h = h + late * scan_ssd.outer(_spread(weights, last_x), last_b)
    (x, b, c), read = self.ends.read(weights, _Turned(x_XD, turns))
    y, h = scan_ssd.ssd_step(x, rates.a * dt, b, c, rates.share * dt, h)
    last = (leaf.astype(jnp.float32) for leaf in (read.x, b, turns))
    return self.ends.write(weights, read, y), (h, *last)

  def rates(self, x_XD: jax.Array) -> _HeadRates:
    """Step sizes, decays, shares and rotation rates."""
    # A product of its own: the other columns are projected chunk by chunk.
    rest = recurrent.product(x_XD, self.up.kernel[:, sum(self.sizes[:4]) :])
    dt, a, trap, rate = layers.cut(rest.astype(jnp.float32), self.sizes[4:])
    return _HeadRates(
      jax.nn.softplus(dt + layers.along(self.dt_bias[...], dt)),
      jnp.minimum(-jax.nn.softplus(a), -1e-4),  # There is always some decay.
      jax.nn.sigmoid(trap),
      jnp.tanh(rate)
      / 2,  # At most half a turn, as larger angles are negative ones.
    )

  def weights(self) -> dict[str, jax.Array]:
    """Parameters of the chunk-wise functions, N in the order of `pairs`."""
    names = 'skip', 'spread', 'gates', 'collect'
    parts = {name: getattr(self, name) for name in names}
    weights = {name: w[...] for name, w in parts.items() if w is not None}
    rank = self.model.rank
    return weights | {
      'up': self.up.kernel[:, : sum(self.sizes[:4])],
      'down': self.down.kernel[...],
      'scale_b': pairs(self.norm_b.scale[...], rank),
      'scale_c': pairs(self.norm_c.scale[...], rank),
      'bias_b': pairs(self.bias_b[...], rank),
      'bias_c': pairs(self.bias_c[...], rank),
    }

  @property
  def ends(self) -> scan_ssd.Ends:
    """Functions that read the recurrence's inputs and write its outputs."""
    return scan_ssd.Ends(functools.partial(_read, self.model), _write)


def _parts(
  model: Model, weights: dict[str, jax.Array], inputs: _Turned
) -> _Projected:
  """Projected inputs and the gate; see `rates` for the rest."""
  wide = recurrent.product(inputs.x, weights['up'])
  size = model.rank * model.state
  gate, x, b, c = layers.cut(wide, (model.inner, model.inner, size, size))
  b, c = (
    turned(
      _normed(model, part, weights[f'scale_{name}']),
      weights[f'bias_{name}'],
      inputs.turns,
    ).astype(model.dtype)
    for name, part in (('b', b), ('c', c))
  )
  gate = recurrent.heads(gate.astype(jnp.float32), model.channels)
  return _Projected(recurrent.heads(x, model.channels), b, c, gate)


def _read(
  model: Model, weights: dict[str, jax.Array], inputs: _Turned
) -> tuple[tuple[jax.Array, jax.Array, jax.Array], _Projected]:
  """Arguments of the recurrence, an input for each rank; and projections."""
  read = _parts(model, weights, inputs)
  return (_spread(weights, read.x), read.b, read.c), read


def _write(
  weights: dict[str, jax.Array], read: _Projected, y_XRHP: jax.Array
) -> jax.Array:
  """The mixer's output [..., D], to be added to the stream."""
  x, gate = _spread(weights, read.x), read.gate[..., None, :, :]
  y = y_XRHP + layers.along(weights['skip'][:, None], x) * x
  if 'gates' in weights:  # More than one rank.
    gate = gate * layers.along(weights['gates'], gate)
    y = y * layers.along(weights['collect'], y)
  total = (y * jax.nn.silu(gate)).sum(-3)
  return recurrent.product(
    recurrent.merged(total).astype(read.x.dtype), weights['down']
  )


def _spread(weights: dict[str, jax.Array], x_XHP: jax.Array) -> jax.Array:
  """[..., R, H, P]: the input of each rank."""
  x_XRHP = x_XHP[..., None, :, :]
  if 'spread' not in weights:
    return x_XRHP
  spread = weights['spread'].astype(x_XHP.dtype)
  return x_XRHP * layers.along(spread, x_XRHP)


def _normed(model: Model, b_XC: jax.Array, scale_N: jax.Array) -> jax.Array:
  """RMS norm of each rank [..., R, N] float32, in the order of `pairs`."""
  # The scale has been put in the order of `pairs` by `Mamba3Mixer.weights`.
  b = pairs(recurrent.heads(b_XC.astype(jnp.float32), model.state), model.rank)
  b *= jax.lax.rsqrt(jnp.square(b).mean(-1, keepdims=True) + recurrent.EPSILON)
  return (b * layers.along(scale_N, b)).astype(b_XC.dtype).astype(jnp.float32)


# Angles are numbers of whole turns, kept between -1/2 and 1/2: sums over
# thousands of steps then lose no digits. R ranks, N columns of a state,
# A = N / 4 angles.


def within(turns: jax.Array) -> jax.Array:
  """The angle modulo 1 turn, from -1/2 to 1/2."""
  return turns - jax.lax.stop_gradient(jnp.round(turns))


def add_turns(first: jax.Array, second: jax.Array) -> jax.Array:
  """The sum of two angles modulo 1 turn, from -1/2 to 1/2."""
  return within(first + second)


@jax.custom_jvp
def circle(turns: jax.Array) -> tuple[jax.Array, jax.Array]:
  """Cosine and sine of angles in turns, from -1/2 to 1/2.

  Computed by a series for angles up to a quarter turn. On a CPU this is several
  times as fast as functions that first reduce the angle.
  """
  # cos(x) = sin(1/4 - |x|), whose argument is within a quarter turn. Beyond a
  # quarter turn, sin(x) = sin(+-1/2 - x).
  side = 0.25 - jnp.abs(turns)
  upright = jnp.where(side < 0, jnp.copysign(0.5, turns) - turns, turns)
  return _series(side), _series(upright)


@circle.defjvp
def _circle_jvp(
  primals: tuple[jax.Array], tangents: tuple[jax.Array]
) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
  # The derivatives are the results themselves: the series is not
  # differentiated.
  cos, sin = circle(*primals)
  angles = 2 * math.pi * tangents[0]
  return (cos, sin), (-sin * angles, cos * angles)


def _series(turns: jax.Array) -> jax.Array:
  """Sine of angles up to a quarter turn, accurate to the last digit but one."""
  powers = range(25 if turns.dtype == jnp.float64 else 13, 0, -2)
  # Horner's rule from the highest power down: odd powers, alternating signs.
  square, total = turns * turns, jnp.zeros_like(turns)
  for power in powers:
    sign = 1 if power % 4 == 1 else -1
    total = total * square + sign * (2 * math.pi) ** power / math.factorial(
      power
    )
  return total * turns


def pairs(b_XN: jax.Array, rank: int) -> jax.Array:
  """Reorders a vector so that numbers that rotate as a pair are N / 2 apart.

  Half of the N numbers rotate. With several ranks the pairs are (i, i + N / 2),
  i < N / 4, and the vector is unchanged; with one rank they are (2 i, 2 i + 1):

    given    0 1 2 3 ... | rest, rest'
    ordered  0 2 ... | rest | 1 3 ... | rest'
  """
  if rank > 1:
    return b_XN
  quarter = b_XN.shape[-1] // 4
  both = b_XN[..., : 2 * quarter].reshape(*b_XN.shape[:-1], quarter, 2)
  middle, rest = jnp.split(b_XN[..., 2 * quarter :], 2, -1)
  return jnp.concatenate([both[..., 0], middle, both[..., 1], rest], -1)


def turned(
  b_XRN: jax.Array, bias_RHN: jax.Array, turns_XHA: jax.Array
) -> jax.Array:
  """[..., R, H, N]: adds the bias of each head, then rotates the pairs.

    quarter  0      1      2      3          of N, as `pairs` orders them
    along    cos    1      cos    1          times b + bias
    across  -sin    0      sin    0          times the same, rolled by N / 2

  The factors and the rolled vectors are small; the large result is one
  elementwise expression of them.
  """
  cos, sin = circle(turns_XHA)
  ones, zeros = jnp.ones_like(cos), jnp.zeros_like(cos)
  along = jnp.concatenate([cos, ones, cos, ones], -1)[..., None, :, :]
  across = jnp.concatenate([sin, zeros, sin, zeros], -1)[..., None, :, :]
  half = b_XRN.shape[-1] // 2
  sign = jnp.where(jnp.arange(2 * half) < half, -1.0, 1.0).astype(cos.dtype)
  across *= layers.along(sign, across)
  other = jnp.roll(b_XRN, half, -1), jnp.roll(bias_RHN, half, -1)
  return _mixed((b_XRN, bias_RHN), other, along, across)


@jax.custom_vjp
def _mixed(
  plain: tuple[jax.Array, jax.Array],
  rolled: tuple[jax.Array, jax.Array],
  along_X1HN: jax.Array,
  across_X1HN: jax.Array,
) -> jax.Array:
  """along (b + bias) + across (other b + other bias): [..., R, H, N].

  The backward pass writes out its sums over the few ranks or heads: reductions
  are several times as slow on a CPU.
  """
  return _biased(*plain) * along_X1HN + _biased(*rolled) * across_X1HN


def _biased(b_XRN: jax.Array, bias_RHN: jax.Array) -> jax.Array:
  b_XR1N = b_XRN[..., None, :]
  return b_XR1N + layers.along(bias_RHN, b_XR1N)


def _mixed_forward(*operands: Any) -> tuple[jax.Array, Any]:
  return _mixed(*operands), operands


def _mixed_backward(operands: Any, slope_XRHN: jax.Array) -> Any:
  # Gradients of y = along * (b + bias) + across * (b' + bias'), slope d:
  #   to b      sum over heads of d * along       [..., R, N]
  #   to bias   sum over tokens of the same       [R, H, N]
  #   to along  sum over ranks of d * (b + bias)  [..., 1, H, N]
  # and likewise across, for the rolled b' and bias'.
  plain, rolled, along, across = operands

  def to_vectors(factor_X1HN: jax.Array) -> tuple[Any, jax.Array]:
    slope = slope_XRHN * factor_X1HN
    heads = range(slope.shape[-2])
    to_b = sum(slope[..., head, :] for head in heads)
    return to_b, slope.sum(range(slope.ndim - 3))

  def to_factor(vectors: tuple[jax.Array, jax.Array]) -> Any:
    product, ranks = slope_XRHN * _biased(*vectors), slope_XRHN.shape[-3]
    return sum(product[..., rank : rank + 1, :, :] for rank in range(ranks))

  return (
    to_vectors(along),
    to_vectors(across),
    to_factor(plain),
    to_factor(rolled),
  )


_mixed.defvjp(_mixed_forward, _mixed_backward)
